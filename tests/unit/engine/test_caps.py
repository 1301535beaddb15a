"""V9: how many whole GPUs of an accelerator a team may have, who waits for that, and who leaves for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.booking import offer
from fleet_app.engine.calendar import BookingAsk, Declined
from fleet_app.engine.caps import Caps
from fleet_app.engine.decide import decide
from fleet_app.engine.explain import explain
from fleet_app.engine.plan import Admit, Drain, GiveGrant, Plan, Reason
from fleet_app.engine.policy import FlavorQuota, Policy, Quota
from fleet_app.engine.quota import QuotaTree
from fleet_app.engine.values import Condition
from tests.builders import backfill, booking, booking_ask, gang, node, policy, service, shape, sliced, state, team


def capped(of: Quota, **caps: int) -> Quota:
    """Return an entry with caps by accelerator."""
    own = tuple(FlavorQuota(flavor=f"{kind}-whole", nominal=gpus) for kind, gpus in caps.items())
    return replace(of, flavors=own)


def rules(**caps: int) -> Policy:
    """Return a policy under which team research has these caps."""
    org = team("org", nominal=64, parent=None)
    return policy(org, capped(team("research", nominal=32), **caps), team("vision", nominal=32))


H100 = [node(f"h{number}", accelerator="H100") for number in range(4)]
A100 = [node("a0", accelerator="A100")]
PARTS = {"learner": (1, shape(8)), "actors": (1, shape(cpus=8))}


def placed(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {one.workload: one.nodes for one in plan.actions if isinstance(one, Admit)}


def drained(plan: Plan) -> list[str]:
    return [one.workload for one in plan.actions if isinstance(one, Drain)]


CASES: dict[str, tuple[list[object], Policy, dict[str, tuple[str, ...]]]] = {
    "up to the number it starts": ([*H100, gang("a", nodes=2)], rules(h100=16), {"a": ("h0", "h1")}),
    "above it it does not": ([*H100, gang("a", nodes=3)], rules(h100=16), {}),
    "it starts on an accelerator that has room under its number": (
        [*H100, *A100, gang("a")],
        rules(h100=0),
        {"a": ("a0",)},
    ),
    "also when it asks for less than what is left elsewhere": (
        [*H100, *A100, gang("old", on=("h0",)), gang("a")],
        rules(h100=8),
        {"a": ("a0",)},
    ),
    "of two that fit alone one does": ([*H100, gang("a"), gang("b", submitted_at=1.0)], rules(h100=8), {"a": ("h0",)}),
    "backfill counts": ([*H100, backfill("old", gpus=8, on=("h0",)), backfill("b")], rules(h100=8), {}),
    "replicas count": (
        [*H100, node("s0", accelerator="H100", serving=True), service(team="research", gpus=8, on=("s0",)), gang("a")],
        rules(h100=8),
        {},
    ),
    "another team's does not": (
        [*H100, backfill("old", gpus=8, on=("h0",), team="vision"), backfill("b")],
        rules(h100=8),
        {"b": ("h1",)},
    ),
    "who waits keeps it from later work of its own team": (
        [
            *H100,
            gang("old", on=("h0",)),
            gang("large", nodes=2, submitted_at=1.0),
            gang("small", submitted_at=2.0),
        ],
        rules(h100=16),
        {},
    ),
    "what could never start keeps nothing": (
        [*H100, gang("large", nodes=3, submitted_at=1.0), gang("small", submitted_at=2.0)],
        rules(h100=16),
        {"small": ("h0",)},
    ),
    "what yields may have meanwhile what is kept for a gang": (
        [*H100, gang("old", on=("h0",)), gang("large", nodes=2, submitted_at=1.0), backfill("b", submitted_at=2.0)],
        rules(h100=16),
        {"b": ("h1",)},
    ),
    "who waits for it keeps its team's nominal as well": (
        [
            *H100,
            *A100,
            gang("old", on=("h0",)),
            gang("large", nodes=2, submitted_at=1.0),
            gang("small", gpus=4, submitted_at=2.0, accelerator="A100"),
        ],
        policy(team("org", nominal=64, parent=None), capped(team("research", nominal=24), h100=16)),
        {},
    ),
    "who waits for nodes keeps its number as well": (
        [
            *H100[:3],
            gang("other", on=("h0",), team="vision"),
            gang("wide", nodes=3, submitted_at=1.0),
            gang("b", submitted_at=2.0),
        ],
        rules(h100=24),
        {},
    ),
    "bundles without GPUs go to nodes of any accelerator": (
        [node("h0", accelerator="H100"), node("a0", accelerator="A100"), gang("a", groups=PARTS)],
        rules(h100=0),
        {"a": ("a0", "h0")},
    ),
    "an elastic gang has as many members as it finds room for under its number": (
        [
            *H100[:2],
            *A100,
            node("a1", accelerator="A100"),
            gang("firm", on=("a1",), team="vision"),
            gang("a", nodes=2, minimum=1),
        ],
        rules(h100=8),
        {"a": ("a0",)},
    ),
    "another team is not limited": (
        [*H100, gang("a", nodes=3, team="vision")],
        rules(h100=0),
        {"a": ("h0", "h1", "h2")},
    ),
}


@pytest.mark.parametrize(("parts", "under", "want"), CASES.values(), ids=CASES)
def test_who_starts(parts: list[object], under: Policy, want: dict[str, tuple[str, ...]]) -> None:
    assert placed(decide(state(*parts), under, 10.0)) == want  # type: ignore[arg-type]  # facts of a case


def test_a_cap_of_an_organisation_is_shared_by_its_teams() -> None:
    org = capped(team("org", nominal=64, parent=None), h100=16)
    under = policy(org, team("research", nominal=32), team("vision", nominal=32))
    facts = state(*H100, gang("old", on=("h0",), team="vision"), gang("a", nodes=2), gang("b", submitted_at=1.0))
    plan = decide(facts, under, 10.0)
    assert placed(plan) == {}
    assert plan.wait_of("a").available == 8  # type: ignore[union-attr]  # it waits


WAITS = {
    "for what its team has": (
        [*H100, gang("old", on=("h0",)), gang("a", nodes=2)],
        rules(h100=16),
        (Reason.QUOTA_USED, 16, 8, "h100-whole"),
        "needs 16 GPUs; team research has 8 left of its h100-whole: 8 more would do",
    ),
    "for all of it": (
        [*H100, gang("old", on=("h0",)), gang("a")],
        rules(h100=8),
        (Reason.QUOTA_USED, 8, 0, "h100-whole"),
        "needs 8 GPUs; team research has 0 left of its h100-whole: 8 more would do",
    ),
    "for the accelerator that has most left": (
        [
            *H100,
            *A100,
            gang("old", nodes=2, on=("h0", "h1")),
            gang("half", gpus=4, on=("a0",)),
            gang("a"),
        ],
        rules(h100=16, a100=8),
        (Reason.QUOTA_USED, 8, 4, "a100-whole"),
        "needs 8 GPUs; team research has 4 left of its a100-whole: 4 more would do",
    ),
    "for ever, where it may have none": (
        [*H100, gang("a")],
        rules(h100=0),
        (Reason.TOO_LARGE_FOR_QUOTA, 8, 0, "h100-whole"),
        "needs 8 GPUs; team research may never have more than 0 of h100-whole",
    ),
    "for ever": (
        [*H100, gang("a", nodes=3)],
        rules(h100=16),
        (Reason.TOO_LARGE_FOR_QUOTA, 24, 16, "h100-whole"),
        "needs 24 GPUs; team research may never have more than 16 of h100-whole",
    ),
    "for the accelerator that could have most": (
        [*H100, *A100, gang("a", nodes=3)],
        rules(h100=16, a100=8),
        (Reason.TOO_LARGE_FOR_QUOTA, 24, 16, "h100-whole"),
        "needs 24 GPUs; team research may never have more than 16 of h100-whole",
    ),
}


@pytest.mark.parametrize(("parts", "under", "want", "sentence"), WAITS.values(), ids=WAITS)
def test_who_waits_for_a_cap_is_told_so(
    parts: list[object], under: Policy, want: tuple[object, ...], sentence: str
) -> None:
    facts = state(*parts)  # type: ignore[arg-type]  # facts of a case
    wait = decide(facts, under, 10.0).wait_of("a")
    assert wait is not None
    assert (wait.reason, wait.asked, wait.available, wait.level) == want
    assert explain(facts, under, 10.0, "a").sentence == sentence


def test_what_may_come_back_is_not_hopeless() -> None:
    """O3: the node of the accelerator that it may have is only kept out."""
    away = replace(A100[0], condition=Condition.CORDONED)
    wait = decide(state(*H100, away, gang("a")), rules(h100=4), 100.0).wait_of("a")
    assert wait is not None
    assert wait.reason is Reason.NO_ROOM


def test_a_replica_is_under_its_teams_cap_too() -> None:
    serving = [node("s0", accelerator="H100", serving=True), node("s1", accelerator="A100", serving=True)]
    chat = service("chat", gpus=4, wanted=4, team="research")
    plan = decide(state(*serving, chat), rules(h100=4, a100=4), 10.0)
    assert sorted(one.node for one in plan.actions if isinstance(one, GiveGrant)) == ["s0", "s1"]
    wait = plan.wait_of("chat")
    assert wait is not None
    assert (wait.reason, wait.asked, wait.available, wait.level) == (Reason.QUOTA_USED, 4, 0, "h100-whole")
    assert explain(state(*serving, chat), rules(h100=4, a100=4), 10.0, "chat").sentence.startswith(
        "wants 4 replicas of 4 GPUs, has 0 running; team research has 0 GPUs left of its h100-whole, a replica needs 4"
    )


def test_an_elastic_gang_is_as_large_as_its_cap_allows_and_grows_no_further() -> None:
    plan = decide(state(*H100, gang("a", nodes=4, minimum=1)), rules(h100=24), 10.0)
    assert placed(plan) == {"a": ("h0", "h1", "h2")}
    runs = replace(gang("a", nodes=4, minimum=1, on=("h0", "h1", "h2")), bundles=4)
    assert decide(state(*H100, runs), rules(h100=24), 10.0).actions == ()
    assert decide(state(*H100, *A100, runs), rules(h100=24), 10.0).actions == (), "its members are of one accelerator"


def test_slices_are_under_no_cap_of_whole_gpus() -> None:
    under = replace(rules(h100=0), slicing=None)
    assert placed(decide(state(*H100, sliced("job", share=0.5)), under, 10.0)) == {}
    assert decide(state(*H100, backfill("cpu", gpus=0)), under, 10.0).wait_of("cpu") is None


def books_of(**caps: int) -> Caps:
    """Return the caps of team research on these nodes, with nothing used."""
    entries = rules(**caps).quotas
    return Caps(QuotaTree.build(entries), {one.name: one for one in (*H100, *A100)}, entries)


@pytest.mark.parametrize(("kind", "want"), [("H100", 16), ("A100", 8), ("B200", 0), ("H200", 0)])
def test_what_somebody_has_of_an_accelerator_is_on_its_nodes(kind: str, want: int) -> None:
    one = backfill("x", gpus=8, on=("h0", "a0", "h1", "gone"))
    assert books_of(h100=8).gpus(one, kind) == want


def test_who_waits_keeps_what_comes_free_once() -> None:
    books = books_of(h100=8)
    for name in ("a", "b", "a"):
        books.keep(gang(name), "H100")
    assert [(one.name, kind) for one, kind in books.kept] == [("a", "h100"), ("b", "h100")]


def test_what_those_ahead_ask_for_is_lacking_too() -> None:
    books = books_of(h100=8)
    assert books.short("research", "H100", 8) == {}
    assert books.short("research", "H100", 8, [gang("ahead")]) == {"research": 8}
    assert books.short("research", "H100", 8, [gang("ahead", team="vision")]) == {}


def test_what_a_cap_just_allows_waits_for_nodes_and_not_for_ever() -> None:
    closed = replace(H100[1], condition=Condition.CORDONED)
    plan = decide(state(H100[0], closed, gang("old", on=("h0",)), gang("a", nodes=2)), rules(h100=16), 10.0)
    wait = plan.wait_of("a")
    assert wait is not None
    assert wait.reason is Reason.NO_ROOM


def in_org(**caps: int) -> Policy:
    """Return a policy under which research and vision share these caps."""
    return policy(
        capped(team("org", nominal=64, parent=None), **caps), team("research", nominal=32), team("vision", nominal=32)
    )


BOOKED: dict[str, tuple[list[object], BookingAsk, Policy, tuple[int, int] | None]] = {
    "a booking up to the number": (H100, booking_ask(count=2), rules(h100=16), None),
    "above it": (H100, booking_ask(count=3), rules(h100=16), (24, 16)),
    "with what is booked then": ([*H100, booking("x", "h0")], booking_ask(count=2), rules(h100=16), (24, 16)),
    "with what is booked at another time": (
        [*H100, booking("x", "h0", start_at=5000.0, end_at=6000.0)],
        booking_ask(count=2),
        rules(h100=16),
        None,
    ),
    "with what another team of the entry has booked": (
        [*H100, booking("x", "h0", team="vision")],
        booking_ask(count=2),
        in_org(h100=16),
        (24, 16),
    ),
    "beside maintenance, which is nobody's": (
        [*H100, booking("x", "h0", team=None)],
        booking_ask(count=2),
        rules(h100=16),
        None,
    ),
    "of an accelerator without a number": (A100, booking_ask(), rules(h100=0), None),
    "maintenance itself": (H100, booking_ask("shut", "h0", team=None), rules(h100=0), None),
}


@pytest.mark.parametrize(("parts", "ask", "under", "want"), BOOKED.values(), ids=BOOKED)
def test_a_booking_stays_inside_the_number(
    parts: list[object], ask: BookingAsk, under: Policy, want: tuple[int, int] | None
) -> None:
    answer = offer(state(*parts), under, 0.0, ask)  # type: ignore[arg-type]  # nodes and bookings
    assert (isinstance(answer, Declined) and (answer.asked, answer.available)) == (want or False), answer
