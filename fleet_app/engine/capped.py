"""Who may have no more whole GPUs of an accelerator (rule V9).

Knows the caps and where a workload may run. Does not know room on nodes, nor who could leave.
"""

from __future__ import annotations

from fleet_app.engine import caps
from fleet_app.engine.eligibility import uncapped
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Reason, Wait
from fleet_app.engine.workload import Workload


def refusal(ledger: Ledger, workload: Workload) -> Wait | None:
    """Return the refusal of what would be too many GPUs of every accelerator that it may have; `level` names one."""
    assert ledger.caps is not None
    nodes = uncapped(ledger, workload)
    able = sorted({node.accelerator for node in nodes if workload.shape.gpus <= node.capacity.gpus})
    if not able or any(ledger.caps.allows(workload.team, one, workload.gpus) for one in able):
        return None
    left = {one: gpus for one in able if (gpus := ledger.caps.left(workload.team, one)) is not None}
    most = {one: gpus for one in able if (gpus := ledger.caps.most(workload.team, one)) is not None}
    ever = [one for one in able if most[one] >= workload.gpus]
    best = max(ever or able, key=lambda one: (left[one] if ever else most[one], one))
    return Wait(
        workload=workload.name,
        reason=Reason.QUOTA_USED if ever else Reason.TOO_LARGE_FOR_QUOTA,
        asked=workload.gpus,
        available=max(0, left[best] if ever else most[best]),
        level=caps.flavor(best),
    )


def is_cap(wait: Wait) -> bool:
    """Return whether a wait is for a cap."""
    return wait.reason is Reason.QUOTA_USED and wait.level is not None
