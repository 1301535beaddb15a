"""Who fetches what now, and who waits for whom: limits, replicas first, nobody for ever (G1 to G5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.artifacts import Artifact
from fleet_app.engine.decide import decide
from fleet_app.engine.explain import explain
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Admit, AdmitSlice, Grow, Plan, Reason
from fleet_app.engine.policy import Policy, Pulls, Slicing, Source
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Service, Workload
from tests import virtual
from tests.builders import backfill, cards, gang, grant, node, nodes, policy, service, shape, sliced, state

IMAGE = Artifact(name="image", size_mib=10_240, source="registry")
WEIGHTS = Artifact(name="weights", size_mib=20_480, source="store")
NEEDS = (IMAGE,)
FOUR = nodes(4)


def limited(most: int = 2, *, most_per_node: int | None = None, gbit_per_s: int | None = None) -> Policy:
    sources = (Source(name="registry", most_at_once=most, gbit_per_s=gbit_per_s), Source(name="store", most_at_once=1))
    return replace(policy(), pulls=Pulls(sources=sources, most_per_node=most_per_node))


def decided(*parts: Node | Workload | Service, rules: Policy | None = None) -> Plan:
    return decide(state(*parts), rules or limited(), 100.0)


def starts(plan: Plan) -> list[str]:
    return [action.workload for action in plan.actions if isinstance(action, Admit)]


def pulling(plan: Plan) -> dict[str, tuple[int, int, tuple[str, ...]]]:
    waits = (wait for wait in plan.waits if wait.reason is Reason.PULLING)
    return {wait.workload: (wait.asked, wait.available, wait.blocked_by) for wait in waits}


GROUPS = {"x": (1, shape(8)), "y": (1, shape(4))}
BEGINS = gang("begins", on=["n4"], phase=Phase.ADMITTED, artifacts=NEEDS)

CASES: dict[str, tuple[list[Node | Workload | Service], list[str]]] = {
    "as many as may": ([*FOUR, gang("a", artifacts=NEEDS), gang("b", artifacts=NEEDS)], ["a", "b"]),
    "no more than may": ([*FOUR, *(gang(name, artifacts=NEEDS) for name in "abc")], ["a", "b"]),
    "who fetches already counts": ([*FOUR, BEGINS, *(gang(name, artifacts=NEEDS) for name in "ab")], ["a"]),
    "who has started fetches no more": (
        [*FOUR, replace(BEGINS, phase=Phase.RUNNING), *(gang(name, artifacts=NEEDS) for name in "ab")],
        ["a", "b"],
    ),
    "what a node has is not fetched": (
        [*(replace(one, cached=("image",)) for one in FOUR), *(gang(name, artifacts=NEEDS) for name in "abc")],
        ["a", "b", "c"],
    ),
    "what needs nothing passes": (
        [*FOUR, BEGINS, gang("a", nodes=2, artifacts=NEEDS), backfill("b", submitted_at=1.0)],
        ["b"],
    ),
    "what is too large for the source starts when nobody fetches": (
        [*FOUR, gang("a", nodes=4, artifacts=NEEDS)],
        ["a"],
    ),
    "nobody who needs the same source passes": (
        [*FOUR, BEGINS, gang("a", nodes=2, artifacts=NEEDS), gang("b", artifacts=NEEDS, submitted_at=1.0)],
        [],
    ),
    "of several shapes neither": (
        [*FOUR, BEGINS, gang("a", groups=GROUPS, artifacts=NEEDS), backfill("b", artifacts=NEEDS, submitted_at=1.0)],
        [],
    ),
    "another source is another matter": ([*FOUR, BEGINS, gang("a", artifacts=(WEIGHTS,))], ["a"]),
    "a source that is not named is not limited": (
        [*FOUR, *(gang(name, artifacts=[Artifact(name="x", size_mib=1, source="web")]) for name in "abc")],
        ["a", "b", "c"],
    ),
    "replicas that are about to start come first": (
        [
            *FOUR,
            node("v1", serving=True),
            node("v2", serving=True),
            replace(
                service(wanted=2, grants=[grant(f"g{i}", node=f"v{i}", occupied=False) for i in (1, 2)]),
                artifacts=NEEDS,
            ),
            gang("a", artifacts=NEEDS),
        ],
        [],
    ),
}


@pytest.mark.parametrize(("parts", "want"), CASES.values(), ids=CASES)
def test_who_may_begin(parts: list[Node | Workload | Service], want: list[str]) -> None:
    assert starts(decided(*parts)) == want


def test_who_waits_is_told_for_whom_and_for_how_many() -> None:
    plan = decided(*FOUR, BEGINS, gang("a", nodes=2, artifacts=NEEDS), gang("b", artifacts=NEEDS, submitted_at=1.0))
    assert pulling(plan) == {"a": (2, 1, ("begins",)), "b": (1, 0, ("a",))}
    facts = state(*FOUR, BEGINS, gang("a", nodes=2, artifacts=NEEDS))
    assert explain(facts, limited(), 100.0, "a").sentence == (
        "2 pulls would begin for it at registry, where 1 more may now; begins is first"
    )


def test_one_node_takes_no_more_than_it_may() -> None:
    rules = limited(9, most_per_node=1)
    first = backfill("first", on=["n1"], phase=Phase.ADMITTED, artifacts=NEEDS)
    assert pulling(decided(node("n1"), first, backfill("b", artifacts=NEEDS), rules=rules)) == {"b": (1, 0, ("first",))}
    assert starts(decided(node("n1"), backfill("b", artifacts=(IMAGE, WEIGHTS)), rules=rules)) == ["b"]


def test_who_waits_and_never_yields_keeps_its_nodes() -> None:
    large = gang("a", nodes=4, artifacts=NEEDS)
    begins = backfill("begins", on=["n1"], phase=Phase.ADMITTED, artifacts=NEEDS, gpus=1)
    plan = decided(*nodes(5), begins, large, gang("later", nodes=2, submitted_at=1.0))
    assert pulling(plan) == {"a": (4, 1, ("begins",))}
    assert starts(plan) == []


def test_an_admission_says_what_it_fetches_and_how_long_that_takes() -> None:
    plan = decided(node("n1"), gang("a", artifacts=(IMAGE, WEIGHTS)), rules=limited(gbit_per_s=40))
    (admitted,) = plan.actions
    assert admitted.why == "n1 fits; pulls 10.0 GiB from registry, 2 s at 40 Gbit/s; pulls 20.0 GiB from store"


SPEEDS = {"2 s at 40 Gbit/s": 40, "9 s at 10 Gbit/s": 10, "86 s at 1 Gbit/s": 1}


@pytest.mark.parametrize(("said", "gbit_per_s"), SPEEDS.items())
def test_ten_gib_take_so_long(said: str, gbit_per_s: int) -> None:
    plan = decided(node("n1"), gang("a", artifacts=(IMAGE,)), rules=limited(gbit_per_s=gbit_per_s))
    [admitted] = [action for action in plan.actions if isinstance(action, Admit)]
    assert admitted.why == f"n1 fits; pulls 10.0 GiB from registry, {said}"


SMALL = backfill("small", on=["n1"], minimum=1, at_most=4, artifacts=NEEDS)
"""Runs with one member of four, on the first of four nodes."""

GROWS: dict[str, tuple[list[Node | Workload | Service], tuple[str, ...]]] = {
    "as many as may fetch at once": ([*FOUR, SMALL], ("n2", "n3")),
    "beside those who fetch already": ([*FOUR, SMALL, BEGINS], ("n2",)),
    "not while too many do": ([*FOUR, SMALL, replace(BEGINS, name="b", nodes=("n3",)), BEGINS], ()),
    "all of them where nothing has to be fetched": ([*FOUR, replace(SMALL, artifacts=())], ("n2", "n3", "n4")),
    "where it is there already, too": (
        [node("n1"), *(replace(one, cached=("image",)) for one in nodes(2, first=2)), node("n4"), SMALL],
        ("n2", "n3", "n4"),
    ),
    "members that joined a moment ago fetch still": (
        [*FOUR, replace(SMALL, nodes=("n1", "n2"), grown_at=99.0)],
        (),
    ),
    "until they have had the time that it takes": (
        [*FOUR, replace(SMALL, nodes=("n1", "n2"), grown_at=70.0)],
        ("n3", "n4"),
    ),
    "or until it is there": (
        [
            *(replace(one, cached=("image",)) for one in nodes(2)),
            *nodes(2, first=3),
            replace(SMALL, nodes=("n1", "n2"), grown_at=99.0),
        ],
        ("n3", "n4"),
    ),
}


@pytest.mark.parametrize(("parts", "want"), GROWS.values(), ids=GROWS)
def test_members_join_as_they_may_fetch(parts: list[Node | Workload | Service], want: tuple[str, ...]) -> None:
    """10 GiB for two take 17 s at 10 Gbit/s."""
    grown = [one for one in decided(*parts, rules=limited(gbit_per_s=10)).actions if isinstance(one, Grow)]
    assert [one.nodes for one in grown] == ([want] if want else [])


def test_where_no_speed_is_known_members_count_in_the_cycle_in_which_they_join() -> None:
    (grown,) = decided(*FOUR, replace(SMALL, nodes=("n1", "n2"), grown_at=99.0)).actions
    assert isinstance(grown, Grow)
    assert grown.nodes == ("n3", "n4")
    assert grown.why == "nobody waits for the room; 4 of 4 members; pulls 20.0 GiB from registry"


def test_one_member_joins_where_nobody_fetches_however_much_it_needs() -> None:
    two = (IMAGE, replace(IMAGE, name="data"))
    (grown,) = decided(*FOUR, replace(SMALL, artifacts=two), rules=limited(1)).actions
    assert isinstance(grown, Grow)
    assert grown.nodes == ("n2",)


def test_a_node_takes_no_more_members_pulls_than_it_may() -> None:
    other = replace(BEGINS, nodes=("n2",), shape=replace(BEGINS.shape, gpus=1), artifacts=(WEIGHTS,))
    plan = decided(*FOUR, SMALL, other, rules=limited(9, most_per_node=1))
    assert [one.nodes for one in plan.actions if isinstance(one, Grow)] == []


def test_who_waits_for_a_slice_waits_for_its_pulls_too() -> None:
    rules = replace(limited(1), slicing=Slicing())
    card = node("v1", accelerator="h100", gpus=0, cards=cards(("shared",)))
    jobs = [sliced(name, share=0.2, artifacts=NEEDS, submitted_at=at) for at, name in enumerate("ab")]
    facts = [card, *jobs, sliced("c", share=0.2, submitted_at=5.0)]
    plan = decided(*facts, rules=rules)
    starts_now = {one.workload: one.why for one in plan.actions if isinstance(one, AdmitSlice)}
    assert sorted(starts_now) == ["a", "c"]
    assert starts_now["a"].endswith("; pulls 10.0 GiB from registry")
    assert pulling(plan) == {"b": (1, 0, ("a",))}
    sentence = explain(state(*facts), rules, 100.0, "b").sentence
    assert sentence == "1 pull would begin for it at registry, where 0 more may now; a is first"


def test_everybody_has_a_turn_and_nothing_wedges() -> None:
    many = [gang(f"g{number:02}", artifacts=(IMAGE, WEIGHTS), nodes=1 + number % 3) for number in range(12)]
    fleet = virtual.fleet(replace(limited(1), quotas=policy().quotas), *FOUR, *many)
    for _ in range(40):
        fleet = virtual.started(virtual.cycle(fleet))
        for name in sorted(fleet.running()):
            fleet = virtual.completed(fleet, name)
    assert {one.phase for one in fleet.ended} == {Phase.SUCCEEDED}
    assert len(fleet.ended) == 12
