"""Where a workload of one shape fits now, and who leaves so that it does (rules P1 to P4, R2 to R6, V9).

Knows the ledger and where it may run. Gives and asks nothing: whoever wants to know decides what comes of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet_app.engine import capping, placement, reclaim, reserving
from fleet_app.engine.eligibility import asker, depth, unreserved
from fleet_app.engine.fullness import tightness
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.reclaim import Eviction
from fleet_app.engine.rooms import rooms_of
from fleet_app.engine.uplinks import uplinks
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload


def now(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> tuple[str, ...] | None:
    """Return the nodes on which it fits now, in rank order; None where it does not, or its team may not take it."""
    if ledger.available(workload.team) < workload.gpus:
        return None
    fitting = unreserved(ledger, workload, rooms_of(ledger, workload.shape, nodes).now())
    used = uplinks(ledger, workload.bundles)
    return placement.place(fitting, workload.bundles, depth(ledger, workload), tightness(ledger, workload.shape), used)


def eviction(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> Eviction | None:
    """Return the nodes that it waits for and who leaves them, nobody where enough is coming; None where nothing helps.

    Of what is coming that which comes first (R6).
    """
    seeks = asker(ledger, workload)
    found = reclaim.find(ledger, seeks, nodes, reserving.is_free(ledger, workload))
    if found is not None and not found.victims:
        first = reserving.soonest(ledger, workload, nodes)
        found = found if first is None else reclaim.find(ledger, seeks, nodes, lambda node: node.name in first)
    if found is None and ledger.caps is not None:
        found = capping.eviction(ledger, workload, reserving.is_free(ledger, workload))
    return found
