"""What an audit finds among objects that it sees together, which admission sees one by one."""

from __future__ import annotations

from copy import deepcopy

import pytest

from fleet_app.audit.judge import Bench
from fleet_app.audit.relations import audit
from fleet_app.audit.things import Finding, Thing
from fleet_app.engine.errors import RequestError
from fleet_app.policy.schema import PolicyFile
from fleet_app.render import names
from fleet_app.render.admission import guards
from tests import manifests as kube

POLICY = PolicyFile.model_validate({"version": 1, "name": "test", "organisations": {"lab": {}}})
BENCH = Bench(guards(kube.SITE, POLICY))
BLOCKING = POLICY.model_copy(update={"kubernetes": POLICY.kubernetes.model_copy(update={"budgets": "blocking"})})


def found(*objects: kube.Object, bench: Bench = BENCH) -> list[Finding]:
    return audit(bench, [Thing(object=each, source="here") for each in objects], kube.SITE.namespace)


def brief(*objects: kube.Object, bench: Bench = BENCH) -> list[tuple[str, str, str]]:
    return [(each.rule, each.kind, each.name) for each in found(*objects, bench=bench)]


def elsewhere(thing: kube.Object) -> kube.Object:
    return kube.copied(thing, "research")


# What somebody copied from a service to a training Job: a budget that lets one pod go, and a scaler.
JOB = kube.job()
COPIED_BUDGET = kube.budget(kube.of({"app": "one"}))
COPIED_SCALER = {**kube.scaler("Job"), "metadata": {"name": "train", "namespace": "research"}}
PLAIN = kube.job(labels={}, annotations={}, priority="training-committed")
DEPLOYMENT = {**kube.owner_of("ReplicaSet"), "metadata": {"name": "train", "namespace": "research"}}
SCALER_OF_SET = deepcopy(kube.scaler("Deployment", "research"))
SCALER_OF_SET["spec"]["scaleTargetRef"]["kind"] = "ReplicaSet"

BUDGET, SCALER = ("K1", "PodDisruptionBudget", "budget"), ("K2", "HorizontalPodAutoscaler", "train")

CASES = {
    "a copied budget and a copied scaler on a training Job": (
        [elsewhere(JOB), elsewhere(COPIED_BUDGET), COPIED_SCALER],
        [BUDGET, SCALER],
    ),
    "the budget alone says nothing": ([elsewhere(COPIED_BUDGET)], []),
    "a budget in another namespace selects nobody here": ([elsewhere(JOB), kube.copied(COPIED_BUDGET, "web")], []),
    "a budget of a RayCluster's workers by a label of the site": (
        [kube.ray_cluster(kube.group()), COPIED_BUDGET],
        [BUDGET],
    ),
    "a pod there is counts as well": ([kube.pod(), COPIED_BUDGET], [BUDGET]),
    "pods of serving's do not": ([kube.pod(labels=kube.SERVING), COPIED_BUDGET], []),
    "a Job is a gang's by its priority class, too": (
        [elsewhere(PLAIN), elsewhere(COPIED_BUDGET)],
        [BUDGET, ("K5", "Job", "train")],
    ),
    "a scaler of something that has ranks, whatever it is": (
        [DEPLOYMENT, SCALER_OF_SET],
        [("K2", "HorizontalPodAutoscaler", "scaler")],
    ),
    "a scaler of something else": ([SCALER_OF_SET], []),
}


@pytest.mark.parametrize(("objects", "want"), CASES.values(), ids=CASES)
def test_found(objects, want):
    assert brief(*objects) == want


def test_a_budget_that_allows_none_may_be_allowed_whomever_it_selects():
    budget = kube.budget(kube.of({"app": "one"}), maxUnavailable=0)
    assert brief(kube.pod(), budget) == [BUDGET]
    assert brief(kube.pod(), budget, bench=Bench(guards(kube.SITE, BLOCKING))) == []


def node(name: str, **labels: str) -> kube.Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def test_a_gpu_pod_is_on_the_node_where_it_is_whatever_it_selected():
    asks = [kube.container(resources={"limits": {"nvidia.com/gpu": "1"}})]
    there = kube.gpu_pod(spec={"containers": asks, "nodeName": "gpu-1"})
    assert brief(there, node("gpu-1", **kube.SERVING)) == [("K8", "Pod", "notebook")]
    assert brief(there, node("gpu-1")) == []


def test_what_admission_only_records_is_no_refusal():
    ((finding,), (other,)) = (found(kube.gpu_pod()), found(kube.budget({})))
    assert (finding.refused, other.refused) == (False, True)


def test_findings_come_in_the_order_of_rules_whatever_the_order_of_objects():
    objects = [thing for _, thing in kube.REFUSED.values()]
    assert found(*objects) == found(*reversed(objects))
    rules = [each.rule for each in found(*objects)]
    assert rules == sorted(rules)


@pytest.mark.parametrize(
    ("rule", "thing"), (kube.REFUSED | kube.ONLY_OFFLINE).values(), ids=kube.REFUSED | kube.ONLY_OFFLINE
)
def test_what_admission_refuses_is_found(rule, thing):
    assert rule in [each.rule for each in found(thing)]


@pytest.mark.parametrize("thing", kube.PASSES.values(), ids=kube.PASSES)
def test_what_admission_lets_pass_is_not(thing):
    assert found(thing) == []


def test_an_object_that_is_not_as_kubernetes_has_it_is_named():
    broken = kube.job()
    del broken["spec"]["template"]["spec"]["containers"]
    with pytest.raises(RequestError, match=r"here: Job train is not as Kubernetes has it"):
        found(broken)


def test_a_manifest_without_a_namespace_is_the_fleets():
    bare = kube.budget({})
    del bare["metadata"]["namespace"]
    assert [(each.rule, each.namespace) for each in found(bare)] == [("K1", kube.SITE.namespace)]


def test_what_makes_pods_is_found_and_the_pods_that_it_makes_are_not():
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "prod", "uid": "1", "controller": True}
    made = kube.pod(annotations={}, owner=owner)
    assert brief(kube.ray_cluster(kube.group(annotations={})), made) == [("K5", "RayCluster", "prod")]


def test_no_kind_is_mistaken_for_one_of_another_group():
    assert found({**kube.budget({}), "apiVersion": "example.com/v1"}) == []


def test_the_arbiters_own_label_is_what_it_goes_by():
    assert names.CLASS_LABEL in kube.TRAINING
