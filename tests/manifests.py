"""Kubernetes objects that the guards refuse, and ones that they let pass: asked offline, and of a real API server.

Each is complete, so that nothing but a guard can be in its way.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from fleet_app.render import names
from fleet_app.render.site import Site

Object = dict[str, Any]

SITE = Site(cluster="prod", namespace="fleet")
GRACE_S = 121
"""Longer than the drain contract of a policy that says nothing of it."""

OPT_OUTS = dict(names.GANG_ANNOTATIONS)
TRAINING = {names.CLASS_LABEL: names.TRAINING}
SERVING = {names.CLASS_LABEL: names.SERVING}

PROBE = {"httpGet": {"path": "/", "port": 8000}}
KUBERAYS_PROBE = {
    "exec": {"command": ["bash", "-c", "wget -q -O- http://localhost:52365/api/local_raylet_healthz | grep success"]},
    "periodSeconds": 5,
    "failureThreshold": 120,
}


def made(api: str, kind: str, name: str, spec: Object, **metadata: Any) -> Object:
    """Return an object in the fleet's namespace."""
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": SITE.namespace, **metadata},
        "spec": spec,
    }


def container(**more: Any) -> Object:
    return {"name": "main", "image": "localhost/none:1", "imagePullPolicy": "Never", **more}


def template(**more: Any) -> Object:
    """Return a pod's template, a gang's and all right unless `more` says otherwise."""
    given: Object = {"labels": TRAINING, "annotations": OPT_OUTS, "grace": GRACE_S, "restart": "Always"} | more
    return {
        "metadata": {"labels": {"app": "one", **given["labels"]}, "annotations": dict(given["annotations"])},
        "spec": {
            "containers": [container(**({"livenessProbe": given["probe"]} if "probe" in given else {}))],
            "terminationGracePeriodSeconds": given["grace"],
            "restartPolicy": given["restart"],
            **({"priorityClassName": given["priority"]} if "priority" in given else {}),
        },
    }


def pod(name: str = "rank-0", **more: Any) -> Object:
    """Return a pod of a gang that nobody made."""
    owner = more.pop("owner", None)
    labels, spec = more.pop("more_labels", {}), more.pop("spec", {})
    like = template(**more)
    metadata = {**like["metadata"], **({"ownerReferences": [owner]} if owner else {})}
    metadata["labels"] = metadata["labels"] | labels
    return made("v1", "Pod", name, {**like["spec"], **spec}, **metadata)


def job(**more: Any) -> Object:
    return made("batch/v1", "Job", "train", {"template": template(restart="Never", **more)})


def cron_job(**more: Any) -> Object:
    inner = {"spec": {"template": template(restart="Never", **more)}}
    return made("batch/v1", "CronJob", "nightly", {"schedule": "0 3 * * *", "jobTemplate": inner})


