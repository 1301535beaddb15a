"""The arbiter's fences as Ray's table of placement groups shows them, and which of them a replica may use.

Used by Serve's side of the fleet: to check a fence before a replica goes there, and, when the arbiter is silent, to
choose one or to find those that stand in the way. Does not know the board, nor what else Serve does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray._private import state as ray_state
from ray._raylet import PlacementGroupID
from ray.util.placement_group import PlacementGroup

from fleet_app.adapters.serve_demand import MIB, Ask, part_of, shape_of
from fleet_app.engine.cards import WHOLE_SHARE, Slice
from fleet_app.engine.errors import RequestError
from fleet_app.engine.values import NodeClass, Shape
from fleet_app.worker.contract import CLASS_LABEL, GRANT_GROUP, HOLD_GROUP, Fence, grant_group

SERVING = NodeClass.SERVING.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A fence that stands: a created group of one bundle of `shape` on a node, with its `part` of a card if any."""

    group_id: str
    name: str
    node_id: str
    shape: Shape
    part: Slice | None = None


def group_handle(group_id: str, bundle: Mapping[str, float] | None = None) -> PlacementGroup:
    """Return Ray's handle of a group that somebody else made."""
    return PlacementGroup(PlacementGroupID.from_hex(group_id), None if bundle is None else [dict(bundle)])


def standing(table: Mapping[str, Mapping[str, Any]]) -> tuple[Standing, ...]:
    """Return the fences of a table of placement groups, sorted by name."""
    found = (_standing(group_id, entry) for group_id, entry in table.items())
    return tuple(sorted((fence for fence in found if fence is not None), key=_by_name))


def told(fence: Fence) -> Standing:
    """Return a fence as the board says it; its name is not there."""
    shape = Shape(gpus=fence.gpus, cpu_milli=fence.cpu_milli, memory_mib=fence.memory_mib)
    part = Slice(profile=fence.partition, share=fence.share) if fence.partition or fence.share else None
    return Standing(group_id=fence.group_id, name="", node_id=fence.node_id, shape=shape, part=part)


def serves(fence: Standing, shape: Shape, part: Slice | None) -> bool:
    """Return whether a replica may live in a fence: it fits, and no GPU or part of one of the fence is wasted."""
    return shape.fits(fence.shape) and fence.shape.gpus == shape.gpus and fence.part == part


def by_preference(ask: Ask, fences: Iterable[Standing]) -> tuple[Standing, ...]:
    """Return the fences that a replica may live in, those of its own service first."""
    own = grant_group(ask.service, "")
    usable = [fence for fence in fences if serves(fence, ask.shape, ask.part)]
    return tuple(sorted(usable, key=lambda fence: (not fence.name.startswith(own), _by_name(fence))))


def in_the_way(shape: Shape, free: Mapping[str, Shape], fences: Iterable[Standing]) -> tuple[Standing, ...]:
    """Return the fences to remove so that `shape` fits on one of the nodes in `free`.

    None when it fits as it is, or when it cannot be made to fit; else those that free the fewest GPUs, of one node.
    """
    if any(shape.fits(room) for room in free.values()):
        return ()
    there = tuple(fences)
    choices = (_enough(shape, room, _of(node_id, there)) for node_id, room in sorted(free.items()))
    return min((choice for choice in choices if choice), key=_gpus, default=())


def read_all() -> tuple[Standing, ...]:
    """Return every fence on a node where replicas may run."""
    nodes = _replica_nodes()
    return tuple(fence for fence in standing(ray.util.placement_group_table()) if fence.node_id in nodes)


def read(group_id: str) -> Standing | None:
    """Return one fence, None when it does not stand (any more)."""
    return _standing(group_id, ray.util.placement_group_table(group_handle(group_id)))


def serving_nodes() -> frozenset[str]:
    """Return the ids of the live nodes that are labelled for serving."""
    return frozenset(node_id for node_id, labels in _labels().items() if labels.get(CLASS_LABEL) == SERVING)


def free_rooms(part: Slice | None = None) -> dict[str, Shape]:
    """Return what is free on each node where replicas may run, as Ray counts it, rounded down.

    With `part` only of the nodes that have such a part of a card free.
    """
    rooms = ray_state.available_resources_per_node()
    nodes = _replica_nodes()
    return {
        node_id: Shape(
            gpus=int(room.get("GPU", 0)),
            cpu_milli=int(room.get("CPU", 0) * 1000),
            memory_mib=int(room.get("memory", 0) // MIB),
        )
        for node_id, room in rooms.items()
        if node_id in nodes and _has(room, part)
    }


def _has(room: Mapping[str, float], part: Slice | None) -> bool:
    if part is None:
        return True
    return room.get(part.partition, 0) >= 1 if part.profile else room.get("GPU", 0) * WHOLE_SHARE >= part.share


def _replica_nodes() -> frozenset[str]:
    """Return the nodes for serving; in a cluster without such labels, all nodes."""
    return serving_nodes() or frozenset(_labels())


def _labels() -> dict[str, Mapping[str, str]]:
    nodes = ray.nodes()
    return {node["NodeID"]: node["Labels"] for node in nodes if node["Alive"]}


def _standing(group_id: str, entry: Mapping[str, Any]) -> Standing | None:
    name, bundles = entry.get("name", ""), entry.get("bundles", {})
    if not name.startswith((GRANT_GROUP, HOLD_GROUP)) or entry.get("state") != "CREATED" or len(bundles) != 1:
        return None
    (index,) = bundles
    try:
        shape, part = shape_of(bundles[index]), part_of(bundles[index])
    except RequestError:
        return None
    return Standing(group_id=group_id, name=name, node_id=entry["bundles_to_node_id"][index], shape=shape, part=part)


def _of(node_id: str, fences: tuple[Standing, ...]) -> list[Standing]:
    there = [fence for fence in fences if fence.node_id == node_id]
    return sorted(there, key=lambda fence: (fence.shape.gpus, _by_name(fence)))


def _by_name(fence: Standing) -> tuple[str, str]:
    return fence.name, fence.group_id


def _enough(shape: Shape, room: Shape, fences: list[Standing]) -> tuple[Standing, ...]:
    """Return the shortest beginning of `fences` that makes the room large enough, nothing when all of them do not."""
    for taken, fence in enumerate(fences, start=1):
        room = room + fence.shape
        if shape.fits(room):
            return tuple(fences[:taken])
    return ()


def _gpus(fences: tuple[Standing, ...]) -> int:
    return sum(fence.shape.gpus for fence in fences)
