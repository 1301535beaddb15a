"""A pending pod of serving never takes the place of a gang's, by the real scheduler; without the guard one could.

Machines without anything behind them, full of the chart's own pods. The scheduler says in a pod's condition whom it
would have preempted for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet_app.policy.load import load_policy
from fleet_app.render.admission import admission, anchor, policy_name
from fleet_app.render.objects import dump
from fleet_app.render.preemptors import preemptors
from fleet_app.render.site import Site
from tests import manifests
from tests.cluster.bed.client import Cluster, CommandError
from tests.cluster.fleets import CHART, ROOT, namespace
from tests.cluster.machines import ROOM, Machines, machines

SITE = Site(cluster="pressed", namespace=f"fleet-pressed-{os.getpid()}")
POLICY = ROOT / "clusters/small.yaml"
MACHINES = {"pressed-serving": "serving", "pressed-training": "training"}
EVERYTHING = [{"operator": "Exists"}]
GPUS = "nvidia.com/gpu"

PLACES: dict[str, Mapping[str, Any]] = {
    "as the chart has it": {"select": True},
    "with every toleration": {"select": True, "tolerations": EVERYTHING},
    "with every toleration, and no selector": {"select": False, "tolerations": EVERYTHING},
    "kept apart besides": {"select": True, "separate": True},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """A release of the chart whose machines are full."""

    machines: Machines

    @property
    def cluster(self) -> Cluster:
        return self.machines.cluster

    def pods(self, selector: str) -> list[dict[str, Any]]:
        """Return the release's pods, while its machines are well."""
        self.machines.beat()
        where = (f"--namespace={SITE.namespace}", f"--selector=ray.io/cluster={SITE.cluster},{selector}")
        return list(self.cluster.get("pods", *where)["items"])

    def workers(self, pool: str) -> list[dict[str, Any]]:
        return self.pods(f"ray.io/group={pool}-s1-l1")

    def grow_serving(self) -> None:
        """Let serving have one node more than there is room for, as the arbiter would."""
        spec = self.cluster.get("raycluster", SITE.cluster, f"--namespace={SITE.namespace}")["spec"]
        (at,) = (n for n, group in enumerate(spec["workerGroupSpecs"]) if group["groupName"] == "serving-s1-l1")
        more = [{"op": "replace", "path": f"/spec/workerGroupSpecs/{at}/replicas", "value": 2}]
        words = ("patch", "raycluster", SITE.cluster, f"--namespace={SITE.namespace}", "--type=json")
        self.cluster.kubectl(*words, f"--patch={json.dumps(more)}")


@pytest.fixture
def full(request: pytest.FixtureRequest, api: Cluster, tmp_path: Path) -> Iterator[Full]:
    values = tmp_path / "values.yaml"
    row = {"levels": {"spine": "s1", "leaf": "l1"}, "shape": "gpus", "serving": 1, "training": 1}
    given: dict[str, Any] = {
        "policy": POLICY.read_text(encoding="utf-8"),
        "shapes": {"gpus": {"gpus": 8, "gpuResource": GPUS, "cpu": "1", "memory": "1Gi"}},
        "domains": [row],
        "nodes": request.param,
        "head": {"tolerations": EVERYTHING},
        "journal": {"enabled": False},
        "prepull": {"enabled": False},
    }
    values.write_text(yaml.safe_dump(given), encoding="utf-8")
    room = {**ROOM, GPUS: "8"}
    with (
        namespace(api, SITE.namespace) as there,
        machines(api, MACHINES, {"fleet/spine": "s1", "fleet/leaf": "l1"}, room) as known,
    ):
        api.helm("upgrade", "--install", SITE.cluster, str(CHART), "-n", there, "--values", str(values))
        found = Full(machines=known)
        for pool in ("serving", "training"):
            api.wait_until(lambda pool=pool: bound(*found.workers(pool)), f"a pod of {pool} on its machine")
        yield found
        api.helm("uninstall", SITE.cluster, "-n", there)


def bound(*pods: dict[str, Any]) -> bool:
    return len(pods) == 1 and pods[0]["spec"].get("nodeName", "") != ""


def verdict(pod: dict[str, Any]) -> str:
    """Return what the scheduler says of a pod that it has tried to place, and to make room for; else empty."""
    said = [each.get("message", "") for each in pod["status"].get("conditions", []) if each["type"] == "PodScheduled"]
    return next((each for each in said if "preemption: " in each), "")


def alive(full: Full) -> list[tuple[str, bool]]:
    """Return the pods of training, and whether each is to stay."""
    return [(pod["metadata"]["uid"], "deletionTimestamp" not in pod["metadata"]) for pod in full.workers("training")]


@pytest.mark.parametrize("full", PLACES.values(), ids=PLACES, indirect=True)
def test_a_pending_pod_of_serving_preempts_no_pod_of_a_gang(full: Full) -> None:
    before = alive(full)
    assert [stays for _, stays in before] == [True]
    full.grow_serving()

    def waiting() -> list[dict[str, Any]]:
        """The one that is new: there would be room for it on training's machine, if that were empty."""
        return [pod for pod in full.workers("serving") if "nodeName" not in pod["spec"] and verdict(pod)]

    (pending,) = full.cluster.wait_for(waiting, "the scheduler to look for victims")
    assert pending["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
    assert "0/2 nodes are available" in verdict(pending).split("preemption: ")[1]
    assert not pending["status"].get("nominatedNodeName")
    assert alive(full) == before
    (head,) = full.pods("ray.io/node-type=head")
    assert head["spec"]["nodeName"] == "pressed-serving"


@pytest.mark.parametrize("full", [PLACES["as the chart has it"]], ids=["as the chart has it"], indirect=True)
def test_another_s_pod_of_serving_s_class_would_and_the_guard_refuses_it(full: Full) -> None:
    policy = load_policy(POLICY)
    hungry = {"containers": [manifests.container(resources={"limits": {GPUS: "8"}})]}
    thing = manifests.copied(manifests.agent(manifests.PREEMPTS, *EVERYTHING, **hungry), "default")
    thing["metadata"]["namespace"] = "default"
    guard = policy_name(SITE, preemptors(policy))
    rendered = [each for each in admission(SITE, policy) if each["metadata"]["name"] == guard]
    kinds = "validatingadmissionpolicy,validatingadmissionpolicybinding"
    try:
        full.cluster.kubectl("apply", "--server-side", "--filename=-", stdin=dump([*rendered, *anchor(SITE, policy)]))
        full.cluster.wait_until(lambda: refusal(full.cluster, thing), "the guard")
        said = refusal(full.cluster, thing)
        assert "Pod agent of the priority class serving-production tolerates the taint of training's nodes" in said
        assert said.endswith("(K10)")
        # Without the guard.
        full.cluster.kubectl("delete", kinds, guard)
        full.cluster.wait_until(lambda: not refusal(full.cluster, thing), "the guard to be gone")
        full.cluster.apply(thing)
        full.cluster.wait_until(lambda: [stays for _, stays in alive(full)] != [True], "the gang's pod to be deleted")
    finally:
        full.cluster.kubectl("delete", kinds, guard, "--ignore-not-found")
        full.cluster.kubectl(
            "delete", "pod", "agent", "-n=default", "--ignore-not-found", "--grace-period=0", "--force"
        )


def refusal(cluster: Cluster, thing: dict[str, Any]) -> str:
    try:
        cluster.kubectl("create", "--dry-run=server", "--filename=-", stdin=yaml.safe_dump(thing))
    except CommandError as error:
        return str(error)
    return ""
