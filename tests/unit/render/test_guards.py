"""What admission refuses and what it lets pass, by its own expressions (rules K1 to K11 of docs/audit.md)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_app.audit.judge import Bench, Request
from fleet_app.policy.schema import PolicyFile
from fleet_app.render import names
from fleet_app.render.account import user
from fleet_app.render.admission import guards
from fleet_app.render.guards import RULES
from tests import manifests as kube

POLICY = PolicyFile.model_validate({"version": 1, "name": "test", "organisations": {"lab": {}}})
STRICT = POLICY.model_copy(update={"kubernetes": POLICY.kubernetes.model_copy(update={"budgets": "blocking"})})
GUARDS = guards(kube.SITE, POLICY)
BENCH = Bench(GUARDS)
REFUSED = kube.REFUSED | kube.ONLY_OFFLINE
PASSES = kube.PASSES | kube.PASSES_OFFLINE


def asked(thing: kube.Object, bench: Bench = BENCH, **more: object) -> list[tuple[str, str]]:
    """Return what admission says of an object: rules and messages."""
    given: dict[str, object] = {"name": thing["metadata"]["name"], "namespace": thing["metadata"].get("namespace", "")}
    return bench.refusals(thing["kind"], thing, Request(**(given | more)))


@pytest.mark.parametrize(("rule", "thing"), REFUSED.values(), ids=REFUSED)
def test_refused(rule, thing):
    found = dict(asked(thing))
    assert rule in found
    assert found[rule].startswith(f"{thing['kind']} {thing['metadata']['name']} ")
    assert found[rule].endswith(f" ({rule})")


@pytest.mark.parametrize("thing", PASSES.values(), ids=PASSES)
def test_passes(thing):
    assert asked(thing) == []


@pytest.mark.parametrize("thing", kube.STRANGERS.values(), ids=kube.STRANGERS)
def test_a_gpu_pod_that_is_not_the_fleets_is_found(thing):
    assert [rule for rule, _ in asked(thing)] == ["K8"]


def test_a_toleration_that_says_nothing_tolerates_nothing():
    asks = [kube.container(resources={"limits": {"nvidia.com/gpu": "1"}})]
    assert asked(kube.gpu_pod(spec={"containers": asks, "tolerations": [{}]})) == []


BLOCKING = {
    "no pod may be away": (kube.budget({}, maxUnavailable=0), []),
    "no part of the pods may be away": (kube.budget({}, maxUnavailable="0%"), []),
    "all have to be there": (kube.budget({}, minAvailable="100%"), []),
    "one may be away": (kube.budget({}, maxUnavailable=1), ["K1"]),
    "some have to be there": (kube.budget({}, minAvailable="99%"), ["K1"]),
}


@pytest.mark.parametrize(("thing", "want"), BLOCKING.values(), ids=BLOCKING)
def test_a_policy_may_allow_budgets_that_allow_no_eviction(thing, want):
    assert [rule for rule, _ in asked(thing, Bench(guards(kube.SITE, STRICT)))] == want


def owned(kind: str, *, controller: bool = True) -> kube.Object:
    owner = {"apiVersion": "v1", "kind": kind, "name": "it", "uid": "1", "controller": controller}
    return kube.pod(annotations={}, probe=kube.PROBE, owner=owner)


OWNERS = {
    "KubeRay's pods are looked at in the RayCluster": (owned("RayCluster"), []),
    "a Job's in the Job": (owned("Job"), []),
    "another owner's are looked at themselves": (owned("PyTorchJob"), ["K3", "K5"]),
    "an owner that does not control counts for nothing": (owned("Job", controller=False), ["K3", "K5"]),
}


@pytest.mark.parametrize(("thing", "want"), OWNERS.values(), ids=OWNERS)
def test_who_made_a_pod(thing, want):
    assert [rule for rule, _ in asked(thing)] == want


def with_spec(thing: kube.Object, **spec: object) -> kube.Object:
    return {**thing, "spec": {**thing["spec"], **spec}}


BAD_CLUSTER = kube.ray_cluster(kube.group(annotations={}))
GROWN = kube.ray_cluster({**kube.group(annotations={}), "replicas": 3})
ANOTHER = kube.ray_cluster(kube.group(annotations={}), kube.group("more", annotations={}))
BAD_JOB = kube.job(annotations={})
BAD_BUDGET = kube.budget({})

UPDATES = {
    "a controller notes something on what was there": (BAD_BUDGET, {**BAD_BUDGET, "status": {}}, []),
    "a budget that was there is written anew": (BAD_BUDGET, kube.budget({}, maxUnavailable=2), ["K1"]),
    "a Job that was there is let start": (BAD_JOB, with_spec(BAD_JOB, suspend=False), []),
    "a Job's template is written anew": (BAD_JOB, kube.job(annotations={}, grace=600), ["K5"]),
    "a worker group that was there grows": (BAD_CLUSTER, GROWN, []),
    "a worker group is added": (BAD_CLUSTER, ANOTHER, ["K5"]),
    "a worker group's template is written anew": (BAD_CLUSTER, kube.ray_cluster(kube.group(grace=1)), ["K9"]),
    "an opt-out of a running pod is taken away": (kube.pod(), kube.pod(annotations={}), ["K5"]),
    "with the label that made it a gang's": (kube.pod(), kube.pod(labels={}, annotations={}), ["K5"]),
    "a pod that never had them is noted on": (kube.pod(annotations={}), kube.pod(annotations={"a": "b"}), []),
    "a pod of serving's is noted on": (kube.pod(labels=kube.SERVING), kube.pod(annotations={}), []),
}


@pytest.mark.parametrize(("before", "after", "want"), UPDATES.values(), ids=UPDATES)
def test_updates(before, after, want):
    assert [rule for rule, _ in asked(after, operation="UPDATE", before=before)] == want


EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "w-1", "namespace": "fleet"}}
HELD = {"kind": "ConfigMap", "data": {"pod.w-1": "llm", "node.gpu-1": "llm"}}

EVICTIONS = {
    "a pod that holds a gang": (EVICTION, HELD, ["K6"]),
    "one that holds none": ({**EVICTION, "metadata": {"name": "w-2", "namespace": "fleet"}}, HELD, []),
    "one of its name elsewhere": ({**EVICTION, "metadata": {"name": "w-1", "namespace": "web"}}, HELD, []),
    "a pod of the name of a node that holds one": (
        {**EVICTION, "metadata": {"name": "gpu-1", "namespace": "fleet"}},
        HELD,
        [],
    ),
    "nothing is held": (EVICTION, {"kind": "ConfigMap"}, []),
}


@pytest.mark.parametrize(("thing", "held", "want"), EVICTIONS.values(), ids=EVICTIONS)
def test_evictions(thing, held, want):
    assert [rule for rule, _ in asked(thing, held=held)] == want


def test_a_refused_eviction_says_whose_pod_it_is_and_what_to_do():
    ((_, message),) = asked(EVICTION, held=HELD)
    assert message == (
        "Pod w-1 holds gang llm now. A cordon makes the arbiter move it at its next checkpoint: drain again then (see "
        "fleet nodes). If no arbiter is left to move it: kubectl -n fleet delete configmap prod-held (K6)"
    )


def node(name: str, **labels: str) -> kube.Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


CLASS = names.CLASS_LABEL
NODES = {
    "a node that holds a gang changes sides": (
        node("gpu-1", **{CLASS: "training"}),
        node("gpu-1", **{CLASS: "serving"}),
        ["K7"],
    ),
    "it loses its class": (node("gpu-1", **{CLASS: "training"}), node("gpu-1"), ["K7"]),
    "it gets another label": (node("gpu-1", **{CLASS: "training"}), node("gpu-1", **{CLASS: "training", "a": "b"}), []),
    "a node that holds none changes sides": (
        node("gpu-2", **{CLASS: "training"}),
        node("gpu-2", **{CLASS: "serving"}),
        [],
    ),
    "a node gets its first class": (node("gpu-1"), node("gpu-1", **{CLASS: "training"}), []),
}


@pytest.mark.parametrize(("before", "after", "want"), NODES.values(), ids=NODES)
def test_nodes(before, after, want):
    assert [rule for rule, _ in asked(after, operation="UPDATE", before=before, held=HELD)] == want


HEAD = user(kube.SITE)
TAINTS = [{"key": "other", "effect": "NoExecute"}, {"key": CLASS, "value": "training", "effect": "NoSchedule"}]


def ours(labels: kube.Object | None = None, taints: list[kube.Object] = TAINTS, **more: object) -> kube.Object:
    """Return a node that is training's unless its labels say otherwise; `more` is of its metadata or its spec."""
    metadata = {key: value for key, value in more.items() if key in {"annotations", "finalizers"}}
    spec = {key: value for key, value in more.items() if key not in metadata}
    thing = node("gpu-2", **({CLASS: "training", "a": "b"} | (labels or {})))
    return {**thing, "metadata": thing["metadata"] | metadata, "spec": {"taints": taints, **spec}}


