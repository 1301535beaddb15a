"""For sites that run Kueue: the quota tree as Cohorts, ClusterQueues and LocalQueues, the fabric as a Topology.

An organisation is a Cohort, a team a ClusterQueue with a LocalQueue. GPUs come as two ResourceFlavors, one a class. A
team that serves has its nominal in serving's and borrows nothing; all others have theirs in training's, and those that
may borrow may also take what serving lends. Whoever lends takes back from any borrower (`reclaimWithinCohort: Any`).

Only GPUs are counted: let Kueue leave the rest out (`resources.excludeResourcePrefixes: [cpu, memory,
ephemeral-storage]` in its configuration). The same GPUs must not have two owners, so each object says whose they are.
Checked against the resources of Kueue v0.17.0. Quota by flavor (`quota` in a team) stays the arbiter's.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet_app.engine.errors import RequestError
from fleet_app.policy.schema import Entry, PolicyFile, Team, entries, may_use, nominal_gpus
from fleet_app.render import names
from fleet_app.render.objects import Object, metadata
from fleet_app.render.site import Site, object_name

GPU = names.GPU_RESOURCES[0]
NOTE = (
    "A GPU's quota has one owner. Those in the fleet's RayCluster are the arbiter's, and to Kueue it is one workload: "
    "these queues hand out nodes beside it, or one of them has the RayCluster, which the arbiter then shares out."
)

_API = "kueue.x-k8s.io/v1beta2"


def kueue(site: Site, policy: PolicyFile) -> Iterator[Object]:
    """Yield the objects, each after those that it names. Raises RequestError where nobody is said to serve."""
    serving = _serving(policy)
    yield _topology(site, policy)
    for role in names.CLASSES:
        yield _flavor(site, role)
    for entry in entries(policy):
        if not entry.is_team:
            yield _cohort(site, entry, serving)
    for entry in entries(policy):
        if entry.is_team:
            yield _cluster_queue(site, policy, entry, serving=entry.name in serving)
            yield _local_queue(site, entry)


def _serving(policy: PolicyFile) -> frozenset[str]:
    """Return the teams whose nominal is serving's."""
    name = policy.default_class.service
    if policy.classes[name].teams is None:
        raise RequestError(
            "every team may serve, so nobody's quota is serving's alone",
            where=f"classes.{name}.teams",
            fix="Name the teams that serve",
        )
    return frozenset(entry.name for entry in entries(policy) if entry.is_team and may_use(entry, policy.classes[name]))


def _object(site: Site, kind: str, name: str, spec: Object, *, namespaced: bool = False) -> Object:
    notes = {names.NOTE: NOTE}
    return {
        "apiVersion": _API,
        "kind": kind,
        "metadata": metadata(site, name, namespaced=namespaced, notes=notes),
        "spec": spec,
    }


def _topology(site: Site, policy: PolicyFile) -> Object:
    levels = [*(names.level_label(level) for level in policy.topology.levels), "kubernetes.io/hostname"]
    return _object(site, "Topology", site.cluster, {"levels": [{"nodeLabel": label} for label in levels]})


def _flavor_name(site: Site, role: str) -> str:
    return f"{site.cluster}-{role}"


def _flavor(site: Site, role: str) -> Object:
    toleration = {"key": names.TAINT_KEY, "operator": "Equal", "value": role, "effect": names.TAINT_EFFECT}
    spec = {"nodeLabels": {names.CLASS_LABEL: role}, "tolerations": [toleration], "topologyName": site.cluster}
    return _object(site, "ResourceFlavor", _flavor_name(site, role), spec)


def _cohort(site: Site, entry: Entry, serving: frozenset[str]) -> Object:
    """Return an organisation's Cohort; what it has beyond its teams' is its own, in the class of its teams."""
    own = nominal_gpus(entry.team) - sum(nominal_gpus(below) for below in entry.team.teams.values())
    limits = _limits(entry.team) if entry.parent else {}
    role = names.SERVING if _teams(entry.team) <= serving else names.TRAINING
    spec: Object = {"parentName": _name(entry.parent)} if entry.parent else {}
    if own > 0 or limits:
        spec |= _group((_flavor_name(site, role), {"nominalQuota": max(0, own), **limits}))
    return _object(site, "Cohort", _name(entry.name), spec)


def _teams(team: Team) -> frozenset[str]:
    below = (({name} if not each.teams else _teams(each)) for name, each in team.teams.items())
    return frozenset(name for some in below for name in some)


def _cluster_queue(site: Site, policy: PolicyFile, entry: Entry, *, serving: bool) -> Object:
    limits = _limits(entry.team)
    if entry.parent is None:
        limits = {}  # there is nobody to borrow from or to lend to
    quota = {"nominalQuota": nominal_gpus(entry.team), **limits}
    serves, trains = (_flavor_name(site, role) for role in names.CLASSES)
    if serving:
        flavors = [(serves, quota | ({"borrowingLimit": 0} if entry.parent else {}))]
    else:
        flavors = [(trains, quota)]
        if entry.parent and _borrows(policy, entry):
            taken = {key: value for key, value in limits.items() if key == "borrowingLimit"}
            flavors.append((serves, {"nominalQuota": 0, **taken}))
    spec: Object = {
        **({"cohortName": _name(entry.parent)} if entry.parent else {}),
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}},
        "queueingStrategy": "StrictFIFO" if entry.team.queue == "strict" else "BestEffortFIFO",
        "preemption": {
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "Never"},
            "withinClusterQueue": "LowerPriority",
        },
        "fairSharing": {"weight": entry.team.weight},
        **_group(*flavors),
    }
    return _object(site, "ClusterQueue", _name(entry.name), spec)


def _local_queue(site: Site, entry: Entry) -> Object:
    name = _name(entry.name)
    return _object(site, "LocalQueue", name, {"clusterQueue": name}, namespaced=True)


def _borrows(policy: PolicyFile, entry: Entry) -> bool:
    return any(each.borrows and may_use(entry, each) for each in policy.classes.values())


def _limits(team: Team) -> Object:
    given = {"borrowingLimit": team.borrowing_limit, "lendingLimit": team.lending_limit}
    return {key: value for key, value in given.items() if value is not None}


def _group(*flavors: tuple[str, Object]) -> Object:
    named = [{"name": name, "resources": [{"name": GPU, **quota}]} for name, quota in flavors]
    return {"resourceGroups": [{"coveredResources": [GPU], "flavors": named}]}


def _name(name: str) -> str:
    return object_name(name, f"organisations: {name}")
