"""Where a fleet is on Kubernetes: the cluster's name and its namespace, and whether names of the policy will do there.

Does not know what is rendered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet_app.engine.errors import RequestError
from fleet_app.policy.schema import PolicyFile

NAMESPACE = "fleet"
"""Where a fleet is taken to be when nobody says."""

LONGEST_CLUSTER = 47
"""KubeRay refuses a RayCluster whose name leaves no room for what it appends."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A fleet's place: `cluster` names the chart's release and the RayCluster, `namespace` is theirs."""

    cluster: str
    namespace: str = NAMESPACE


def site_of(policy: PolicyFile, cluster: str | None, namespace: str | None) -> Site:
    """Return the place that was asked for; the policy's name is the cluster's where nobody names one.

    Raises RequestError when Kubernetes would not take a name.
    """
    name = cluster or policy.name
    if _LABEL.fullmatch(name) is None or len(name) > LONGEST_CLUSTER or not name[0].isalpha():
        whose = "--cluster" if cluster else "name"
        raise RequestError(
            f"{name!r} cannot name a RayCluster: at most {LONGEST_CLUSTER} lower-case letters, digits and '-'",
            where=whose,
            fix="Give --cluster NAME, as the chart's release is called",
        )
    return Site(cluster=name, namespace=_namespace(namespace or NAMESPACE))


def _namespace(name: str) -> str:
    if _LABEL.fullmatch(name) is None:
        raise RequestError(
            f"{name!r} cannot be the name of a namespace",
            where="--namespace",
            fix="Use at most 63 lower-case letters, digits and '-'",
        )
    return name


def object_name(name: str, where: str) -> str:
    """Return the name of a team or class, to be an object's. Raises RequestError when Kubernetes would not take it."""
    if _LABEL.fullmatch(name) is None:
        raise RequestError(
            f"{name!r} cannot name a Kubernetes object",
            where=where,
            fix="Call it with lower-case letters, digits and '-' only",
        )
    return name
