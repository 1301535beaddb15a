"""D6: to ask somebody to move changes no decision: nobody waits for its room, and no start is planned on it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given

from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Move, Plan
from fleet_app.engine.workload import Workload
from tests.laws.effort import tries
from tests.strategies import fleets
from tests.virtual import Fleet, asked_to_move, plan_of


def not_asked(one: Workload) -> Workload:
    """Return a workload as if nobody had asked it to move."""
    phase = Phase.ADMITTED if one.started_at is None else Phase.RUNNING
    return replace(one, phase=phase, drained_for=None) if one.moving else one


@tries(300)
@given(fleet=fleets())
def test_a_plan_is_the_same_whoever_was_asked_to_move(fleet: Fleet) -> None:
    calm = replace(fleet, workloads=tuple(map(not_asked, fleet.workloads)))
    asked = calm
    for one in calm.workloads:
        if one.phase in {Phase.ADMITTED, Phase.RUNNING} and not one.killed:
            asked = asked_to_move(asked, one.name)
    event("some" if asked != calm else "nobody")
    assert beside_moves(fleet) == beside_moves(calm) == beside_moves(asked)


def beside_moves(fleet: Fleet) -> Plan:
    """Return what is decided, but for whom to ask to move: who was asked is not asked again."""
    plan = plan_of(fleet)
    return replace(plan, actions=tuple(action for action in plan.actions if not isinstance(action, Move)))
