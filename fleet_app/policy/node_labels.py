"""Under which labels Kubernetes nodes say where they are in the fabric: the fleet's own, topograph's, the clouds'.

A table, and how a level of the policy is read from a node's labels. Does not know Kubernetes.

Sources, of late 2026:
topograph: docs.nvidia.com/topograph/reference/node-labels-and-annotations; `network.topology.nvidia.com` up to 0.5,
`fabric.topograph.run` and `accelerator.topograph.run` since 1.0, tier 0 closest to the node.
GPU feature discovery's `nvidia.com/gpu.clique` is the NVLink partition, which topograph leaves as it is.
EKS: docs.aws.amazon.com, EC2 instance topology, layer 1 the outermost of three; `ultraserver-id` on HyperPod clusters.
GKE: cloud.google.com/kubernetes-engine, compact placement: block, in it sub-block, in it host.
OKE: docs.oracle.com, RDMA clusters: HPC island, in it network block, in it local block.
AKS: nodes have zone and region alone; what is closer is a proximity placement group or a scale set, whole pools.
CoreWeave: docs.coreweave.com, InfiniBand and RoCE labels. Crusoe: what topograph's provider for it reads.
Kubernetes' own: kubernetes.io, well-known labels, annotations and taints.
"""

from __future__ import annotations

from collections.abc import Mapping

FLEET = "fleet/"

_ACCELERATOR = (
    "accelerator.topograph.run/domain",
    "network.topology.nvidia.com/accelerator",
    "nvidia.com/gpu.clique",
    "topology.k8s.aws/ultraserver-id",
    "ds.coreweave.com/nvlink.domain",
)
_LEAF = (
    "fabric.topograph.run/tier-0",
    "network.topology.nvidia.com/tier-0",
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/block",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-subblock",
    "oci.oraclecloud.com/rdma.local_block_id",
    "backend.coreweave.cloud/leafgroup",
    "crusoe.ai/pod.id",
)
_SPINE = (
    "fabric.topograph.run/tier-1",
    "network.topology.nvidia.com/tier-1",
    "network.topology.nvidia.com/spine",
    "topology.k8s.aws/network-node-layer-2",
    "cloud.google.com/gce-topology-block",
    "oci.oraclecloud.com/rdma.network_block_id",
)
_CORE = (
    "fabric.topograph.run/tier-2",
    "network.topology.nvidia.com/tier-2",
    "network.topology.nvidia.com/core",
    "network.topology.nvidia.com/datacenter",
    "topology.k8s.aws/network-node-layer-1",
    "oci.oraclecloud.com/rdma.hpc_island_id",
)

KNOWN: Mapping[str, tuple[str, ...]] = {
    "nvlink-domain": _ACCELERATOR,
    "nvlink": _ACCELERATOR,
    "accelerator": _ACCELERATOR,
    "leaf": _LEAF,
    "rack": _LEAF,
    "block": _LEAF,
    "spine": _SPINE,
    "core": _CORE,
    "zone": ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    "region": ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
}
"""By the name of a level: the labels that say it, the first that a node has counts."""


def keys_of(level: str, chosen: Mapping[str, str]) -> tuple[str, ...]:
    """Return the labels that a level is read from: what the policy chose, else the fleet's own and the known ones."""
    if level in chosen:
        return (chosen[level],)
    return (FLEET + level, *KNOWN.get(level, ()))


def domain(labels: Mapping[str, str], level: str, chosen: Mapping[str, str]) -> str:
    """Return the domain of a level that a node's labels name; empty where none does."""
    return next((labels[key] for key in keys_of(level, chosen) if labels.get(key)), "")
