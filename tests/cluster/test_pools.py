"""Node pools on a real API server with KubeRay's real operator; what a kubelet would do, the tests do.

The machines here are objects without anything behind them, with a heartbeat for as long as a test waits; the scheduler
gives them pods, and a pod that is being deleted is let go. The arbiter's side runs as a service account that has the
rules of `access` and no other.
"""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import Configuration

from fleet_app.adapters import kube_nodes
from fleet_app.adapters.kube_client import JSON_PATCH, MERGE_PATCH, Kube
from fleet_app.adapters.kube_pools import GONE_S, RAY, KubePools
from fleet_app.arbiter.ports import PoolChange, PoolsView, PoolsWish
from fleet_app.engine.errors import ConflictError, FleetError, RequestError
from fleet_app.engine.values import NodeClass
from fleet_app.policy.schema import PolicyFile
from fleet_app.render import access, names
from fleet_app.render.admission import admission, anchor
from fleet_app.render.objects import dump
from fleet_app.render.site import Site
from tests.clock import Clock
from tests.cluster.bed.client import Cluster, CommandError
from tests.cluster.machines import CPUS, Machines, machines

NAME = "pooled"
POLICY = PolicyFile.model_validate({"version": 1, "name": "test", "organisations": {"lab": {}}})
MACHINES = {"pool-m1": "training", "pool-m2": "training", "pool-m3": "serving"}
IMAGE = "localhost/none"


@dataclass
class Stand:
    """A namespace with a RayCluster on three machines, and the pools as the arbiter has them."""

    cluster: Cluster
    namespace: str
    machines: Machines
    pools: KubePools
    kube: Kube
    clock: Clock = field(default_factory=Clock)

    def get(self, *words: str) -> Any:
        return self.cluster.get(*words, f"--namespace={self.namespace}")

    def pods(self) -> dict[str, str]:
        """Return by name where each worker's pod is, "" for one that waits, as the kubelets leave them."""
        self.machines.beat()
        found = {}
        for pod in self.get("pods", f"--selector=ray.io/cluster={NAME},ray.io/node-type=worker")["items"]:
            name = pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"]:
                with contextlib.suppress(CommandError):
                    self.cluster.kubectl("delete", "pod", name, f"-n={self.namespace}", "--grace-period=0", "--force")
            else:
                found[name] = pod["spec"].get("nodeName", "")
        return found

    def on(self, machine: str) -> list[str]:
        return [name for name, where in self.pods().items() if where == machine]

    def group(self, name: str) -> dict[str, Any]:
        spec = self.get("raycluster", NAME)["spec"]
        return next(dict(group) for group in spec["workerGroupSpecs"] if group["groupName"] == name)

    def view(self) -> PoolsView:
        self.pools.turn()
        view = self.pools.observe()
        assert view is not None
        return view

    def guard(self) -> None:
        """Put the account under the guards of the policy, as a site would, and wait until they are in force."""
        site = Site(cluster=NAME, namespace=self.namespace)
        rendered = [*admission(site, POLICY), *anchor(site, POLICY)]
        self.cluster.kubectl("apply", "--server-side", "--filename=-", stdin=dump(rendered))
        for kind, name in (("node", "pool-m1"), ("pod", min(self.pods()))):
            self.until(
                lambda kind=kind, name=name: "(K11)" in self.refusal(kind, name, NOTED), f"the guard of a {kind}"
            )

    def refusal(self, kind: str, name: str, patch: Mapping[str, Any]) -> str:
        """Return how the API server refuses a patch of the arbiter's account; empty when it takes it. Keeps nothing."""
        core = self.kube.core
        call = core.patch_node if kind == "node" else core.patch_namespaced_pod
        where = () if kind == "node" else (self.namespace,)
        try:
            self.kube.ask(call, name, *where, body=patch, dry_run="All", _content_type=MERGE_PATCH)
        except FleetError as error:
            return str(error)
        return ""

    def until(self, holds: Callable[[], bool], what: str) -> None:
        self.cluster.wait_until(holds, what, 60)


