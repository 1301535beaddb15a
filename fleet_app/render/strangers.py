"""K8: on the fleet's nodes only the fleet's pods ask for GPUs.

At its creation a pod has no node yet: it is meant for the fleet's when it selects them or tolerates their taint. Only
recorded unless the policy says otherwise, for a site finds out first whom it would hit.
"""

from __future__ import annotations

from fleet_app.policy.schema import PolicyFile
from fleet_app.render import cel, names
from fleet_app.render.guards import Check, Guard, Named, Target, message
from fleet_app.render.site import Site

_PODS = Target(group="", versions=("v1",), kinds={"pods": "Pod"})

_CONTAINERS = """\
object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])"""

_ASKS = f"""\
variables.containers.exists(c, has(c.resources) && has(c.resources.limits) &&
  c.resources.limits.exists(k, {cel.texts(names.GPU_RESOURCES)}.exists(g, k.startsWith(g))))"""

_REACHES = f"""\
has(object.spec.nodeSelector) && {cel.text(names.CLASS_LABEL)} in object.spec.nodeSelector ||
has(object.spec.tolerations) && object.spec.tolerations.exists(t,
  has(t.key) && t.key != '' ? t.key == {cel.text(names.TAINT_KEY)} : has(t.operator) && t.operator == 'Exists')"""


def strangers(site: Site, policy: PolicyFile) -> Guard:
    """Return the guard against GPU pods that are not the fleet's."""
    ours = f"request.namespace == {cel.text(site.namespace)} && " + cel.entry_is(
        "object.metadata", "labels", names.CLUSTER_LABEL, site.cluster
    )
    return Guard(
        name="strangers",
        targets=(_PODS,),
        operations=("CREATE",),
        variables=(
            Named(name="name", expression=cel.name_of("object")),
            Named(name="ours", expression=ours),
            Named(name="containers", expression=_CONTAINERS),
            Named(name="asks", expression=_ASKS),
            Named(name="reaches", expression=_REACHES),
        ),
        checks=(
            Check(
                rule="K8",
                expression="variables.ours || !variables.asks || !variables.reaches",
                message=message(
                    "K8", "'Pod ' + variables.name", "asks for GPUs of nodes of the fleet, and is none of its pods"
                ),
            ),
        ),
        refuses=policy.kubernetes.strangers == "refuse",
        strict=False,  # it looks at everybody's pods
    )
