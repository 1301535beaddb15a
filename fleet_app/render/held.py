"""K6, K7: what holds a gang now is neither evicted nor given to the other class.

Admission sees one object, and not who runs in it: the arbiter names the pods and nodes that hold a gang in a ConfigMap,
and these guards read that as their parameter. Where it is missing (no arbiter yet) nothing is refused. Evictions are
the road of `kubectl drain`, cluster autoscalers, deschedulers and node repairs; controllers that delete pods (of nodes
that are gone, of owners that are deleted) and the kubelet are not on it.
"""

from __future__ import annotations

from fleet_app.render import cel, names
from fleet_app.render.guards import Check, Guard, Named, Target, message
from fleet_app.render.site import Site

_EVICTIONS = Target(group="", versions=("v1",), kinds={"pods/eviction": "Eviction"})
_NODES = Target(group="", versions=("v1",), kinds={"nodes": "Node"})


def held(site: Site) -> tuple[Guard, ...]:
    """Return the guards of what the arbiter names as held."""
    return (_evictions(site), _nodes(site))


def _key(prefix: str, name: str) -> str:
    return f"({cel.text(prefix)} + {name})"


def _gang(prefix: str, name: str) -> str:
    key = _key(prefix, name)
    return f"has(params.data) && {key} in params.data ? params.data[{key}] : ''"


def _evictions(site: Site) -> Guard:
    give_up = f"kubectl -n {site.namespace} delete configmap {names.held_map(site.cluster)}"
    stale = f" If no arbiter is left to move it: {give_up}"
    who = "'Pod ' + request.name + ' holds gang ' + variables.gang"
    return Guard(
        name="evictions",
        targets=(_EVICTIONS,),
        operations=("CREATE",),
        conditions=(
            Named(name="in-the-fleets-namespace", expression=f"request.namespace == {cel.text(site.namespace)}"),
        ),
        variables=(Named(name="gang", expression=_gang(names.HELD_POD, "request.name")),),
        checks=(Check(rule="K6", expression="variables.gang == ''", message=message("K6", who, "now", stale)),),
        held=True,
    )


def _nodes(site: Site) -> Guard:
    now = cel.entry("object.metadata", "labels", names.CLASS_LABEL)
    was = cel.entry("oldObject.metadata", "labels", names.CLASS_LABEL)
    who = (
        "'Node ' + request.name + ' holds gang ' + variables.gang + ', and would go from ' +\n"
        "variables.was + ' to ' + (variables.now == '' ? 'no class' : variables.now)"
    )
    return Guard(
        name="nodes",
        targets=(_NODES,),
        operations=("UPDATE",),
        conditions=(Named(name="its-class-changes", expression=f"{was} != '' && {was} != {now}"),),
        variables=(
            Named(name="gang", expression=_gang(names.HELD_NODE, "request.name")),
            Named(name="was", expression=was),
            Named(name="now", expression=now),
        ),
        checks=(Check(rule="K7", expression="variables.gang == ''", message=message("K7", who, "under it")),),
        held=True,
        strict=False,  # kubelets and node controllers must get through whatever happens
    )
