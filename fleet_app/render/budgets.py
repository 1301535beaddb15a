"""K1: no disruption budget selects pods of gangs.

A budget is matched by its selector, and admission sees the selector alone. It selects gangs when it says so, or, in the
fleet's namespace, when pods as the fleet has them would match: an empty selector selects all. A label that they may
have (the leaf, say) counts as had; one that they do not have, such as another application's, selects others.
"""

from __future__ import annotations

from fleet_app.policy.schema import PolicyFile
from fleet_app.render import cel, names
from fleet_app.render.guards import CHANGED, Check, Guard, Named, Target, message
from fleet_app.render.site import Site

BUDGETS = Target(group="policy", versions=("v1",), kinds={"poddisruptionbudgets": "PodDisruptionBudget"})

_OPEN = (
    *("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/part-of"),
    *("app.kubernetes.io/version", "helm.sh/chart", "ray.io/group", "ray.io/identifier"),
    *(names.FLAVOR_LABEL, names.PARTITION_LABEL, names.DRIVER_LABEL),
)
"""Labels of worker pods whose values differ from site to site, beside the levels of the topology."""

_LABELS = """\
has(object.spec.selector) && has(object.spec.selector.matchLabels) ? object.spec.selector.matchLabels : {}"""

_TERMS = """\
has(object.spec.selector) && has(object.spec.selector.matchExpressions) ? object.spec.selector.matchExpressions : []"""

# `known` has labels of a gang's pods with the values that they may have, `open` those with any value.
_SELECTS = f"""\
has(object.spec.selector) &&
variables.labels.all(k, !(k in variables.known) || variables.labels[k] in variables.known[k]) &&
variables.terms.all(e, !(e.key in variables.known) || (
  e.operator == 'In' ? e.values.exists(v, v in variables.known[e.key]) :
  e.operator == 'NotIn' ? variables.known[e.key].exists(v, !(v in e.values)) :
  e.operator == 'Exists')) &&
(
  {cel.text(names.CLASS_LABEL)} in variables.labels ||
  variables.terms.exists(e, e.key == {cel.text(names.CLASS_LABEL)}) ||
  variables.here &&
  variables.labels.all(k, k in variables.known || k in variables.open) &&
  variables.terms.all(e, e.operator in ['NotIn', 'DoesNotExist'] || e.key in variables.known || e.key in variables.open)
)"""

_ALLOWS_NONE = """\
!variables.selects ||
has(object.spec.maxUnavailable) && dyn(object.spec.maxUnavailable) in [dyn(0), dyn('0%')] ||
has(object.spec.minAvailable) && dyn(object.spec.minAvailable) == '100%'"""


def budgets(site: Site, policy: PolicyFile) -> Guard:
    """Return the guard against disruption budgets; one that allows no eviction passes where the policy lets it."""
    fine = _ALLOWS_NONE if policy.kubernetes.budgets == "blocking" else "!variables.selects"
    return Guard(
        name="disruption-budgets",
        targets=(BUDGETS,),
        conditions=(CHANGED,),
        variables=_variables(site, policy),
        checks=(
            Check(
                rule="K1",
                expression=fine,
                message=message("K1", "'PodDisruptionBudget ' + variables.name", "selects pods of gangs"),
            ),
        ),
    )


def _variables(site: Site, policy: PolicyFile) -> tuple[Named, ...]:
    said = {names.CLASS_LABEL: (names.TRAINING,)}
    had = {
        **said,
        names.CLUSTER_LABEL: (site.cluster,),
        "app.kubernetes.io/created-by": ("kuberay-operator",),
        "app.kubernetes.io/name": ("kuberay", "fleet"),
        "ray.io/cluster": (site.cluster,),
        "ray.io/is-ray-node": ("yes",),
        "ray.io/node-type": ("worker",),
    }
    levels = (names.level_label(level) for level in policy.topology.levels)
    return (
        Named(name="name", expression=cel.name_of("object")),
        Named(name="here", expression=f"request.namespace == {cel.text(site.namespace)}"),
        Named(name="known", expression=f"variables.here ? {cel.table(had)} : {cel.table(said)}"),
        Named(name="open", expression=cel.texts((*levels, *_OPEN))),
        Named(name="labels", expression=_LABELS),
        Named(name="terms", expression=_TERMS),
        Named(name="selects", expression=_SELECTS),
    )
