"""Where a service's next replica must not be, and over which domains its replicas are spread (rule S8).

Knows the affinities of services, and who has grants where: what has left counts no more. Does not know room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fleet_app.engine.needs import Need
from fleet_app.engine.values import Node

NOWHERE: frozenset[str] = frozenset()


def barred(need: Need) -> frozenset[str]:
    """Return the nodes on which one more replica must not be."""
    if need.affinity is None and not need.apart:
        return NOWHERE
    found = {grant.node for other in need.apart for grant in other.kept}
    most = None if need.affinity is None else need.affinity.per_node
    if most is not None:
        found |= {node for node, count in Counter(grant.node for grant in need.kept).items() if count >= most}
    return frozenset(found)


def among(nodes: Sequence[Node], off: frozenset[str]) -> Sequence[Node]:
    """Return the nodes that are not barred."""
    return [node for node in nodes if node.name not in off] if off else nodes


def crowds(need: Need, nodes: Mapping[str, Node], options: Iterable[Node]) -> dict[str, int]:
    """Return for each node how many replicas of the service its domain has, of the level over which it is spread."""
    depth = need.spread_depth
    if not depth:
        return {}
    own = Counter(nodes[grant.node].domains[:depth] for grant in need.kept if grant.node in nodes)
    return {node.name: own[node.domains[:depth]] for node in options}
