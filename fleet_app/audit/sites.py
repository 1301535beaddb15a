"""Which fleet an audit is about, as asked or the one whose RayCluster is among the objects, and by which policy.

Does not know what is wrong with any of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleet_app.audit.things import Object, Thing
from fleet_app.engine.errors import RequestError
from fleet_app.render import names
from fleet_app.render.site import NAMESPACE, Site

CLUSTER = "fleet"
"""What the cluster is taken to be called where there is none to see."""


def find(things: Iterable[Thing], cluster: str | None, namespace: str | None) -> Site:
    """Return the fleet's place. Raises RequestError where there are several fleets and nobody says which."""
    if cluster is not None and namespace is not None:
        return Site(cluster=cluster, namespace=namespace)
    found = sorted(
        {
            (thing.name, thing.namespace(namespace or NAMESPACE))
            for thing in things
            if thing.kind == "RayCluster" and _is_fleet(thing.object)
        }
    )
    left = [pair for pair in found if cluster in {None, pair[0]} and namespace in {None, pair[1]}]
    if len(left) > 1:
        listed = ", ".join(f"{name} in {place}" for name, place in left)
        raise RequestError(f"there are several: {listed}", where="--cluster", fix="Give --cluster and --namespace")
    seen = left[0] if left else (CLUSTER, NAMESPACE)
    return Site(cluster=cluster or seen[0], namespace=namespace or seen[1])


def policy_of(things: Iterable[Thing], site: Site) -> tuple[str, str] | None:
    """Return the text of the policy that came with a fleet, and where it stands; None when it is not among these."""
    for thing in things:
        here = thing.namespace(site.namespace) == site.namespace
        if thing.kind == "ConfigMap" and thing.name == names.policy_map(site.cluster) and here:
            text = (thing.object.get("data") or {}).get(names.POLICY_KEY)
            return None if text is None else (str(text), f"{thing.where}, ConfigMap {thing.name}")
    return None


def _is_fleet(cluster: Object) -> bool:
    """Return whether a RayCluster has worker groups of the fleet's classes."""
    groups = (cluster.get("spec") or {}).get("workerGroupSpecs") or ()
    return any(names.CLASS_LABEL in _labels(group) for group in groups)


def _labels(group: Object) -> dict[str, str]:
    template = (group.get("template") or {}).get("metadata") or {}
    return {**(template.get("labels") or {}), **(group.get("labels") or {})}
