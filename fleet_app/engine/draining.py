"""What ends without anybody asking for its room: deadlines that passed, nodes that were lost (rules D2, D3).

Knows running workloads, their nodes and deadlines. Does not choose victims.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Kill, Lose
from fleet_app.engine.workload import Workload


def step(ledger: Ledger) -> Iterator[Kill | Lose]:
    """Yield the end of what lost a node, and of what is past its deadline, once each."""
    for workload in ledger.workloads.values():
        if not workload.holding or workload.killed:
            continue
        lost = _lost_node(ledger, workload)
        if lost is not None and workload.phase is not Phase.STOPPING:
            if not workload.leaving:
                ledger.release_soon(workload)
            yield Lose(workload=workload.name, node=lost, why=f"node {lost} is gone; a gang lives whole or not at all")
        elif workload.phase is Phase.DRAINING and _due(ledger, workload):
            yield Kill(workload=workload.name, why="the drain's deadline has passed")


def _lost_node(ledger: Ledger, workload: Workload) -> str | None:
    return next((name for name in workload.nodes if ledger.gone(name)), None)


def _due(ledger: Ledger, workload: Workload) -> bool:
    return workload.deadline_at is not None and workload.deadline_at <= ledger.now
