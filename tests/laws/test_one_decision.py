"""Laws of a single decision: on fleets with any past, on fleets full of victims, where replicas contend for room."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given

from fleet_app.engine.decide import decide
from fleet_app.engine.plan import HOPELESS
from fleet_app.engine.workload import Service, Workload
from tests.laws.effort import tries
from tests.laws.reference import case_of, check
from tests.strategies import asking, contested, contested_slices, crowded, in_motion, pasts, scattered
from tests.virtual import Fleet, plan_of


@tries(200)
@given(past=pasts())
def test_every_decision_keeps_every_law(past: list[Fleet]) -> None:
    for fleet in past:
        check(case_of(fleet))


@tries(200)
@given(crowd=crowded(most=12))
def test_every_reclaim_keeps_every_law(crowd: tuple[Fleet, Workload | Service]) -> None:
    check(case_of(asking(*crowd)))


@tries(200)
@given(fleet=contested())
def test_every_contest_between_services_keeps_every_law(fleet: Fleet) -> None:
    check(case_of(fleet))


@tries(150)
@given(fleet=contested_slices())
def test_every_contest_for_slices_keeps_every_law(fleet: Fleet) -> None:
    check(case_of(fleet))


@tries(150)
@given(fleet=scattered())
def test_every_gang_among_scattered_nodes_keeps_every_law(fleet: Fleet) -> None:
    check(case_of(fleet))


@tries(100)
@given(fleet=in_motion())
def test_all_that_is_set_in_motion_by_plan_keeps_every_law(fleet: Fleet) -> None:
    check(case_of(fleet))


@tries(200)
@given(past=pasts())
def test_what_is_called_hopeless_would_not_start_on_an_empty_fleet_either(past: list[Fleet]) -> None:
    """O3: who is passed by all others for good is one that no end of anybody's would help."""
    for fleet in past:
        for wait in plan_of(fleet).waits:
            if wait.reason not in HOPELESS or wait.workload not in {one.name for one in fleet.workloads}:
                continue
            event(wait.reason)
            alone = tuple(one for one in fleet.workloads if one.name == wait.workload)
            empty = replace(fleet.state, workloads=alone, services=())
            assert [one.reason for one in decide(empty, fleet.policy, fleet.now).waits] == [wait.reason]
