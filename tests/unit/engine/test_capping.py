"""V9: who leaves for a number of whole GPUs of an accelerator, and what is kept for who waits for it (R3, R4, O11)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.plan import Reason, Shrink, TakeGrant
from fleet_app.engine.policy import Ordering, Policy
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, gang, grant, node, policy, service, shape, state, team
from tests.unit.engine.test_caps import A100, H100, capped, drained, in_org, placed, rules


@pytest.mark.parametrize("gpus", [4, 3], ids=["as many as it lacks", "more than it lacks"])
def test_committed_work_asks_the_cheapest_that_yield_under_its_cap_to_leave(gpus: int) -> None:
    parts = [
        *H100,
        backfill("dear", gpus=8, on=("h0",), started_at=0.0),
        backfill("cheap", gpus=4, on=("h1",), started_at=90.0),
        backfill("spared", gpus=4, on=("h1",), started_at=80.0),
        backfill("foreign", gpus=8, on=("h2",), team="vision"),
        gang("a", gpus=gpus),
    ]
    plan = decide(state(*parts), rules(h100=16), 100.0)
    assert drained(plan) == ["cheap"]
    wait = plan.wait_of("a")
    assert wait is not None
    assert (wait.reason, wait.blocked_by) == (Reason.DRAIN_UNDER_WAY, ("cheap",))


def test_who_leaves_for_a_cap_is_on_that_accelerator() -> None:
    there = [node(f"a{number}", accelerator="A100") for number in range(2)]
    own = backfill("own", gpus=8, on=("a0",), started_at=0.0)
    cheap = backfill("cheap", gpus=8, on=("h0",), started_at=90.0)
    plan = decide(state(*there, *H100, own, cheap, gang("a", accelerator="A100")), rules(a100=8), 100.0)
    assert drained(plan) == ["own"]


def test_what_comes_free_of_a_cap_is_kept_on_nodes_of_that_accelerator() -> None:
    plan = decide(state(*A100, *H100[:2], backfill("own", gpus=8, on=("h0",)), gang("a")), rules(h100=8, a100=0), 100.0)
    assert drained(plan) == ["own"]
    assert [hold.node for hold in plan.holds] == ["h1"]


@pytest.mark.parametrize("named", [None, "H100"], ids=["of any accelerator", "of one that it names"])
def test_of_several_shapes_what_asks_for_no_gpus_may_be_on_any_node(named: str | None) -> None:
    """V9, P7: the parameter server finds CPUs only on a node without the capped accelerator."""
    there = [node(f"h{number}", accelerator="H100", cpus=8) for number in range(2)]
    beside = [node("c0", gpus=0, cpus=64), node("a0", accelerator="A100", cpus=8)]
    parts = {"ps": (1, shape(0, cpus=16)), "actors": (1, shape(8, cpus=8))}
    own = backfill("own", gpus=8, on=("h0",))
    asks = gang("x", groups=parts, accelerator=named)
    plan = decide(state(*there, *beside, own, asks), rules(h100=8, a100=0), 100.0)
    assert drained(plan) == ["own"]
    assert {hold.node for hold in plan.holds} == {"c0", "h1"}


def test_nobody_is_asked_where_all_would_not_be_enough_or_enough_leave_already() -> None:
    firm = [*H100, gang("old", on=("h0",)), backfill("some", gpus=4, on=("h1",)), gang("a")]
    assert drained(decide(state(*firm), rules(h100=12), 100.0)) == []
    going = backfill("going", gpus=8, on=("h1",))
    told = replace(going, phase="draining", deadline_at=160.0, drained_for="a")
    plan = decide(state(*H100, told, backfill("stays", gpus=8, on=("h2",)), gang("a")), rules(h100=16), 100.0)
    assert drained(plan) == []
    wait = plan.wait_of("a")
    assert wait is not None
    assert wait.reason is Reason.DRAIN_UNDER_WAY


def test_nobody_is_asked_where_there_would_be_no_room_afterwards() -> None:
    """R4: half of `h1` is another team's for good."""
    there = [node("h0", gpus=4, accelerator="H100"), node("h1", gpus=8, accelerator="H100")]
    firm = gang("firm", gpus=4, on=("h1",), team="vision")
    parts = [*there, backfill("own", gpus=4, on=("h0",)), firm, gang("a", gpus=8)]
    assert drained(decide(state(*parts), rules(h100=8), 100.0)) == []


def test_an_accelerator_that_could_never_hold_it_does_not_hide_the_cap() -> None:
    parts = [*H100, *A100, backfill("own", gpus=8, on=("h0",)), gang("a", nodes=2)]
    assert drained(decide(state(*parts), rules(h100=16), 100.0)) == ["own"]


