"""The world as the arbiter sees it: what it may ask of Ray, the job server, the board and the clock.

Protocols and the values that cross them; `fleet_app.adapters` implements them on the real things, the tests on
memory. Every method is safe to repeat. Errors that cross a port are ours (`FaultError`), never Ray's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fleet_app.engine.cards import Slice
from fleet_app.engine.layouts import Layout
from fleet_app.engine.policy import Affinity
from fleet_app.engine.scaling import NodesAsk
from fleet_app.engine.telemetry import Usage
from fleet_app.engine.values import NOTHING, NodeClass, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A Ray node: `total` and `available` as Ray counts them (`available` may lag by 0.1 s).

    `slices` and `free_slices` are the same in parts of cards: partitions by their flavor's name (`mig-1g.10gb`), and
    all of its GPUs as `shared`, in ten-thousandths.
    """

    node_id: str
    labels: Mapping[str, str]
    alive: bool
    draining: bool
    total: Shape
    available: Shape
    is_head: bool = False
    slices: Mapping[str, int] = field(default_factory=dict)
    free_slices: Mapping[str, int] = field(default_factory=dict)
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleView:
    """One bundle of a placement group, with its part of a card, if any; `node_id` is None while it has no node."""

    node_id: str | None
    shape: Shape
    slice: Slice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A placement group that is not removed: state is CREATED, PENDING, RESCHEDULING or such.

    One that Serve made itself, for one replica and as long as that lives, says which, and of which service.
    """

    group_id: str
    name: str
    state: str
    bundles: tuple[BundleView, ...]
    replica: str = ""
    service: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """All nodes and all placement groups that exist now."""

    nodes: tuple[NodeView, ...] = ()
    groups: tuple[GroupView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A Ray job: status is PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED."""

    job_id: str
    status: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A rank that died without its program's doing, on which Ray node, and how."""

    node_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What is needed to start one attempt of a workload as an ordinary Ray job."""

    job_id: str
    entrypoint: str
    runtime_env: Mapping[str, object]
    metadata: Mapping[str, str]
    driver_node_id: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """A checkpoint that a job acknowledged on the board."""

    attempt: str
    uri: str
    step: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The last step that a job reported on the board."""

    attempt: str
    step: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a service wants, as its autoscaling policy says it: replicas of `shape`, each with a `slice` if any."""

    service: str
    team: str
    shape: Shape
    affinity: Affinity | None = None
    wanted: int
    floor: int
    at: float
    slice: Slice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardView:
    """Everything on the board that the arbiter reads.

    `adopted` maps a group's id to the replica in it, or to "" where the arbiter claimed the group for itself;
    `adopted_for` maps it to the replica's service. `done` are the attempts that said that their work is
    complete (an attempt that only leaves on notice does not). `posted` are all attempts that anything stands for,
    a notice included; `gone` are the members of elastic attempts that said that they have left, by their ids.
    """

    acks: tuple[Ack, ...] = ()
    beats: tuple[Beat, ...] = ()
    demands: tuple[Demand, ...] = ()
    adopted: Mapping[str, str] = field(default_factory=dict)
    adopted_for: Mapping[str, str] = field(default_factory=dict)
    done: frozenset[str] = frozenset()
    posted: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A hold as Serve's side of the fleet sees it: a placement group with one bundle of `shape` on `node_id`.

    `slice` is the part of a card that the bundle has too, if any.
    """

    group_id: str
    node_id: str
    shape: Shape = NOTHING
    slice: Slice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A member of an elastic attempt as its job sees it: a placement group of one bundle on a node."""

    node: str
    group_id: str
    leaving: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """A worker's pod: of which pool (KubeRay: worker group), on which machine (Kubernetes node), at which address.

    `machine` is empty until it has one. `ends_at` is when it will be gone at the latest, None when nobody deletes it;
    `doomed` is whether somebody told the operator to.
    """

    name: str
    pool: str
    machine: str = ""
    address: str = ""
    ends_at: float | None = None
    doomed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineView:
    """A Kubernetes node: its labels, and whether it is closed to new pods, the first step of `kubectl drain`."""

    name: str
    labels: Mapping[str, str]
    cordoned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """A pool: the labels of its Ray nodes, how many it is to have, and between which bounds.

    `wanted` is how many its site came to want; None where it does not say, or somebody else sees to that.
    """

    name: str
    labels: Mapping[str, str]
    nodes: int
    least: int
    most: int
    wanted: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolsView:
    """What was last seen of the pools, `at` (seconds since the epoch; 0 before the first look); it stands until then.

    `held_pods` and `held_machines` are what is published as holding a workload: for each name, whose. `asked` is how
    many nodes were asked for. `troubles` are what did not work when it was last tried.
    """

    at: float = 0.0
    pods: tuple[PodView, ...] = ()
    machines: tuple[MachineView, ...] = ()
    pools: tuple[PoolView, ...] = ()
    held_pods: Mapping[str, str] = field(default_factory=dict)
    held_machines: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[NodesAsk, ...] = ()
    troubles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChange:
    """That a machine goes from a pool to the one of the other class, which is as it is but for that.

    `pod` is the one that is on it, and that nothing runs in any more; empty when there is none. Irrevocable: nothing is
    placed on the machine before it has come up in the other pool.
    """

    machine: str
    pool: str
    to: NodeClass
    pod: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolsWish:
    """What the pools should come to: who holds what, which machines change pools, how many nodes there should be.

    `leavers` are pods that are too many and have nothing on them: where their pools still have too many, they go.
    `asks` is None where nodes cannot be had on demand.
    """

    held_pods: Mapping[str, str] = field(default_factory=dict)
    held_machines: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[PoolChange, ...] = ()
    leavers: tuple[str, ...] = ()
    asks: tuple[NodesAsk, ...] | None = None


class Cluster(Protocol):
    """Ray's nodes and placement groups."""

    def observe(self) -> ClusterView:
        """Return nodes and groups as they are."""

    def create_group(
        self, name: str, bundles: tuple[tuple[str, Shape], ...], timeout_s: float, part: Slice | None = None
    ) -> str | None:
        """Create a detached STRICT_SPREAD group, bundle i on the node with id `bundles[i][0]`.

        With `part` its one bundle has that part of one card too. Return its id once it is ready; when a live group of
        that name exists, that one's. When it is not ready within `timeout_s` it is removed again and None returned.
        """

    def remove_group(self, group_id: str) -> None:
        """Remove a group at once, and with it what runs in it; nothing happens when it is gone."""

    def users_of(self, node_id: str, ours: frozenset[str]) -> tuple[str, ...]:
        """Return names of the actors, tasks and groups on a node outside of the groups with the ids `ours`, sorted."""


