"""The decision: facts in, one plan out. Read this first.

What must end ends, and what is unsound is kept out; serving takes what is its own; then the queue is served, in
order, on exact nodes. Everything that is not decided here is decided nowhere: the live arbiter, the twin and `explain`
call this function.
"""

from __future__ import annotations

from fleet_app.engine import admission, draining, health, relabelling, serving
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Plan, Wait
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState


def decide(state: FleetState, policy: Policy, now: float, watch: str | None = None) -> Plan:
    """Return what is to be done, held and waited for; the same for the same input, byte for byte (I9).

    `now` is in seconds since the epoch. `watch` names a workload whose wait is to say what each domain has.
    """
    ledger = Ledger(state, policy, now)
    outcome = [
        *draining.step(ledger),
        *health.step(ledger, state.failures, state.quarantines),
        *relabelling.step(ledger, state.crossings),
        *serving.step(ledger, state.services, state.growth_gpus),
        *admission.step(ledger, watch),
    ]
    waits = {part.workload: part for part in outcome if isinstance(part, Wait)}
    return Plan(
        actions=tuple(part for part in outcome if not isinstance(part, Wait)),
        holds=tuple(ledger.holds),
        waits=tuple(waits[name] for name in sorted(waits)),
    )