def test_where_one_accelerator_is_full_for_good_who_is_in_the_way_of_the_other_leaves() -> None:
    parts = [*H100, *A100, gang("firm", on=("a0",), team="vision"), backfill("own", gpus=8, on=("h0",)), gang("a")]
    assert drained(decide(state(*parts), rules(h100=8), 100.0)) == ["own"]


def test_nobody_leaves_for_room_whom_the_cap_would_spare() -> None:
    """R4: who has to leave for the cap makes the room as well."""
    there = [node("h0", gpus=8, accelerator="H100")]
    parts = [
        *there,
        backfill("cheap", gpus=4, on=("h0",), started_at=99.0, team="vision"),
        backfill("own", gpus=4, on=("h0",), started_at=0.0),
        gang("a", gpus=4),
    ]
    assert drained(decide(state(*parts), rules(h100=4), 100.0)) == ["own"]


def test_members_leave_before_what_they_are_members_of() -> None:
    """R8."""
    elastic = backfill("own", gpus=8, on=("h0", "h1"), minimum=1)
    plan = decide(state(*H100, elastic, gang("a")), rules(h100=16), 100.0)
    assert [(one.workload, one.nodes) for one in plan.actions if isinstance(one, Shrink)] == [("own", ("h0",))]
    whole = decide(state(*H100, elastic, gang("a", nodes=2)), rules(h100=16), 100.0)
    assert drained(whole) == ["own"]


def test_for_a_replica_its_teams_backfill_leaves_where_only_the_cap_is_in_the_way() -> None:
    """I3."""
    serving = [node("s0", accelerator="H100", serving=True), *H100]
    chat = service("chat", gpus=4, wanted=1, team="research")
    parts = [*serving, chat, backfill("own", gpus=8, on=("h0",)), backfill("other", gpus=8, on=("h1",), team="vision")]
    plan = decide(state(*parts), rules(h100=8), 100.0)
    assert drained(plan) == ["own"]
    wait = plan.wait_of("chat")
    assert wait is not None
    assert wait.reason is Reason.DRAIN_UNDER_WAY


def test_what_yields_asks_nobody() -> None:
    parts = [*H100, backfill("old", gpus=8, on=("h0",)), backfill("b", gpus=8)]
    assert drained(decide(state(*parts), rules(h100=8), 100.0)) == []


def lent(count: int, on: str, *, team: str = "vision") -> list[Workload]:
    """Return so many jobs of one GPU on a node, each as cheap as the others."""
    return [backfill(f"{team}-{on}-{number:02}", on=(on,), team=team, saved_at=100.0) for number in range(count)]


def owns(nominal: int, **caps: int) -> Policy:
    """Return a policy under which vision owns so little that all the rest that it has is borrowed."""
    org = team("org", nominal=128, parent=None)
    return policy(org, capped(team("research", nominal=128), **caps), team("vision", nominal=nominal))


def shared(**caps: int) -> Policy:
    """Return a policy under which research and vision share these caps, each with nominal for all that it has."""
    return policy(
        capped(team("org", nominal=0, parent=None), **caps), team("research", nominal=99), team("vision", nominal=99)
    )


TWO_SMALL = [backfill(f"s{number}", gpus=2, on=("h0",), saved_at=90.0) for number in (1, 2)]
ONE_LARGE = backfill("large", gpus=4, on=("h0",), saved_at=95.0)
HALF = gang("firm", gpus=4, on=("h0",), team="vision")
OWN = backfill("own", gpus=4, on=("h0",), saved_at=0.0)
ELASTIC = backfill("own", gpus=8, on=[f"h{number}" for number in range(9)], minimum=8, saved_at=100.0)
TEN = [node(f"h{number}", accelerator="H100") for number in range(10)]
A_FEW = [node(f"more{number}", accelerator="H100") for number in range(2)]
CROWDED = node("h0", gpus=16, accelerator="H100")