def ray_cluster() -> dict[str, Any]:
    def template(node_class: str | None) -> dict[str, Any]:
        pod: dict[str, Any] = {"containers": [{"name": "ray", "image": IMAGE, "resources": {}}]}
        if node_class:
            pod["containers"][0]["resources"] = {"limits": {"cpu": str(CPUS - 2), "memory": "1Gi"}}
            pod["nodeSelector"] = {"fleet/class": node_class}
            pod["tolerations"] = [{"key": "fleet/class", "value": node_class, "effect": "NoSchedule"}]
        return {"spec": pod}

    def group(node_class: str, replicas: int) -> dict[str, Any]:
        return {
            "groupName": f"{node_class}-l1",
            "replicas": replicas,
            "minReplicas": 0,
            "maxReplicas": 3,
            "labels": {"fleet/class": node_class, "fleet/leaf": "l1"},
            "rayStartParams": {},
            "template": template(node_class),
        }

    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": NAME},
        "spec": {
            "rayVersion": "2.60.0",
            "headGroupSpec": {"rayStartParams": {}, "template": template(None)},
            "workerGroupSpecs": [group("training", 2), group("serving", 1)],
        },
    }


NOTED = {"metadata": {"annotations": {"a": "b"}}}
CROSSES = {"metadata": {"labels": {names.CLASS_LABEL: "serving"}}}
TAINTED = {"spec": {"taints": [{"key": names.TAINT_KEY, "value": "serving", "effect": "NoSchedule"}]}}

REFUSED: dict[str, tuple[str, Mapping[str, Any]]] = {
    "an annotation of a node": ("node", NOTED),
    "another label of a node": ("node", {"metadata": {"labels": {"node-role.kubernetes.io/x": ""}}}),
    "its only class": ("node", {"metadata": {"labels": {names.CLASS_LABEL: None}}}),
    "a cordon": ("node", {"spec": {"unschedulable": True}}),
    "no taints": ("node", {"spec": {"taints": []}}),
    "a taint that throws pods out": (
        "node",
        {"spec": {"taints": [{"key": names.TAINT_KEY, "value": "training", "effect": "NoExecute"}]}},
    ),
    "another label of a pod": ("pod", {"metadata": {"labels": {"a": "b"}}}),
    "how long a pod may live": ("pod", {"spec": {"activeDeadlineSeconds": 1}}),
    "another owner of a pod": ("pod", {"metadata": {"ownerReferences": []}}),
}
TAKEN: dict[str, tuple[str, Mapping[str, Any]]] = {
    "a node's class": ("node", CROSSES),
    "a node's class, by its taint": ("node", CROSSES | TAINTED),
    "what a node's cards are cut into": ("node", {"metadata": {"labels": {names.MIG_LABEL: "all-1g.10gb"}}}),
    "whether a pod takes requests": ("pod", {"metadata": {"labels": {names.PROXY_LABEL: "true"}}}),
}


def roles(namespace: str) -> list[dict[str, Any]]:
    """Return the service account with the rules of `access`."""

    def rules(*, everywhere: bool) -> list[dict[str, Any]]:
        return [
            {"apiGroups": [rule.group], "resources": [rule.resource], "verbs": list(rule.verbs)}
            | ({"resourceNames": [rule.only]} if rule.only else {})
            for rule in access.rules(NAME)
            if rule.everywhere == everywhere
        ]

    who = [{"kind": "ServiceAccount", "name": names.account(NAME), "namespace": namespace}]
    made = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": names.account(NAME)}}]
    for kind, name, everywhere in (("Role", "arbiter", False), ("ClusterRole", f"{namespace}-arbiter", True)):
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
        made.append({**head, "kind": kind, "rules": rules(everywhere=everywhere)})
        made.append({**head, "kind": f"{kind}Binding", "roleRef": ref, "subjects": who})
    return made


def as_arbiter(cluster: Cluster, namespace: str, folder: Path) -> Configuration:
    """Return the configuration of a client that is the arbiter."""
    known = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
    made = Configuration(host=known["server"])
    authority = known.get("certificate-authority")
    if data := known.get("certificate-authority-data"):
        authority = str(folder / "ca.crt")
        Path(authority).write_bytes(base64.b64decode(data))
    made.ssl_ca_cert = authority
    token = cluster.kubectl("create", "token", names.account(NAME), f"--namespace={namespace}").strip()
    made.api_key = {"authorization": f"Bearer {token}", "BearerToken": f"Bearer {token}"}
    return made


