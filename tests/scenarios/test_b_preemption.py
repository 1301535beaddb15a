"""Scenarios B: preemption, flapping, starvation. Each test is a row of the table of other schedulers' faults."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.lifecycle import Event, Phase, after
from fleet_app.engine.ordering import queue
from fleet_app.engine.plan import Admit, Drain, Reason
from fleet_app.engine.policy import Affinity
from tests import virtual
from tests.builders import backfill, gang, grant, node, nodes, policy, service, state, team
from tests.scenarios.said import drains, leaves, reasons, starts, wait


@pytest.mark.parametrize(("kind", "want"), [(backfill, []), (gang, ["be1"])], ids=["borrower", "within nominal"])
def test_b1_fair_sharing_does_not_loop(kind: type, want: list[str]) -> None:
    fleet = virtual.fleet(
        policy(team("a", nominal=150), team("b", nominal=150), team("be", nominal=0)),
        node("n1", gpus=300),
        backfill("a1", team="a", gpus=250, on=["n1"]),
        backfill("be1", team="be", gpus=50, on=["n1"]),
        kind("a2", team="a", gpus=50, submitted_at=1.0),
    )
    fleet = virtual.at_rest(fleet)
    assert drains(fleet) == want
    assert ("a2" in fleet.running()) == bool(want)


def test_b3_giving_back_half_ends_there() -> None:
    fleet = virtual.fleet(
        policy(team("p1", nominal=4), team("p2", nominal=4)),
        node("n1", gpus=8),
        *(backfill(f"p1-{number}", team="p1", gpus=2, on=["n1"]) for number in range(4)),
    )
    fleet = virtual.at_rest(virtual.submitted(fleet, gang("p2-4", team="p2", gpus=4)))
    assert len(drains(fleet)) == 2
    fleet = virtual.at_rest(virtual.submitted(virtual.later(fleet, 1.0), gang("p2-3", team="p2", gpus=3)))
    assert len(drains(fleet)) == 2
    assert len(set(drains(fleet))) == 2


def test_b4_what_a_victim_frees_early_is_kept_until_the_last_has_left() -> None:
    fleet = virtual.fleet(
        policy(team("a", nominal=16), team("b", nominal=0), team("idle", nominal=16)),
        *nodes(2),
        backfill("v1", team="b", gpus=8, on=["n1"]),
        backfill("v2", team="b", gpus=8, on=["n2"]),
        gang("g", team="a", nodes=2),
    )
    fleet = virtual.cycle(fleet)
    assert drains(fleet) == ["v1", "v2"]
    fleet = virtual.left(virtual.later(fleet, 10.0), "v1")
    for _ in range(10):
        plan = virtual.plan_of(fleet)
        assert plan.actions == ()
        assert [(hold.node, hold.beneficiary, hold.shape.gpus) for hold in plan.holds] == [("n1", "g", 8)]
        assert reasons(plan) == {"g": Reason.DRAIN_UNDER_WAY, "v1": Reason.NO_ROOM}
        fleet = virtual.later(virtual.carried_out(fleet, plan), 10.0)
    fleet = virtual.cycle(virtual.left(fleet, "v2"))
    assert fleet.running() == {"g"}


def test_b5_a_hero_gets_its_victims_in_spite_of_small_competitors() -> None:
    fleet = virtual.fleet(
        policy(team("a", nominal=64), team("b", nominal=32), team("c", nominal=0)),
        *nodes(8),
        *(backfill(f"v{number}", team="c", gpus=8, on=[f"n{number}"]) for number in range(1, 9)),
        gang("hero", team="a", nodes=8),
    )
    for number in range(3):
        fleet = virtual.submitted(virtual.later(fleet, 1.0), gang(f"small-{number}", team="b", nodes=1))
        fleet = virtual.started(virtual.left(virtual.cycle(fleet)))
    assert "hero" in fleet.running()
    assert len(drains(fleet)) == 8


def test_b6_disjoint_victims_drain_side_by_side() -> None:
    fleet = virtual.fleet(
        policy(team("a", nominal=80), team("b", nominal=0)),
        *nodes(10),
        *(backfill(f"v{number}", team="b", gpus=8, on=[f"n{number}"], grace_s=120.0) for number in range(1, 11)),
        *(gang(f"ask-{number}", team="a") for number in range(10)),
    )
    plan = virtual.plan_of(fleet)
    assert len(leaves(plan)) == len(set(leaves(plan).values())) == 10
    assert {action.deadline_at for action in plan.actions if isinstance(action, Drain)} == {120.0}
    fleet = virtual.cycle(virtual.left(virtual.later(virtual.carried_out(fleet, plan), 120.0)))
    assert fleet.running() == {f"ask-{number}" for number in range(10)}


def test_b7_a_drain_that_was_not_carried_out_is_decided_again() -> None:
    fleet = virtual.fleet(
        policy(team("a", nominal=16), team("b", nominal=0)),
        *nodes(2),
        backfill("v1", team="b", gpus=8, on=["n1"]),
        backfill("v2", team="b", gpus=8, on=["n2"]),
        gang("g", team="a", nodes=2),
    )
    plan = virtual.plan_of(fleet)
    half = replace(plan, actions=plan.actions[:1])
    fleet = virtual.carried_out(fleet, half)
    assert leaves(virtual.plan_of(fleet)) == {"v2": "g"}
    gone = virtual.cancelled(fleet, "g")
    assert starts(virtual.plan_of(virtual.submitted(gone, gang("next", team="a")))) == {}
    assert leaves(virtual.plan_of(gone)) == {}


def test_b8_of_interchangeable_work_no_more_leaves_than_is_needed() -> None:
    eleven = [backfill(f"member-{number:02}", team="b", gpus=1, on=["n1"]) for number in range(11)]
    plan = decide(
        state(node("n1", gpus=11), *eleven, gang("reclaimer", team="a", gpus=1)),
        policy(team("a", nominal=11), team("b", nominal=0)),
        0.0,
    )
    assert len(leaves(plan)) == 1


def test_b8_an_elastic_gang_shrinks_to_no_less_than_its_minimum() -> None:
    elastic = backfill("elastic", team="b", gpus=8, on=[f"n{number}" for number in range(1, 12)], minimum=8)
    teams = policy(team("a", nominal=32), team("b", nominal=0), team("idle", nominal=88))
    fleet = virtual.fleet(teams, *nodes(11), elastic, gang("reclaimer", team="a"))
    fleet = virtual.at_rest(fleet)
    assert [len(told.nodes) for told in fleet.shrinks] == [1]
    assert (drains(fleet), len(fleet.workload("elastic").nodes)) == ([], 10)
    fleet = virtual.at_rest(virtual.submitted(fleet, gang("second", team="a", nodes=2)))
    assert (drains(fleet), len(fleet.workload("elastic").nodes)) == ([], 8)
    fleet = virtual.at_rest(virtual.submitted(fleet, gang("third", team="a")))
    assert drains(fleet) == ["elastic"]


def test_b9_what_is_leaving_anyway_is_waited_for() -> None:
    leaving = backfill("leaving", team="b", gpus=8, on=["n1"], phase=Phase.DRAINING, deadline_at=20.0)
    other = backfill("other", team="b", gpus=8, on=["n2"])
    teams = policy(team("a", nominal=8), team("b", nominal=0), team("idle", nominal=16))
    plan = decide(state(*nodes(2), leaving, other, gang("ask", team="a")), teams, 0.0)
    assert leaves(plan) == {}
    assert reasons(plan) == {"ask": Reason.DRAIN_UNDER_WAY}


def test_b11_a_blocked_head_does_not_hide_the_rest() -> None:
    busy = gang("busy", on=["n1"])
    asks = [gang("head", nodes=2, submitted_at=1.0), backfill("second", gpus=1)]
    plan = decide(state(*nodes(2), busy, *asks), policy(), 5.0)
    assert starts(plan) == {"second": ("n2",)}
    assert reasons(plan) == {"head": Reason.NO_ROOM}


def test_b13_scattered_victims_that_would_not_help_are_left_alone() -> None:
    high = [gang(f"high-{n}-{i}", gpus=1, on=[f"n{n}"]) for n in range(1, 5) for i in range(6)]
    low = [backfill(f"low-{n}-{i}", gpus=1, on=[f"n{n}"]) for n in range(1, 5) for i in range(2)]
    plan = decide(state(*nodes(4), *high, *low, gang("whole", submitted_at=1.0)), policy(team(nominal=64)), 5.0)
    assert leaves(plan) == {}
    assert reasons(plan) == {"whole": Reason.NO_ROOM}
    idle = state(*nodes(4), *high, *low[2:], gang("whole", submitted_at=1.0), gang("one", gpus=1, submitted_at=2.0))
    plan = decide(idle, policy(team(nominal=64)), 5.0)
    assert (starts(plan), leaves(plan)) == ({"one": ("n1",)}, {})


def test_b15_what_a_workload_must_not_meet_is_no_obstacle_once_it_has_gone() -> None:
    idle = service("chat", grants=[grant("spare", node="n1", occupied=False)])
    teams = policy(team("research", nominal=16), team("serving", nominal=2))
    fleet = virtual.fleet(teams, *nodes(2, serving=True), idle, backfill("pair", nodes=2, gpus=7))
    assert starts(virtual.plan_of(fleet)) == {"pair": ("n1", "n2")}
    occupied = service("chat", wanted=1, on=["n1"])
    assert starts(decide(state(*nodes(2, serving=True), occupied, backfill("pair", nodes=2, gpus=7)), teams, 0.0)) == {}


def test_b15_a_replica_that_another_must_not_meet_is_no_obstacle_once_it_has_gone() -> None:
    rules = replace(policy(), affinities=(Affinity(service="chat", apart_from=("other",)),))
    both = service("other", wanted=1, on=["n1"]), service("chat", wanted=1)
    fleet = virtual.fleet(rules, node("n1", serving=True), *both)
    assert reasons(virtual.plan_of(fleet)) == {"chat": Reason.APART}
    gone = virtual.at_rest(virtual.vacated(virtual.demanded(fleet, "other", 0), "other"))
    assert [grant.node for grant in gone.service("chat").grants] == ["n1"]


def test_b17_who_was_chosen_leaves_and_nobody_else() -> None:
    fleet = virtual.fleet(
        policy(team("a", nominal=8), team("b", nominal=0), team("idle", nominal=16)),
        *nodes(3),
        *(backfill(f"v{number}", team="b", gpus=8, on=[f"n{number}"]) for number in range(1, 4)),
        gang("g", team="a"),
    )
    planned = leaves(virtual.plan_of(fleet))
    fleet = virtual.at_rest(fleet)
    assert drains(fleet) == list(planned)
    assert len(planned) == 1


def test_b19_what_was_drained_is_back_in_the_queue_ahead_of_its_equals() -> None:
    assert after(Phase.DRAINING, Event.REQUEUE) is Phase.QUEUED
    drained = backfill("drained", submitted_at=5.0, requeued=True, attempt=2)
    earlier = backfill("earlier", submitted_at=1.0)
    assert [one.name for one in queue([earlier, drained])] == ["drained", "earlier"]


def test_b21_equal_states_have_equal_victims() -> None:
    parts = [*nodes(4), *(backfill(f"v{i}", team="b", gpus=8, on=[f"n{i}"]) for i in range(1, 5)), gang("g", team="a")]
    teams = policy(team("a", nominal=8), team("b", nominal=0))
    chance = Random(7)
    plans = {repr(decide(state(*chance.sample(parts, len(parts))), teams, 0.0)) for _ in range(20)}
    assert len(plans) == 1


def test_b23_impossible_gangs_do_not_keep_a_feasible_job_waiting() -> None:
    large = [gang(f"large-{number}", nodes=100 + number, submitted_at=float(number)) for number in range(1000)]
    plan = decide(state(*nodes(2), *large, gang("feasible", submitted_at=9999.0)), policy(), 1e4)
    assert starts(plan) == {"feasible": ("n1",)}
    assert wait(plan, "large-0").reason is Reason.TOO_LARGE_FOR_FLEET
    assert sum(isinstance(action, Admit) for action in plan.actions) == 1
