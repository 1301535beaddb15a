"""What the arbiter's service account may do on Kubernetes: exactly what the arbiter calls, and no more.

Data, for the chart's roles and for the tests that compare with it what is really called. Does not know how a role is
written.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet_app.render import names


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What may be done to things of one resource; with `only`, to the one of that name alone.

    `everywhere` is whether it is of the whole cluster: a ClusterRole's. Others are of the fleet's own namespace.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    only: str = ""
    everywhere: bool = False


def rules(cluster: str) -> tuple[Rule, ...]:
    """Return the rules for the arbiter of the RayCluster of that name.

    Who deletes pods is KubeRay's operator: here they are read, and labelled when they take requests. Nodes are patched
    when they go to the other class. Creating cannot be bound to a name.
    """
    held = names.held_map(cluster)
    return (
        Rule(group="", resource="pods", verbs=("list", "patch")),
        Rule(group="", resource="configmaps", verbs=("create",)),
        Rule(group="", resource="configmaps", verbs=("get", "patch"), only=held),
        Rule(group="ray.io", resource="rayclusters", verbs=("get", "patch"), only=cluster),
        Rule(group="", resource="nodes", verbs=("get", "list", "patch"), everywhere=True),
    )
