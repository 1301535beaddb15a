"""What a plan says, in the words of the scenarios: who starts where, who has to leave for whom, who waits and why."""

from __future__ import annotations

from fleet_app.engine.plan import Admit, Drain, Plan, Reason, Wait
from tests.virtual import Fleet


def starts(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the nodes of every workload that is admitted."""
    return {action.workload: action.nodes for action in plan.actions if isinstance(action, Admit)}


def leaves(plan: Plan) -> dict[str, str]:
    """Return for whom every drained workload has to leave."""
    return {action.workload: action.beneficiary for action in plan.actions if isinstance(action, Drain)}


def wait(plan: Plan, name: str) -> Wait:
    """Return why a workload or service waits."""
    return next(one for one in plan.waits if one.workload == name)


def reasons(plan: Plan) -> dict[str, Reason]:
    """Return the reason of every wait."""
    return {one.workload: one.reason for one in plan.waits}


def drains(fleet: Fleet) -> list[str]:
    """Return who was asked to leave so far, once for each time."""
    return [drained.workload for drained in fleet.drains]
