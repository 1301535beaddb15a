"""Pods of the chart: restricted, each class on nodes of its own, and left alone by whatever moves pods."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
import yaml

from fleet_app.render import names
from tests.chart.conftest import ROOT, Object
from tests.chart.examples import ALL, EXAMPLES, KUBERNETES

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
"""The volumes of the restricted Pod Security Standard."""

APART = EXAMPLES["sixteen nodes"]

ONE_BY_ONE = """#!/bin/bash
# Answers what is written down, a line a call, the last one for ever. grep looks for jobs, then for replicas: one look.
[[ "$*" == *erveReplica* ]] && exit 1
echo x >> "$0.calls"
at=$(wc -l < "$0.calls")
last=$(wc -l < "$0.says")
[[ "$(sed -n "$((at < last ? at : last))p" "$0.says")" != none ]]
"""


def templates(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    for each in objects:
        if each["kind"] == "RayCluster":
            yield "head", each["spec"]["headGroupSpec"]["template"]
            for group in each["spec"]["workerGroupSpecs"]:
                yield group["groupName"], group["template"]
        elif "template" in each.get("spec", {}):
            yield each["metadata"]["name"], each["spec"]["template"]


def containers(pod: Object) -> list[Object]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def groups(objects: list[Object], of: str) -> list[Object]:
    (cluster,) = (each for each in objects if each["kind"] == "RayCluster")
    return [each for each in cluster["spec"]["workerGroupSpecs"] if each["labels"]["fleet/class"] == of]


@pytest.mark.parametrize("options", ALL.values(), ids=ALL)
def test_every_pod_is_restricted(render, options):
    for name, template in templates(render(*options)):
        check_restricted(name, template["spec"])


def test_so_is_every_pod_of_a_ray_service():
    cluster = ray_service()["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        check_restricted("rayservice.yaml", group["template"]["spec"])


def ray_service() -> Object:
    text = (ROOT / KUBERNETES / "rayservice.yaml").read_text(encoding="utf-8")
    (service,) = (each for each in yaml.safe_load_all(text) if each["kind"] == "RayService")
    return service


def check_restricted(name: str, pod: Object) -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted, every line of it."""
    security = pod["securityContext"]
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}, name
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] > 0
    assert security["seccompProfile"]["type"] == "RuntimeDefault"
    assert not security.keys() & {"sysctls", "seLinuxOptions", "appArmorProfile", "windowsOptions"}
    for volume in pod.get("volumes", []):
        assert len(volume.keys() & VOLUMES) == 1, (name, volume)
    for container in containers(pod):
        inner = container["securityContext"]
        assert inner["allowPrivilegeEscalation"] is False
        assert inner["capabilities"] == {"drop": ["ALL"]}
        assert not inner.keys() & {"privileged", "procMount", "runAsUser", "runAsNonRoot"}
        assert not any("hostPort" in port for port in container.get("ports", []))


def test_the_head_of_a_ray_service_is_as_the_chart_s():
    """Its port named `dashboard` is the gateway's, and what attends to it is told what is mounted."""
    from fleet_app.adapters.attend import _parser
    from fleet_app.policy.load import parse_policy

    head, attend = ray_service()["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["containers"]
    assert {"name": "dashboard", "containerPort": names.GATEWAY_PORT} in head["ports"]
    asked = _parser().parse_args(attend["command"][3:])
    assert str(asked.policy.parent) in {mount["mountPath"] for mount in attend["volumeMounts"]}
    text = (ROOT / KUBERNETES / "rayservice.yaml").read_text(encoding="utf-8")
    (policy,) = (each for each in yaml.safe_load_all(text) if each["kind"] == "ConfigMap")
    assert parse_policy(policy["data"]["fleet.yaml"]).name == ray_service()["metadata"]["name"]


@pytest.mark.parametrize("options", ALL.values(), ids=ALL)
def test_every_container_says_how_much_it_needs(render, options):
    for name, template in templates(render(*options)):
        for container in containers(template["spec"]):
            asked = container["resources"]
            assert asked["requests"].keys() >= {"cpu", "memory"}, name
            assert "memory" in asked["limits"], name


def test_every_container_writes_only_where_something_is_mounted(render):
    for name, template in templates(render(*APART)):
        if name in {"head", "fleet-redis"} or name.startswith(names.CLASSES):
            for container in template["spec"]["containers"]:
                assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}, name


