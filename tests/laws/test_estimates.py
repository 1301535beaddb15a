"""O9: if all goes as declared and nobody else comes, who waits starts when that was estimated, and else does not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hypothesis import assume, event, given
from hypothesis import strategies as st

from fleet_app.engine.expected import expected
from fleet_app.engine.plan import HOPELESS
from fleet_app.engine.policy import Ordering
from fleet_app.engine.workload import Workload
from tests import virtual
from tests.laws.effort import tries
from tests.strategies import whole_fleets, workloads
from tests.virtual import Fleet

STEP_S = 10.0
"""All that is declared in these fleets is a multiple of this."""
FAR_S = 450.0


def quiet(fleet: Fleet) -> Fleet:
    """Return the fleet once all was done that this moment allows: starts, and exits of those who have to be gone."""
    for _ in range(20):
        before = fleet
        fleet = virtual.replicas_started(virtual.started(virtual.cycle(fleet)))
        fleet = replace(fleet, workloads=tuple(map(partial(parted, now=fleet.now), fleet.workloads)))
        due = [
            one.name for one in fleet.workloads if one.leaving and (one.killed or (one.deadline_at or 0) <= fleet.now)
        ]
        fleet = virtual.left(fleet, *due) if due else fleet
        if fleet == before:
            return fleet
    raise AssertionError("never quiet")


def parted(one: Workload, now: float) -> Workload:
    """Return a workload without the members that have to have left, whether the rest leaves too or not."""
    if not one.going or (one.going_by or 0.0) > now:
        return one
    stay = tuple(node for node in one.nodes if node not in one.going)
    return replace(one, nodes=stay, going=(), going_by=None, going_for=None)


def with_ends(fleet: Fleet) -> Fleet:
    """Return the fleet with everybody gone before long who is admitted."""
    declared = (
        replace(one, max_run_s=min(150.0, one.max_run_s or 100.0), grace_s=min(one.grace_s, 120.0))
        for one in fleet.workloads
    )
    return replace(fleet, workloads=tuple(declared))


def replicas(fleet: Fleet, name: str) -> int:
    """Return for how many replicas the service of that name has a place, if there is one."""
    return sum(len(one.grants) for one in fleet.services if one.name == name)


@tries(100)
@given(
    fleet=whole_fleets(),
    later=st.lists(workloads("later", ("spine", "leaf")), min_size=2, max_size=6),
    ends=st.booleans(),
    which=st.integers(0, 12),
)
def test_an_estimate_comes_true(fleet: Fleet, later: list[Workload], ends: bool, which: int) -> None:
    fleet = virtual.with_policy(fleet, replace(fleet.policy, ordering=Ordering()))
    fleet = virtual.later(quiet(with_ends(fleet) if ends else fleet), 2 * STEP_S)
    fleet = virtual.submitted(fleet, *(replace(one, name=f"l{place}") for place, one in enumerate(later)))
    fleet = with_ends(fleet) if ends else fleet
    waiting = [one.workload for one in virtual.plan_of(fleet).waits if one.reason not in HOPELESS]
    assume(waiting)
    name = waiting[which % len(waiting)]
    had = replicas(virtual.cycle(fleet), name)
    found = expected(fleet.state, fleet.policy, fleet.now, name)
    event("known" if found is not None and found.at is not None else "unknown")
    start = fleet.now
    while fleet.now <= start + FAR_S:
        fleet = quiet(fleet)
        if any(one.name == name and one.holding for one in fleet.workloads) or replicas(fleet, name) > had:
            assert found is not None
            assert found.at == fleet.now, found
            event("came true" if fleet.now > start else "at once")
            return
        fleet = virtual.later(fleet, STEP_S)
    assert found is None or found.at is None or found.at > start + FAR_S, found
