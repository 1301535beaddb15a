"""K11: the head's account changes of nodes and pods only what the arbiter changes.

RBAC lets it patch every node, since it cannot bind a patch to some labels; and whoever may submit work to the fleet may
run code in the head's container, where its token is. Requests of any other account are not looked at. Objects are taken
as the API server hands them over: what their kind has, and no more.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleet_app.render import cel, names
from fleet_app.render.guards import Check, Guard, Named, Target, message
from fleet_app.render.site import Site

_NODES = Target(group="", versions=("v1",), kinds={"nodes": "Node"})
_PODS = Target(group="", versions=("v1",), kinds={"pods": "Pod"})

_METADATA = ("metadata.annotations", "metadata.finalizers", "metadata.ownerReferences")
_NODE_SPEC = tuple(
    f"spec.{key}" for key in ("unschedulable", "podCIDR", "podCIDRs", "providerID", "configSource", "externalID")
)
"""Everything in a node's spec but its taints."""

_CLASS = cel.text(names.CLASS_LABEL)

_OF_THE_FLEET = f"""\
{_CLASS} in variables.before && {_CLASS} in variables.after &&
[variables.before[{_CLASS}], variables.after[{_CLASS}]].all(c, c in {cel.texts(names.CLASSES)})"""

# Of the taint of the class the value alone: neither that it is there, nor what it does.
_TAINTS = f"""\
variables.taints.filter(t, t.key != {cel.text(names.TAINT_KEY)}) ==
variables.tainted.filter(t, t.key != {cel.text(names.TAINT_KEY)}) &&
variables.taints.filter(t, t.key == {cel.text(names.TAINT_KEY)}).map(t, t.effect) ==
variables.tainted.filter(t, t.key == {cel.text(names.TAINT_KEY)}).map(t, t.effect) &&
variables.taints.filter(t, t.key == {cel.text(names.TAINT_KEY)}).all(t,
  has(t.value) && t.value in {cel.texts(names.CLASSES)})"""


def account(site: Site) -> tuple[Guard, ...]:
    """Return the guards of what the head's account patches."""
    return (_nodes(site), _pods(site))


def user(site: Site) -> str:
    """Return what the API server calls the account."""
    return f"system:serviceaccount:{site.namespace}:{names.account(site.cluster)}"


def _nodes(site: Site) -> Guard:
    only = f"may change only {names.CLASS_LABEL}, by label and taint, and {names.MIG_LABEL}"
    return Guard(
        name="account-nodes",
        targets=(_NODES,),
        operations=("UPDATE",),
        conditions=(_by(site),),
        variables=(
            *_labels(),
            Named(name="taints", expression="has(object.spec.taints) ? object.spec.taints : []"),
            Named(name="tainted", expression="has(oldObject.spec.taints) ? oldObject.spec.taints : []"),
        ),
        checks=(
            _check("Node", _OF_THE_FLEET, "may change only nodes of the fleet, which have a class and keep one"),
            _check("Node", _labels_but((names.CLASS_LABEL, names.MIG_LABEL)), only),
            _check("Node", _TAINTS, only),
            _check("Node", _same((*_METADATA, *_NODE_SPEC)), only),
        ),
    )


def _pods(site: Site) -> Guard:
    only = f"may change only the label {names.PROXY_LABEL} of pods"
    return Guard(
        name="account-pods",
        targets=(_PODS,),
        operations=("UPDATE",),
        conditions=(_by(site),),
        variables=_labels(),
        checks=(
            _check("Pod", _labels_but((names.PROXY_LABEL,)), only),
            _check("Pod", _same((*_METADATA, "spec")), only),
        ),
    )


def _by(site: Site) -> Named:
    return Named(name="by-the-heads-account", expression=f"request.userInfo.username == {cel.text(user(site))}")


def _check(kind: str, holds: str, found: str) -> Check:
    who = f"'{kind} ' + request.name + ': ' + request.userInfo.username"
    return Check(rule="K11", expression=holds, message=message("K11", who, found))


def _labels() -> tuple[Named, Named]:
    after, before = (f"has({each}.metadata.labels) ? {each}.metadata.labels : {{}}" for each in ("object", "oldObject"))
    return Named(name="after", expression=after), Named(name="before", expression=before)


def _labels_but(ours: Iterable[str]) -> str:
    """Return whether all labels but these are as they were."""
    free = cel.texts(ours)
    kept = f"variables.after.all(k, k in {free} || k in variables.before && variables.before[k] == variables.after[k])"
    return f"{kept} &&\nvariables.before.all(k, k in {free} || k in variables.after)"


def _same(paths: Iterable[str]) -> str:
    """Return whether all of this is as it was."""
    return " &&\n".join(
        f"(has(object.{path}) ? has(oldObject.{path}) && object.{path} == oldObject.{path} : !has(oldObject.{path}))"
        for path in paths
    )
