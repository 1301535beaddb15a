"""What cards are cut into on Kubernetes: the label of a node that NVIDIA's MIG manager reacts to.

The names of configurations are those that its default ConfigMap has for cards that are all alike (GPU Operator, "GPU
Operator with MIG"; mig-parted): `all-disabled`, `all-1g.10gb`. It applies one while no process uses a GPU of the node;
afterwards the device plugin counts other resources, and the Ray pod that is to use them is one of another worker group.
Does not know what cards are used for, nor what else becomes of the node.
"""

from __future__ import annotations

from fleet_app.adapters import kube_client, kube_nodes
from fleet_app.adapters.kube_client import MERGE_PATCH, Kube
from fleet_app.arbiter.ports import NodeView
from fleet_app.engine.errors import FaultError, RequestError
from fleet_app.engine.layouts import SHARED, Layout
from fleet_app.render import names

WHOLE = "all-disabled"

ANSWER_S = 1.0
"""How long an answer may take: the arbiter waits for it."""


def config_of(layouts: tuple[Layout, ...]) -> str:
    """Return the configuration under which all cards of a node have these layouts. Raises RequestError."""
    kinds = set(layouts)
    if kinds == {()}:
        return WHOLE
    pieces = {piece for layout in kinds for piece in layout}
    if len(kinds) == 1 and len(pieces) == 1 and SHARED not in pieces:
        return f"all-{min(pieces)}"
    said = ", ".join("+".join(layout) or "whole" for layout in sorted(kinds))
    raise RequestError(
        f"the MIG manager cuts all cards of a node alike, into partitions of one profile: not {said}",
        where="slicing.together",
        fix="Write together: node; to share cards, label the nodes that do in their pool",
    )


class KubeCards:
    """The Kubernetes nodes that the workers of the RayCluster of that name are on."""

    def __init__(self, kube: Kube, cluster: str, namespace: str) -> None:
        """Ask nobody yet."""
        self._kube = kube
        self._cluster = cluster
        self._namespace = namespace

    def repartition(self, node: NodeView, layouts: tuple[Layout, ...]) -> None:
        """Label the Kubernetes node of a Ray node so that the MIG manager gives its cards these layouts.

        Raises RequestError, FaultError.
        """
        config = config_of(layouts)
        ours = f"{kube_nodes.CLUSTER_LABEL}={self._cluster},{kube_nodes.TYPE_LABEL}=worker"
        found = self._kube.ask(self._kube.core.list_namespaced_pod, self._namespace, label_selector=ours)
        pods = (pod.view for pod in kube_nodes.worker_pods(found))
        machines = {pod.machine for pod in pods if pod.machine and pod.address and pod.address == node.address}
        if len(machines) != 1:
            raise FaultError("no worker's pod has its address", where=node.address or node.node_id)
        patch = {"metadata": {"labels": {names.MIG_LABEL: config}}}
        self._kube.ask(self._kube.core.patch_node, machines.pop(), body=patch, _content_type=MERGE_PATCH)


def of_environment() -> KubeCards | None:
    """Return that of the RayCluster which this process is part of; None outside of one, or where it may ask nothing."""
    found = kube_client.of_environment()
    if found is None:
        return None
    try:
        return KubeCards(Kube.of_pod(ANSWER_S), *found)
    except FaultError:
        return None
