"""One fleet from its installation to its end, on a cluster whose pods run: what the chart promises, seen from outside.

The tests are steps of one story, in the order of this file: each leaves the fleet idle for the next.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet_app.policy.schema import PolicyFile
from fleet_app.render import access
from fleet_app.render.admission import admission, anchor
from fleet_app.render.objects import dump
from fleet_app.render.site import Site
from tests.cluster.bed.client import Cluster, CommandError
from tests.cluster.fleets import ROOT, Fleet, namespace

NAME = "lab"
SITE = Site(cluster=NAME, namespace="fleet-story")
# Upper bounds, for machines that do much else beside: nothing waits longer than for what it waits for.
UP_WITHIN_S = 600
DONE_WITHIN_S = 300
AFTER_DEADLINE_S = 5  # what the drain contract says
RETURN_S = 30  # in which an arbiter that is back sees what it missed
POLICY = """
version: 1
name: lab
topology: {levels: [leaf], gpus_per_node: 8}
organisations:
  lab:
    teams:
      serving: {nominal: 8, borrowing_limit: 0}
      research: {nominal: 16}
      batch: {nominal: 0}
classes:
  serving-production: {value: 100000, teams: [serving]}
  training-committed: {value: 50000, teams: [research]}
  training-backfill: {value: 1000, borrows: true, yields: true}
default_class: {gang: training-committed, backfill: training-backfill, service: serving-production}
drain: {grace: 20s, longest_grace: 60s}
headroom: {immediate: 0}
boundary: {serving: serving, training: research, horizon: 1h, margin: 0}
"""
RULES = PolicyFile.model_validate(yaml.safe_load(POLICY))
GANG = {"kind": "gang", "team": "research", "nodes": "2", "gpus": "8"}
BACKFILL = {"kind": "backfill", "team": "batch", "nodes": "1", "gpus": "4"}
SLOW_BACKFILL = {**BACKFILL, "grace": "60s"}  # the head is back before it has to be gone
WORKERS, SERVING = "ray.io/node-type=worker", "fleet/class=serving"
MINE = f"--pod-selector=ray.io/cluster={NAME},{WORKERS}"
DRAIN = ("drain", "--ignore-daemonsets", "--delete-emptydir-data", "--force", MINE)


def values(image: str, **changes: Any) -> Mapping[str, Any]:
    """A node for serving and two for training, with as little of a small machine as will do."""
    repository, tag = image.rsplit(":", 1)
    small = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "4Gi"}}
    return {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
        "policy": POLICY,
        "serve": (ROOT / "serve_configs" / "hello.yaml").read_text(encoding="utf-8"),
        "shapes": {"small": {"gpus": 8, "gpuResource": "nvidia.com/gpu", "cpu": "50m", "memory": "2Gi", "rayCpus": 16}},
        "domains": [
            {"levels": {"leaf": "l1"}, "shape": "small", "serving": 1, "training": 0},
            {"levels": {"leaf": "l2"}, "shape": "small", "serving": 0, "training": 2},
        ],
        "nodes": {"select": True, "name": "node"},
        # More than what `helm uninstall` waits: no pod may take it all when there is nobody left to drain it.
        "workers": {"terminationGraceSeconds": 600},
        "head": {"resources": small, "tolerations": [{"operator": "Exists"}]},
        "redis": {"enabled": True},
        "rendered": dump(admission(SITE, RULES)),
        **changes,
    }


@pytest.fixture(scope="module")
def fleet(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet that Helm has installed; all its nodes are there."""
    if cluster.image is None:
        pytest.skip("FLEET_TEST_IMAGE does not name an image of the fleet for FLEET_TEST_KUBECONFIG")
    with kept_classes(cluster), namespace(cluster, SITE.namespace) as there:
        cluster.apply(*anchor(SITE, RULES))  # stays: once in a cluster's life
        fleet = Fleet(cluster=cluster, namespace=there, name=NAME)
        fleet.upgrade(values(cluster.image), tmp_path_factory.mktemp("values"))
        cluster.wait_until(lambda: len(fleet.ask("nodes")) == 3, "three nodes of the fleet", UP_WITHIN_S)
        yield fleet


def test_nodes_are_seen_with_class_and_topology(fleet: Fleet) -> None:
    seen = sorted((node["class"], node["domains"]["leaf"], node["gpus_total"]) for node in fleet.ask("nodes"))
    assert seen == [("serving", "l1", 8)] + [("training", "l2", 8)] * 2


