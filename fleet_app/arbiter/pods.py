"""Which pod is which node, which pool is which other's counterpart, and whether a node may get a workload. Pure.

Knows Ray's nodes and the pools as they were last seen. Does not know workloads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fleet_app.arbiter.ports import NodeView, PodView, PoolsView, PoolView
from fleet_app.engine.values import NodeClass
from fleet_app.worker import contract


def matched(nodes: Mapping[str, NodeView], view: PoolsView | None) -> dict[str, PodView]:
    """Return the pod of each living node, by the node's name.

    By the pod's name, where the node says it: also before the pod was seen. Else by its address, where that is nobody
    else's too.
    """
    if view is None:
        return {}
    by_name = {pod.name: pod for pod in view.pods}
    by_address = {pod.address: pod for pod in view.pods if pod.address}
    shared = Counter(pod.address for pod in view.pods)
    living = {name: node for name, node in nodes.items() if node.alive}
    shown = Counter(node.address for node in living.values())
    found: dict[str, PodView] = {}
    for name, node in living.items():
        told = node.labels.get(contract.POD_LABEL)
        if told:
            found[name] = by_name.get(told) or PodView(name=told, pool="")
        elif node.address in by_address and shared[node.address] == shown[node.address] == 1:
            found[name] = by_address[node.address]
    return found


def named(view: PoolsView | None, pods: Mapping[str, PodView], nodes: Iterable[str]) -> bool:
    """Return whether it is published of all of these nodes that they hold something: nobody may evict them then.

    Always where there are no pools.
    """
    if view is None:
        return True
    found = [pods.get(name) for name in nodes]
    return all(pod is not None and pod.name in view.held_pods for pod in found)


def counterpart(pools: Sequence[PoolView], pool: PoolView, to: NodeClass) -> PoolView | None:
    """Return the pool of a class that is as another is but for that; None when none or several are."""
    wanted = {**pool.labels, contract.CLASS_LABEL: to.value}
    found = [other for other in pools if dict(other.labels) == wanted]
    return found[0] if len(found) == 1 else None
