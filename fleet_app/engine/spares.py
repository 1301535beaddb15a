"""Which nodes stay free of work that never yields, so that a gang that lost a node finds another (rule P8).

Knows nodes, who has them, and the policy. Does not know who asks: whoever yields may use them, and leaves again.
"""

from __future__ import annotations

from collections import defaultdict

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.values import Node, NodeClass
from fleet_app.engine.workload import Workload


def is_barred(ledger: Ledger, workload: Workload) -> bool:
    """Return whether spares are not for a workload: it never yields, and was not torn down."""
    return ledger.policy.spares.nodes > 0 and not workload.requeued and not ledger.class_of(workload).yields


def spares_of(ledger: Ledger) -> frozenset[str]:
    """Return the spares: in each domain of the level the last nodes in the fabric's order that have nothing firm.

    Sound nodes of training's, all of whose GPUs are the fleet's. The same throughout a decision.
    """
    known = ledger.memo.eligible.get(KEY)
    if known is None:
        known = ledger.memo.eligible[KEY] = _chosen(ledger)
    return frozenset(node.name for node in known)


KEY = "spares"


def _chosen(ledger: Ledger) -> list[Node]:
    rules = ledger.policy.spares
    depth = ledger.policy.levels.index(rules.level) + 1 if rules.level in ledger.policy.levels else 0
    firm = {name for one in ledger.holding if not ledger.class_of(one).yields for name in one.nodes}
    by_domain: dict[tuple[str, ...], list[Node]] = defaultdict(list)
    for node in ledger.placeable():
        able = node.node_class is NodeClass.TRAINING and node.name not in firm and not node.foreign.gpus
        if able and len(node.domains) >= depth:
            by_domain[node.domains[:depth]].append(node)
    return [node for domain in by_domain.values() for node in domain[-rules.nodes :]]
