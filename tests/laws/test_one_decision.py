"""Laws of a single decision: on fleets with any past, on fleets full of victims, where replicas contend for room."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from fleet_app.engine.workload import Service, Workload
from tests.laws.effort import tries
from tests.laws.reference import case_of, check
from tests.strategies import contested, crowded, fleets
from tests.virtual import Fleet


@tries(300)
@given(fleet=fleets())
def test_every_decision_keeps_every_law(fleet: Fleet) -> None:
    check(case_of(fleet))


@tries(200)
@given(crowd=crowded(most=12))
def test_every_reclaim_keeps_every_law(crowd: tuple[Fleet, Workload | Service]) -> None:
    fleet, asker = crowd
    if isinstance(asker, Service):
        fleet = replace(fleet, services=(asker,))
    else:
        fleet = replace(fleet, workloads=(*fleet.workloads, asker))
    check(case_of(fleet))


@tries(200)
@given(fleet=contested())
def test_every_contest_between_services_keeps_every_law(fleet: Fleet) -> None:
    check(case_of(fleet))
