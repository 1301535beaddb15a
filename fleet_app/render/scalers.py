"""K2: no HorizontalPodAutoscaler or KEDA ScaledObject scales what runs gangs.

Admission sees whom a scaler names, not what that is. What runs to its end is scaled nowhere; in the fleet's namespace a
scaler has to say that it is serving's.
"""

from __future__ import annotations

from fleet_app.render import cel, names
from fleet_app.render.guards import CHANGED, Check, Guard, Named, Target, message
from fleet_app.render.site import Site

SCALERS = (
    Target(group="autoscaling", versions=("v1", "v2"), kinds={"horizontalpodautoscalers": "HorizontalPodAutoscaler"}),
    Target(group="keda.sh", versions=("v1alpha1",), kinds={"scaledobjects": "ScaledObject"}),
)

_ENDS = ("Job", "CronJob", "RayCluster", "RayJob")
"""What runs to its end, or whose size is the arbiter's."""

_FINE = f"""\
!(variables.kind in {cel.texts(_ENDS)}) &&
variables.class != {cel.text(names.TRAINING)} &&
(!variables.here || variables.class == {cel.text(names.SERVING)})"""


def scalers(site: Site) -> Guard:
    """Return the guard against scalers of gangs."""
    target = "object.spec.scaleTargetRef"
    kind = f"has({target}.kind) ? {target}.kind : 'Deployment'"
    who = "object.kind + ' ' + variables.name + ' scales ' + variables.kind + ' ' + variables.target"
    return Guard(
        name="scalers",
        targets=SCALERS,
        conditions=(CHANGED,),
        variables=(
            Named(name="name", expression=cel.name_of("object")),
            Named(name="here", expression=f"request.namespace == {cel.text(site.namespace)}"),
            Named(name="class", expression=cel.entry("object.metadata", "labels", names.CLASS_LABEL)),
            Named(name="kind", expression=kind),
            Named(name="target", expression=f"has({target}.name) ? {target}.name : ''"),
        ),
        checks=(Check(rule="K2", expression=_FINE, message=message("K2", who, "and may change the size of a gang")),),
    )
