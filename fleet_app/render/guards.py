"""What admission refuses, as data: each guard is one policy of the API server, and one thing that the audit asks.

A guard's expressions are CEL: true means that the object is fine. Both users, `admission.py` and the audit, read them
from here, so that they cannot differ. Knows the shape of a guard and the rules' texts; does not know what they ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet_app.render.cel import text


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of docs/audit.md: its number, what must hold, why, and what to do instead."""

    id: str
    holds: str
    why: str
    instead: str


RULES = (
    Rule(
        id="K1",
        holds="No disruption budget selects pods of gangs.",
        why="A budget lets a drain evict some of a gang's pods, and a gang that loses one has lost all.",
        instead="Delete it, or let its selector say `fleet/class: serving`. To empty a node, cordon it.",
    ),
    Rule(
        id="K2",
        holds="No HorizontalPodAutoscaler or ScaledObject scales what runs gangs.",
        why="A gang has as many ranks as it was started with; one less ends it, and one more is idle.",
        instead="Submit an elastic gang (`fleet submit --min-nodes`); a scaler of serving says `fleet/class: serving`.",
    ),
    Rule(
        id="K3",
        holds="No container of a gang's pod has a liveness probe, but for KubeRay's own.",
        why="A rank in a long collective or a checkpoint answers late, and a restart of one rank ends the gang.",
        instead="Take it out: the arbiter sees by heartbeats which gang stands still.",
    ),
    Rule(
        id="K4",
        holds="No Deployment, and no StatefulSet or DaemonSet with RollingUpdate, owns pods of gangs.",
        why="A change of its template replaces running pods one after another, and each of them ends the gang.",
        instead="Put them into a worker group of the RayCluster; a StatefulSet or DaemonSet may say OnDelete.",
    ),
    Rule(
        id="K5",
        holds="Pods of gangs opt out of the cluster autoscaler, the descheduler and Karpenter.",
        why="Each of these moves pods to save nodes, and knows nothing of gangs.",
        instead="Correct the annotations of the pod's template.",
    ),
    Rule(
        id="K6",
        holds="A pod that holds a gang is not evicted.",
        why="Work since the last checkpoint would be lost, on every node of the gang.",
        instead="A cordon makes the arbiter move it at its next checkpoint: drain again then (see `fleet nodes`).",
    ),
    Rule(
        id="K7",
        holds="A node that holds a gang keeps its class.",
        why="The node would be handed to replicas while ranks run on it.",
        instead="Ask the arbiter: `fleet boundary --apply` moves the gang first.",
    ),
    Rule(
        id="K8",
        holds="On the fleet's nodes only its own pods ask for GPUs.",
        why="Two schedulers would give the same GPUs twice, each sure that they are free.",
        instead="Submit the work to the fleet, or let the pod tolerate no taint `fleet/class`.",
    ),
    Rule(
        id="K9",
        holds="Pods of gangs have longer to end than the drain contract gives.",
        why="The kubelet would kill a rank while it still writes its checkpoint.",
        instead="Raise terminationGracePeriodSeconds above the grace of the policy's drain contract.",
    ),
    Rule(
        id="K10",
        holds="No pod of serving's priority class can go to training's nodes.",
        why="It preempts: to make room for it the scheduler would delete a gang's pod, at once.",
        instead="Select `fleet/class: serving`, or do not tolerate the taint `fleet/class=training`.",
    ),
    Rule(
        id="K11",
        holds="The head's account changes of nodes and pods only what the arbiter changes.",
        why="Whoever may submit can run code in the head's container, and RBAC cannot bind a patch to some labels.",
        instead="Do it as somebody who may; a node that is to cross has the label `fleet/class`.",
    ),
)

BY_ID = {rule.id: rule for rule in RULES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Objects that a guard looks at: resources of an API group, and what each is called in `kind`."""

    group: str
    versions: tuple[str, ...]
    kinds: Mapping[str, str]
    """From the resource, such as `deployments`, to its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """An expression with a name: a condition under which a guard looks at all, or a variable."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must hold: the rule's number, an expression, and one that makes the message."""

    rule: str
    expression: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """One admission policy. With `held` its `params` are the ConfigMap in which the arbiter names what holds a gang."""

    name: str
    targets: tuple[Target, ...]
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    labels: Mapping[str, str] = field(default_factory=dict)
    """Objects without these are not looked at: it spares the API server work."""

    conditions: tuple[Named, ...] = ()
    variables: tuple[Named, ...] = ()
    checks: tuple[Check, ...]
    held: bool = False
    refuses: bool = True
    """Else what it finds is only recorded, in the API server's audit log."""

    strict: bool = True
    """Whether a request is refused that cannot be judged, as when the API server has not read the parameter yet."""


CHANGED = Named(
    name="its-own-part-changes", expression="request.operation != 'UPDATE' || object.spec != oldObject.spec"
)
"""What was there before the guard may still be updated by controllers, which note things on it."""


def message(rule: str, subject: str, found: str, more: str = "") -> str:
    """Return the expression of a message: who (CEL of a string), what was found, what to do instead, and the rule."""
    instead = BY_ID[rule].instead.replace("`", "")
    return f"{subject} + {text(f' {found}. {instead}{more} ({rule})')}"
