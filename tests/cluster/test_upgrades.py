"""The chart on a real API server with the real operator: what an upgrade changes, and what it leaves to the arbiter.

Without machines: pods are made, and stay pending. The arbiter's side is the real adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet_app.adapters import kube_nodes
from fleet_app.adapters.kube_client import JSON_PATCH, Kube
from fleet_app.adapters.kube_pools import RAY, KubePools
from fleet_app.arbiter.ports import PoolsWish
from fleet_app.render import names
from tests.clock import Clock
from tests.cluster.bed.client import Cluster
from tests.cluster.fleets import CHART, ROOT, namespace

NAME = "grows"


@dataclass
class Release:
    """The chart as Helm has it in a namespace."""

    cluster: Cluster
    namespace: str
    folder: Path

    def upgrade(self, training: int, tag: str) -> None:
        """Install it, or upgrade it as anybody would: without force."""
        values = self.folder / "values.yaml"
        row = {"levels": {"spine": "s1", "leaf": "l1"}, "shape": "declared", "serving": 1, "training": training}
        given: dict[str, Any] = {"domains": [row], "image": {"tag": tag}}
        given["policy"] = (ROOT / "clusters/small.yaml").read_text(encoding="utf-8")
        values.write_text(yaml.safe_dump(given), encoding="utf-8")
        self.cluster.helm("upgrade", "--install", NAME, str(CHART), "-n", self.namespace, "--values", str(values))

    def groups(self) -> dict[str, tuple[int, str]]:
        """Return how many nodes each group is to have, and of which image new ones are."""
        spec = self.cluster.get("raycluster", NAME, f"--namespace={self.namespace}")["spec"]
        return {
            group["groupName"]: (group["replicas"], group["template"]["spec"]["containers"][0]["image"])
            for group in spec["workerGroupSpecs"]
        }

    def operate(self) -> None:
        """Wait until the operator has gone by what the RayCluster says now: it makes a pod of serving's anew."""
        (old,) = self.workers("serving-s1-l1")
        self.delete(old)
        self.cluster.wait_until(lambda: self.workers("serving-s1-l1") not in ([], [old]), "a successor")

    def workers(self, group: str) -> list[str]:
        """Return the pods of a group, by name."""
        chosen = f"--selector=ray.io/cluster={NAME},ray.io/group={group}"
        items = self.cluster.get("pods", chosen, f"--namespace={self.namespace}")["items"]
        return sorted(pod["metadata"]["name"] for pod in items)

    def turns(self, pools: KubePools, holds: Callable[[], object], what: str) -> None:
        """Let the arbiter's pools turn, as they do all the time, until something holds.

        Whoever changes the RayCluster meanwhile, as the operator does, makes them try again in their next turn.
        """

        def after_a_turn() -> object:
            pools.turn()
            return holds()

        self.cluster.wait_until(after_a_turn, what)

    def settled(self, pools: KubePools) -> None:
        """Let them turn until all that they tried in a turn was done: they own nothing of the RayCluster any more."""
        self.turns(pools, lambda: (view := pools.observe()) is not None and not view.troubles, "a turn without trouble")

    def delete(self, pod: str) -> None:
        """Delete a pod, as somebody who renews it does."""
        self.cluster.kubectl("delete", "pod", pod, f"--namespace={self.namespace}")

    def pods(self) -> dict[str, str]:
        """Return the image of each pod of Ray's, by name."""
        chosen = (f"--selector=ray.io/cluster={NAME}", f"--namespace={self.namespace}")
        items = self.cluster.get("pods", *chosen)["items"]
        return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in items}


@pytest.fixture
def release(api: Cluster, tmp_path: Path) -> Iterator[Release]:
    with namespace(api, "fleet-upgrades") as there:
        release = Release(cluster=api, namespace=there, folder=tmp_path)
        release.upgrade(training=1, tag="one")
        api.wait_until(lambda: len(release.pods()) == 3, "the head and two workers")
        yield release
        api.helm("uninstall", NAME, "-n", there, "--ignore-not-found")