def tainted(value: str | None, effect: str = "NoSchedule") -> list[kube.Object]:
    return [TAINTS[0], {"key": CLASS, "effect": effect, **({"value": value} if value else {})}]


CROSSED = ours({CLASS: "serving"}, tainted("serving"))
STRANGE = {**node("web-1", a="b"), "spec": {"taints": []}}
LOST = {**ours(), "metadata": node("gpu-2", a="b")["metadata"]}

# With how often K11 is broken.
BY_THE_HEAD = {
    "a node crosses": (ours(), CROSSED, 0),
    "its cards are to be cut": (ours(), ours({names.MIG_LABEL: "all-1g.10gb"}), 0),
    "nothing changes": (ours(), ours(), 0),
    "a node without the fleet's label gets it": (
        STRANGE,
        {**STRANGE, **node("web-1", **{"a": "b", CLASS: "serving"})},
        1,
    ),
    "one without it gets another": (STRANGE, {**STRANGE, **node("web-1", a="c")}, 2),
    "a node loses its class": (ours(), LOST, 1),
    "it gets one that there is not": (ours(), ours({CLASS: "none"}), 1),
    "another label is changed": (ours(), ours({"a": "c"}), 1),
    "another label is added": (ours(), ours({"c": "d"}), 1),
    "another label is taken away": (ours({"c": "d"}), ours(), 1),
    "its taint is taken away": (ours(), ours(taints=TAINTS[:1]), 1),
    "its taint is of another effect": (ours(), ours(taints=tainted("training", "NoExecute")), 1),
    "its taint is of no class": (ours(), ours(taints=tainted(None)), 1),
    "another taint is taken away": (ours(), ours(taints=TAINTS[1:]), 1),
    "another taint is added": (ours(), ours(taints=[*TAINTS, {"key": "x", "effect": "NoExecute"}]), 1),
    "it is cordoned": (ours(), ours(unschedulable=True), 1),
    "a cordon is taken away": (ours(unschedulable=True), ours(), 1),
    "an annotation is added": (ours(), ours(annotations={"a": "b"}), 1),
    "a finalizer is added": (ours(), ours(finalizers=["a/b"]), 1),
}


