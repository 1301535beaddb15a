"""Ray's nodes and placement groups, as the arbiter sees and makes them.

Whole GPUs, parts of cards, thousandths of a CPU, MiB of memory on this side; Ray's floats and bytes on the other.
Groups are pinned: bundle i on the one node that is named for it. Does not know workloads or services, only whose
replica a group of Serve's own making says that it is for. Works in a driver and in an actor, in Ray namespace `fleet`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.state import list_tasks

from fleet_app.adapters import private, serve_names
from fleet_app.adapters.groups import Groups
from fleet_app.arbiter.ports import BundleView, ClusterView, GroupView, NodeView
from fleet_app.engine.cards import MIG, WHOLE_SHARE, Slice
from fleet_app.engine.errors import FaultError
from fleet_app.engine.layouts import SHARED
from fleet_app.engine.values import NOTHING, Shape
from fleet_app.worker import contract

MIB = 1024**2
POLL_S = 0.005
TASKS_TIMEOUT_S = 3

Bundles = tuple[tuple[str, Shape], ...]


class RayCluster:
    """The cluster that this process is connected to."""

    def __init__(self) -> None:
        self._groups = Groups()

    def observe(self) -> ClusterView:
        """Return nodes and groups as they are: four round trips, and one a group that changed. Raises FaultError."""
        resources = private.resources()
        draining = private.draining()
        return ClusterView(
            nodes=tuple(_node(node, resources, draining) for node in private.nodes()),
            groups=tuple(map(_group, self._groups.look(resources))),
        )

    def create_group(self, name: str, bundles: Bundles, timeout_s: float, part: Slice | None = None) -> str | None:
        """Create a detached STRICT_SPREAD group, bundle i on the node with id `bundles[i][0]`.

        With `part` its one bundle has that part of one card too: Ray puts a fraction of a GPU on one. Return its id
        when it is ready; a live group of that name is that group. None when it is not ready within `timeout_s`; it is
        removed then. Raises FaultError, also when a live group of that name is of another kind.
        """
        deadline = time.monotonic() + timeout_s
        group_id = _existing(name, bundles, part)
        if group_id is None:
            if not _await_room(bundles, deadline, part):
                return None
            group_id = _create(name, bundles, part)
            self._groups.note(group_id)
        if _await_ready(group_id, deadline):
            return group_id
        self.remove_group(group_id)
        return None

    @private.faulty
    def remove_group(self, group_id: str) -> None:
        """Remove a group at once, and with it what runs in it; nothing happens when it is gone. Raises FaultError.

        Ray shows the resources as free about 0.1 s later, and may do so before the processes are gone.
        """
        remove_placement_group(PlacementGroup(private.group_id(group_id)))
        self._groups.note(group_id)

    def users_of(self, node_id: str, ours: frozenset[str]) -> tuple[str, ...]:
        """Return who holds GPUs of a node outside of the groups with the ids `ours`: actors, tasks and groups, sorted.

        Tasks are found by Ray's state API; when it does not answer they are missing here.
        """
        foreign = [group for group in self._groups.look(private.resources()) if group.group_id not in ours]
        found = {
            *_groups_on(foreign, node_id),
            *_foreign_actors(ours, node_id),
            *_foreign_tasks(ours, node_id),
        }
        return tuple(sorted(found))


# Ray's values to ours.


def _node(node: private.NodeFact, resources: Mapping[str, private.Resources], draining: frozenset[str]) -> NodeView:
    total, available = resources.get(node.node_id, ({}, {}))
    return NodeView(
        node_id=node.node_id,
        labels=node.labels,
        alive=node.alive,
        draining=node.node_id in draining,
        total=_shape(total),
        available=_shape(available),
        is_head=private.HEAD_RESOURCE in total,
        slices=_slices(total),
        free_slices=_slices(available),
        address=node.address,
    )


def _shape(resources: Mapping[str, float]) -> Shape:
    # Rounded down where Ray has fractions: half a GPU that is left is none that can be given.
    # Ray counts in ten-thousandths, so a CPU count needs its own float error taken off first.
    return Shape(
        gpus=math.floor(round(resources.get("GPU", 0.0), 4)),
        cpu_milli=math.floor(round(resources.get("CPU", 0.0) * 1000, 1)),
        memory_mib=math.floor(resources.get("memory", 0.0) / MIB),
    )


def _demanded(resources: Mapping[str, float]) -> Shape:
    """Return the shape of a bundle that Serve asked for itself, parts rounded up as services say their demands."""
    return Shape(
        gpus=_shape(resources).gpus,
        cpu_milli=math.ceil(round(resources.get("CPU", 0.0) * 1000, 3)),
        memory_mib=math.ceil(resources.get("memory", 0.0) / MIB),
    )


def _slices(resources: Mapping[str, float]) -> dict[str, int]:
    """Return parts of cards as the arbiter counts them: partitions by their resource, GPUs in ten-thousandths."""
    partitions = {
        name: int(amount)
        for name, amount in resources.items()
        if name.startswith(MIG) and contract.PARTITION_RESOURCE.fullmatch(name)
    }
    gpus = round(resources.get("GPU", 0.0) * WHOLE_SHARE)
    return partitions | ({SHARED: gpus} if gpus else {})


def _part(resources: Mapping[str, float]) -> Slice | None:
    """Return the part of a card that a bundle has."""
    counts = _slices(resources)
    share = counts.pop(SHARED, 0) % WHOLE_SHARE
    if counts:
        return Slice(profile=min(counts).removeprefix(MIG))
    return Slice(share=share) if share else None


def _resources(shape: Shape, part: Slice | None) -> dict[str, float]:
    share = 0 if part is None else part.share / WHOLE_SHARE
    asked = {"GPU": shape.gpus + share, "CPU": shape.cpu_milli / 1000, "memory": shape.memory_mib * MIB}
    asked |= {part.partition: 1} if part is not None and part.profile else {}
    return {resource: amount for resource, amount in asked.items() if amount > 0}


def _group(group: private.GroupFact) -> GroupView:
    replica = serve_names.replica_of(group.name)
    return GroupView(
        group_id=group.group_id,
        # Somebody else's group may bear a name like ours, in another namespace: it must not pass for ours.
        name=group.name if group.namespace == contract.RAY_NAMESPACE else f"{group.namespace}:{group.name}",
        state=group.state,
        bundles=tuple(
            BundleView(
                node_id=bundle.node_id,
                shape=_shape(bundle.resources) if replica is None else _demanded(bundle.resources),
                slice=_part(bundle.resources),
            )
            for bundle in group.bundles
        ),
        replica="" if replica is None else replica.name,
        service="" if replica is None else replica.service,
    )


# Making a group.


def _existing(name: str, bundles: Bundles, part: Slice | None) -> str | None:
    group = private.group_by_name(name)
    if group is None:
        return None
    stands = tuple((bundle.pinned_to, _shape(bundle.resources)) for bundle in group.bundles)
    if stands != bundles or any(_part(bundle.resources) != part for bundle in group.bundles):
        raise FaultError(
            "a live placement group of that name has other nodes or another shape",
            where=name,
            fix=f"remove the group {group.group_id}",
        )
    return group.group_id


@private.faulty
def _create(name: str, bundles: Bundles, part: Slice | None) -> str:
    try:
        group = placement_group(
            [_resources(shape, part) for _, shape in bundles],
            strategy="STRICT_SPREAD",
            name=name,
            lifetime="detached",
            bundle_label_selector=[{contract.NODE_ID_LABEL: node_id} for node_id, _ in bundles],
        )
    except ValueError as error:
        raise FaultError(f"Ray takes no such group: {error}", where=name) from error
    return str(group.id.hex())


def _await_room(bundles: Bundles, deadline: float, part: Slice | None) -> bool:
    """Return whether every node shows room for its bundle in time.

    Ray retries a group that did not fit at first after 0.7 s, and one that it judged infeasible only when a node
    joins; so a group is asked for only when Ray's own view (0.1 s behind) says that it fits.
    """
    return _until(deadline, lambda: _fits(bundles, part))


def _fits(bundles: Bundles, part: Slice | None) -> bool:
    resources = private.resources()
    free = {node_id: _shape(available) for node_id, (_, available) in resources.items()}
    if part is not None:
        _, available = resources.get(bundles[0][0], ({}, {}))
        if _slices(available).get(part.partition, 0) < (part.share or 1):
            return False
    return all(shape.fits(free.get(node_id, NOTHING)) for node_id, shape in bundles)


def _await_ready(group_id: str, deadline: float) -> bool:
    # Not PlacementGroup.wait: it cuts its time-out to whole seconds.
    return _until(
        deadline, lambda: (group := private.group_by_id(group_id)) is not None and group.state == private.CREATED
    )


def _until(deadline: float, holds: Callable[[], bool]) -> bool:
    while not holds():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


# Who uses GPUs without us.


def _groups_on(groups: Iterable[private.GroupFact], node_id: str) -> Iterator[str]:
    for group in groups:
        here = [bundle for bundle in group.bundles if bundle.node_id == node_id]
        if any(private.gpus_in(bundle.resources) > 0 for bundle in here):
            yield f"placement group {group.name or group.group_id}"


def _foreign_actors(ours: frozenset[str], node_id: str) -> Iterator[str]:
    for actor in private.actors("ALIVE"):
        if actor.node_id == node_id and actor.gpus > 0 and actor.group_id not in ours:
            name = f"{actor.class_name} {actor.name}".strip()
            yield f"actor {name} (pid {actor.pid}, job {actor.job_id})"


def _foreign_tasks(ours: frozenset[str], node_id: str) -> Iterator[str]:
    here: list[tuple[str, str, str | bool | int | float]] = [
        ("state", "=", "RUNNING"),
        ("node_id", "=", node_id),
        ("type", "=", "NORMAL_TASK"),
    ]
    try:
        tasks = list_tasks(
            # Named, because Ray would else look for clusters on this machine, and may find another one.
            address=ray.get_runtime_context().gcs_address,
            filters=here,
            detail=True,
            timeout=TASKS_TIMEOUT_S,
            raise_on_missing_output=False,
        )
    except private.RAY_ERRORS:
        return
    for task in tasks:
        if private.gpus_in(task.required_resources or {}) > 0 and task.placement_group_id not in ours:
            yield f"task {task.name} (pid {task.worker_pid}, job {task.job_id})"