def test_an_upgrade_replaces_no_pod_takes_no_node_away_and_does_not_conflict(release: Release) -> None:
    kube = Kube.of_file(release.cluster.kubeconfig)
    pools = KubePools(lambda: kube, NAME, release.namespace, Clock())  # as the arbiter has them
    before = release.pods()

    # The arbiter changed what the chart applies.
    where = (*RAY, release.namespace, "rayclusters", NAME)
    found = kube_nodes.ray_cluster(kube.ask(kube.custom.get_namespaced_custom_object, *where))
    (serving,) = (group for group in found.groups if group.view.name == "serving-s1-l1")
    more = [{"op": "replace", "path": f"/spec/workerGroupSpecs/{serving.index}/replicas", "value": 2}]
    change = kube.custom.patch_namespaced_custom_object
    kube.ask(change, *where, body=more, field_manager=names.FIELD_MANAGER, _content_type=JSON_PATCH)
    release.turns(pools, lambda: len(release.pods()) == 4, "the pod that the arbiter asked for")

    # Fewer for serving than there are, more in all, and another image.
    release.upgrade(training=4, tag="two")
    assert release.groups() == {"serving-s1-l1": (2, "fleet:two"), "training-s1-l1": (1, "fleet:two")}
    release.turns(pools, lambda: release.groups()["training-s1-l1"][0] == 3, "training to grow")
    release.cluster.wait_until(lambda: len(release.pods()) == 6, "the new pods")
    after = release.pods()
    assert before.items() <= after.items(), "those that were there are untouched"
    assert sorted(image for name, image in after.items() if name not in before) == [
        "fleet:one",
        "fleet:two",
        "fleet:two",
    ]

    # And again, the arbiter having changed it once more.
    release.settled(pools)
    release.upgrade(training=4, tag="three")
    assert after.items() <= release.pods().items()
    kube.close()


def test_groups_that_are_to_be_smaller_lose_the_pods_that_the_arbiter_names_and_no_other(release: Release) -> None:
    kube = Kube.of_file(release.cluster.kubeconfig)
    pools = KubePools(lambda: kube, NAME, release.namespace, Clock())
    release.upgrade(training=3, tag="one")
    release.turns(pools, lambda: len(release.workers("training-s1-l1")) == 3, "three of training's")
    release.settled(pools)
    busy, *others = release.workers("training-s1-l1")

    # An upgrade alone takes nobody away.
    release.upgrade(training=1, tag="one")
    release.operate()
    release.settled(pools)
    assert release.groups()["training-s1-l1"][0] == 3
    assert release.workers("training-s1-l1") == [busy, *others]
    before = release.pods()

    # The arbiter names those that are empty; one that a gang holds is never among them.
    pools.want(PoolsWish(held_pods={busy: "llm"}, leavers=(busy, *others)))
    release.turns(pools, lambda: release.workers("training-s1-l1") == [busy], "the others to be gone")
    assert "the held list names it" in str(pools.observe())
    assert release.pods() == {name: image for name, image in before.items() if name not in others}

    # And none beyond what the chart says, whatever is wished.
    pools.want(PoolsWish(leavers=(busy,)))
    pools.turn()
    release.operate()
    assert (release.groups()["training-s1-l1"][0], release.workers("training-s1-l1")) == (1, [busy])
    kube.close()


def test_after_an_upgrade_to_another_image_only_what_is_made_anew_is_of_it(release: Release) -> None:
    (gang,), (head,) = release.workers("training-s1-l1"), release.workers("headgroup")
    release.upgrade(training=1, tag="two")
    # A worker's pod that goes: its successor is of the new image, and nobody else is touched.
    release.operate()
    after = release.pods()
    assert (after[gang], after[head]) == ("fleet:one", "fleet:one")
    assert sorted(after.values()) == ["fleet:one", "fleet:one", "fleet:two"]
    # The head is renewed by deleting its pod: the workers stay who they are.
    release.delete(head)
    release.cluster.wait_until(lambda: len(release.pods()) == 3 and head not in release.pods(), "another head")
    workers = {name: image for name, image in after.items() if name != head}
    assert workers.items() <= release.pods().items()
    assert sorted(release.pods().values()) == ["fleet:one", "fleet:two", "fleet:two"]


def test_the_token_outlives_an_upgrade_and_nothing_outlives_the_release(release: Release) -> None:
    where = f"--namespace={release.namespace}"
    token = release.cluster.get("secret", f"{NAME}-token", where)["data"]
    release.upgrade(training=1, tag="two")
    assert release.cluster.get("secret", f"{NAME}-token", where)["data"] == token
    release.cluster.helm("uninstall", NAME, "-n", release.namespace)
    kinds = (
        "rayclusters,services,configmaps,secrets,persistentvolumeclaims,serviceaccounts,roles,rolebindings,daemonsets"
    )

    def left() -> list[str]:
        found = release.cluster.get(kinds, where)["items"]
        named = [item["metadata"]["name"] for item in found]
        return [name for name in named if name not in {"default", "kube-root-ca.crt"} and NAME in name]

    release.cluster.wait_until(lambda: not left(), "everything to be gone")
    everywhere = release.cluster.get(
        "clusterroles,clusterrolebindings,priorityclasses", f"--selector=fleet/cluster={NAME}"
    )
    assert everywhere["items"] == []