def owner_of(kind: str, strategy: Object | None = None, **more: Any) -> Object:
    """Return a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    spec: Object = {"selector": {"matchLabels": {"app": "one"}}, "template": template(**more)}
    if kind == "StatefulSet":
        spec["serviceName"] = "one"
    if strategy is not None:
        spec["strategy" if kind == "Deployment" else "updateStrategy"] = strategy
    return made("apps/v1", kind, "ranks", spec)


def budget(selector: Object | None, namespace: str = SITE.namespace, **spec: Any) -> Object:
    allowed = spec or {"maxUnavailable": 1}
    given = {} if selector is None else {"selector": selector}
    found = made("policy/v1", "PodDisruptionBudget", "budget", {**allowed, **given})
    found["metadata"]["namespace"] = namespace
    return found


def scaler(kind: str, namespace: str = SITE.namespace, labels: Object | None = None) -> Object:
    api = {"Job": "batch/v1", "Deployment": "apps/v1", "RayCluster": "ray.io/v1"}[kind]
    target = {"apiVersion": api, "kind": kind, "name": "train"}
    found = made("autoscaling/v2", "HorizontalPodAutoscaler", "scaler", {"maxReplicas": 4, "scaleTargetRef": target})
    found["metadata"] |= {"namespace": namespace, "labels": labels or {}}
    return found


def scaled_object(kind: str) -> Object:
    spec = {"scaleTargetRef": {"kind": kind, "name": "train"}, "triggers": [{"type": "cron", "metadata": {}}]}
    return made("keda.sh/v1alpha1", "ScaledObject", "scaler", spec)


def group(name: str = "training", ray_labels: Object | None = None, **more: Any) -> Object:
    """Return a worker group of a RayCluster."""
    return {
        "groupName": name,
        "replicas": 1,
        "minReplicas": 0,
        "maxReplicas": 4,
        "rayStartParams": {},
        **({"labels": ray_labels} if ray_labels else {}),
        "template": template(**more),
    }


def cluster_spec(*groups: Object) -> Object:
    head = {"rayStartParams": {}, "template": {"spec": {"containers": [container()]}}}
    return {"rayVersion": "2.60.0", "headGroupSpec": head, "workerGroupSpecs": list(groups)}


def ray_cluster(*groups: Object, name: str = "prod") -> Object:
    return made("ray.io/v1", "RayCluster", name, cluster_spec(*groups))


def ray_job(*groups: Object) -> Object:
    return made("ray.io/v1", "RayJob", "once", {"entrypoint": "true", "rayClusterSpec": cluster_spec(*groups)})


def ray_service(*groups: Object) -> Object:
    return made("ray.io/v1", "RayService", "chat", {"rayClusterConfig": cluster_spec(*groups)})


def gpu_pod(**more: Any) -> Object:
    """Return a pod that asks for a GPU of the fleet's nodes, as anybody might write it."""
    given = {
        "labels": {},
        "spec": {
            "containers": [container(resources={"limits": {"nvidia.com/gpu": "1"}})],
            "nodeSelector": {names.CLASS_LABEL: names.SERVING},
        },
    } | more
    return pod("notebook", annotations={}, **given)


def agent(priority: str | None, *tolerations: Object, **spec: Any) -> Object:
    """Return a pod of nobody's with a priority class."""
    given = {"tolerations": list(tolerations), **({"priorityClassName": priority} if priority else {}), **spec}
    return pod("agent", labels={}, annotations={}, grace=30, spec=given)


def keeps_to(operator: str, *values: str) -> Object:
    """Return an affinity that a node's class decides about."""
    one = {"key": names.CLASS_LABEL, "operator": operator, **({"values": list(values)} if values else {})}
    terms = [{"matchExpressions": [{"key": "a", "operator": "Exists"}, one]}]
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
    }


EVERY_TAINT = {"operator": "Exists"}
TRAININGS_TAINT = {"key": names.TAINT_KEY, "value": names.TRAINING, "effect": names.TAINT_EFFECT}
PREEMPTS = "serving-production"


def without(annotation: str) -> Object:
    return {key: value for key, value in OPT_OUTS.items() if key != annotation}


def of(labels: Object) -> Object:
    return {"matchLabels": labels}


