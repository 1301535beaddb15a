"""The guards on a real API server: each bad object is refused with our message, and nobody who must not be is hindered.

The same objects that tests/unit asks offline (tests/manifests.py), in a namespace of this run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from fleet_app.policy.schema import PolicyFile
from fleet_app.render import names
from fleet_app.render.admission import admission, anchor, guards, policy_name
from fleet_app.render.objects import dump
from fleet_app.render.site import Site
from tests import manifests
from tests.cluster.bed.client import Cluster, CommandError
from tests.cluster.fleets import ROOT
from tests.manifests import Object

SITE = Site(cluster=f"admit-{os.getpid()}", namespace=f"admit-{os.getpid()}")
ELSEWHERE = f"{SITE.namespace}-elsewhere"
POLICY = PolicyFile.model_validate({"version": 1, "name": "test", "organisations": {"lab": {}}})
GUARDS = guards(SITE, POLICY)

# What was there before the guards: nothing of it would be let in.
OLD_CLUSTER = manifests.ray_cluster(manifests.group(annotations={}), name="old")
OLD_DEPLOYMENT = {**manifests.owner_of("Deployment", annotations={}), "metadata": {"name": "old"}}
OLD_BUDGET = {**manifests.budget({}), "metadata": {"name": "old"}}


# And what somebody copied from a service to a training Job.
COPIED = (ROOT / "clusters/kubernetes/copied-from-a-service.yaml").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Guarded:
    """A namespace under the guards."""

    api: Cluster

    def refusal(self, thing: Object, *words: str) -> str:
        """Return how the API server refuses an object; empty when it takes it. Nothing is kept."""
        text = yaml.safe_dump(ours(thing))
        try:
            self.api.kubectl("create", "--dry-run=server", "--filename=-", *words, stdin=text)
        except CommandError as error:
            return str(error)
        return ""

    def kubectl(self, *words: str, stdin: str = "") -> str:
        """Run kubectl in the namespace."""
        return self.api.kubectl(*words, f"--namespace={SITE.namespace}", stdin=stdin)

    def pods(self, selector: str) -> list[dict[str, Any]]:
        """Return the pods that a selector selects."""
        items: list[dict[str, Any]] = self.api.get("pods", f"--namespace={SITE.namespace}", f"--selector={selector}")[
            "items"
        ]
        return items


def ours(thing: Object) -> Object:
    """Return an object of the tests' fleet as one of this run's."""
    text = json.dumps(manifests.copied(thing, SITE.namespace))
    return json.loads(text.replace('"fleet/cluster": "prod"', f'"fleet/cluster": "{SITE.cluster}"'))


@pytest.fixture(scope="module")
def guarded(api: Cluster) -> Iterator[Guarded]:
    rendered = dump([*admission(SITE, POLICY), *anchor(SITE, POLICY)])
    found = Guarded(api)
    for namespace in (SITE.namespace, ELSEWHERE):
        api.kubectl("create", "namespace", namespace)
    try:
        for thing in (OLD_CLUSTER, OLD_DEPLOYMENT, OLD_BUDGET):
            api.apply(ours(thing), namespace=SITE.namespace)
        for thing in yaml.safe_load_all(COPIED):
            thing["metadata"]["namespace"] = ELSEWHERE
            api.apply(thing)
        api.kubectl("apply", "--server-side", "--filename=-", stdin=rendered)
        for guard, refused in PROOFS.items():
            api.wait_until(lambda refused=refused: "(K" in found.refusal(refused), f"the guard {guard}", 60)
        yield found
    finally:
        # Not the anchor: what it is there for would be gone for every later run.
        kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings"
        api.kubectl("delete", kinds, f"--selector={names.CLUSTER_LABEL}={SITE.cluster}")
        api.kubectl("delete", "namespace", SITE.namespace, ELSEWHERE, "--wait", within_s=120)


def first(kind: str) -> Object:
    return next(thing for _, thing in manifests.REFUSED.values() if thing["kind"] == kind)


PROOFS = {
    kind: first(kind)
    for kind in (
        *("PodDisruptionBudget", "HorizontalPodAutoscaler", "Pod", "Job", "CronJob", "Deployment", "StatefulSet"),
        *("RayCluster", "RayJob", "RayService"),
    )
}


@pytest.mark.parametrize(("rule", "thing"), manifests.REFUSED.values(), ids=manifests.REFUSED)
def test_a_bad_object_is_refused_with_our_message(guarded: Guarded, rule: str, thing: Object) -> None:
    said = guarded.refusal(thing)
    assert "(Forbidden)" in said
    assert f"denied request: {thing['kind']} {thing['metadata']['name']} " in said
    assert said.endswith(f" ({rule})")


@pytest.mark.parametrize("thing", manifests.PASSES.values(), ids=manifests.PASSES)
def test_a_good_object_is_accepted(guarded: Guarded, thing: Object) -> None:
    assert guarded.refusal(thing) == ""


@pytest.mark.parametrize("thing", manifests.STRANGERS.values(), ids=manifests.STRANGERS)
def test_a_gpu_pod_that_is_not_the_fleets_is_only_recorded(guarded: Guarded, thing: Object) -> None:
    assert guarded.refusal(thing) == ""


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_the_api_server_finds_nothing_odd_in_a_policy(guarded: Guarded, guard: Any) -> None:
    name = policy_name(SITE, guard)
    status = guarded.api.get("validatingadmissionpolicy", name)["status"]
    assert status["typeChecking"] == {}


def hold(guarded: Guarded, **data: str) -> None:
    guarded.api.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": names.held_map(SITE.cluster)}, "data": data},
        namespace=SITE.namespace,
    )


def outcome(asking: Callable[[], str]) -> str:
    """Return what the API server complains of, empty when it does not."""
    try:
        asking()
    except CommandError as error:
        return str(error)
    return ""


def evict(guarded: Guarded, pod: str) -> str:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": SITE.namespace},
        "deleteOptions": {"dryRun": ["All"]},
    }
    path = f"/api/v1/namespaces/{SITE.namespace}/pods/{pod}/eviction"
    return outcome(lambda: guarded.api.kubectl("create", f"--raw={path}", "--filename=-", stdin=json.dumps(eviction)))


def test_a_pod_is_not_evicted_while_it_holds_a_gang(guarded: Guarded) -> None:
    guarded.kubectl("delete", "configmap", names.held_map(SITE.cluster), "--ignore-not-found")
    guarded.api.apply(manifests.copied(manifests.pod("w-1"), SITE.namespace))
    # Before there is an arbiter nothing is held.
    guarded.api.wait_until(lambda: evict(guarded, "w-1") == "", "no pod to be held")
    hold(guarded, **{names.held_pod("w-1"): "llm"})
    guarded.api.wait_until(lambda: "holds gang llm" in evict(guarded, "w-1"), "the pod to be held")
    said = evict(guarded, "w-1")
    assert "Pod w-1 holds gang llm now. A cordon makes the arbiter move it" in said
    assert said.endswith("(K6)")
    # The arbiter has moved the gang; whoever deletes a pod was never asked.
    hold(guarded, other="x")
    guarded.api.wait_until(lambda: evict(guarded, "w-1") == "", "the pod to be free")
    hold(guarded, **{names.held_pod("w-1"): "llm"})
    guarded.kubectl("delete", "pod", "w-1", "--grace-period=0", "--force")


def test_a_node_keeps_its_class_while_it_holds_a_gang(guarded: Guarded) -> None:
    name = f"{SITE.cluster}-gpu"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {names.CLASS_LABEL: "training"}}}
    label = ("label", "node", name, "--overwrite", "--dry-run=server")

    def relabel(*words: str) -> str:
        return outcome(lambda: guarded.api.kubectl(*label, *words))

    guarded.api.apply(node)
    try:
        hold(guarded, **{names.held_node(name): "llm"})
        cross = f"{names.CLASS_LABEL}=serving"
        guarded.api.wait_until(lambda: relabel(cross) != "", "the node to be held")
        assert f"Node {name} holds gang llm, and would go from training to serving under it." in relabel(cross)
        assert relabel(f"{names.CLASS_LABEL}-").endswith("(K7)")
        assert relabel("other/label=x") == ""
        # What a node's controllers do is none of ours.
        assert outcome(lambda: guarded.api.kubectl("taint", "node", name, "gone=yes:NoExecute")) == ""
        hold(guarded, other="x")
        guarded.api.wait_until(lambda: relabel(cross) == "", "the node to be free")
    finally:
        guarded.api.kubectl("delete", "node", name)


def test_a_drain_is_refused_while_the_node_holds_a_gang_and_succeeds_when_it_has_moved(guarded: Guarded) -> None:
    name = f"{SITE.cluster}-drained"
    rank = manifests.copied(manifests.pod("w-2", spec={"nodeName": name}), SITE.namespace)
    # No kubelet is here that would end the pod.
    drain = ("drain", name, "--force", "--ignore-daemonsets", "--grace-period=0", "--timeout=30s")
    guarded.api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": manifests.TRAINING}})
    try:
        guarded.api.apply(rank)
        hold(guarded, **{names.held_pod("w-2"): "llm"})
        guarded.api.wait_until(lambda: "holds gang llm" in evict(guarded, "w-2"), "the pod to be held")
        said = outcome(lambda: guarded.api.kubectl(*drain))
        assert "Pod w-2 holds gang llm now. A cordon makes the arbiter move it at its next checkpoint" in said
        assert guarded.api.get("node", name)["spec"]["unschedulable"]
        hold(guarded, other="x")
        guarded.api.wait_until(lambda: evict(guarded, "w-2") == "", "the pod to be free")
        assert f"node/{name} drained" in guarded.api.kubectl(*drain)
    finally:
        guarded.api.kubectl("delete", "node", name)


WORKERS = "ray.io/cluster=old,ray.io/node-type=worker"


def test_what_was_there_before_goes_on(guarded: Guarded) -> None:
    guarded.api.wait_until(lambda: len(guarded.pods(WORKERS)) == 1, "KubeRay's worker", 60)
    (worker,) = guarded.pods(WORKERS)
    # KubeRay replaces a pod and grows a group, neither of which would be let in anew.
    guarded.kubectl("delete", "pod", worker["metadata"]["name"], "--grace-period=0", "--force")
    replicas = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 2}]
    guarded.kubectl("patch", "raycluster", "old", "--type=json", f"--patch={json.dumps(replicas)}")
    guarded.api.wait_until(
        lambda: len({each["metadata"]["name"] for each in guarded.pods(WORKERS)} - {worker["metadata"]["name"]}) == 2,
        "two new workers",
        90,
    )
    # A Deployment is scaled, and its controller notes on it and makes pods.
    guarded.kubectl("scale", "deployment", "old", "--replicas=2")
    guarded.api.wait_until(lambda: len(guarded.pods("app=one,!ray.io/cluster")) == 2, "two pods", 60)
    assert guarded.kubectl("annotate", "poddisruptionbudget", "old", "a=b")


def test_what_was_there_before_is_not_written_anew(guarded: Guarded) -> None:
    allow = [{"op": "replace", "path": "/spec/maxUnavailable", "value": 2}]
    said = outcome(lambda: guarded.kubectl("patch", "pdb", "old", "--type=json", f"--patch={json.dumps(allow)}"))
    assert said.endswith("(K1)")
    restart = outcome(lambda: guarded.kubectl("rollout", "restart", "deployment", "old"))
    assert "(K4)" in restart


def test_kuberay_makes_a_good_cluster_whole_and_its_own_probe_is_none_of_ours(guarded: Guarded) -> None:
    good = manifests.copied(manifests.ray_cluster(manifests.group(), name="good"), SITE.namespace)
    guarded.api.apply(good)
    selector = "ray.io/cluster=good"
    guarded.api.wait_until(lambda: len(guarded.pods(selector)) == 2, "a head and a worker", 60)
    (worker,) = guarded.pods(f"{selector},ray.io/node-type=worker")
    assert "local_raylet_healthz" in str(worker["spec"]["containers"][0]["livenessProbe"])
    # Nobody takes a running pod's opt-outs away.
    name = worker["metadata"]["name"]
    said = outcome(lambda: guarded.kubectl("annotate", "pod", name, f"{names.SAFE_TO_EVICT}-"))
    assert said.endswith("(K5)")
    guarded.kubectl("delete", "raycluster", "good", "--wait")


def test_the_audit_finds_what_is_there_and_nothing_of_what_is_good(guarded: Guarded) -> None:
    command = [sys.executable, "-m", "fleet_app.cli.main", "audit", "--json", f"--kubeconfig={guarded.api.kubeconfig}"]
    done = subprocess.run(
        [*command, f"--cluster={SITE.cluster}", f"--namespace={SITE.namespace}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout)["findings"]
    found = [each for each in findings if each["namespace"] == SITE.namespace]
    assert {(each["rule"], each["kind"], each["name"]) for each in found} >= {
        ("K1", "PodDisruptionBudget", "old"),
        ("K4", "Deployment", "old"),
        ("K5", "RayCluster", "old"),
    }
    assert {each["name"] for each in found} == {"old"}
    assert [(each["rule"], each["kind"], each["name"]) for each in findings if each["namespace"] == ELSEWHERE] == [
        ("K1", "PodDisruptionBudget", "trainer"),
        ("K2", "HorizontalPodAutoscaler", "trainer"),
    ]