def test_the_service_answers_at_its_name(fleet: Fleet) -> None:
    fleet.cluster.wait_until(lambda: "pid" in fleet.hello(), "an answer of the service", DONE_WITHIN_S)
    # Serve may have started it before there was an arbiter: it is the service's all the same.
    fleet.cluster.wait_until(lambda: occupied(fleet) == 1, "its replica to be known", DONE_WITHIN_S)
    assert [node["gpus_foreign"] for node in fleet.ask("nodes")] == [0, 0, 0]


def test_a_gang_of_ray_job_submit_is_placed_whole(fleet: Fleet) -> None:
    with running(fleet, "whole", GANG):
        assert set(fleet.workload("whole")["nodes"]) == names(fleet, "training")
        free = {node["gpus_free"] for node in fleet.ask("nodes") if node["class"] == "training"}
        assert free == {0}


def test_a_spike_of_requests_drains_backfill_which_resumes_after_it(fleet: Fleet, tmp_path: Path) -> None:
    with running(fleet, "gang", GANG), running(fleet, "lent", BACKFILL):
        assert set(fleet.workload("lent")["nodes"]) <= names(fleet, "serving")
        with fleet.load(tmp_path / "answers", at_once=10):
            fleet.cluster.wait_until(lambda: occupied(fleet) == 2, "two replicas", DONE_WITHIN_S)
            drained = fleet.workload("lent")
            assert drained["phase"] == "queued"
            assert drained["broken_drains"] == 0
        saved = drained["checkpoint"]["step"]
        wait_for(fleet, "lent", "running")
        resumed = lambda: f"starts at {saved}" in fleet.run("fleet", "logs", "lent")  # noqa: E731
        fleet.cluster.wait_until(resumed, f"lent to go on from step {saved}", DONE_WITHIN_S)
        assert (tmp_path / "answers").read_text(encoding="utf-8").split("\n", 1)[0] == "200"
        assert (fleet.workload("gang")["phase"], fleet.workload("gang")["attempt"]) == ("running", 1)


def test_a_head_that_is_lost_in_the_middle_of_a_drain_breaks_nothing(fleet: Fleet, tmp_path: Path) -> None:
    with running(fleet, "gang-2", GANG), running(fleet, "lent-2", SLOW_BACKFILL, takes_s=40):
        before = fleet.workload("gang-2")
        head = fleet.head()
        with fleet.load(tmp_path / "answers", at_once=10):
            saves = lambda: "saves" in fleet.run("fleet", "logs", "lent-2")  # noqa: E731
            fleet.cluster.wait_until(saves, "lent-2 to know that it is to leave", DONE_WITHIN_S)
            deadline_at = fleet.workload("lent-2")["deadline_at"]
            fleet.kubectl("delete", "pod", head, "--grace-period=0", "--force")
            answered = count(tmp_path / "answers")
            more = lambda: count(tmp_path / "answers") > answered  # noqa: E731
            fleet.cluster.wait_until(more, "answers without a head", DONE_WITHIN_S)
            fleet.cluster.wait_until(lambda: fleet.head() != head and bool(fleet.ask("nodes")), "a head", UP_WITHIN_S)
            wait_for(fleet, "lent-2", "queued")
            drained = fleet.workload("lent-2")
            back_at = last(fleet, "arbiter", "arbiter")
            gone_at = last(fleet, "lent-2", "requeued")
            if back_at < deadline_at - RETURN_S:
                assert gone_at <= deadline_at + AFTER_DEADLINE_S
                assert (drained["broken_drains"], drained["checkpoint"]["step"] > 0) == (0, True)
            else:  # nobody ends it while there is no arbiter, and a busy machine may need that long for a head
                assert gone_at <= back_at + RETURN_S
        wait_for(fleet, "lent-2", "running")
        assert fleet.workload("gang-2")["attempt"] == before["attempt"]


def test_a_drain_of_a_machine_waits_until_the_gang_there_has_moved(fleet: Fleet) -> None:
    # It takes its time to leave, so that the eviction comes first.
    with running(fleet, "drained", GANG, takes_s=20):
        machine = fleet.workload("drained")["nodes"][0]
        try:
            with pytest.raises(CommandError, match="holds gang drained"):
                fleet.cluster.kubectl(*DRAIN, "--timeout=15s", machine)
            wait_for(fleet, "drained", "queued")
            fleet.cluster.kubectl(*DRAIN, f"--timeout={DONE_WITHIN_S}s", machine, within_s=DONE_WITHIN_S + 30)
        finally:
            fleet.cluster.kubectl("uncordon", machine)
        wait_for(fleet, "drained", "running", UP_WITHIN_S)
        assert fleet.workload("drained")["broken_drains"] == 0


