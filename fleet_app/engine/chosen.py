"""Why who is asked to leave was chosen, and not another: the order of cost in words, with its numbers (rule R3).

Knows the state that a plan was made of, and the plan's drains. Chooses nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleet_app.engine import reclaim
from fleet_app.engine.eligibility import asker, serving_nodes
from fleet_app.engine.ends import spoken
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Drain, Plan
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.trial import Asker
from fleet_app.engine.values import NodeClass
from fleet_app.engine.workload import Workload


def choices(state: FleetState, policy: Policy, now: float, plan: Plan) -> dict[str, str]:
    """Return by victim why the plan drains it rather than another; nothing where it drains nobody.

    Who is in the way of a booking, of a node that goes, or of one that crosses does not depend on what it costs.
    """
    seekers = {one.name for one in state.workloads} | {one.name for one in state.services}
    seekers -= {one.name for one in state.bookings}
    drains = [one for one in plan.actions if isinstance(one, Drain) and one.beneficiary in seekers]
    if not drains:
        return {}
    ledger = Ledger(state, policy, now)
    known = {one.name: one for one in state.workloads}
    found: dict[str, str] = {}
    for name in sorted({drain.beneficiary for drain in drains}):
        victims = [known[drain.workload] for drain in drains if drain.beneficiary == name]
        stayed = _stayed(ledger, state, name, {drain.workload for drain in drains})
        found |= {victim.name: _sentence(ledger, victim, victims, stayed) for victim in victims}
    return found


def _stayed(ledger: Ledger, state: FleetState, beneficiary: str, drained: set[str]) -> list[Workload]:
    """Return who might have been asked instead, the cheapest first."""
    service = next((one for one in state.services if one.name == beneficiary), None)
    if service is not None:
        nodes = [node.name for node in serving_nodes(ledger)]
        seeks = Asker(name=service.name, team=service.team, priority=service.priority, shape=service.shape, anyone=True)
    else:
        nodes = [node.name for node in ledger.placeable() if node.node_class is NodeClass.TRAINING]
        seeks = asker(ledger, next(one for one in state.workloads if one.name == beneficiary))
    able = (one for one in reclaim.candidates(ledger, seeks, ledger.lodging(nodes)) if one.name not in drained)
    return sorted(able, key=lambda one: reclaim.cost(ledger, (one,)))


def _sentence(ledger: Ledger, victim: Workload, victims: Sequence[Workload], stayed: Sequence[Workload]) -> str:
    costs = f"it loses {_gpu_hours(ledger.lost_gpu_s(victim))} since its last checkpoint"
    together = f", with {_names(victims, victim)}" if len(victims) > 1 else ""
    if not stayed:
        return f"{costs}{together}; nobody else could be asked"
    other = stayed[0]
    others = f"of {len(stayed)} that stayed" if len(stayed) > 1 else "who stayed"
    if reclaim.cost(ledger, (other,)) < reclaim.cost(ledger, (victim,)):
        return f"{costs}{together}; {other.name}, the cheapest {others}, would not have been enough"
    return f"{costs}{together}; {other.name}, the cheapest {others}, {_dearer(ledger, other, victim)}"


def _dearer(ledger: Ledger, other: Workload, victim: Workload) -> str:
    """Return the first point of R3 in which another would have cost more."""
    lost, theirs = ledger.lost_gpu_s(victim), ledger.lost_gpu_s(other)
    borrowed, others = ledger.borrowed(victim.team), ledger.borrowed(other.team)
    if other.priority != victim.priority:
        return f"has a higher priority ({other.priority} against {victim.priority})"
    if lost != theirs:
        return f"would lose {_gpu_hours(theirs)}"
    if borrowed != others:
        return f"is of a team that borrows less ({others} GPUs against {borrowed} of team {victim.team})"
    if other.gpus != victim.gpus:
        return f"has more GPUs than would be needed ({other.gpus} against {victim.gpus})"
    if other.admitted_at != victim.admitted_at:
        return f"has run for longer ({spoken(ledger.now - (other.admitted_at or 0.0))})"
    return "is equal but for its name"


def _gpu_hours(gpu_s: float) -> str:
    return f"{gpu_s / 3600:.2f} GPU-hours"


def _names(victims: Iterable[Workload], victim: Workload) -> str:
    return ", ".join(sorted(one.name for one in victims if one is not victim))
