"""K3, K5, K9: what pods of gangs are like; K4: who may own them. One guard for each sort of object that makes pods.

What an owner that was looked at makes is not looked at again: its controller is not to be stopped half-way. An object
that was there before the guard is looked at anew when its template changes; of a running pod it only matters that
nothing is taken away.

KubeRay gives every Ray container a liveness probe of its own, unless its operator runs with
ENABLE_PROBES_INJECTION=false: every 5 s it asks the raylet for its health, and after 120 failures, when nothing has
answered for ten minutes, the container is restarted (ray-operator v1.5.0, controllers/ray/common/pod.go and
utils/constant.go). Written out in a template it passes too, as long as it is no more impatient.
"""

from __future__ import annotations

from fleet_app.policy.schema import PolicyFile
from fleet_app.render import cel, names
from fleet_app.render.guards import CHANGED, Check, Guard, Named, Target, message

RAYLET_HEALTH = "/api/local_raylet_healthz"
PATIENCE_S = 600
"""How long KubeRay's own probe lets a raylet be silent."""

_TEMPLATE = "object.spec.template"
_JOBS = (
    Target(group="batch", versions=("v1",), kinds={"jobs": "Job"}),
    Target(group="apps", versions=("v1",), kinds={"replicasets": "ReplicaSet"}),
)
_CRON_JOBS = Target(group="batch", versions=("v1",), kinds={"cronjobs": "CronJob"})
_DEPLOYMENTS = Target(group="apps", versions=("v1",), kinds={"deployments": "Deployment"})
_SETS = Target(group="apps", versions=("v1",), kinds={"daemonsets": "DaemonSet", "statefulsets": "StatefulSet"})
_PODS = Target(group="", versions=("v1",), kinds={"pods": "Pod"})

_NAME = Named(name="name", expression=cel.name_of("object"))


def pods(policy: PolicyFile) -> tuple[Guard, ...]:
    """Return the guards of pods and of everything that makes pods."""
    like = _like(policy)
    template, inner = (_gangs(f"[{path}]", policy) for path in (_TEMPLATE, "object.spec.jobTemplate.spec.template"))
    not_by_owner = _made_by_none("CronJob", "Deployment")
    return (
        Guard(
            name="pods",
            targets=(_PODS,),
            operations=("CREATE",),
            conditions=(_made_by_none("DaemonSet", "Job", "RayCluster", "ReplicaSet", "StatefulSet"),),
            variables=(_NAME, _gangs("[object]", policy)),
            checks=like,
        ),
        _running(),
        _makers("jobs", _JOBS, (_changed(_TEMPLATE), not_by_owner), template, like),
        _makers("cron-jobs", (_CRON_JOBS,), (CHANGED,), inner, like),
        _makers("deployments", (_DEPLOYMENTS,), (CHANGED,), template, (_DEPLOYMENT, *like)),
        _makers("sets", (_SETS,), (CHANGED,), template, (_SET, *like)),
        _clusters("ray-clusters", _ray("rayclusters", "RayCluster"), "spec", policy),
        _clusters("ray-jobs", _ray("rayjobs", "RayJob"), "spec.rayClusterSpec", policy),
        _clusters("ray-services", _ray("rayservices", "RayService"), "spec.rayClusterConfig", policy),
    )


# What the checks ask of each pod or template, with `t` for it.

_NO_PROBE = f"""\
t.spec.containers.all(c, !has(c.livenessProbe) || (
  has(c.livenessProbe.exec) && has(c.livenessProbe.exec.command) &&
  c.livenessProbe.exec.command.exists(a, a.contains({cel.text(RAYLET_HEALTH)})) &&
  (has(c.livenessProbe.failureThreshold) ? c.livenessProbe.failureThreshold : 3) *
  (has(c.livenessProbe.periodSeconds) ? c.livenessProbe.periodSeconds : 10) >= {PATIENCE_S}))"""


def _opted_out(pod: str) -> str:
    wanted = (
        f"{pod}.metadata.annotations[{cel.text(key)}] == {cel.text(value)}"
        for key, value in names.GANG_ANNOTATIONS.items()
    )
    there = (f"{cel.text(key)} in {pod}.metadata.annotations" for key in names.GANG_ANNOTATIONS)
    forced = f"!({cel.text(names.FORCED_EVICTION)} in {pod}.metadata.annotations)"
    return " &&\n".join((f"has({pod}.metadata) && has({pod}.metadata.annotations)", *there, *wanted, forced))


def _is_gang(pod: str, policy: PolicyFile) -> str:
    """Return whether a pod or template is a gang's: it says so, or has a priority class of training's."""
    says = f"has({pod}.metadata) && {cel.entry_is(f'{pod}.metadata', 'labels', names.CLASS_LABEL, names.TRAINING)}"
    training = sorted(set(policy.classes) - {policy.default_class.service})
    return f"{says} ||\nhas({pod}.spec.priorityClassName) && {pod}.spec.priorityClassName in {cel.texts(training)}"


