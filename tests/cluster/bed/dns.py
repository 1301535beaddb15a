"""The cluster's DNS: CoreDNS in a pod, behind the address that kubelets tell their pods. Does not know who asks."""

from __future__ import annotations

from typing import Any

from tests.cluster.bed.client import Cluster
from tests.cluster.bed.node import DNS

NAMESPACE = "kube-system"
NAME = "coredns"
LABELS = {"k8s-app": "kube-dns"}
COREFILE = """
.:5353 {
  errors
  ready
  kubernetes cluster.local in-addr.arpa ip6.arpa
}
"""


def run(cluster: Cluster, image: str) -> None:
    """Install it."""
    meta = {"name": NAME, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role["name"]},
            "rules": [
                _may_watch("", "endpoints", "services", "pods", "namespaces"),
                _may_watch("discovery.k8s.io", "endpointslices"),
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role["name"]},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", **meta}],
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"Corefile": COREFILE}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {
                "selector": {"matchLabels": LABELS},
                "template": {"metadata": {"labels": LABELS}, "spec": _pod(image)},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": NAMESPACE},
            "spec": {
                "selector": LABELS,
                "clusterIP": DNS,
                "ports": [
                    {"name": protocol.lower(), "port": 53, "targetPort": 5353, "protocol": protocol}
                    for protocol in ("UDP", "TCP")
                ],
            },
        },
    )


def _may_watch(group: str, *resources: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": list(resources), "verbs": ["list", "watch"]}


def _pod(image: str) -> dict[str, Any]:
    container = {
        "name": NAME,
        "image": image,
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
    }
    return {
        "serviceAccountName": NAME,
        "containers": [container],
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": "config", "configMap": {"name": NAME}}],
    }
