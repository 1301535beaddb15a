"""The bed itself: what its users may rely on."""

from __future__ import annotations

from tests.cluster.bed.client import Cluster

RAY_CLUSTER = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "probe"},
    "spec": {
        "rayVersion": "2.60.0",
        "headGroupSpec": {
            "rayStartParams": {},
            "template": {"spec": {"containers": [{"name": "head", "image": "localhost/none"}]}},
        },
    },
}


def test_the_operator_makes_pods(api: Cluster) -> None:
    api.kubectl("create", "namespace", "bed-probe")
    try:
        api.apply(RAY_CLUSTER, namespace="bed-probe")
        api.wait_until(lambda: api.get("pods", "--namespace=bed-probe")["items"], "a head pod", 60)
    finally:
        api.kubectl("delete", "namespace", "bed-probe", "--wait", within_s=90)


def test_nodes_are_labelled_and_ready(cluster: Cluster) -> None:
    nodes = cluster.get("nodes", "--selector=fleet/class")["items"]
    classes = {node["metadata"]["labels"]["fleet/class"] for node in nodes}
    ready = {
        condition["status"]
        for node in nodes
        for condition in node["status"]["conditions"]
        if condition["type"] == "Ready"
    }
    assert (classes, ready) == ({"serving", "training"}, {"True"})