LEAVE: dict[str, tuple[list[object], Policy, list[str]]] = {
    "of few the cheapest together": (
        [*H100, *TWO_SMALL, ONE_LARGE, *lent(5, "h1"), gang("a", gpus=4)],
        owns(1, h100=8),
        ["large"],
    ),
    "of many one after another, the cheapest first": (
        [*H100, *TWO_SMALL, ONE_LARGE, *lent(6, "h1"), gang("a", gpus=4)],
        owns(1, h100=8),
        ["s1", "s2"],
    ),
    "of many those who make room, and who is under the cap beside them": (
        [*H100[:2], HALF, OWN, *lent(8, "h1"), gang("a")],
        owns(4, h100=8),
        ["own", *(one.name for one in lent(8, "h1"))],
    ),
    "of many nobody for the cap where those who make room are under it": (
        [*H100[:2], *lent(8, "h0", team="research"), *lent(8, "h1", team="research"), gang("a")],
        rules(h100=16),
        [one.name for one in lent(8, "h0", team="research")],
    ),
    "of a gang of several shapes too": (
        [*H100[:2], HALF, OWN, *lent(8, "h1"), gang("a", groups={"a": (1, shape(8)), "b": (1, shape(cpus=1))})],
        owns(4, h100=8),
        ["own", *(one.name for one in lent(8, "h1"))],
    ),
    "where they are inside their nominal, and under the cap of the organisation": (
        [CROWDED, *lent(8, "h0"), gang("a")],
        shared(h100=8),
        [one.name for one in lent(8, "h0")],
    ),
    "also of many": (
        [CROWDED, *lent(10, "h0"), gang("firm", gpus=4, on=("h0",), team="vision"), gang("a")],
        shared(h100=16),
        [one.name for one in lent(6, "h0")],
    ),
    "and as many as room is lacking, where the cap lacks less": (
        [CROWDED, *lent(10, "h0"), gang("firm", gpus=4, on=("h0",), team="vision"), gang("a")],
        shared(h100=20),
        [one.name for one in lent(6, "h0")],
    ),
    "of many nobody where there would be no room afterwards": (
        [
            node("h0", gpus=4, accelerator="H100"),
            H100[1],
            *lent(4, "h0"),
            *lent(6, "h1"),
            gang("firm", gpus=2, on=("h1",), team="vision"),
            gang("a"),
        ],
        shared(h100=16),
        [],
    ),
    "of many members one, where the whole can spare one": (
        [*TEN, ELASTIC, gang("a")],
        owns(1, h100=72),
        ["own/h0"],
    ),
    "of many members all, where the whole cannot spare as many": (
        [*TEN, ELASTIC, gang("a", nodes=2)],
        owns(1, h100=72),
        ["own"],
    ),
    "of many members one, and another who is dearer in place of the second": (
        [*TEN, ELASTIC, backfill("beside", gpus=8, on=("h9",), saved_at=90.0), gang("a", nodes=2)],
        owns(1, h100=80),
        ["beside", "own/h0"],
    ),
    "also where there is room, and only the cap is lacking": (
        [*TEN, *A_FEW, ELASTIC, backfill("beside", gpus=8, on=("h9",), saved_at=90.0), gang("a", nodes=2)],
        owns(1, h100=80),
        ["beside", "own/h0"],
    ),
    "of many members one, where they alone make the room": (
        [*TEN[:9], replace(ELASTIC, team="vision"), gang("a")],
        shared(h100=72),
        ["own/h0"],
    ),
    "of many members all, where they alone make the room and one is not enough": (
        [*TEN[:9], replace(ELASTIC, team="vision"), gang("a", nodes=2)],
        shared(h100=72),
        ["own"],
    ),
    "a member where another who is dearer could go in place of the whole": (
        [
            *H100,
            backfill("own", gpus=8, on=("h0", "h1"), minimum=1, saved_at=100.0),
            backfill("beside", gpus=8, on=("h2",), saved_at=90.0),
            gang("a"),
        ],
        rules(h100=24),
        ["own/h0"],
    ),
}


@pytest.mark.parametrize(("parts", "under", "want"), LEAVE.values(), ids=LEAVE)
def test_who_leaves(parts: list[object], under: Policy, want: list[str]) -> None:
    plan = decide(state(*parts), under, 100.0)  # type: ignore[arg-type]  # facts of a case
    members = [f"{one.workload}/{on}" for one in plan.actions if isinstance(one, Shrink) for on in one.nodes]
    assert sorted([*drained(plan), *members]) == sorted(want)


@pytest.mark.parametrize(("keepers", "want"), [(1, {"small": ("h0",)}), (2, {})], ids=["for one", "for two"])
def test_who_waits_for_a_cap_keeps_it_only_where_room_is_kept_for_so_many(
    keepers: int, want: dict[str, tuple[str, ...]]
) -> None:
    """O11: `wide` waits for nodes before it."""
    there = [*H100, gang("old", gpus=4, on=("h0",)), gang("firm", on=("h1",), team="vision")]
    wide = gang("wide", nodes=4, team="vision", submitted_at=1.0)
    queue = [wide, gang("waits", nodes=2, submitted_at=2.0), gang("small", gpus=4, submitted_at=3.0)]
    under = replace(rules(h100=16), ordering=Ordering(keepers=keepers))
    assert placed(decide(state(*there, *queue), under, 10.0)) == want


