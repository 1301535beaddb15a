"""I6: constant input comes to rest; nobody is drained twice for it, or is back before who took its place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.plan import Admit, Drain, Plan, Reason
from tests import virtual
from tests.laws.effort import tries
from tests.laws.reference import case_of, check
from tests.strategies import contested, contested_slices, fleets
from tests.virtual import Fleet, plan_of

MOST_CYCLES = 25
"""Far beyond what fleets of six nodes and ten workloads need when every cycle gets on with it."""


@tries(200)
@given(
    fleet=st.one_of(fleets(), contested(), contested(), contested_slices()),
    slow=st.lists(st.integers(0, 3), min_size=10, max_size=10),
)
def test_constant_input_comes_to_rest(fleet: Fleet, slow: list[int]) -> None:
    drains_before, shrinks_before = len(fleet.drains), len(fleet.shrinks)
    for number in range(MOST_CYCLES):
        plan = plan_of(fleet)
        check(case_of(fleet))
        assert_nobody_takes_the_place_of_its_displacer(fleet, plan)
        after = went_on(virtual.carried_out(fleet, plan), number, slow)
        if after == fleet and not any(one.leaving or one.going for one in fleet.workloads):
            break
        fleet = virtual.later(after, 1.0) if number % 5 == 4 else after
    else:
        raise AssertionError(f"still acting: {plan.actions}")
    asked = [drained.workload for drained in fleet.drains[drains_before:]]
    assert len(asked) == len(set(asked)), f"drained twice: {sorted(asked)}"
    members = [(told.workload, node) for told in fleet.shrinks[shrinks_before:] for node in told.nodes]
    assert len(members) == len(set(members)), f"a member was asked twice: {sorted(members)}"


def went_on(fleet: Fleet, number: int, slow: list[int]) -> Fleet:
    """Start what was admitted and what was granted; let who has to leave do so, some later than others."""
    for place, one in enumerate(fleet.workloads):
        if (one.leaving or one.going) and number % 4 >= slow[place % len(slow)]:
            fleet = virtual.left(fleet, one.name)
    return virtual.replicas_started(virtual.started(virtual.recut(fleet)))


def assert_nobody_takes_the_place_of_its_displacer(fleet: Fleet, plan: Plan) -> None:
    """Who was drained for somebody that still waits starts only if that one needs no further victims for it."""
    waiting = {wait.workload for wait in plan.waits if wait.reason is Reason.DRAIN_UNDER_WAY}
    drained_for = {one.workload: one.beneficiary for one in fleet.drains}
    newly = {action.beneficiary for action in plan.actions if isinstance(action, Drain)}
    for action in plan.actions:
        if isinstance(action, Admit) and drained_for.get(action.workload) in waiting:
            assert drained_for[action.workload] not in newly, f"{action.workload} is back before its displacer"
