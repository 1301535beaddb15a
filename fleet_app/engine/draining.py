"""What ends without anybody asking for its room: deadlines and run times that are over, lost nodes (rules D2, D3, D5).

Knows running workloads, their nodes, deadlines and limits. Does not choose victims.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet_app.engine.ends import grace_s, limit_at, over
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Expire, Kill, Lose
from fleet_app.engine.workload import Workload


def step(ledger: Ledger) -> Iterator[Expire | Kill | Lose]:
    """Yield the end of what lost a node, of what is past its deadline or its maximum run time, once each."""
    for workload in ledger.may_end():
        if workload.killed:
            continue
        lost = _lost_node(ledger, workload)
        if lost is not None and workload.phase is not Phase.STOPPING:
            if not workload.leaving:
                ledger.release_soon(workload)
            yield Lose(workload=workload.name, node=lost, why=f"node {lost} is gone; a gang lives whole or not at all")
        elif workload.phase is Phase.DRAINING and _due(ledger, workload):
            late = f"{over(workload)}, and so is its grace" if workload.expired else "the drain's deadline has passed"
            yield Kill(workload=workload.name, why=late)
        elif workload.max_run_s is not None and not workload.leaving and _over(ledger, workload):
            ledger.release_soon(workload)
            deadline_at = ledger.now + grace_s(ledger.policy.drain, workload)
            yield Expire(workload=workload.name, deadline_at=deadline_at, why=over(workload))


def _lost_node(ledger: Ledger, workload: Workload) -> str | None:
    for name in workload.nodes:
        if ledger.gone(name):
            return name
    return None


def _due(ledger: Ledger, workload: Workload) -> bool:
    return workload.deadline_at is not None and workload.deadline_at <= ledger.now


def _over(ledger: Ledger, workload: Workload) -> bool:
    limit = limit_at(workload)
    return limit is not None and limit <= ledger.now