def test_an_upgrade_leaves_a_running_gang_alone(fleet: Fleet, tmp_path: Path) -> None:
    policy, image = POLICY.replace("longest_grace: 60s", "longest_grace: 50s"), str(fleet.cluster.next_image)
    larger = [{**domain, "serving": 2 * domain["serving"]} for domain in values(image)["domains"]]
    with running(fleet, "upgraded", GANG):
        before = {pod["metadata"]["uid"] for pod in fleet.pods(WORKERS)}
        added = lambda: [pod for pod in fleet.pods(WORKERS) if pod["metadata"]["uid"] not in before]  # noqa: E731
        fleet.upgrade(values(image, policy=policy, domains=larger), tmp_path)
        (pod,) = fleet.cluster.wait_for(added, "a pod of the larger group", UP_WITHIN_S)
        assert images(pod) == {image}
        in_force = lambda: "50s" in fleet.run("fleet", "policy", "show")  # noqa: E731
        # A kubelet takes its time to bring a ConfigMap up to date in a pod.
        fleet.cluster.wait_until(in_force, "the new policy to be in force", DONE_WITHIN_S)
        fleet.upgrade(values(image, policy=policy), tmp_path)
        fleet.cluster.wait_until(lambda: not added(), "the group to be as it was", UP_WITHIN_S)
        assert {pod["metadata"]["uid"] for pod in fleet.pods(WORKERS)} == before
        assert (fleet.workload("upgraded")["phase"], fleet.workload("upgraded")["attempt"]) == ("running", 1)
        assert "pid" in fleet.hello()


def test_a_node_goes_over_to_serving_and_no_pod_but_its_own_is_replaced(fleet: Fleet, tmp_path: Path) -> None:
    fleet.cluster.wait_until(lambda: len(names(fleet, "training")) == 2, "two nodes for training", UP_WITHIN_S)
    before = {pod["metadata"]["uid"]: on(pod) for pod in fleet.pods(WORKERS)}
    with fleet.load(tmp_path / "answers", at_once=10):
        planned = lambda: fleet.ask("boundary")["plan"]["steps"]  # noqa: E731
        machine = fleet.cluster.wait_for(planned, "a node that serving needs", DONE_WITHIN_S)[0]["node"]
        fleet.run("fleet", "boundary", "--apply", "--who", "tests")
        fleet.cluster.wait_until(lambda: machine in names(fleet, "serving"), f"{machine} to serve", UP_WITHIN_S)
        fleet.cluster.wait_until(lambda: occupied(fleet) > 2, "replicas there", UP_WITHIN_S)
    label = fleet.cluster.get("node", machine)["metadata"]["labels"]["fleet/class"]
    after = {pod["metadata"]["uid"]: on(pod) for pod in fleet.pods(WORKERS)}
    assert (label, list(after.values()).count(machine)) == ("serving", 1)
    assert {uid for uid, where in before.items() if where != machine} <= set(after)


def test_replicas_move_to_pods_of_a_new_image_without_a_failed_request(fleet: Fleet, tmp_path: Path) -> None:
    image = str(fleet.cluster.next_image)
    (old,) = [on(pod) for pod in fleet.pods(SERVING) if images(pod) != {image}]
    app = (ROOT / "serve_configs" / "hello.yaml").read_text(encoding="utf-8")
    renewed = app.replace("    deployments:", "    runtime_env: {env_vars: {RENEWED: once}}\n    deployments:")
    with fleet.load(tmp_path / "answers", at_once=4, where="fleet/class=training"):
        fleet.cluster.wait_until(lambda: occupied(fleet) > 1, "two replicas", DONE_WITHIN_S)
        fleet.cluster.kubectl("cordon", old)
        try:
            fleet.upgrade(values(image, serve=renewed), tmp_path)
            left = lambda: old not in fleet.ask("services")[0]["nodes"]  # noqa: E731
            fleet.cluster.wait_until(left, f"the replicas to have left {old}", UP_WITHIN_S)
            fleet.cluster.kubectl(*DRAIN, f"--timeout={DONE_WITHIN_S}s", old, within_s=DONE_WITHIN_S + 30)
        finally:
            fleet.cluster.kubectl("uncordon", old)
        new = lambda: {on(pod) for pod in fleet.pods(SERVING) if images(pod) == {image}}  # noqa: E731
        fleet.cluster.wait_until(lambda: old in new() & ready(fleet), f"{old} to be back", UP_WITHIN_S)
    assert new() == names(fleet, "serving")
    assert set((tmp_path / "answers").read_text(encoding="utf-8").splitlines()) == {"200"}