def term(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


REFUSED: dict[str, tuple[str, Object]] = {
    "a budget of training's pods": ("K1", budget(of(TRAINING))),
    "a budget of everything": ("K1", budget({})),
    "a budget of what is not serving's": ("K1", budget(term(names.CLASS_LABEL, "NotIn", names.SERVING))),
    "a budget of either class": ("K1", budget(term(names.CLASS_LABEL, "In", "serving", "training"))),
    "a budget of whatever has a class": ("K1", budget(term(names.CLASS_LABEL, "Exists"))),
    "a budget of Ray's workers": ("K1", budget(of({"ray.io/node-type": "worker"}))),
    "a budget of a leaf": ("K1", budget(of({"fleet/leaf": "l3"}))),
    "a budget of the whole release": ("K1", budget(of({"app.kubernetes.io/instance": "prod"}))),
    "a budget of what is not redis": ("K1", budget(term("app", "NotIn", "redis"))),
    "a budget of some trainer": ("K1", budget(of({"app": "trainer", **TRAINING}))),
    "a budget of training's pods, elsewhere": ("K1", budget(of(TRAINING), "default")),
    "a budget that allows none, unasked": ("K1", budget(of(TRAINING), maxUnavailable=0)),
    "a scaler of a Job, anywhere": ("K2", scaler("Job", "default")),
    "a scaler of a RayCluster": ("K2", scaler("RayCluster")),
    "a scaler that does not say it is serving's": ("K2", scaler("Deployment")),
    "a scaler that says it is training's": ("K2", scaler("Deployment", "default", TRAINING)),
    "a pod with a liveness probe": ("K3", pod(probe=PROBE)),
    "a pod with KubeRay's probe, but less patient": ("K3", pod(probe={**KUBERAYS_PROBE, "failureThreshold": 3})),
    "a Job with a liveness probe": ("K3", job(probe=PROBE)),
    "a worker group with a liveness probe": ("K3", ray_cluster(group(probe=PROBE))),
    "a Deployment of ranks": ("K4", owner_of("Deployment")),
    "a Deployment that recreates ranks": ("K4", owner_of("Deployment", {"type": "Recreate"})),
    "a StatefulSet of ranks": ("K4", owner_of("StatefulSet")),
    "a DaemonSet of ranks": ("K4", owner_of("DaemonSet", {"type": "RollingUpdate"})),
    "a pod that the autoscaler may move": ("K5", pod(annotations=without(names.SAFE_TO_EVICT))),
    "a pod that says that it may be evicted": ("K5", pod(annotations={**OPT_OUTS, names.SAFE_TO_EVICT: "true"})),
    "a pod that the descheduler must evict": ("K5", pod(annotations={**OPT_OUTS, names.FORCED_EVICTION: "true"})),
    "a pod without annotations": ("K5", pod(annotations={})),
    "a ReplicaSet without annotations": ("K5", owner_of("ReplicaSet", annotations={})),
    "a CronJob without annotations": ("K5", cron_job(annotations={})),
    "a worker group without annotations": ("K5", ray_cluster(group("s", labels=SERVING), group(annotations={}))),
    "a worker group that Ray alone knows as training's": (
        "K5",
        ray_cluster(group(labels={}, ray_labels=TRAINING, annotations={})),
    ),
    "a RayJob's worker group without annotations": ("K5", ray_job(group(annotations={}))),
    "a RayService's worker group without annotations": ("K5", ray_service(group(annotations={}))),
    "a pod that has no time to leave": ("K9", pod(grace=30)),
    "a worker group that has just the contract's time": ("K9", ray_cluster(group(grace=120))),
}
"""Objects by what they are, each with the rule that refuses it."""

ONLY_OFFLINE: dict[str, tuple[str, Object]] = {
    "a ScaledObject of a Job": ("K2", scaled_object("Job")),
    "a ScaledObject that does not say it is serving's": ("K2", scaled_object("Deployment")),
    "a Job with a priority class of training's": ("K5", job(labels={}, annotations={}, priority="training-backfill")),
    "a pod that preempts and tolerates everything": ("K10", agent(PREEMPTS, EVERY_TAINT)),
    "one that tolerates training's taint": ("K10", agent(PREEMPTS, TRAININGS_TAINT)),
    "one that selects training's nodes": (
        "K10",
        agent(PREEMPTS, EVERY_TAINT, nodeSelector={names.CLASS_LABEL: names.TRAINING}),
    ),
    "one for nodes of either class": ("K10", agent(PREEMPTS, EVERY_TAINT, affinity=keeps_to("Exists"))),
    "one that need not keep away": (
        "K10",
        agent(PREEMPTS, EVERY_TAINT, affinity=keeps_to("NotIn", names.SERVING)),
    ),
}
"""What a bare API server would not take anyway: it has no KEDA, and not these PriorityClasses."""

PASSES: dict[str, Object] = {
    "a budget of serving's pods": budget(of(SERVING)),
    "a budget of the head": budget(of({"ray.io/node-type": "head"})),
    "a budget of another application": budget(of({"app": "redis"})),
    "a budget of another cluster": budget(of({"ray.io/cluster": "test"})),
    "a budget of what has no class": budget(term(names.CLASS_LABEL, "DoesNotExist")),
    "a budget of everything, elsewhere": budget({}, "default"),
    "a budget of nothing": budget(None),
    "a scaler of a Deployment, elsewhere": scaler("Deployment", "default"),
    "a scaler that says it is serving's": scaler("Deployment", labels=SERVING),
    "a pod of a gang": pod(),
    "a pod with KubeRay's own probe": pod(probe=KUBERAYS_PROBE),
    "a pod of serving's with a probe": pod(labels=SERVING, annotations={}, probe=PROBE, grace=30),
    "a pod of nobody's": pod(labels={}, annotations={}, probe=PROBE, grace=0),
    "a Job of ranks": job(),
    "a CronJob of ranks": cron_job(),
    "a ReplicaSet of ranks": owner_of("ReplicaSet"),
    "a StatefulSet that waits to be told": owner_of("StatefulSet", {"type": "OnDelete"}),
    "a DaemonSet that waits to be told": owner_of("DaemonSet", {"type": "OnDelete"}),
    "a Deployment of serving's": owner_of("Deployment", labels=SERVING, annotations={}, probe=PROBE, grace=30),
    "a RayCluster of both classes": ray_cluster(group(), group("s", labels=SERVING, annotations={}, grace=30)),
    "a RayCluster without workers": ray_cluster(),
    "a RayJob": ray_job(group()),
    "a RayService": ray_service(group("s", labels=SERVING, annotations={}, grace=30)),
    "a GPU pod of the fleet": gpu_pod(more_labels={names.CLUSTER_LABEL: "prod"}),
    "a GPU pod that keeps off the fleet's nodes": gpu_pod(
        spec={"containers": [container(resources={"limits": {"nvidia.com/gpu": "1"}})]}
    ),
    "a pod on the fleet's nodes that asks for no GPU": gpu_pod(
        spec={"nodeSelector": {names.CLASS_LABEL: names.SERVING}}
    ),
    "an agent for all nodes that preempts nobody": agent(None, EVERY_TAINT),
    "an agent of another priority class": agent("system-node-critical", EVERY_TAINT),
}
"""Objects by what they are, that no guard has anything to say of."""

PASSES_OFFLINE: dict[str, Object] = {
    "a pod that preempts, and tolerates nothing": agent(PREEMPTS),
    "one that tolerates serving's taint": agent(PREEMPTS, {**TRAININGS_TAINT, "value": names.SERVING}),
    "one that tolerates another taint": agent(PREEMPTS, {"key": "a", "operator": "Exists"}),
    "one that tolerates being thrown out": agent(PREEMPTS, {"operator": "Exists", "effect": "NoExecute"}),
    "one that selects serving's nodes": agent(PREEMPTS, EVERY_TAINT, nodeSelector={names.CLASS_LABEL: names.SERVING}),
    "one for serving's nodes": agent(PREEMPTS, EVERY_TAINT, affinity=keeps_to("In", names.SERVING)),
    "one for all but training's": agent(PREEMPTS, EVERY_TAINT, affinity=keeps_to("NotIn", names.TRAINING)),
    "one for nodes without a class": agent(PREEMPTS, EVERY_TAINT, affinity=keeps_to("DoesNotExist")),
}
"""What a bare API server would not take: it does not have these PriorityClasses."""

STRANGERS: dict[str, Object] = {
    "a notebook that selects the fleet's nodes": gpu_pod(),
    "one that tolerates their taint": gpu_pod(
        spec={
            "containers": [container(resources={"limits": {"nvidia.com/mig-1g.10gb": "1"}})],
            "tolerations": [{"key": names.TAINT_KEY, "operator": "Exists"}],
        }
    ),
    "one that tolerates everything": gpu_pod(
        spec={
            "containers": [container()],
            "initContainers": [{**container(resources={"limits": {"amd.com/gpu": "2"}}), "name": "first"}],
            "tolerations": [{"operator": "Exists"}],
        }
    ),
}
"""GPU pods for the fleet's nodes that are not the fleet's."""


def copied(thing: Object, namespace: str) -> Object:
    """Return an object of the fleet's namespace in another one."""
    found = deepcopy(thing)
    if found["metadata"].get("namespace") == SITE.namespace:
        found["metadata"]["namespace"] = namespace
    return found
