"""What Ray's autoscaler is told of nodes on demand, as its GCS keeps it for the autoscaler (N4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from ray._raylet import GCS_AUTOSCALER_STATE_NAMESPACE, GCS_AUTOSCALER_V2_ENABLED_KEY
from ray.autoscaler.v2.sdk import get_cluster_resource_state
from ray.autoscaler.v2.utils import is_autoscaler_v2
from ray.experimental.internal_kv import internal_kv_get_gcs_client

from fleet_app.adapters.ray_scaling import ask_nodes
from fleet_app.engine.errors import FaultError
from fleet_app.engine.scaling import NodesAsk
from fleet_app.engine.values import NodeClass
from tests.live.raybox import RayBox


def version(two: bool) -> None:
    """Let the cluster say whether its autoscaler is of version 2, as a GCS that was started for one does."""
    key, namespace = GCS_AUTOSCALER_V2_ENABLED_KEY.encode(), GCS_AUTOSCALER_STATE_NAMESPACE.encode()
    internal_kv_get_gcs_client().internal_kv_put(key, b"1" if two else b"0", True, namespace=namespace)
    is_autoscaler_v2(fetch_from_server=True)


@pytest.fixture
def scaled(connected: RayBox) -> Iterator[RayBox]:
    version(True)
    yield connected
    ask_nodes(())
    version(False)


def asked() -> Counter[tuple[int, str]]:
    """Return how many nodes of so many GPUs and of that class Ray is asked for."""
    found: Counter[tuple[int, str]] = Counter()
    state = get_cluster_resource_state(internal_kv_get_gcs_client())
    for constraint in state.cluster_resource_constraints:
        for each in constraint.resource_requests:
            (selector,) = each.request.label_selectors
            (term,) = selector.label_constraints
            assert term.label_key == "fleet/class"
            found[int(each.request.resources_bundle["GPU"]), *term.label_values] += each.count
    return found


def test_ray_is_told_how_many_nodes_of_which_class_there_should_be(scaled: RayBox) -> None:
    training = NodesAsk(node_class=NodeClass.TRAINING, gpus=8, nodes=3, why="")
    ask_nodes((training, NodesAsk(node_class=NodeClass.SERVING, gpus=8, nodes=1, why="")))
    assert asked() == {(8, "training"): 3, (8, "serving"): 1}
    ask_nodes((NodesAsk(node_class=NodeClass.TRAINING, gpus=8, nodes=2, why=""),))
    assert asked() == {(8, "training"): 2}, "what was asked for before is forgotten"
    ask_nodes(())
    assert asked() == {}


def test_an_autoscaler_that_would_not_know_of_which_class_is_asked_for_nothing(connected: RayBox) -> None:
    version(False)
    with pytest.raises(FaultError, match="not of version 2"):
        ask_nodes((NodesAsk(node_class=NodeClass.TRAINING, gpus=8, nodes=3, why=""),))