@pytest.mark.parametrize(("before", "after", "broken"), BY_THE_HEAD.values(), ids=BY_THE_HEAD)
def test_what_the_head_s_account_changes_of_a_node(before, after, broken):
    change = {"operation": "UPDATE", "before": before, "held": HELD}
    assert [rule for rule, _ in asked(after, **change, user=HEAD)] == ["K11"] * broken
    assert asked(after, **change, user="system:node:gpu-2") == []


PROXY = {names.PROXY_LABEL: "true"}
PODS_BY_THE_HEAD = {
    "a pod takes requests": (kube.pod(), kube.pod(more_labels=PROXY), []),
    "it takes none any more": (kube.pod(more_labels=PROXY), kube.pod(), []),
    "a pod gets another image": (kube.pod(), with_spec(kube.pod(), containers=[kube.container(image="x")]), ["K11"]),
    "a pod loses its class": (kube.pod(), kube.pod(labels={}), ["K11"]),
    "a pod is noted on": (kube.pod(), kube.pod(annotations={**kube.OPT_OUTS, "a": "b"}), ["K11"]),
}


@pytest.mark.parametrize(("before", "after", "want"), PODS_BY_THE_HEAD.values(), ids=PODS_BY_THE_HEAD)
def test_what_the_head_s_account_changes_of_a_pod(before, after, want):
    assert [rule for rule, _ in asked(after, operation="UPDATE", before=before, user=HEAD)] == want
    assert asked(after, operation="UPDATE", before=before, user=f"{HEAD}s") == []


