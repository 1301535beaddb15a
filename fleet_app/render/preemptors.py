"""K10: what the policy lets preempt pods cannot go to training's nodes.

The scheduler makes room for a pending pod of serving's priority class by deleting pods of a lower one, at once, on any
node where the pod could be then: that it does not tolerate a node's taint, or does not select it, is what keeps the
node's pods. So a pod of that class with every toleration, such as an agent for all nodes, says that it is none for
training's. Classes that are not the policy's are their makers' business.
"""

from __future__ import annotations

from fleet_app.policy.schema import PolicyFile
from fleet_app.render import cel, names
from fleet_app.render.guards import Check, Guard, Named, Target, message

_PODS = Target(group="", versions=("v1",), kinds={"pods": "Pod"})

_KEY, _TRAINING = cel.text(names.CLASS_LABEL), cel.text(names.TRAINING)

# As Kubernetes matches a toleration with the taint fleet/class=training:NoSchedule.
_TOLERATES = f"""\
has(object.spec.tolerations) && object.spec.tolerations.exists(t,
  (!has(t.effect) || t.effect in ['', {cel.text(names.TAINT_EFFECT)}]) && (
  has(t.operator) && t.operator == 'Exists' ?
  !has(t.key) || t.key in ['', {cel.text(names.TAINT_KEY)}] :
  has(t.key) && t.key == {cel.text(names.TAINT_KEY)} && has(t.value) && t.value == {_TRAINING}))"""

_SELECTS_OTHERS = f"""\
has(object.spec.nodeSelector) && {_KEY} in object.spec.nodeSelector &&
object.spec.nodeSelector[{_KEY}] != {_TRAINING}"""

_TERMS = """\
has(object.spec.affinity) && has(object.spec.affinity.nodeAffinity) &&
has(object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution) ?
object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms : []"""

# One term is enough to be let in, so each has to keep the pod away.
_KEPT_AWAY = f"""\
variables.terms.size() > 0 && variables.terms.all(t, has(t.matchExpressions) && t.matchExpressions.exists(e,
  e.key == {_KEY} && (
  e.operator == 'DoesNotExist' ||
  e.operator == 'NotIn' && {_TRAINING} in e.values ||
  e.operator == 'In' && !({_TRAINING} in e.values))))"""


def preemptors(policy: PolicyFile) -> Guard:
    """Return the guard against pods of serving's priority class that could go to training's nodes."""
    ours = cel.text(policy.default_class.service)
    who = f"'Pod ' + variables.name + ' of the priority class ' + {ours}"
    return Guard(
        name="preemptors",
        targets=(_PODS,),
        operations=("CREATE",),
        conditions=(
            Named(
                name="of-servings-priority-class",
                expression=f"has(object.spec.priorityClassName) && object.spec.priorityClassName == {ours}",
            ),
        ),
        variables=(
            Named(name="name", expression=cel.name_of("object")),
            Named(name="tolerates", expression=_TOLERATES),
            Named(name="elsewhere", expression=_SELECTS_OTHERS),
            Named(name="terms", expression=_TERMS),
            Named(name="away", expression=_KEPT_AWAY),
        ),
        checks=(
            Check(
                rule="K10",
                expression="!variables.tolerates || variables.elsewhere || variables.away",
                message=message("K10", who, "tolerates the taint of training's nodes, and would preempt gangs there"),
            ),
        ),
        strict=False,  # it looks at everybody's pods
    )
