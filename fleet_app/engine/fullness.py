"""Which of the nodes that do is taken first by what starts now: the fullest, or as the policy packs (P2, P10, P11).

Knows the ledger's room and the policy's packing. Does not know domains or workloads.
"""

from __future__ import annotations

from collections.abc import Callable

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.values import Node, NodeClass

Order = Callable[[Node], tuple[int, ...]]
"""What sorts nodes, the one to be taken first lowest; of equals the first in the fabric's order."""


def tightness(ledger: Ledger) -> Order:
    """Return what puts serving's nodes first, and among equals the fullest, or with first fit none before another."""
    if ledger.policy.packing.first_fit:
        return lambda node: (node.node_class is NodeClass.TRAINING,)
    free = ledger.free
    return lambda node: (node.node_class is NodeClass.TRAINING, free[node.name].gpus)


def emptiness(ledger: Ledger) -> Order | None:
    """Return what puts the emptiest nodes first, where the policy wants that for the smaller bundles of a gang."""
    if not ledger.policy.packing.rest_emptiest:
        return None
    free = ledger.free
    return lambda node: (-free[node.name].gpus,)
