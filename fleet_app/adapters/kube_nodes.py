"""Kubernetes' objects to what the arbiter knows, and to the patches that change them. Pure: JSON in, values out.

Reads only the keys that it needs and passes over what it does not know, so newer ones are as good. A patch names what
it changes and nothing else, and what it rests on: on an object that somebody changed meanwhile it does nothing.
Does not call anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fleet_app.arbiter.pods import counterpart
from fleet_app.arbiter.ports import MachineView, PodView, PoolView
from fleet_app.engine.values import NodeClass
from fleet_app.render import names

Json = Mapping[str, Any]
Patch = list[dict[str, Any]]

GROUP_LABEL = "ray.io/group"
CLUSTER_LABEL = "ray.io/cluster"
TYPE_LABEL = "ray.io/node-type"
OVER = {"Failed", "Succeeded"}
"""Phases of a pod in which nothing of it runs any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A worker's pod, as the arbiter knows it, and whether nothing of it runs any more."""

    view: PodView
    over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A worker group of a RayCluster, at its place in the list; `doomed` are pods that the operator is to delete."""

    index: int
    view: PoolView
    hosts: int = 1
    doomed: tuple[str, ...] = ()
    has_strategy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RayCluster:
    """A RayCluster as it was when it had that version."""

    version: str
    uid: str
    groups: tuple[Group, ...] = ()
    owned: tuple[int, ...] = ()
    """Where its metadata says that the groups are ours."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    """How many nodes the chart wants of each group; nothing where Ray's autoscaler has a say in it."""

    def group(self, name: str) -> Group | None:
        """Return the worker group of that name."""
        return next((group for group in self.groups if group.view.name == name), None)

    def counterpart(self, group: Group, to: NodeClass) -> Group | None:
        """Return the worker group of a class that is as another is but for that; None when none or several are."""
        found = counterpart([other.view for other in self.groups], group.view, to)
        return None if found is None else self.group(found.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the ConfigMap says that is held, when it had that version."""

    version: str = ""
    entries: Mapping[str, str] = field(default_factory=dict)

    def of(self, prefix: str) -> dict[str, str]:
        """Return by name, without the prefix of its key, whose each is."""
        return {key.removeprefix(prefix): whose for key, whose in self.entries.items() if key.startswith(prefix)}


# Objects to values.


def worker_pods(listed: Json) -> list[Pod]:
    """Return the pods of workers in a list, by name."""
    pods = (_pod(item) for item in listed.get("items") or () if _label(item, GROUP_LABEL) != names.HEAD_GROUP)
    return sorted(pods, key=lambda pod: pod.view.name)


def as_new(listed: Json, cluster: RayCluster) -> bool:
    """Return whether a list was read no earlier than a RayCluster was changed: versions grow with every change."""
    return int(listed["metadata"]["resourceVersion"]) >= int(cluster.version)


def machines(items: Iterable[Json]) -> tuple[MachineView, ...]:
    """Return Kubernetes nodes, by name."""
    return tuple(sorted(map(_machine, items), key=lambda machine: machine.name))


def ray_cluster(item: Json) -> RayCluster:
    """Return a RayCluster with its worker groups."""
    specs = (item.get("spec") or {}).get("workerGroupSpecs") or ()
    sizes = _sizes(item)
    return RayCluster(
        version=item["metadata"]["resourceVersion"],
        uid=item["metadata"]["uid"],
        groups=tuple(_group(index, spec, sizes) for index, spec in enumerate(specs)),
        owned=tuple(
            index
            for index, entry in enumerate(item["metadata"].get("managedFields") or ())
            if entry.get("manager") == names.FIELD_MANAGER
        ),
        sizes=sizes,
    )


def _sizes(item: Json) -> Mapping[str, int]:
    """Return what the chart noted, as far as it can be read."""
    if (item.get("spec") or {}).get("enableInTreeAutoscaling"):
        return {}
    try:
        found = json.loads((item["metadata"].get("annotations") or {}).get(names.SIZES_NOTE, "{}"))
        return {str(name): int(size) for name, size in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def held(item: Json) -> Held:
    """Return what a ConfigMap says that is held."""
    return Held(version=item["metadata"]["resourceVersion"], entries=dict(item.get("data") or {}))


def _label(item: Json, key: str) -> str:
    return str((item["metadata"].get("labels") or {}).get(key, ""))


def _pod(item: Json) -> Pod:
    spec, status, deleted = item.get("spec") or {}, item.get("status") or {}, item["metadata"].get("deletionTimestamp")
    view = PodView(
        name=item["metadata"]["name"],
        pool=_label(item, GROUP_LABEL),
        machine=spec.get("nodeName") or "",
        address=status.get("podIP") or "",
        ends_at=None if deleted is None else datetime.fromisoformat(deleted).timestamp(),
    )
    return Pod(view=view, over=status.get("phase") in OVER)


def _machine(item: Json) -> MachineView:
    spec = item.get("spec") or {}
    return MachineView(
        name=item["metadata"]["name"],
        labels=dict(item["metadata"].get("labels") or {}),
        cordoned=bool(spec.get("unschedulable")),
    )


def _group(index: int, spec: Json, sizes: Mapping[str, int]) -> Group:
    strategy = spec.get("scaleStrategy")
    least, most = int(spec.get("minReplicas") or 0), spec.get("maxReplicas")
    wanted = spec.get("replicas")
    nodes = least if wanted is None else int(wanted)
    return Group(
        index=index,
        view=PoolView(
            name=spec["groupName"],
            labels=dict(spec.get("labels") or {}),
            nodes=nodes,
            least=least,
            most=nodes if most is None else int(most),
            wanted=sizes.get(spec["groupName"]),
        ),
        hosts=max(1, int(spec.get("numOfHosts") or 1)),
        doomed=tuple((strategy or {}).get("workersToDelete") or ()),
        has_strategy=strategy is not None,
    )


# Changes.


def repooled(cluster: RayCluster, leaves: Group | None, joins: Group, pod: str) -> Patch:
    """Return the patch that takes a pod out of one group, by name, and lets another have one more; in one step."""
    patch = _tested(cluster, [group for group in (leaves, joins) if group is not None])
    if leaves is not None:
        patch.append(_set(leaves, "replicas", leaves.view.nodes - 1))
        patch += _dooming(leaves, (*leaves.doomed, pod))
    patch.append(_set(joins, "replicas", joins.view.nodes + 1))
    return patch


def shrunk(cluster: RayCluster, group: Group, pod: str) -> Patch:
    """Return the patch that takes a pod out of a group, by name, and puts nothing in its place."""
    fewer = _set(group, "replicas", group.view.nodes - 1)
    return [*_tested(cluster, [group]), fewer, *_dooming(group, (*group.doomed, pod))]


def tidied(cluster: RayCluster, gone: frozenset[str]) -> Patch:
    """Return the patch that takes the names of pods that are gone out of what is to be deleted; empty when none are."""
    changed = [group for group in cluster.groups if gone & set(group.doomed)]
    if not changed:
        return []
    patch = _tested(cluster, changed)
    for group in changed:
        patch += _dooming(group, tuple(name for name in group.doomed if name not in gone))
    return patch


def grown(cluster: RayCluster) -> Patch:
    """Return the patch that gives a pool the nodes that the chart came to want; empty when it wants no more.

    Both pools of a pair count together: a node that went from one to the other is not made again. Nothing is taken
    away here, whatever the chart wants: that needs a drain.
    """
    for group in cluster.groups:
        to = NodeClass.SERVING if group.view.labels.get(names.CLASS_LABEL) == NodeClass.TRAINING else NodeClass.TRAINING
        pair = [one for one in (group, cluster.counterpart(group, to)) if one is not None]
        lacking = {one.view.name: cluster.sizes.get(one.view.name, 0) - one.view.nodes for one in pair}
        more = min(sum(lacking.values()), lacking[group.view.name], group.view.most - group.view.nodes)
        if more > 0 and group.view.name in cluster.sizes:
            return [*_tested(cluster, [group]), _set(group, "replicas", group.view.nodes + more)]
    return []


def disowned(cluster: RayCluster) -> Patch:
    """Return the patch that gives up what we own of a RayCluster by having changed it; empty when we own nothing.

    The list of groups is one field to the server, and Helm applies it: whoever owns it makes the next upgrade of the
    chart conflict, whatever that changes. What nobody owns conflicts with nothing.
    """
    if not cluster.owned:
        return []
    at = [f"/metadata/managedFields/{index}" for index in reversed(cluster.owned)]
    tests = [{"op": "test", "path": f"{path}/manager", "value": names.FIELD_MANAGER} for path in at]
    return [*_tested(cluster, ()), *tests, *({"op": "remove", "path": path} for path in at)]


def _tested(cluster: RayCluster, groups: Sequence[Group]) -> Patch:
    tests = [{"op": "test", "path": "/metadata/resourceVersion", "value": cluster.version}]
    for group in groups:
        path = f"/spec/workerGroupSpecs/{group.index}/groupName"
        tests.append({"op": "test", "path": path, "value": group.view.name})
    return tests


def _set(group: Group, key: str, value: object) -> dict[str, Any]:
    return {"op": "add", "path": f"/spec/workerGroupSpecs/{group.index}/{key}", "value": value}


def _dooming(group: Group, pods: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    if not group.has_strategy:
        yield _set(group, "scaleStrategy", {})
    yield _set(group, "scaleStrategy/workersToDelete", list(pods))


def holding(known: Held, entries: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the merge patch that makes a ConfigMap say what is held; None when it says that already."""
    data: dict[str, str | None] = {key: whose for key, whose in entries.items() if known.entries.get(key) != whose}
    stale = (key for key in known.entries if key.startswith((names.HELD_POD, names.HELD_NODE)) and key not in entries)
    data |= dict.fromkeys(stale)
    return {"metadata": {"resourceVersion": known.version}, "data": data} if data else None


def new_map(cluster: str, owner: RayCluster, entries: Mapping[str, str]) -> dict[str, Any]:
    """Return the ConfigMap of what is held; it goes when the RayCluster does."""
    whose = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": cluster, "uid": owner.uid}
    metadata = {"name": names.held_map(cluster), "labels": {names.CLUSTER_LABEL: cluster}, "ownerReferences": [whose]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(entries)}


def relabelled(item: Json, to: NodeClass) -> dict[str, Any] | None:
    """Return the merge patch that gives a Kubernetes node another class, its taint's value included; None if it has it.

    A node without that taint gets none: it was not the taint that kept others away there.
    """
    taints = (item.get("spec") or {}).get("taints") or []
    new = [{**taint, "value": to.value} if taint.get("key") == names.TAINT_KEY else taint for taint in taints]
    if _label(item, names.CLASS_LABEL) == to.value and new == taints:
        return None
    metadata = {"resourceVersion": item["metadata"]["resourceVersion"], "labels": {names.CLASS_LABEL: to.value}}
    return {"metadata": metadata, "spec": {"taints": new}} if taints else {"metadata": metadata}