@pytest.fixture
def stand(api: Cluster, tmp_path: Path) -> Iterator[Stand]:
    namespace = f"pools-{time.time_ns() % 10**8}"
    api.kubectl("create", "namespace", namespace)
    try:
        api.apply(*roles(namespace), namespace=namespace)
        with machines(api, MACHINES, {"topology.kubernetes.io/zone": "z1"}) as there:
            kube, clock = Kube(as_arbiter(api, namespace, tmp_path)), Clock()
            pools = KubePools(lambda: kube, NAME, namespace, clock)
            made = Stand(cluster=api, namespace=namespace, machines=there, pools=pools, kube=kube, clock=clock)
            api.apply(ray_cluster(), namespace=namespace)
            made.until(lambda: sorted(made.pods().values()) == sorted(MACHINES), "a pod on every machine")
            made.guard()
            yield made
            kube.close()
    finally:
        kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings"
        api.kubectl("delete", kinds, f"--selector={names.CLUSTER_LABEL}={NAME}")
        api.kubectl("delete", "raycluster", NAME, f"--namespace={namespace}", "--ignore-not-found", within_s=90)
        api.kubectl("delete", "pods", "--all", f"-n={namespace}", "--grace-period=0", "--force", within_s=90)
        api.kubectl("delete", "clusterrole,clusterrolebinding", f"{namespace}-arbiter", "--ignore-not-found")
        api.kubectl("delete", "namespace", namespace, within_s=120)


def test_a_machine_crosses_and_no_other_pod_is_touched(stand: Stand) -> None:
    view = stand.view()
    assert view.troubles == ()
    assert {pod.machine: pod.pool for pod in view.pods} == {m: f"{c}-l1" for m, c in MACHINES.items()}
    (was,) = stand.on("pool-m1")
    kept = {name: where for name, where in stand.pods().items() if name != was}
    wish = PoolChange(machine="pool-m1", pool="training-l1", to=NodeClass.SERVING, pod=was)
    stand.pools.want(PoolsWish(held_pods={was: "llm"}, held_machines={"pool-m1": "llm"}, changes=(wish,)))
    assert "held list still names it" in str(stand.view().troubles)
    assert stand.group("training-l1")["replicas"] == 2
    stand.pools.want(PoolsWish(changes=(wish,)))
    assert stand.view().troubles == ()
    assert stand.group("training-l1")["scaleStrategy"]["workersToDelete"] == [was]
    node = stand.cluster.get("node", "pool-m1")
    assert node["metadata"]["labels"]["fleet/class"] == "serving"
    assert {taint["value"] for taint in node["spec"]["taints"] if taint["key"] == "fleet/class"} == {"serving"}

    def settled() -> bool:
        stand.view()
        stand.clock.at += GONE_S
        stand.machines.beat()
        return was not in stand.pods() and len(stand.on("pool-m1")) == 1

    stand.until(settled, "another pod on the machine")
    (new,) = stand.on("pool-m1")
    assert stand.pods() == {**kept, new: "pool-m1"}
    assert {pod.name: pod.pool for pod in stand.view().pods}[new] == "serving-l1"
    stand.clock.at += GONE_S
    stand.view()
    stand.clock.at += GONE_S
    stand.view()
    assert stand.group("training-l1")["scaleStrategy"]["workersToDelete"] == []
    assert (stand.group("training-l1")["replicas"], stand.group("serving-l1")["replicas"]) == (1, 2)