def _gangs(templates: str, policy: PolicyFile) -> Named:
    return Named(name="gangs", expression=f"{templates}.filter(t,\n{_is_gang('t', policy)})")


def _like(policy: PolicyFile) -> tuple[Check, ...]:
    """Return what must hold of every template of a gang's pods."""
    grace_s = int(policy.drain.grace)
    longer = f"has(t.spec.terminationGracePeriodSeconds) && t.spec.terminationGracePeriodSeconds > {grace_s}"
    return (
        _check("K3", _all(_NO_PROBE), "has a liveness probe on a pod of a gang"),
        _check("K5", _all(_opted_out("t")), f"lets pods of a gang be moved: it lacks {_annotations()}"),
        _check("K9", _all(longer), f"gives pods of a gang no more than {grace_s} s to end"),
    )


def _annotations() -> str:
    said = ", ".join(f'{key}: "{value}"' for key, value in names.GANG_ANNOTATIONS.items())
    return f"one of the annotations {said}, or has {names.FORCED_EVICTION}"


def _all(holds: str) -> str:
    return f"variables.gangs.all(t,\n{holds})"


def _check(rule: str, expression: str, found: str) -> Check:
    return Check(rule=rule, expression=expression, message=message(rule, "object.kind + ' ' + variables.name", found))


# K4: an owner whose change of template replaces running pods. What a manifest leaves out is RollingUpdate, and a
# Deployment's other way, Recreate, ends the whole gang.

_DEPLOYMENT = _check("K4", "variables.gangs.size() == 0", "has pods of a gang, and replaces them at every change")
_SET = _check(
    "K4",
    "variables.gangs.size() == 0 ||\nhas(object.spec.updateStrategy) && has(object.spec.updateStrategy.type) &&\n"
    "object.spec.updateStrategy.type == 'OnDelete'",
    "has pods of a gang, and replaces them one by one at every change",
)


# One guard for each sort of object.


def _running() -> Guard:
    """Return the guard of running pods: nobody takes their opt-outs away."""
    labelled = cel.entry_is("oldObject.metadata", "labels", names.CLASS_LABEL, names.TRAINING)
    return Guard(
        name="running-pods",
        targets=(_PODS,),
        operations=("UPDATE",),
        labels={names.CLASS_LABEL: names.TRAINING},
        conditions=(
            Named(name="was-a-gangs", expression=labelled),
            Named(name="was-opted-out", expression=_opted_out("oldObject")),
        ),
        variables=(_NAME,),
        checks=(_check("K5", _opted_out("object"), f"would be moved: it would lack {_annotations()}"),),
    )


def _makers(
    name: str, targets: tuple[Target, ...], conditions: tuple[Named, ...], gangs: Named, checks: tuple[Check, ...]
) -> Guard:
    return Guard(name=name, targets=targets, conditions=conditions, variables=(_NAME, gangs), checks=checks)


def _clusters(name: str, target: Target, cluster: str, policy: PolicyFile) -> Guard:
    """Return the guard of an object of KubeRay's; `cluster` leads to its worker groups.

    Only groups that are new or changed count: the autoscaler and the arbiter change sizes of those that are there. A
    group is training's by its pods, or by the label that Ray gives its nodes.
    """
    labelled = cel.entry_is("g", "labels", names.CLASS_LABEL, names.TRAINING)
    training = f"""\
variables.groups.filter(g,
  ({_is_gang("g.template", policy)} ||
  {labelled}) &&
  !variables.before.exists(o, o.groupName == g.groupName && o.template == g.template))
.map(g, g.template)"""
    return Guard(
        name=name,
        targets=(target,),
        conditions=(_made_by_none("RayJob", "RayService"),),
        variables=(
            _NAME,
            Named(name="groups", expression=_groups(f"object.{cluster}", "true")),
            Named(name="before", expression=_groups(f"oldObject.{cluster}", "request.operation == 'UPDATE'")),
            Named(name="gangs", expression=training),
        ),
        checks=_like(policy),
    )


def _groups(cluster: str, given: str) -> str:
    there = f"{given} && has({cluster}) && has({cluster}.workerGroupSpecs)"
    return f"{there} ? {cluster}.workerGroupSpecs : []"


def _ray(resource: str, kind: str) -> Target:
    return Target(group="ray.io", versions=("v1",), kinds={resource: kind})


def _changed(part: str) -> Named:
    old = part.replace("object.", "oldObject.", 1)
    return Named(name="its-template-changes", expression=f"request.operation != 'UPDATE' || {part} != {old}")


def _made_by_none(*owners: str) -> Named:
    """Return the condition that no controller among these, which are looked at themselves, made the object."""
    owned = f"o.kind in {cel.texts(owners)} && has(o.controller) && o.controller"
    return Named(
        name="nobody-looked-at-made-it",
        expression=f"!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o, {owned})",
    )
