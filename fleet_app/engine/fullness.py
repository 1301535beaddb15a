"""Which of the nodes that do is taken first by what starts now: the fullest, or as the policy packs (P2, P10 to P13).

Knows the ledger's room and the policy's packing. Does not know domains or workloads.
"""

from __future__ import annotations

from collections.abc import Callable

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.values import Node, NodeClass, Shape

Order = Callable[[Node], tuple[int, ...]]
"""What sorts nodes, the one to be taken first lowest; of equals the first in the fabric's order."""


def tightness(ledger: Ledger, shape: Shape) -> Order:
    """Return what puts serving's nodes first, and among equals the fullest, or with first fit none before another.

    Where the policy says how many CPUs a free GPU needs, those come first on which the shape makes the fewest useless.
    """
    if ledger.policy.packing.cpu_milli_per_gpu:
        return _sparing(ledger, shape)
    training, free = NodeClass.TRAINING, ledger.free
    if ledger.policy.packing.first_fit:
        return lambda node: (node.node_class is training,)
    return lambda node: (node.node_class is training, free[node.name].gpus)


def _sparing(ledger: Ledger, shape: Shape) -> Order:
    free, first_fit = ledger.free, ledger.policy.packing.first_fit

    def order(node: Node) -> tuple[int, ...]:
        gpus = 0 if first_fit else free[node.name].gpus
        return (node.node_class is NodeClass.TRAINING, made_useless(ledger, node, shape), gpus)

    return order


def made_useless(ledger: Ledger, node: Node, shape: Shape) -> int:
    """Return how many more free GPUs of a node lack CPUs with a shape there, below 0 where it uses such up (P13)."""
    per_gpu, free = ledger.policy.packing.cpu_milli_per_gpu, ledger.free[node.name]
    return _useless(free - shape, per_gpu) - _useless(free, per_gpu) if per_gpu else 0


def _useless(room: Shape, cpu_milli_per_gpu: int) -> int:
    return max(0, room.gpus - max(0, room.cpu_milli) // cpu_milli_per_gpu)


def emptiness(ledger: Ledger) -> Order | None:
    """Return what puts the emptiest nodes first, where the policy wants that for the smaller bundles of a gang."""
    if not ledger.policy.packing.rest_emptiest:
        return None
    free = ledger.free
    return lambda node: (-free[node.name].gpus,)