def test_what_is_held_is_an_object_that_goes_with_the_cluster(stand: Stand) -> None:
    stand.pools.want(PoolsWish(held_pods={"p1": "llm", "p2": "llm"}, held_machines={"pool-m1": "llm"}))
    assert stand.view().troubles == ()
    found = stand.get("configmap", f"{NAME}-held")
    assert found["data"] == {"pod.p1": "llm", "pod.p2": "llm", "node.pool-m1": "llm"}
    assert [owner["kind"] for owner in found["metadata"]["ownerReferences"]] == ["RayCluster"]
    stand.cluster.kubectl(
        *("annotate", "configmap", f"{NAME}-held", f"--namespace={stand.namespace}", "seen=yes")
    )  # another version than the one that we know
    stand.pools.want(PoolsWish(held_pods={"p2": "other"}))
    stand.pools.turn(look=False)
    stand.view()
    assert stand.get("configmap", f"{NAME}-held")["data"] == {"pod.p2": "other"}
    stand.cluster.kubectl("delete", "raycluster", NAME, f"--namespace={stand.namespace}", "--wait=false")

    def gone() -> bool:
        stand.pods()
        return not stand.get("configmaps", f"--field-selector=metadata.name={NAME}-held")["items"]

    stand.until(gone, "the list to go with the cluster")


def test_a_cordon_and_an_eviction_are_seen(stand: Stand) -> None:
    stand.cluster.kubectl("cordon", "pool-m2")
    (going,) = stand.on("pool-m1")
    stand.cluster.kubectl("delete", "pod", going, f"--namespace={stand.namespace}", "--wait=false")
    view = stand.view()
    assert [machine.name for machine in view.machines if machine.cordoned] == ["pool-m2"]
    (ends_at,) = [pod.ends_at for pod in view.pods if pod.name == going]
    assert ends_at is not None
    assert abs(ends_at - time.time() - 30) < 30, "its grace from now on"


def test_a_patch_that_rests_on_what_was_does_nothing(stand: Stand) -> None:
    where = (*RAY, stand.namespace, "rayclusters", NAME)
    before = kube_nodes.ray_cluster(stand.kube.ask(stand.kube.custom.get_namespaced_custom_object, *where))
    stand.cluster.kubectl("annotate", "raycluster", NAME, f"--namespace={stand.namespace}", "seen=yes")
    leaves, joins = before.group("training-l1"), before.group("serving-l1")
    assert leaves is not None
    assert joins is not None
    patch = kube_nodes.repooled(before, leaves, joins, "any")
    with pytest.raises(ConflictError):
        stand.kube.ask(stand.kube.custom.patch_namespaced_custom_object, *where, body=patch, _content_type=JSON_PATCH)
    assert stand.group("training-l1")["replicas"] == 2


def test_the_arbiter_may_not_do_more(stand: Stand) -> None:
    (name, *_) = stand.pods()
    core = stand.kube.core
    for call, where in (
        (core.delete_namespaced_pod, (name, stand.namespace)),
        (core.list_namespaced_secret, (stand.namespace,)),
        (core.delete_node, ("pool-m1",)),
        (core.list_namespaced_pod, ("default",)),
    ):
        with pytest.raises(RequestError, match="403"):
            stand.kube.ask(call, *where)


def test_of_a_node_and_a_pod_it_may_change_what_the_arbiter_does_and_nothing_else(stand: Stand) -> None:
    pod = min(stand.pods())
    for what, (kind, patch) in REFUSED.items():
        said = stand.refusal(kind, "pool-m1" if kind == "node" else pod, patch)
        assert "(K11)" in said, what
        assert f"{stand.namespace}:{names.account(NAME)} may change only" in said
    for what, (kind, patch) in TAKEN.items():
        assert stand.refusal(kind, "pool-m1" if kind == "node" else pod, patch) == "", what


def test_a_node_without_the_fleet_s_label_is_none_of_its_business_and_everybody_else_s_is_as_ever(stand: Stand) -> None:
    name = f"{stand.namespace}-web"
    stand.cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    try:
        assert "may change only nodes of the fleet, which have a class" in stand.refusal("node", name, CROSSES)
        for each in (name, "pool-m1"):
            stand.cluster.kubectl("label", "node", each, "anybody=yes")
            stand.cluster.kubectl("annotate", "node", each, "anybody=yes")
            stand.cluster.kubectl("cordon", each)
            stand.cluster.kubectl("uncordon", each)
        stand.cluster.kubectl("annotate", "pod", min(stand.pods()), f"--namespace={stand.namespace}", "anybody=yes")
    finally:
        stand.cluster.kubectl("delete", "node", name)