class Jobs(Protocol):
    """Ray's job server."""

    def observe(self) -> tuple[JobView, ...]:
        """Return every job that the server knows."""

    def submit(self, request: JobRequest) -> None:
        """Start a job; a job that exists under that id already counts as accepted.

        Raises RequestError when the server refuses the job for good, FaultError when it may be tried again.
        """

    def stop(self, job_id: str) -> None:
        """Ask a job to end: SIGTERM now, SIGKILL when its own stop wait is over."""

    def kill(self, job_id: str, attempt: str) -> None:
        """End every process of that attempt at once, wherever it hides; its job server entry stays."""

    def processes(self, attempts: frozenset[str]) -> Mapping[str, int]:
        """Return how many live processes each attempt still has, its Ray supervisor not counted.

        Of a member of an elastic attempt, asked for by its id, only those that say that they are its own.
        """

    def end_member(self, member: str) -> None:
        """End every process of a member of an elastic attempt; the rest of the attempt stays."""

    def death(self, job_id: str) -> Death | None:
        """Return the first rank of an ended job that died by no doing of its own; None when none is known."""

    def delete(self, job_id: str) -> None:
        """Forget an ended job. Raises ConflictError when the server still needs it: it may be tried again."""


class Board(Protocol):
    """The small shared memory between arbiter, jobs and Serve (Ray's internal KV)."""

    def observe(self) -> BoardView:
        """Return everything that is posted."""

    def notify(self, attempt: str, deadline_at: float | None, why: str) -> None:
        """Post a drain notice where the attempt's ranks look; without a deadline it is due at the next checkpoint.

        With the id of a member of an elastic attempt only that one's ranks see it.
        """

    def publish_members(self, attempt: str, members: tuple[Seat, ...]) -> None:
        """Tell an elastic attempt which members it has; what was told before is replaced."""

    def clear(self, attempt: str) -> None:
        """Remove everything that stands for an attempt, or a member of one, that is over."""

    def publish_grants(self, service: str, granted: int, fences: tuple[Fence, ...]) -> None:
        """Tell Serve how many replicas the service may have, and which groups stand ready for the next ones."""

    def renew_lease(self, at: float) -> None:
        """Say that the arbiter is alive; Serve helps itself when this is older than 10 s."""

    def claim(self, group_id: str) -> bool:
        """Take a group out of Serve's reach, so that it can be removed; return False when a replica has it.

        Claims and adoptions are the same entry, and the first writer has the group. One's own claim counts as made.
        """

    def forget_adoption(self, group_id: str) -> None:
        """Remove the note that a replica lives in a group, or that we claimed it, once that group is gone."""


class CardLayouts(Protocol):
    """Whoever can change what cards are cut into."""

    def repartition(self, node: NodeView, layouts: tuple[Layout, ...]) -> None:
        """Ask for these layouts of all cards of a node, in any order; nothing is on those that change.

        It may take minutes, and the node may be another one to Ray afterwards; what came of it is seen there.
        Raises RequestError when such layouts cannot be had there, FaultError when it may be tried again.
        """


class Telemetry(Protocol):
    """Whoever measures GPUs, and knows what nodes have on their disks."""

    def usage(self) -> tuple[Usage, ...]:
        """Return what is known of how much workloads and services use, by their names; nothing where it is not."""

    def cached(self) -> Mapping[str, tuple[str, ...]]:
        """Return by node the names of the artifacts that are on it already; nothing where that is not known."""


class NodePools(Protocol):
    """Whoever makes the nodes: pools of pods on machines. Both methods answer at once, whatever that one is doing."""

    def observe(self) -> PoolsView | None:
        """Return what was last seen; None for a fleet whose nodes come from nowhere that we know."""

    def want(self, wish: PoolsWish) -> None:
        """Say what the pools should come to. It is worked towards until something else is wished for."""


class Clock(Protocol):
    """Time."""

    def now(self) -> float:
        """Return seconds since the epoch."""