SERVING = [node("s0", gpus=4, accelerator="H100", serving=True), node("s1", gpus=4, accelerator="H100", serving=True)]
LOW = service("low", team="research", gpus=2, wanted=1, floor=1)


def idle(name: str, count: int, *on: str, gpus: int = 2, team: str = "research", **rest: int) -> Service:
    """Return a service with so many idle grants on each of some nodes."""
    grants = [grant(f"{node}-{number}", node=node, occupied=False) for node in on for number in range(count)]
    return service(name, team=team, gpus=gpus, grants=grants, **rest)  # type: ignore[arg-type]  # a test's keywords


TAKEN: dict[str, tuple[list[object], Policy, list[str]]] = {
    "the fewest that are enough, of one above its floor": (
        [*SERVING, LOW, idle("has", 1, "s0", "s1", wanted=2, floor=1)],
        rules(h100=4),
        ["has"],
    ),
    "as many as it needs, and no more": (
        [*SERVING, replace(LOW, shape=shape(3)), idle("has", 2, "s0", "s1", gpus=1, wanted=4)],
        rules(h100=5),
        ["has", "has"],
    ),
    "of one for the number, and of another for room": (
        [
            *(SERVING[0], LOW, idle("has", 1, "s0", gpus=1, wanted=1)),
            *(idle("other", 1, "s0", gpus=2, team="vision", wanted=1), service("busy", gpus=1, on=("s0",))),
        ],
        rules(h100=2),
        ["has", "other"],
    ),
    "none of one at its floor": ([*SERVING, LOW, idle("has", 1, "s0", "s1", wanted=2, floor=2)], rules(h100=4), []),
    "none for one at its floor, of what another wants": (
        [*SERVING, replace(LOW, floor=0), idle("has", 1, "s0", "s1", wanted=2)],
        rules(h100=4),
        [],
    ),
    "none of another team's, which is under another number": (
        [*SERVING, LOW, idle("has", 1, "s0", team="vision", wanted=1), backfill("old", gpus=4, on=("h0",)), *H100],
        rules(h100=4),
        [],
    ),
    "of another team's under the number of the organisation": (
        [*SERVING, LOW, idle("has", 1, "s0", team="vision", wanted=1)],
        in_org(h100=2),
        ["has"],
    ),
    "none where all are not enough": (
        [*SERVING, replace(LOW, shape=shape(4)), idle("has", 1, "s0", wanted=1), backfill("x", gpus=4, on=("s0",))],
        in_org(h100=5),
        [],
    ),
    "none where its nominal is lent out as well": (
        [
            *(*SERVING, LOW, idle("has", 1, "s0", team="vision", wanted=1), *H100[:1]),
            backfill("lent", gpus=6, on=("h0",), team="lent"),
        ],
        policy(
            capped(team("org", nominal=0, parent=None), h100=8),
            *(team(name, nominal=4) for name in ("research", "vision")),
            team("lent", nominal=0),
        ),
        [],
    ),
    "none where the number leaves it enough": ([*SERVING, LOW, idle("has", 1, "s0", wanted=1)], rules(h100=4), []),
}


@pytest.mark.parametrize(("parts", "under", "want"), TAKEN.values(), ids=TAKEN)
def test_which_idle_grants_go_for_a_floor_where_only_a_cap_is_in_the_way(
    parts: list[object], under: Policy, want: list[str]
) -> None:
    """S3: it then waits for them, and nobody is asked to leave."""
    plan = decide(state(*parts), under, 100.0)  # type: ignore[arg-type]  # facts of a case
    taken = [one.service for one in plan.actions if isinstance(one, TakeGrant)]
    assert taken == want
    wait = plan.wait_of("low")
    assert not want or (wait is not None and wait.reason is Reason.DRAIN_UNDER_WAY)
    assert not want or drained(plan) == []


def test_a_replica_that_another_accelerator_is_open_to_waits_for_room_and_for_no_cap() -> None:
    there = [*SERVING, node("a0", gpus=2, accelerator="A100", serving=True), service("all", gpus=2, on=("a0",))]
    wait = decide(state(*there, LOW), rules(h100=0), 100.0).wait_of("low")
    assert wait is not None
    assert (wait.reason, wait.level) == (Reason.NO_ROOM, None)
