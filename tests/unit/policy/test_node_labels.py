"""Where a Kubernetes node is, by the labels that it has."""

from __future__ import annotations

import pytest

from fleet_app.policy.node_labels import KNOWN, domain
from fleet_app.policy.units import _check_label

FOUND = {
    "the fleet's own label comes first": ({"fleet/leaf": "l1", "network.topology.nvidia.com/leaf": "s1"}, "leaf", "l1"),
    "a level that nobody else knows has the fleet's own": ({"fleet/row": "r1"}, "row", "r1"),
    "topograph": ({"fabric.topograph.run/tier-1": "s2"}, "spine", "s2"),
    "topograph, before its first release": ({"network.topology.nvidia.com/spine": "s2"}, "spine", "s2"),
    "EKS": ({"topology.k8s.aws/network-node-layer-3": "nn-1"}, "leaf", "nn-1"),
    "GKE": ({"cloud.google.com/gce-topology-block": "b1"}, "spine", "b1"),
    "OKE": ({"oci.oraclecloud.com/rdma.local_block_id": "x"}, "leaf", "x"),
    "GPU feature discovery": ({"nvidia.com/gpu.clique": "u.1"}, "nvlink-domain", "u.1"),
    "Kubernetes": ({"topology.kubernetes.io/zone": "z1"}, "zone", "z1"),
    "a label without a value says nothing": ({"fleet/leaf": "", "crusoe.ai/pod.id": "p1"}, "leaf", "p1"),
    "no label": ({}, "leaf", ""),
}


@pytest.mark.parametrize(("labels", "level", "want"), FOUND.values(), ids=FOUND)
def test_the_domain_of_a_level(labels: dict[str, str], level: str, want: str) -> None:
    assert domain(labels, level, {}) == want


def test_a_label_that_the_policy_chose_is_the_only_one() -> None:
    labels = {"fleet/leaf": "l1", "example.com/rack": "r1"}
    assert domain(labels, "leaf", {"leaf": "example.com/rack"}) == "r1"
    assert domain({"fleet/leaf": "l1"}, "leaf", {"leaf": "example.com/rack"}) == ""


@pytest.mark.parametrize("key", sorted({key for keys in KNOWN.values() for key in keys}))
def test_what_is_known_are_keys_of_labels(key: str) -> None:
    assert _check_label(key) == key
