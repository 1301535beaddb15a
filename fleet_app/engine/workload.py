"""What asks for GPUs: workloads (gangs and backfill) and services with their grants.

Knows what each asks for and what it has. Does not know nodes' room, quota sums or policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import is_

from fleet_app.engine.artifacts import Artifact
from fleet_app.engine.cards import Slice
from fleet_app.engine.lifecycle import HOLDING, LEAVING, Phase
from fleet_app.engine.policy import Affinity
from fleet_app.engine.values import Shape


class Kind(StrEnum):
    """What sort of workload it is."""

    GANG = "gang"
    BACKFILL = "backfill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Bundles of one shape in a workload of several shapes."""

    name: str
    shape: Shape
    bundles: int = 1


def widest(groups: Iterable[Group]) -> Shape:
    """Return the most GPUs, CPUs and memory that a bundle of any of the groups has."""
    shapes = [group.shape for group in groups]
    return Shape(
        gpus=max((shape.gpus for shape in shapes), default=0),
        cpu_milli=max((shape.cpu_milli for shape in shapes), default=0),
        memory_mib=max((shape.memory_mib for shape in shapes), default=0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A gang or a backfill job: `bundles` bundles of `shape`, one a node, all or none.

    With `groups` it has several shapes: ranks are numbered group after group, `bundles` is how many there are in all,
    and `shape` is the most of each part that any of them has.

    `nodes` are the nodes it holds, in rank order; empty while it is queued.
    `within` names the topology level that must hold all of it; None prefers the smallest that fits.
    `saved_at` is the moment up to which its work is safe: the last acknowledged checkpoint, or its start.
    `movable` is whether it hears a notice that is no signal, so that it can be asked to move (D6).
    `deadline_at` is when a drain ends in a kill; `drained_for` names whom it yields to; `killed` is whether this
    attempt was told to end at once. `requeued` puts it ahead of its priority's queue.
    With `minimum` it is elastic: it runs with that many bundles or more, `bundles` at most (R8). `going` are those of
    its nodes whose members were asked to leave by `going_by` (seconds), for `going_for`. `grown_at` is when this
    attempt was last given members, None when it never was.
    `max_run_s` is how long an attempt may have its nodes before it is asked to end for good, None without a limit;
    `expired` is whether it was, or ends for good because nobody used it. `interactive` is whether it is a session that
    somebody sits at, and of no use when nobody does. `artifacts` have to be on a node before it starts there. `slice`
    is the part of one card that it asks for in place of whole GPUs (V1), `card` the index of the card that it has that
    on.
    """

    name: str
    kind: Kind
    team: str
    priority: int
    shape: Shape
    bundles: int = 1
    groups: tuple[Group, ...] = ()
    minimum: int | None = None
    within: str | None = None
    accelerator: str | None = None
    submitted_at: float = 0.0
    phase: Phase = Phase.QUEUED
    attempt: int = 1
    nodes: tuple[str, ...] = ()
    admitted_at: float | None = None
    started_at: float | None = None
    saved_at: float | None = None
    grace_s: float = 120.0
    max_run_s: float | None = None
    deadline_at: float | None = None
    drained_for: str | None = None
    killed: bool = False
    expired: bool = False
    requeued: bool = False
    movable: bool = False
    going: tuple[str, ...] = ()
    going_by: float | None = None
    going_for: str | None = None
    grown_at: float | None = None
    broken_drains: int = 0
    interactive: bool = False
    artifacts: tuple[Artifact, ...] = ()
    slice: Slice | None = None
    card: int | None = None

    @property
    def holding(self) -> bool:
        """Return whether it has nodes and is charged for them."""
        return self.phase in HOLDING

    @property
    def leaving(self) -> bool:
        """Return whether it was told to end: its nodes come free by a known time, without anybody being asked again."""
        return self.holding and (self.killed or (self.phase in LEAVING and not self.moving))

    @property
    def moving(self) -> bool:
        """Return whether it was asked to move: it leaves at its next checkpoint, whenever that is (D6)."""
        return self.phase is Phase.DRAINING and self.deadline_at is None and not self.killed

    def without_nodes(self, phase: Phase) -> Workload:
        """Return the workload in a phase in which it has no nodes, with nothing left of what it was told on them."""
        return replace(
            self,
            phase=phase,
            nodes=(),
            card=None,
            admitted_at=None,
            started_at=None,
            saved_at=None,
            deadline_at=None,
            drained_for=None,
            going=(),
            going_by=None,
            going_for=None,
            grown_at=None,
            killed=False,
        )

    @property
    def asked(self) -> tuple[object, ...]:
        """Return all on which it depends whether and where it may start, but for its place in the queue and its end."""
        shape = self.shape
        return (
            self.team,
            self.priority,
            self.kind,
            shape.gpus,
            shape.cpu_milli,
            shape.memory_mib,
            self.bundles,
            self.groups,
            self.minimum,
            self.within,
            self.accelerator,
            self.broken_drains,
        )

    @property
    def gpus(self) -> int:
        """Return the GPUs of all of its bundles together; of an elastic one those of the members that it has."""
        if self.groups:
            return sum([group.shape.gpus * group.bundles for group in self.groups])
        if self.minimum is not None and self.nodes:
            return self.shape.gpus * len(self.nodes)
        return self.shape.gpus * self.bundles

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Return the shape of each rank's bundle."""
        if not self.groups:
            return (self.shape,) * self.bundles
        return tuple([group.shape for group in self.groups for _ in range(group.bundles)])

    @property
    def seats(self) -> list[tuple[str, Shape]]:
        """Return each node that it holds with the shape that it has there, in rank order."""
        if not self.groups:
            return [(node, self.shape) for node in self.nodes]
        return list(zip(self.nodes, self.shapes, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """GPUs on one node that are a service's: a replica runs there, or may start there at once.

    `occupied` is whether a replica has taken it; an unoccupied grant is a hold. `card` is the index of the card that a
    slice is on.
    """

    name: str
    node: str
    occupied: bool = False
    card: int | None = None


def exchanged(old: Sequence[Grant], new: Sequence[Grant]) -> tuple[Sequence[Grant], Sequence[Grant]]:
    """Return the old grants and the new ones without what both begin and end with: little changes at a time."""
    first = _alike(old, new)
    old, new = old[first:], new[first:]
    last = _alike(old[::-1], new[::-1])
    return old[: len(old) - last], new[: len(new) - last]


def _alike(old: Sequence[Grant], new: Sequence[Grant]) -> int:
    """Return with how many grants both begin that are the very same."""
    same = [*map(is_, old, new), False]
    return same.index(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Interchangeable replicas of one shape: how many are wanted, and what has been granted.

    `floor` is the replicas below which it is never trimmed. `slice` is the part of one card that a replica asks for in
    place of whole GPUs (V1). `affinity` is where it asks its replicas to be beside others itself, with what the policy
    says (S8).
    """

    name: str
    team: str
    priority: int
    shape: Shape
    wanted: int = 0
    floor: int = 0
    spread: bool = False
    artifacts: tuple[Artifact, ...] = ()
    grants: tuple[Grant, ...] = ()
    slice: Slice | None = None
    affinity: Affinity | None = None
