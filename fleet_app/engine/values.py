"""Shapes and nodes: what the fleet is made of.

Knows quantities (whole GPUs, thousandths of a CPU, MiB of memory) and topology names.
Does not know workloads, teams, priorities or time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fleet_app.engine.cards import Card


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """GPUs, CPUs and memory that one bundle needs on one node, or that a node has."""

    gpus: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0

    def __add__(self, other: Shape) -> Shape:
        """Return the sum of both, part by part."""
        return Shape(
            gpus=self.gpus + other.gpus,
            cpu_milli=self.cpu_milli + other.cpu_milli,
            memory_mib=self.memory_mib + other.memory_mib,
        )

    def __sub__(self, other: Shape) -> Shape:
        """Return the difference, part by part; parts may be negative."""
        return Shape(
            gpus=self.gpus - other.gpus,
            cpu_milli=self.cpu_milli - other.cpu_milli,
            memory_mib=self.memory_mib - other.memory_mib,
        )

    @property
    def parts(self) -> tuple[int, int, int]:
        """Return the parts by themselves: equal for equal shapes, and looked up faster."""
        return (self.gpus, self.cpu_milli, self.memory_mib)

    def fits(self, room: Shape) -> bool:
        """Return whether this shape fits into `room`, every part of it."""
        return self.gpus <= room.gpus and self.cpu_milli <= room.cpu_milli and self.memory_mib <= room.memory_mib

    def fits_beside(self, room: Shape, more: Shape) -> bool:
        """Return whether this shape fits into both together."""
        return (
            self.gpus <= room.gpus + more.gpus
            and self.cpu_milli <= room.cpu_milli + more.cpu_milli
            and self.memory_mib <= room.memory_mib + more.memory_mib
        )

    def at_least_nothing(self) -> Shape:
        """Return the shape with negative parts raised to zero."""
        return Shape(
            gpus=max(0, self.gpus),
            cpu_milli=max(0, self.cpu_milli),
            memory_mib=max(0, self.memory_mib),
        )

    def is_nothing(self) -> bool:
        """Return whether no part of the shape is above zero."""
        return self.gpus <= 0 and self.cpu_milli <= 0 and self.memory_mib <= 0


NOTHING = Shape()


def total(shapes: Sequence[Shape]) -> Shape:
    """Return the sum of the shapes, part by part; many at once cost less than one by one."""
    if len(shapes) == 1:
        return shapes[0]
    return Shape(
        gpus=sum([shape.gpus for shape in shapes]),
        cpu_milli=sum([shape.cpu_milli for shape in shapes]),
        memory_mib=sum([shape.memory_mib for shape in shapes]),
    )


def left_of(room: Shape, shapes: Sequence[Shape]) -> Shape:
    """Return what the shapes leave of a room, part by part; parts may be negative."""
    return Shape(
        gpus=room.gpus - sum([shape.gpus for shape in shapes]),
        cpu_milli=room.cpu_milli - sum([shape.cpu_milli for shape in shapes]),
        memory_mib=room.memory_mib - sum([shape.memory_mib for shape in shapes]),
    )


def smaller(room: Shape, shape: Shape) -> Shape:
    """Return what of a shape there is room for, part by part."""
    return Shape(
        gpus=max(0, min(room.gpus, shape.gpus)),
        cpu_milli=max(0, min(room.cpu_milli, shape.cpu_milli)),
        memory_mib=max(0, min(room.memory_mib, shape.memory_mib)),
    )


Block = tuple[tuple[str, ...], str, str]
"""A domain, an accelerator and a driver: the nodes of one block have all three in common (P4)."""


class NodeClass(StrEnum):
    """The value of the node label `fleet/class`: whose nominal the node's GPUs are part of."""

    SERVING = "serving"
    TRAINING = "training"


class Condition(StrEnum):
    """Whether anything new may be placed on a node."""

    READY = "ready"
    CORDONED = "cordoned"
    DRAINING = "draining"
    QUARANTINED = "quarantined"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """That a node goes over to another class: asked for at `asked_at`, done at `moved_at` (seconds), None before.

    `home` is the class for which the policy's nominals were written, `was` the one that it leaves now. `gpus` are those
    that it takes along. A node of a node pool is made anew in another one (N3): `machine` is the Kubernetes node under
    it, `pool` the worker group that it leaves, and `settled_at` when it had come up in the other; a node without pools
    has neither.
    """

    node: str
    home: NodeClass
    was: NodeClass
    to: NodeClass
    gpus: int
    asked_at: float
    who: str
    moved_at: float | None = None
    machine: str = ""
    pool: str = ""
    settled_at: float | None = None

    @property
    def now(self) -> NodeClass:
        """Return the class that the node has."""
        return self.was if self.moved_at is None else self.to

    @property
    def under_way(self) -> bool:
        """Return whether the node takes nothing new: it has not crossed, or is still what it was outside (N3)."""
        return self.moved_at is None or (self.machine != "" and self.settled_at is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """That a node goes away, and why: by `gone_at` (in seconds), or when it is empty where that is None."""

    node: str
    why: str
    gone_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine: its capacity, its place in the fabric, and what others use of it.

    `domains` holds one domain name a topology level of the policy, outermost first; a name is
    only unique below its parent, so the place in the fabric is the whole prefix.
    `foreign` is what something uses here that the arbiter did not admit; it is never counted as free.
    `down_since` is when it went away (seconds since the epoch); None when it is there, or known to be lost for good.
    `cached` names the artifacts that are on it already.
    `cards` are its cards one by one, where the fleet cuts or shares cards (V1); `capacity` has only the whole ones.
    `machine` and `pod` are the Kubernetes node and the pod that it runs as, where there are such.
    """

    name: str
    node_class: NodeClass
    domains: tuple[str, ...]
    capacity: Shape
    accelerator: str = "unknown"
    driver: str = ""
    condition: Condition = Condition.READY
    foreign: Shape = NOTHING
    foreign_owners: tuple[str, ...] = ()
    down_since: float | None = None
    cached: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    machine: str = ""
    pod: str = ""

    @property
    def placeable(self) -> bool:
        """Return whether new work may be placed on the node."""
        return self.condition is Condition.READY

    def block(self, level: int) -> Block:
        """Return the block that the node is part of, `level` levels deep."""
        return (self.domains[:level], self.accelerator, self.driver)
