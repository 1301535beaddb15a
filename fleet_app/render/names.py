"""What the fleet's things are called on Kubernetes: labels, annotations, objects, ports, files and variables.

One place, for what is rendered, for the chart, for the adapters and for the audit. Knows no policy and no cluster.
"""

from __future__ import annotations

import re

from fleet_app.worker import contract

# Labels. On nodes: class, levels, flavor, partition, driver. On pods of the fleet: cluster, class, levels, flavor.

PREFIX = "fleet/"
CLUSTER_LABEL = "fleet/cluster"
CLASS_LABEL = contract.CLASS_LABEL
FLAVOR_LABEL = "fleet/flavor"
PROXY_LABEL = "fleet/proxy"
"""Of the pods whose Serve proxy takes requests; the service of Serve selects it."""

NODE_LABEL = contract.NODE_LABEL
POD_LABEL = contract.POD_LABEL
DRIVER_LABEL = contract.DRIVER_LABEL
PARTITION_LABEL = contract.PARTITION_LABEL

SERVING = "serving"
TRAINING = "training"
CLASSES = (SERVING, TRAINING)

TAINT_KEY = CLASS_LABEL
"""Nodes of the fleet have the taint `fleet/class=<class>:NoSchedule`, so that nothing else lands there."""

TAINT_EFFECT = "NoSchedule"

NOTE = "fleet/note"
"""Annotation of what is rendered: what a reader should know of it."""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"

GANG_ANNOTATIONS = {
    SAFE_TO_EVICT: "false",
    "descheduler.alpha.kubernetes.io/prefer-no-eviction": "true",
    "karpenter.sh/do-not-disrupt": "true",
}
"""What keeps cluster-wide controllers from moving a pod of training's nodes.

The cluster autoscaler removes no node with a pod that says safe-to-evict "false" (its FAQ). The descheduler looks for
its key alone, whatever the value, and is bound by it where its DefaultEvictor has `noEvictionPolicy: Mandatory`.
Karpenter consolidates and drifts no node of a pod that says do-not-disrupt (its reference, Annotations).

No key on a pod opts out of a repair that replaces its node: EKS and GKE repair whole node pools, and Karpenter's repair
goes past do-not-disrupt. Nor should the GPU operator's driver upgrade skip a pod that has GPUs. All of these cordon
first, and evict: the cordon makes the arbiter move the gang, and until it has, evictions are refused.
"""

GPU_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu", "gpu.intel.com/")
"""What GPUs are asked for by, of the device plugins there are: names begin so."""

MIG_LABEL = "nvidia.com/mig.config"
"""Of a node: what NVIDIA's MIG manager is to cut its cards into."""

FORCED_EVICTION = "descheduler.alpha.kubernetes.io/evict"
"""The descheduler evicts what has this, whatever else the pod says."""

# Objects. The release of the chart is called as the cluster is.

HEAD_GROUP = "headgroup"
"""KubeRay's name of the group of the head."""


def level_label(level: str) -> str:
    """Return the label of a level of the topology, such as `fleet/leaf`."""
    return PREFIX + level


def head_service(cluster: str) -> str:
    """Return the name of KubeRay's own service of the head."""
    return f"{cluster}-head-svc"


def gateway_service(cluster: str) -> str:
    """Return the name of the service of the job gateway."""
    return f"{cluster}-gateway"


def serve_service(cluster: str) -> str:
    """Return the name of the service of what Serve answers."""
    return f"{cluster}-serve"


def policy_map(cluster: str) -> str:
    """Return the name of the ConfigMap with the policy, under the key POLICY_KEY."""
    return f"{cluster}-policy"


def serve_map(cluster: str) -> str:
    """Return the name of the ConfigMap with Serve's configurations."""
    return f"{cluster}-serve"


def token_secret(cluster: str) -> str:
    """Return the name of the Secret with the tokens of gateway and Ray."""
    return f"{cluster}-token"


def account(cluster: str) -> str:
    """Return the name of the service account of the head, under which the arbiter asks Kubernetes."""
    return f"{cluster}-arbiter"


def held_map(cluster: str) -> str:
    """Return the name of the ConfigMap in which the arbiter names the pods and nodes that hold a gang now."""
    return f"{cluster}-held"


POLICY_KEY = "fleet.yaml"

# Entries of the ConfigMap of what is held: one key a pod and one a node; the value is the gang's name.

HELD_POD = "pod."
HELD_NODE = "node."
LONGEST_KEY = 253
"""Of a ConfigMap; a pod or node whose name leaves no room for the prefix cannot be named there."""

_KEY = re.compile(r"[-._a-zA-Z0-9]+")


def held_pod(pod: str) -> str:
    """Return the key under which a pod is named that holds a gang."""
    return HELD_POD + pod


def held_node(node: str) -> str:
    """Return the key under which a Kubernetes node is named that holds a gang."""
    return HELD_NODE + node


def is_key(key: str) -> bool:
    """Return whether a ConfigMap takes an entry of that key."""
    return len(key) <= LONGEST_KEY and _KEY.fullmatch(key) is not None


FIELD_MANAGER = "fleet-arbiter"
"""Under which the arbiter changes the RayCluster."""

SIZES_NOTE = "fleet/sizes"
"""Annotation of the RayCluster: how many nodes the chart wants each group to have (JSON)."""

# Ports.

GATEWAY_PORT = 8090
"""Not 8080: there each Ray pod, the head's included, shows its metrics."""

SERVE_PORT = 8000
DASHBOARD_PORT = 8265
GCS_PORT = 6379
CLIENT_PORT = 10001
METRICS_PORT = 8080
"""Of Ray's metrics in every pod, unless the pod's template names another."""

# Inside the head's containers.

HOME = "/var/lib/fleet"
CLUSTER_VARIABLE = "FLEET_KUBE_CLUSTER"
NAMESPACE_VARIABLE = "FLEET_KUBE_NAMESPACE"
