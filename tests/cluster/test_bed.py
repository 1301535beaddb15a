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
