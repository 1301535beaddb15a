"""Interactive sessions that nobody uses end (rules W1, W3).

Knows running workloads and what was measured of them. Does not know who waits: an idle session ends all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet_app.engine.ends import grace_s, spoken
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Expire
from fleet_app.engine.telemetry import Usage
from fleet_app.engine.workload import Workload


def step(ledger: Ledger, measured: Sequence[Usage]) -> Iterator[Expire]:
    """Yield the end of every session that was idle for as long as the policy allows."""
    sessions = {one.name: one for one in ledger.holding if one.interactive}
    for usage in sorted(measured, key=lambda one: one.subject):
        session = sessions.get(usage.subject)
        if session is not None and _is_idle(ledger, session, usage):
            idle_s = usage.measured_s(session.started_at or 0.0, ledger.now)
            deadline_at = ledger.now + grace_s(ledger.policy.drain, session)
            ledger.release_soon(session)
            why = f"it was idle for {spoken(idle_s)}: at most {usage.sm_active_percent} % of its GPUs were used"
            yield Expire(workload=session.name, deadline_at=deadline_at, why=why)


def _is_idle(ledger: Ledger, session: Workload, usage: Usage) -> bool:
    rules = ledger.policy.idle
    runs = session.started_at is not None and not session.leaving and session.name not in ledger.leaving
    if not runs or usage.sm_active_percent > rules.used_percent:
        return False
    return usage.measured_s(session.started_at or 0.0, ledger.now) >= rules.after_s
