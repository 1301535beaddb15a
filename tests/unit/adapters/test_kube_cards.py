"""Layouts of cards as the label that NVIDIA's MIG manager reacts to."""

from __future__ import annotations

import pytest

from fleet_app.adapters.kube_cards import KubeCards, config_of, of_environment
from fleet_app.adapters.kube_client import Kube
from fleet_app.arbiter.ports import NodeView
from fleet_app.engine.errors import FaultError, RequestError
from fleet_app.engine.layouts import Layout
from fleet_app.engine.values import NOTHING
from tests.kube import CLUSTER, NAMESPACE, FakeKube, group, served

SEVENTHS: Layout = ("1g.10gb",) * 7

CONFIGS: dict[str, tuple[tuple[Layout, ...], str]] = {
    "cards that are whole": (((), ()), "all-disabled"),
    "cards that are all cut alike": ((SEVENTHS, SEVENTHS), "all-1g.10gb"),
    "one card": ((("3g.40gb", "3g.40gb"),), "all-3g.40gb"),
}

REFUSED: dict[str, tuple[Layout, ...]] = {
    "one that is whole beside one that is cut": (SEVENTHS, ()),
    "two that are cut otherwise": (SEVENTHS, ("3g.40gb", "3g.40gb")),
    "one of two profiles": (("3g.40gb", "1g.10gb"),),
    "shared ones": (("shared",), ("shared",)),
}


@pytest.mark.parametrize(("layouts", "want"), CONFIGS.values(), ids=CONFIGS)
def test_config_of(layouts: tuple[Layout, ...], want: str) -> None:
    assert config_of(layouts) == want


@pytest.mark.parametrize("layouts", REFUSED.values(), ids=REFUSED)
def test_what_its_default_configurations_have_not_is_refused(layouts: tuple[Layout, ...]) -> None:
    with pytest.raises(RequestError, match="cuts all cards of a node alike"):
        config_of(layouts)


def view(address: str) -> NodeView:
    return NodeView(
        node_id="ab", labels={}, alive=True, draining=False, total=NOTHING, available=NOTHING, address=address
    )


def test_the_machine_of_a_nodes_pod_gets_the_label_and_keeps_its_others() -> None:
    fake = FakeKube()
    fake.add_node("m1")
    fake.add_cluster(group("training", "training", 1))
    fake.operate()
    (pod,) = fake.pods("training")
    with served(fake) as configuration:
        kube = Kube(configuration)
        cards = KubeCards(kube, CLUSTER, NAMESPACE)
        for _ in range(2):  # safe to repeat
            cards.repartition(view(pod["status"]["podIP"]), (SEVENTHS, SEVENTHS))
        with pytest.raises(FaultError, match="no worker's pod has its address"):
            cards.repartition(view("10.9.9.9"), ((),))
        kube.close()
    labels = fake.objects["nodes"]["m1"]["metadata"]["labels"]
    assert labels == {"fleet/class": "training", "nvidia.com/mig.config": "all-1g.10gb"}


def test_outside_of_a_raycluster_nobody_changes_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "FLEET_KUBE_CLUSTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLEET_KUBE_NAMESPACE", NAMESPACE)
    assert of_environment() is None
    monkeypatch.setenv("FLEET_KUBE_CLUSTER", CLUSTER)
    assert of_environment() is None, "there is no service account"
