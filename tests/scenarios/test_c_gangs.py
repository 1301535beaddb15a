"""Scenarios C: gangs and deadlock. Each test is a row of the table of other schedulers' faults."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Lose, Quarantine, Reason
from fleet_app.engine.values import Condition
from tests import virtual
from tests.builders import gang, node, nodes, policy, shape, state, team
from tests.scenarios.said import reasons, starts

EVERYBODY = policy(team("research", nominal=1000))


def test_c1_sixty_jobs_on_two_nodes_never_wedge() -> None:
    chance = Random(60)
    jobs = [gang(f"job-{number:02}", nodes=chance.choice([1, 2]), gpus=chance.randint(1, 8)) for number in range(60)]
    fleet = virtual.fleet(EVERYBODY, *nodes(2), *jobs)
    while fleet.workloads:
        fleet = virtual.started(virtual.cycle(fleet))
        assert fleet.running(), virtual.plan_of(fleet).waits
        for name in sorted(fleet.running()):
            fleet = virtual.completed(fleet, name)


def test_c3_a_gang_of_two_with_one_node_busy_binds_nothing() -> None:
    plan = decide(state(*nodes(2), gang("busy", on=["n1"]), gang("pair", nodes=2, submitted_at=1.0)), EVERYBODY, 5.0)
    assert (plan.actions, plan.holds) == ((), ())
    assert reasons(plan) == {"pair": Reason.NO_ROOM}


def test_c5_two_gangs_that_lost_both_nodes_do_not_recover_half_each() -> None:
    gangs = [gang(name, gpus=4, on=["n1", "n2"]) for name in ("g1", "g2")]
    fleet = virtual.fleet(EVERYBODY, *(node(name, condition=Condition.DOWN) for name in ("n1", "n2")), *gangs)
    fleet = virtual.left(virtual.cycle(fleet))
    fleet = virtual.with_node(fleet, node("n1"))
    plan = virtual.plan_of(fleet)
    assert (plan.actions, plan.holds) == ((), ())
    fleet = virtual.cycle(virtual.with_node(fleet, node("n2", foreign=shape(4))))
    assert fleet.workload("g1").nodes == ("n1", "n2")
    assert fleet.workload("g2").nodes == ()
    assert virtual.plan_of(fleet).holds == ()


def test_c6_what_was_torn_down_comes_before_a_filler_that_waited_longer() -> None:
    fleet = virtual.fleet(
        EVERYBODY,
        node("n1"),
        node("n2", condition=Condition.DOWN),
        gang("filler", submitted_at=1.0),
        gang("pair", on=["n1", "n2"], submitted_at=2.0),
    )
    fleet = virtual.left(virtual.cycle(fleet), "pair")
    fleet = virtual.cycle(virtual.with_node(fleet, node("n2")))
    assert fleet.running() == {"pair"}


@pytest.mark.parametrize(("count", "want"), [(19, 0), (20, 20)])
def test_c7_all_twenty_start_or_none(count: int, want: int) -> None:
    plan = decide(state(*nodes(count), *nodes(1, prefix="down"), gang("twenty", nodes=20)), EVERYBODY, 0.0)
    assert len(starts(plan).get("twenty", ())) == 20
    down = node("down1", condition=Condition.DOWN)
    plan = decide(state(*nodes(count), down, gang("twenty", nodes=20)), EVERYBODY, 0.0)
    assert len(starts(plan).get("twenty", ())) == want


@pytest.mark.parametrize(("count", "want"), [(5, 0), (6, 6)])
def test_c9_a_gang_of_two_groups_starts_only_with_both_minima(count: int, want: int) -> None:
    both = gang("both", groups={"a": (2, shape(8)), "b": (4, shape(4))})
    plan = decide(state(*nodes(count), gang("off", on=["elsewhere"]), both), EVERYBODY, 0.0)
    assert len(starts(plan).get("both", ())) == want
    assert plan.holds == ()


def test_c11_a_shape_is_not_refused_because_another_was() -> None:
    teams = policy(team("research", nominal=64))
    asks = [gang("a", gpus=0, cpus=65), gang("b", gpus=8, submitted_at=1.0)]
    plan = decide(state(node("n1", cpus=64), *asks), teams, 5.0)
    assert starts(plan) == {"b": ("n1",)}
    assert reasons(plan) == {"a": Reason.TOO_LARGE_FOR_FLEET}


def test_c11_a_group_is_tried_where_another_of_its_gang_does_not_fit() -> None:
    large = [node(f"gpu{number}", cpus=4) for number in (1, 2)]
    both = gang("both", groups={"a": (1, shape(0, cpus=32)), "b": (2, shape(8, cpus=4))})
    plan = decide(state(*large, node("cpu1", gpus=0, cpus=64), both), EVERYBODY, 0.0)
    assert starts(plan) == {"both": ("cpu1", "gpu1", "gpu2")}


def test_c13_quota_and_room_are_held_until_the_last_process_has_gone() -> None:
    teams = policy(team("research", nominal=8))
    fleet = virtual.cancelled(virtual.fleet(teams, *nodes(2), gang("old", on=["n1"]), gang("new")), "old")
    assert reasons(virtual.plan_of(fleet)) == {"new": Reason.QUOTA_USED}
    assert starts(virtual.plan_of(virtual.left(fleet, "old"))) == {"new": ("n1",)}


def test_c15_a_gang_is_all_in_or_all_out_in_one_plan() -> None:
    first, second = gang("first", nodes=2), gang("second", nodes=2, submitted_at=1.0)
    plan = decide(state(*nodes(3), first, second), EVERYBODY, 5.0)
    assert {name: len(found) for name, found in starts(plan).items()} == {"first": 2}
    assert (plan.holds, reasons(plan)) == ((), {"second": Reason.NO_ROOM})


def test_c17_a_second_loss_during_the_first_changes_nothing() -> None:
    fleet = virtual.fleet(EVERYBODY, *nodes(4), gang("pair", on=["n1", "n2"]))
    fleet = virtual.with_node(fleet, node("n1", condition=Condition.DOWN))
    assert [type(action) for action in virtual.plan_of(fleet).actions] == [Lose]
    fleet = virtual.with_node(virtual.cycle(fleet), node("n2", condition=Condition.DOWN))
    assert [type(action) for action in virtual.plan_of(fleet).actions] == [Quarantine]
    fleet = virtual.cycle(virtual.left(fleet, "pair"))
    assert fleet.workload("pair").nodes == ("n3", "n4")
    assert fleet.workload("pair").phase is Phase.ADMITTED
    assert replace(fleet.workload("pair"), attempt=1).requeued
