"""Scenarios D: topology, packing, node health. Each test is a row of the table of other schedulers' faults."""

from __future__ import annotations

from itertools import permutations

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.plan import GiveGrant, Reason
from fleet_app.engine.values import Condition, Node
from tests.builders import backfill, gang, node, nodes, policy, service, shape, state, team
from tests.scenarios.said import reasons, starts, wait

EVERYBODY = policy(team("research", nominal=1000), team("serving", nominal=1000))


def pairs() -> list[Node]:
    """Return three leaves of two nodes each."""
    return [node(f"n{number}", at=f"s1/hn{(number + 1) // 2}") for number in range(1, 7)]


def test_d1_the_best_pair_is_found_without_being_demanded() -> None:
    full = [gang("x", on=["n4"]), gang("y", on=["n6"])]
    plan = decide(state(*pairs(), *full, gang("pair", nodes=2)), EVERYBODY, 0.0)
    assert starts(plan) == {"pair": ("n1", "n2")}


def test_d3_a_named_level_is_enforced() -> None:
    alone = [node(f"n{number}", at=f"s1/l{number}") for number in range(1, 4)]
    plan = decide(state(*alone, gang("pair", nodes=2, within="leaf")), EVERYBODY, 0.0)
    assert starts(plan) == {}
    assert wait(plan, "pair").reason is Reason.TOO_LARGE_FOR_FLEET


def test_d5_two_gangs_in_one_rack_are_on_different_nodes() -> None:
    asks = [gang(name, nodes=2, within="leaf") for name in ("g1", "g2")]
    found = starts(decide(state(*nodes(4), *asks), EVERYBODY, 0.0))
    assert found == {"g1": ("n1", "n2"), "g2": ("n3", "n4")}


def test_d5_two_groups_of_one_gang_in_one_rack_are_on_different_nodes() -> None:
    both = gang("both", groups={"g1": (2, shape(4)), "g2": (2, shape(4))}, within="leaf")
    found = starts(decide(state(*nodes(4), *nodes(3, prefix="m", at="s1/l2"), both), EVERYBODY, 0.0))
    assert found == {"both": ("n1", "n2", "n3", "n4")}


def test_d7_a_domain_is_not_its_prefix() -> None:
    split = [node("n1", at="r1/l1"), node("n2", at="r10/l1"), node("n3", at="r1/l2", condition=Condition.DOWN)]
    plan = decide(state(*split, gang("pair", nodes=2, within="spine")), EVERYBODY, 0.0)
    assert reasons(plan) == {"pair": Reason.NO_ROOM}


def test_d7_domains_of_one_name_below_different_parents_are_different() -> None:
    split = [node("n1", at="s1/l1"), node("n2", at="s2/l1")]
    plan = decide(state(*split, gang("g", nodes=2, within="leaf")), EVERYBODY, 0.0)
    assert reasons(plan) == {"g": Reason.TOO_LARGE_FOR_FLEET}


@pytest.mark.parametrize("condition", [Condition.CORDONED, Condition.DRAINING, Condition.QUARANTINED])
def test_d9_a_node_in_doubt_keeps_what_runs_and_gets_nothing_new(condition: Condition) -> None:
    running = gang("running", gpus=4, on=["n1"])
    plan = decide(state(node("n1", condition=condition), running, backfill("new", gpus=4)), EVERYBODY, 0.0)
    assert plan.actions == ()
    assert reasons(plan) == {"new": Reason.NO_ROOM}


def test_d11_a_cordoned_node_does_not_count() -> None:
    cordoned = node("n8", condition=Condition.CORDONED)
    plan = decide(state(*nodes(7), cordoned, gang("eight", nodes=8)), EVERYBODY, 0.0)
    assert reasons(plan) == {"eight": Reason.NO_ROOM}
    assert wait(plan, "eight").available == 7


def test_d13_a_node_that_two_kinds_of_ask_see_is_given_once() -> None:
    asks = [gang("any"), gang("h100", accelerator="h100", submitted_at=1.0)]
    plan = decide(state(node("n1", accelerator="h100"), *asks), EVERYBODY, 5.0)
    assert starts(plan) == {"any": ("n1",)}
    assert reasons(plan) == {"h100": Reason.NO_ROOM}


def test_d15_small_replicas_fill_one_rack() -> None:
    fleet = [
        node(f"r{rack:02}n{number:02}", at=f"s{rack % 3}/r{rack:02}", gpus=4, serving=True)
        for rack in range(33)
        for number in range(18)
    ]
    plan = decide(state(*fleet, service("chat", wanted=72)), EVERYBODY, 0.0)
    given = [action.node for action in plan.actions if isinstance(action, GiveGrant)]
    assert len(given) == 72
    assert len({name[:3] for name in given}) == 1


def test_d17_a_quarantined_node_gets_nothing_and_is_named_once() -> None:
    sick = node("n1", condition=Condition.QUARANTINED)
    plan = decide(state(sick, node("n2"), *(backfill(f"job-{i}", gpus=1) for i in range(9))), EVERYBODY, 0.0)
    assert {name for found in starts(plan).values() for name in found} == {"n2"}
    assert len(plan.waits) == 1


def test_d19_what_only_some_nodes_have_is_found_in_any_order() -> None:
    parts = [node("n1", memory_mib=0), node("n2", memory_mib=64), node("n3", gpus=0)]
    for order in permutations(parts):
        plan = decide(state(*order, gang("g", memory_mib=32)), EVERYBODY, 0.0)
        assert starts(plan) == {"g": ("n2",)}


def test_foreign_use_is_nobodys_to_give() -> None:
    plan = decide(state(node("n1", foreign=shape(1)), gang("whole"), backfill("small", gpus=7)), EVERYBODY, 0.0)
    assert starts(plan) == {"small": ("n1",)}
    assert reasons(plan) == {"whole": Reason.NO_ROOM}
