"""The chart renders, for every example and every switch, and what it makes is what Kubernetes and KubeRay take."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Iterator

import pytest
import yaml

from tests.chart.conftest import CHART, CLUSTERS, NAMESPACE, RELEASE, ROOT, Object
from tests.chart.examples import ALL, EXAMPLES, KUBERNETES, SWITCHES

KUBERNETES_MINORS = ("1.30", "1.34", "1.37")
"""The oldest that the chart claims, the one of the tests' own cluster, and the newest that the schemas know."""

OF_OTHERS = frozenset({"monitoring.coreos.com/v1", "gateway.networking.k8s.io/v1"})
"""API groups of operators whose schemas do not come with Kubernetes."""


def test_helm_lints_without_a_warning(helm):
    said = helm("lint", "--strict", str(CHART))
    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert "[WARNING]" not in said


@pytest.mark.parametrize("options", ALL.values(), ids=ALL)
def test_core_objects_are_what_kubernetes_takes(render, options):
    core = [each for each in render(*options) if each["apiVersion"] not in OF_OTHERS | {"ray.io/v1"}]
    assert core
    for each in core:
        check_core(json.dumps(each, sort_keys=True))


@functools.cache
def check_core(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, of what it imports
        import kubernetes_validate
    for minor in KUBERNETES_MINORS:
        kubernetes_validate.validate(json.loads(text), minor, strict=True)


@pytest.mark.parametrize("options", ALL.values(), ids=ALL)
def test_the_ray_cluster_is_what_kuberay_takes(render, custom, options):
    custom(ray_cluster(render(*options)))


def test_a_ray_cluster_with_a_key_that_kuberay_does_not_know_would_be_noticed(render, custom):
    cluster = ray_cluster(render())
    spoilt = json.loads(json.dumps(cluster).replace('"maxReplicas"', '"maxReplica"', 1))
    with pytest.raises(Exception, match="maxReplica"):
        custom(spoilt)


MANIFESTS = [path for path in sorted((ROOT / KUBERNETES).glob("*.yaml")) if "\nkind: Ray" in path.read_text()]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_of_an_example_is_what_kubernetes_and_kuberay_take(custom, path):
    for each in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        if each["apiVersion"] == "ray.io/v1":
            custom(each)
        else:
            check_core(json.dumps(each, sort_keys=True))


def test_there_are_manifests_of_a_ray_job_and_a_ray_service():
    assert [path.name for path in MANIFESTS] == ["rayjob.yaml", "rayservice.yaml"]


def test_every_file_of_values_is_an_example():
    values = {path.name for path in (CLUSTERS / "kubernetes").glob("*.yaml") if "\ndomains:" in path.read_text()}
    named = {
        option.split("/")[-1] for options in EXAMPLES.values() for option in options if option.startswith(KUBERNETES)
    }
    assert values == named


def test_every_switch_changes_something(render):
    for name, options in SWITCHES.items():
        assert render(*options) != render(), name


@pytest.mark.parametrize("name", [name for name in EXAMPLES if EXAMPLES[name]])
def test_the_nodes_of_an_example_are_those_of_its_policy(render, name):
    from fleet_app.policy.load import parse_policy
    from fleet_app.policy.schema import nominal_gpus

    objects = render(*EXAMPLES[name])
    policy = parse_policy(named(objects, "ConfigMap", "fleet-policy")["data"]["fleet.yaml"])
    there = sum(group["replicas"] * int(group["resources"]["GPU"]) for group in groups(objects))
    assert there == sum(map(nominal_gpus, policy.organisations.values()))
    for group in groups(objects):
        assert {f"fleet/{level}" for level in policy.topology.levels} <= group["labels"].keys()


def test_an_object_has_one_name(render):
    for options in ALL.values():
        names = [(each["kind"], each["metadata"]["name"]) for each in render(*options)]
        assert len(names) == len(set(names))


def test_nothing_stays_behind(render):
    """Nothing asks Helm to keep it, and no StatefulSet leaves claims."""
    for options in ALL.values():
        for each in render(*options):
            assert "helm.sh/resource-policy" not in each["metadata"].get("annotations", {})
            assert "volumeClaimTemplates" not in each.get("spec", {})


B200 = [{"levels": {"leaf": "l1"}, "shape": "b200", "serving": 1, "training": 1}]

REFUSED = {
    "a policy that is no YAML": (("--set", "policy=a: ["), "policy: is no YAML"),
    "a priority class that the policy does not have": (
        ("--set", "classes.training.priorityClass=training"),
        "the policy has no class",
    ),
    "a grace shorter than the policy's": (("--set", "workers.terminationGraceSeconds=300"), "longest grace of 600 s"),
    "a shape that there is not": (("--set-json", f"domains={json.dumps(B200)}"), "there is no shape"),
    "a domain without a number": (("--set", "domains[0].shape=declared"), "training"),
    "a key that there is not": (("--set", "nodes.nmae=pod"), "nmae"),
    "a root user": (("--set", "user=0"), "user"),
    "Ray asking for a token that there is not": (("--set", "auth.ray=true", "--set", "auth.enabled=false"), "auth.ray"),
    "pods that KubeRay replaces when a template changes": (
        ("--set", "rayClusterSpec.upgradeStrategy.type=Recreate"),
        "KubeRay deletes all pods, those of gangs too",
    ),
    "two rows of one domain and shape": (("-f", "tests/chart/twice.yaml"), "two rows make the worker group"),
}


@pytest.mark.parametrize(("options", "says"), REFUSED.values(), ids=REFUSED)
def test_values_that_will_not_do_are_refused(helm, options, says):
    with pytest.raises(AssertionError, match=says):
        helm("template", RELEASE, str(CHART), "--namespace", NAMESPACE, *options)


def test_a_name_that_kuberay_would_refuse_is_refused(helm):
    with pytest.raises(AssertionError, match="more than 47"):
        helm("template", "a" * 48, str(CHART))


GRACES = {"150s": 210, "1h30m": 5460, "2m": 180, "1d": 86460, "2m500ms": 181}


@pytest.mark.parametrize(("longest", "want"), GRACES.items())
def test_pods_may_take_longer_to_end_than_a_drain(render, longest, want):
    policy = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["policy"]
    text = policy.replace("longest_grace: 10m", f"longest_grace: {longest}")
    objects = render("--set-json", f"policy={json.dumps(text)}")
    assert {pod["terminationGracePeriodSeconds"] for pod in workers(objects)} == {want}


def ray_cluster(objects: list[Object]) -> Object:
    (found,) = (each for each in objects if each["kind"] == "RayCluster")
    return found


def groups(objects: list[Object]) -> list[Object]:
    return list(ray_cluster(objects)["spec"]["workerGroupSpecs"])


def workers(objects: list[Object]) -> Iterator[Object]:
    yield from (group["template"]["spec"] for group in groups(objects))


def named(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = (each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found