def test_only_the_head_has_an_account_at_kubernetes(render):
    for name, template in templates(render(*APART)):
        pod = template["spec"]
        if name == "head":
            assert pod["serviceAccountName"] == names.account("fleet")
        elif name == "fleet-retire":  # which lives for as long as `helm uninstall` does
            assert pod["serviceAccountName"] == name
        else:
            assert pod["automountServiceAccountToken"] is False


def test_classes_are_on_nodes_of_their_own(render):
    objects = render(*APART)
    for one, other in (names.CLASSES, names.CLASSES[::-1]):
        for group in groups(objects, one):
            pod = group["template"]["spec"]
            assert pod["nodeSelector"][names.CLASS_LABEL] == one
            assert pod["nodeSelector"][names.level_label("leaf")] == group["labels"]["fleet/leaf"]
            tolerated = [each for each in pod["tolerations"] if each.get("key") in {names.TAINT_KEY, None}]
            assert tolerated == [
                {"key": names.TAINT_KEY, "operator": "Equal", "value": one, "effect": names.TAINT_EFFECT}
            ]
            (apart,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            assert apart["topologyKey"] == "kubernetes.io/hostname"
            assert apart["labelSelector"]["matchLabels"] == {names.CLUSTER_LABEL: "fleet", names.CLASS_LABEL: other}


UNITS = {"Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
RAYS_SHARE, RAYS_MOST, RAYS_LEAST = 0.3, 200 * 10**9, 10 * 10**9


def size(quantity: str) -> int:
    return int(quantity[:-2]) * UNITS[quantity[-2:]]


@pytest.mark.parametrize("options", ALL.values(), ids=ALL)
def test_ray_s_object_store_fits_into_shared_memory(render, options):
    """As Ray sizes it (ray._private.utils.resolve_object_store_memory); what does not fit is on the disk."""
    for name, template in templates(render(*options)):
        for container in template["spec"]["containers"]:
            if "/dev/shm" in {mount["mountPath"] for mount in container.get("volumeMounts", [])}:
                (volume,) = (each["emptyDir"] for each in template["spec"]["volumes"] if each["name"] == "shared-mem")
                memory = size(container["resources"]["limits"]["memory"])
                shared = size(volume["sizeLimit"]) if "sizeLimit" in volume else memory
                store = min(memory * RAYS_SHARE, RAYS_MOST, max(RAYS_LEAST, shared * 0.95))
                assert store <= shared, name


EVERY_TOLERATION = (
    *("--set", "nodes.tolerations[0].operator=Exists", "--set", "head.tolerations[0].operator=Exists"),
    *("--set", "redis.enabled=true"),
)


def test_whatever_it_tolerates_a_pod_that_preempts_goes_to_no_node_of_training(render):
    """Where no selector says so: its affinity does."""
    for name, template in templates(render(*EVERY_TOLERATION)):
        pod = template["spec"]
        if pod.get("priorityClassName") == "serving-production":
            required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            (term,) = required["nodeSelectorTerms"]
            away = {"key": names.CLASS_LABEL, "operator": "NotIn", "values": [names.TRAINING]}
            assert away in term["matchExpressions"], name


def test_labels_of_other_makers_select_the_nodes(render):
    for group in groups(render(*EXAMPLES["256 nodes"]), "training"):
        selector = group["template"]["spec"]["nodeSelector"]
        assert selector["network.topology.nvidia.com/leaf"] == group["labels"]["fleet/leaf"]
        assert "fleet/leaf" not in selector


def test_the_two_groups_of_a_domain_differ_in_class_alone(render):
    """So that a node can go from one to the other: the arbiter looks for the group that is the same but for that."""
    objects = render(*EXAMPLES["256 nodes"])
    pairs = zip(groups(objects, "serving"), groups(objects, "training"), strict=True)
    for serving, training in pairs:
        assert {**serving["labels"], "fleet/class": "training"} == training["labels"]
        assert serving["resources"] == training["resources"]
        assert serving["maxReplicas"] == training["maxReplicas"] == serving["replicas"] + training["replicas"]


@pytest.mark.parametrize("options", EXAMPLES.values(), ids=EXAMPLES)
def test_pods_of_training_opt_out_of_whatever_moves_pods(render, options):
    for group in groups(render(*options), "training"):
        annotations = group["template"]["metadata"]["annotations"]
        assert names.GANG_ANNOTATIONS.items() <= annotations.items()


def test_so_do_the_head_and_its_redis_without_which_ray_forgets_its_state(render):
    found = dict(templates(render(*EXAMPLES["256 nodes"])))
    for name in ("head", "fleet-redis"):
        assert names.GANG_ANNOTATIONS.items() <= found[name]["metadata"]["annotations"].items(), name


@pytest.mark.parametrize("options", EXAMPLES.values(), ids=EXAMPLES)
def test_a_slow_probe_kills_no_gang(render, options):
    """KubeRay gives a probe to a container without one: it kills after ten minutes. This one has a day of patience."""
    for of in names.CLASSES:
        for group in groups(render(*options), of):
            probe = group["template"]["spec"]["containers"][0]["livenessProbe"]
            assert "/api/local_raylet_healthz" in probe["exec"]["command"][-1]
            assert probe["periodSeconds"] * probe["failureThreshold"] >= 86_400


LINGERS = {
    "until nothing runs there any more": (["work", "work", "none"], ["head"], 2),
    "not at all where nothing runs": (["none"], ["head"], 0),
    "two minutes where there is no head": (["work"], ["none"], 120),
    "on, where the head was only away": (["work"] * 150 + ["none"], ["none"] * 119 + ["head"] + ["none"], 150),
}


@pytest.mark.parametrize(("work", "head", "want"), LINGERS.values(), ids=LINGERS)
def test_a_pod_that_has_to_go_waits(render, tmp_path, work, head, want):
    """The script itself, with programs in place of those that look around and of the one that takes a second."""
    (group, *_) = groups(render(), "training")
    script = group["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1]
    (tmp_path / "date").write_text('#!/bin/bash\nwc -l < "${0%date}sleep.calls"\n')  # what was slept is what passed
    (tmp_path / "date").chmod(0o755)
    for name, says in (("grep", work), ("timeout", head), ("sleep", ["work"])):
        (tmp_path / f"{name}.says").write_text("".join(f"{each}\n" for each in says))
        (tmp_path / name).write_text(ONE_BY_ONE)
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "FQ_RAY_IP": "head"}
    calls = tmp_path / "sleep.calls"
    calls.touch()
    subprocess.run(["sh", "-c", script], env=environment, check=True, timeout=60)
    assert calls.read_text().count("\n") == want


def test_nothing_restarts_the_head_because_of_what_attends_to_it(render):
    (head,) = (template for name, template in templates(render()) if name == "head")
    (attend,) = (each for each in head["spec"]["containers"] if each["name"] == "attend")
    assert not attend.keys() & {"livenessProbe", "readinessProbe", "startupProbe"}
    assert head["spec"]["restartPolicy"] == "Always"
    assert head["spec"]["containers"][0]["name"] == "ray-head"  # KubeRay takes the first for Ray's


def test_training_waits_for_serving(render):
    objects = render(*EXAMPLES["256 nodes"])
    for group in groups(objects, "training"):
        (wave,) = group["template"]["spec"]["initContainers"]
        assert wave["command"][3:] == ["--name=fleet-serving", "--count=75", "--within=900"]  # half of 150
    assert not any("initContainers" in group["template"]["spec"] for group in groups(objects, "serving"))


def test_gpus_are_asked_for_as_the_device_plugin_calls_them(render):
    slices = ALL["MIG slices"]
    for group in groups(render(*slices), "serving"):
        assert group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/mig-1g.10gb"] == 7
        assert group["resources"] == {"CPU": "16", "GPU": "8", "h100-mig-1g": "7"}
        assert group["labels"]["fleet/partition"] == "mig-1g.10gb"
    for group in groups(render(*EXAMPLES["256 nodes"]), "serving"):
        assert group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 8
        assert group["resources"]["GPU"] == "8"
    for group in groups(render(), "serving"):
        assert "nvidia.com/gpu" not in group["template"]["spec"]["containers"][0]["resources"]["limits"]


def test_the_head_gives_no_cpu_and_no_gpu_to_anybody(render):
    (cluster,) = (each for each in render() if each["kind"] == "RayCluster")
    assert cluster["spec"]["headGroupSpec"]["resources"] == {"CPU": "0", "GPU": "0"}


def test_a_whole_node_s_pod_is_guaranteed_its_cpus(render):
    for group in groups(render(*APART), "training"):
        asked = group["template"]["spec"]["containers"][0]["resources"]
        assert asked["requests"] == asked["limits"]