def test_the_arbiter_may_do_what_it_calls_and_no_more(fleet: Fleet) -> None:
    want = {(rule.group, rule.resource, tuple(sorted(rule.verbs)), rule.only) for rule in access.rules(NAME)}
    assert allowed(fleet, f"{NAME}-arbiter") - allowed(fleet, f"{NAME}-worker") == want


def test_an_uninstalled_fleet_leaves_nothing(fleet: Fleet) -> None:
    fleet.cluster.helm("uninstall", NAME, "--namespace", fleet.namespace, "--wait", f"--timeout={UP_WITHIN_S}s")
    kinds = "rayclusters,pods,services,configmaps,secrets,persistentvolumeclaims,roles,rolebindings,serviceaccounts"
    mine = f"--selector=app.kubernetes.io/instance={NAME}"
    gone = lambda: fleet.kubectl("get", "pods", "--output=name") == ""  # noqa: E731
    fleet.cluster.wait_until(gone, "all pods to be gone", DONE_WITHIN_S)
    assert fleet.kubectl("get", kinds, mine, "--output=name") == ""
    cluster_wide = (
        "priorityclasses,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
    )
    assert fleet.cluster.kubectl("get", cluster_wide, mine, "--output=name") == ""


@contextlib.contextmanager
def running(fleet: Fleet, name: str, about: Mapping[str, str], takes_s: float = 0) -> Iterator[None]:
    """Have a job that runs, meanwhile; its name is never used twice."""
    fleet.submit(name, about, takes_s)
    wait_for(fleet, name, "running")
    try:
        yield
    finally:
        fleet.run("fleet", "cancel", name)
        wait_for(fleet, name, "stopped")


def allowed(fleet: Fleet, account: str) -> set[tuple[str, str, tuple[str, ...], str]]:
    """Return what `kubectl auth can-i --list` would list for a service account: group, resource, verbs, name."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": fleet.namespace},
    }
    who = f"--as=system:serviceaccount:{fleet.namespace}:{account}"
    answer = json.loads(
        fleet.kubectl("create", "--validate=false", "--filename=-", "--output=json", who, stdin=json.dumps(review))
    )
    return {
        (group, resource, tuple(sorted(rule["verbs"])), only)
        for rule in answer["status"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for only in rule.get("resourceNames", [""])
    }


def on(pod: Mapping[str, Any]) -> str:
    """Return the machine of a pod."""
    return str(pod["spec"].get("nodeName"))


def images(pod: Mapping[str, Any]) -> set[str]:
    """Return the images of a pod's containers."""
    return {str(container["image"]) for container in pod["spec"]["containers"]}


def last(fleet: Fleet, subject: str, kind: str) -> float:
    """Return when something last happened to a workload, or to the arbiter."""
    return max(float(each["at"]) for each in fleet.ask("events", "--subject", subject) if each["kind"] == kind)


def count(answers: Path) -> int:
    """Return how many requests have been answered."""
    return answers.read_text(encoding="utf-8").splitlines().count("200")


@contextlib.contextmanager
def kept_classes(cluster: Cluster) -> Iterator[None]:
    """Give machines the classes back that they have now."""
    before = cluster.get("nodes", "--selector=fleet/class")["items"]
    try:
        yield
    finally:
        for node in before:
            labels = {"fleet/class": node["metadata"]["labels"]["fleet/class"]}
            patch = {"metadata": {"labels": labels}, "spec": {"taints": node["spec"].get("taints")}}
            cluster.kubectl("patch", "node", node["metadata"]["name"], "--type=merge", f"--patch={json.dumps(patch)}")


def names(fleet: Fleet, node_class: str) -> set[str]:
    """Return the names of the nodes of a class."""
    return {node["name"] for node in fleet.ask("nodes") if node["class"] == node_class}


def ready(fleet: Fleet) -> set[str]:
    """Return the names of the nodes where something new may be placed."""
    return {node["name"] for node in fleet.ask("nodes") if node["condition"] == "ready"}


def occupied(fleet: Fleet) -> int:
    """Return how many replicas the one service has. Raises LookupError while it is not known."""
    return int(fleet.ask("services")[0]["occupied"])


def wait_for(fleet: Fleet, name: str, phase: str, within_s: float = DONE_WITHIN_S) -> None:
    """Wait until a workload is in a phase."""
    fleet.cluster.wait_until(lambda: fleet.workload(name)["phase"] == phase, f"{name} to be {phase}", within_s)