def test_a_refusal_of_the_head_s_account_says_what_it_may():
    ((_, message),) = asked(ours({"a": "c"}), operation="UPDATE", before=ours(), user=HEAD)
    assert message == (
        "Node gpu-2: system:serviceaccount:fleet:prod-arbiter may change only fleet/class, by label and taint, and "
        "nvidia.com/mig.config. Do it as somebody who may; a node that is to cross has the label fleet/class. (K11)"
    )


def test_every_rule_is_asked_by_a_guard():
    assert {check.rule for guard in GUARDS for check in guard.checks} == {rule.id for rule in RULES}


# Whatever a manifest leaves out, an expression has an answer: one that failed would stop everybody's requests.

OPTIONAL = frozenset(
    {"annotations", "generateName", "labels", "name", "ownerReferences", "selector", "matchLabels", "matchExpressions"}
    | {"controller", "livenessProbe", "exec", "command", "periodSeconds", "failureThreshold", "resources", "limits"}
    | {"nodeSelector", "tolerations", "key", "operator", "initContainers", "updateStrategy", "type", "strategy"}
    | {"terminationGracePeriodSeconds", "priorityClassName", "workerGroupSpecs", "rayClusterSpec", "maxUnavailable"}
    | {"minAvailable", "kind", "namespace", "metadata", "affinity", "effect", "value", "matchExpressions"}
    | {"nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"}
)
THINGS = [*(thing for _, thing in REFUSED.values()), *PASSES.values(), *kube.STRANGERS.values()]


def keys(value: object) -> Iterator[str]:
    """Yield every key of an object, at any depth."""
    if isinstance(value, dict):
        yield from value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys(each)


@st.composite
def thinned(draw: st.DrawFn) -> tuple[str, kube.Object]:
    """Return an object that lacks some of what may be left out, and its kind."""
    thing = draw(st.sampled_from(THINGS))
    drop = draw(st.frozensets(st.sampled_from(sorted(OPTIONAL & set(keys(thing)))), max_size=4))

    def thin(value: object, inside: str) -> object:
        if isinstance(value, dict):
            # What every object, and every term of a selector, has.
            kept = {"key", "operator"} if inside == "matchExpressions" else {"metadata"} if not inside else frozenset()
            lost = drop - kept
            return {key: thin(each, key) for key, each in value.items() if key not in lost}
        if isinstance(value, list):
            return [thin(each, inside) for each in value]
        return value

    found = thin(thing, "")
    assert isinstance(found, dict)
    return thing["kind"], {**found, "kind": thing["kind"]}


@given(thinned(), thinned(), st.sampled_from(["CREATE", "UPDATE"]))
def test_every_expression_has_an_answer(one, other, operation):
    kind, thing = one
    before = other[1] if other[0] == kind and operation == "UPDATE" else thing if operation == "UPDATE" else None
    for rule, message in BENCH.refusals(kind, thing, Request(operation=operation, name="x", before=before)):
        assert message.endswith(f"({rule})")
