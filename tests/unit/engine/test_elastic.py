"""Elastic workloads: how many members at first, who of them leaves, when they grow again (R8, P12)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.ahead import watched
from fleet_app.engine.decide import decide
from fleet_app.engine.explain import explain
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Admit, Grow, Plan, Reason, Shrink, Wait
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Condition
from fleet_app.engine.workload import Workload
from tests import virtual
from tests.builders import backfill, booking, gang, node, nodes, policy, service, shape, state, team

RULES = policy(team("research", nominal=32), team("vision", nominal=0), team("serving", nominal=32))


def elastic(name: str = "el", *, least: int = 1, most: int = 4, **rest: object) -> Workload:
    return backfill(name, **{"gpus": 8, "team": "vision", "minimum": least, "at_most": most, **rest})


def admitted(plan: Plan) -> dict[str, int]:
    return {action.workload: len(action.nodes) for action in plan.actions if isinstance(action, Admit)}


def grown(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {action.workload: action.nodes for action in plan.actions if isinstance(action, Grow)}


def shrunk(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {action.workload: action.nodes for action in plan.actions if isinstance(action, Shrink)}


def wait(plan: Plan, name: str = "el") -> Wait:
    return next(one for one in plan.waits if one.workload == name)


SIZES = {
    "all of it where there is room": (state(*nodes(5), elastic()), RULES, 4),
    "as many as there is room for": (state(*nodes(3), elastic()), RULES, 3),
    "as many as fit in one leaf": (
        state(*nodes(2), *nodes(3, at="s1/l2", prefix="m"), elastic(within="leaf")),
        RULES,
        3,
    ),
    "as many as its team may borrow, one fewer than there is room for": (
        state(*nodes(5), elastic()),
        policy(team("research", nominal=32), team("vision", nominal=0, borrowing=25)),
        3,
    ),
    "as many as are of one class": (state(*nodes(2), node("v1", serving=True), elastic()), RULES, 2),
    "as many as are of one kind": (state(*nodes(2), node("a1", accelerator="a100"), elastic()), RULES, 2),
    "as many as its team may borrow": (
        state(*nodes(5), elastic()),
        policy(team("research", nominal=32), team("vision", nominal=0, borrowing=17)),
        2,
    ),
    "committed work as many as its nominal holds": (
        state(*nodes(6), gang("el", nodes=6, minimum=2)),
        RULES,
        4,
    ),
}


@pytest.mark.parametrize(("seen", "rules", "want"), SIZES.values(), ids=SIZES)
def test_it_starts_with_as_many_members_as_it_can_have(seen: FleetState, rules: Policy, want: int) -> None:
    assert admitted(decide(seen, rules, 0.0)) == {"el": want}


WAITS = {
    "below its minimum it waits for its minimum": (
        state(*nodes(2), node("d", condition=Condition.CORDONED), elastic(least=3)),
        Reason.NO_ROOM,
        3,
        2,
    ),
    "a minimum that never fits": (state(*nodes(2), elastic(least=3)), Reason.TOO_LARGE_FOR_FLEET, 3, 2),
    "a minimum that its team never has": (
        state(*nodes(9), elastic(least=9, most=9)),
        Reason.TOO_LARGE_FOR_QUOTA,
        72,
        64,
    ),
    "a team that is in no policy": (state(*nodes(2), elastic(team="nobody")), Reason.UNKNOWN_TEAM, 8, 0),
}


@pytest.mark.parametrize(("seen", "reason", "asked", "available"), WAITS.values(), ids=WAITS)
def test_it_waits_for_its_minimum(seen: FleetState, reason: Reason, asked: int, available: int) -> None:
    found = wait(decide(seen, RULES, 0.0))
    assert (found.reason, found.asked, found.available) == (reason, asked, available)


def test_the_sentence_says_with_how_many_it_would_start() -> None:
    seen = state(*nodes(2), node("d", condition=Condition.CORDONED), elastic(least=3))
    assert explain(seen, RULES, 0.0, "el").sentence == (
        "needs 3 whole nodes or up to 4; s1 has 2 free: 1 more would do; drainable there: nobody"
    )


def test_who_is_ahead_starts_with_the_members_that_it_gets() -> None:
    last = gang("last", nodes=9, submitted_at=2.0)
    _, ahead = watched(state(*nodes(3), elastic(priority=60_000), last), RULES, 5.0, "last")
    assert [one.outcome for one in ahead] == ["starts now with 24 GPUs"]


def test_it_makes_room_for_no_more_than_its_minimum() -> None:
    lodgers = [backfill(f"b{number}", gpus=8, on=[f"n{number}"], team="vision") for number in range(1, 5)]
    fleet = virtual.cycle(virtual.fleet(RULES, *nodes(4), *lodgers, gang("g", nodes=3, minimum=2)))
    assert len(fleet.drains) == 2


def test_only_as_many_members_leave_as_are_needed_and_they_are_charged_until_they_have_left() -> None:
    running = elastic(on=["n1", "n2", "n3", "n4"], most=4)
    fleet = virtual.fleet(RULES, *nodes(4), running, gang("g", nodes=2, submitted_at=1.0), now=10.0)
    plan = virtual.plan_of(fleet)
    assert shrunk(plan) == {"el": ("n1", "n2")}
    assert wait(plan, "g").blocked_by == ("el",)
    fleet = virtual.carried_out(fleet, plan)
    assert fleet.workload("el").gpus == 32
    assert shrunk(virtual.plan_of(fleet)) == {}
    assert explain(fleet.state, RULES, 20.0, "el").sentence == (
        "is running on n1, n2, n3, n4 (4 of 1..4 members); its members on n1, n2 leave for g, within 110 s"
    )
    assert explain(fleet.state, RULES, 20.0, "g").sentence.endswith("waiting for el to exit")
    fleet = virtual.cycle(virtual.left(fleet))
    assert (fleet.workload("g").nodes, fleet.workload("el").nodes) == (("n1", "n2"), ("n3", "n4"))
    assert fleet.workload("el").phase is Phase.RUNNING


def test_a_member_costs_what_it_alone_loses() -> None:
    """R3: two GPUs of a large gang are cheaper than four of a small job."""
    running = elastic(on=["n1", "n2", "n3"], most=3, gpus=2, saved_at=0.0)
    small = backfill("small", on=["n4"], gpus=4, team="vision", saved_at=0.0)
    firm = [gang(f"f{number}", team="gone", gpus=6, on=[f"n{number}"]) for number in (1, 2, 3)]
    seen = state(*nodes(3), node("n4", gpus=4), running, small, *firm, gang("g", gpus=2, submitted_at=1.0))
    assert shrunk(decide(seen, RULES, 100.0)) == {"el": ("n1",)}


def test_it_leaves_whole_where_its_members_are_not_enough() -> None:
    running = elastic(on=["n1", "n2", "n3"], least=2, most=3)
    fleet = virtual.cycle(virtual.fleet(RULES, *nodes(3), running, gang("g", nodes=2, submitted_at=1.0)))
    assert ([one.workload for one in fleet.drains], fleet.shrinks) == (["el"], ())


@pytest.mark.parametrize("job", [(), ("job",)], ids=["no other", "one that is not elastic"])
def test_beside_those_that_leave_whole_another_loses_only_members(job: tuple[str, ...]) -> None:
    three = elastic("three", on=["n1", "n2", "n3"], least=2, most=3)
    two = elastic("two", on=["n4", "n5"], gpus=4, least=1, most=2)
    beside = [backfill(name, on=["n4"], gpus=4, team="vision") for name in job]
    firm = gang("firm", team="serving", on=["n5"], gpus=4)
    asks = gang("g", nodes=4, submitted_at=1.0)
    fleet = virtual.cycle(virtual.fleet(RULES, *nodes(5), three, two, firm, *beside, asks))
    assert [one.workload for one in fleet.drains] == [*job, "three"]
    assert [(one.workload, one.nodes) for one in fleet.shrinks] == [("two", ("n4",))]


def test_what_shrank_to_its_minimum_for_one_leaves_whole_for_the_next_in_the_same_plan() -> None:
    running = elastic(on=["n1", "n2", "n3"], least=2, most=3)
    asks = [gang("g1", submitted_at=1.0), gang("g2", submitted_at=2.0)]
    fleet = virtual.cycle(virtual.fleet(RULES, *nodes(3), running, *asks, now=10.0))
    assert [one.beneficiary for one in fleet.shrinks] == ["g1"]
    assert [one.beneficiary for one in fleet.drains] == ["g2"]
    fleet = virtual.at_rest(fleet)
    assert {len(fleet.workload(name).nodes) for name in ("g1", "g2")} == {1}


def test_whose_members_may_not_be_asked_in_this_cycle_is_named_once() -> None:
    """R9."""
    rules = replace(RULES, drain=replace(RULES.drain, most_per_cycle=1))
    running = elastic(on=["n1", "n2", "n3"], most=3)
    asks = [gang("g1", submitted_at=1.0), gang("g2", submitted_at=2.0)]
    plan = decide(state(*nodes(3), running, *asks), rules, 10.0)
    assert list(shrunk(plan)) == ["el"]
    found = wait(plan, "g2")
    assert (found.reason, found.asked, found.blocked_by) == (Reason.DRAINS_LIMITED, 1, ("el",))


def test_a_replica_takes_members_too() -> None:
    serving = nodes(3, prefix="s", serving=True)
    running = elastic(on=["s1", "s2", "s3"], most=3)
    fleet = virtual.cycle(virtual.fleet(RULES, *serving, running, service("chat", gpus=8, wanted=2)))
    assert [(one.workload, len(one.nodes), one.beneficiary) for one in fleet.shrinks] == [("el", 1, "chat")] * 2
    assert len(virtual.at_rest(fleet).workload("el").nodes) == 1


def test_a_gang_of_several_shapes_takes_members_or_all() -> None:
    running = elastic(on=["n1", "n2", "n3"], least=2, most=3)
    one = gang("g", groups={"a": (1, shape(8)), "b": (1, shape(4))}, submitted_at=1.0)
    assert len(shrunk(decide(state(*nodes(4), running, one), RULES, 5.0))["el"]) == 1
    fleet = virtual.cycle(virtual.fleet(RULES, *nodes(3), running, one, now=5.0))
    assert [drained.workload for drained in fleet.drains] == ["el"]


def test_a_member_that_is_leaving_is_room_that_comes_and_is_not_asked_again() -> None:
    running = elastic(on=["n1", "n2"], least=1, most=2, going=["n1"], going_by=50.0)
    plan = decide(state(*nodes(2), running, gang("g", submitted_at=1.0)), RULES, 5.0)
    assert plan.actions == ()
    assert wait(plan, "g").reason is Reason.DRAIN_UNDER_WAY


GROWS = {
    "not on to nodes of the other class": (
        state(node("n1"), node("v1", serving=True), elastic(on=["n1"])),
        {},
    ),
    "but on its own class's": (
        state(node("n1"), node("n2"), node("v1", serving=True), elastic(on=["n1"])),
        {"el": ("n2",)},
    ),
    "nor at all once a node of it has crossed": (
        state(*nodes(2), node("v1", serving=True), node("v2", serving=True), elastic(on=["n1", "v1"])),
        {},
    ),
    "into room that is free": (state(*nodes(4), elastic(on=["n1"])), {"el": ("n2", "n3", "n4")}),
    "on to nodes that are booked later too, where it yields": (
        state(*nodes(2), booking("run", "n2", start_at=90_000.0, end_at=99_000.0), elastic(on=["n1"], most=2)),
        {"el": ("n2",)},
    ),
    "to no more than it asked for": (state(*nodes(4), elastic(on=["n1"], most=2)), {"el": ("n2",)}),
    "not when it has all": (state(*nodes(4), elastic(on=["n1", "n2"], most=2)), {}),
    "not before it runs": (state(*nodes(4), elastic(on=["n1"], phase=Phase.ADMITTED)), {}),
    "not while members leave": (state(*nodes(4), elastic(on=["n1", "n2"], going=["n2"], going_by=9.0)), {}),
    "not while it leaves": (state(*nodes(4), elastic(on=["n1"], phase=Phase.DRAINING, deadline_at=9.0)), {}),
    "not while somebody waits": (state(*nodes(4), elastic(on=["n1"]), gang("g", nodes=4)), {}),
    "also while somebody waits in vain": (
        state(*nodes(2), elastic(on=["n1"]), gang("g", nodes=400)),
        {"el": ("n2",)},
    ),
    "not while a replica waits": (
        state(*nodes(2), elastic(on=["n1"]), node("s1", serving=True, foreign=shape(8)), service("chat", wanted=1)),
        {},
    ),
    "a node of its own spine before one of an earlier spine": (
        state(
            node("n1", at="s2/l1"),
            node("a", at="s1/l1"),
            node("b", at="s2/l2"),
            elastic(on=["n1"], most=2),
        ),
        {"el": ("b",)},
    ),
    "the nearest nodes": (
        state(node("n1"), node("a", at="s1/l2"), node("z"), elastic(on=["n1"], most=2)),
        {"el": ("z",)},
    ),
    "in its own domain": (
        state(node("n1"), node("a", at="s1/l2"), elastic(on=["n1"], within="leaf")),
        {},
    ),
    "of its own kind": (state(node("n1"), node("n2", driver="560"), elastic(on=["n1"])), {}),
    "as far as its team may": (
        state(*nodes(9), elastic(on=["n1"], most=9), gang("firm", nodes=1, on=["n9"])),
        {"el": ("n2", "n3", "n4", "n5", "n6", "n7")},
    ),
    "the first of higher priority": (
        state(
            *nodes(3),
            elastic("low", on=["n1"], submitted_at=1.0),
            elastic("high", on=["n2"], submitted_at=2.0, priority=1_001),
        ),
        {"high": ("n3",)},
    ),
    "the first that was submitted first": (
        state(*nodes(3), elastic("late", on=["n1"], submitted_at=2.0), elastic("early", on=["n2"], submitted_at=1.0)),
        {"early": ("n3",)},
    ),
}


@pytest.mark.parametrize(("seen", "want"), GROWS.values(), ids=GROWS)
def test_it_grows(seen: FleetState, want: dict[str, tuple[str, ...]]) -> None:
    assert grown(decide(seen, RULES, 5.0)) == want


def test_committed_work_grows_inside_its_nominal() -> None:
    running = gang("el", on=["n1", "n2"], minimum=1, at_most=9)
    assert grown(decide(state(*nodes(9), running), RULES, 5.0)) == {"el": ("n3", "n4")}


def test_what_one_has_grown_by_another_of_its_team_may_not() -> None:
    """Q3: what its cohort would lend is not for what never yields."""
    rules = policy(team("research", nominal=24), team("vision", nominal=64))
    running = [gang(name, on=[f"n{n}"], minimum=1, at_most=3) for n, name in ((1, "first"), (2, "then"))]
    assert grown(decide(state(*nodes(9), *running), rules, 5.0)) == {"first": ("n3",)}


def test_a_lost_member_ends_all_of_it() -> None:
    """D3."""
    fleet = virtual.fleet(RULES, *nodes(2), elastic(on=["n1", "gone"]))
    fleet = virtual.left(virtual.cycle(fleet))
    assert fleet.workload("el").phase is Phase.QUEUED
    assert admitted(virtual.plan_of(fleet)) == {"el": 2}


def test_plans_of_fleets_without_elastic_work_are_as_they_were() -> None:
    plan = decide(state(*nodes(2), backfill("b", on=["n1"]), gang("g", nodes=2)), RULES, 0.0)
    assert not any(isinstance(action, Shrink | Grow) for action in plan.actions)
