"""One look at the world through the ports, and what the parts of the arbiter ask of it.

Looks no further than it must: an idle fleet costs two calls. Does not know what follows from what it sees.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fleet_app.arbiter import pods
from fleet_app.arbiter.ports import (
    Ack,
    Beat,
    Board,
    BoardView,
    CardLayouts,
    Clock,
    Cluster,
    ClusterView,
    Death,
    GroupView,
    Jobs,
    JobView,
    NodePools,
    NodeView,
    PodView,
    PoolsView,
    PoolsWish,
    Telemetry,
)
from fleet_app.arbiter.records import Record
from fleet_app.engine.errors import FaultError, RequestError
from fleet_app.engine.telemetry import Usage
from fleet_app.engine.values import NodeClass
from fleet_app.engine.workload import Kind
from fleet_app.worker import contract

ENDED = frozenset({"STOPPED", "SUCCEEDED", "FAILED"})
"""Statuses that a Ray job never leaves."""

READY = "CREATED"
"""The state of a placement group that has all of its bundles."""


class Unmeasured:
    """Telemetry of a fleet in which nobody measures GPUs."""

    def usage(self) -> tuple[Usage, ...]:
        """Return nothing: nothing is known, and nothing follows from that (W3)."""
        return ()

    def cached(self) -> Mapping[str, tuple[str, ...]]:
        """Return nothing: whatever has to be on a node has to be pulled (G1)."""
        return {}


class NoPools:
    """The pools of a fleet whose nodes come from nowhere that we know."""

    def observe(self) -> PoolsView | None:
        """Return that there are none."""
        return None

    def want(self, wish: PoolsWish) -> None:
        """Do nothing about a wish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything outside that the arbiter can reach; `cards` is None where nobody changes what they are cut into."""

    cluster: Cluster
    jobs: Jobs
    board: Board
    clock: Clock
    telemetry: Telemetry = field(default_factory=Unmeasured)
    cards: CardLayouts | None = None
    pools: NodePools = field(default_factory=NoPools)


@dataclass(frozen=True, kw_only=True)  # no slots: what is derived is kept
class Facts:
    """The world at `now` (seconds since the epoch).

    `nodes` are the fleet's nodes by name, `names` the names of the living ones by Ray id. `groups` are by
    name what the fleet made, and what Serve made for a replica, of whatever deployment; `ids` are the same by id.
    `jobs` are Ray's; they are empty and `jobs_seen` is false when the job server was not asked this time, or did not
    answer: nothing follows from a job's absence then. `left` says how many processes an attempt still has, for those
    that may be over, and a member that was asked to leave, by its id.
    `deaths` has the gangs' attempts that failed, and which rank died; one that nobody could answer for is not in it.
    `pools` are the pools as they were last seen, None without any; `pods` has the pod of each living node, by its name.
    """

    now: float
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    groups: Mapping[str, GroupView] = field(default_factory=dict)
    ids: Mapping[str, GroupView] = field(default_factory=dict)
    jobs: Mapping[str, JobView] = field(default_factory=dict)
    jobs_seen: bool = True
    left: Mapping[str, int] = field(default_factory=dict)
    deaths: Mapping[str, Death | None] = field(default_factory=dict)
    board: BoardView = field(default_factory=BoardView)
    names: Mapping[str, str] = field(default_factory=dict)
    usage: tuple[Usage, ...] = ()
    cached: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pools: PoolsView | None = None
    pods: Mapping[str, PodView] = field(default_factory=dict)

    def named(self, nodes: Iterable[str]) -> bool:
        """Return whether it is published of all of these nodes that they hold something; always without pools."""
        return pods.named(self.pools, self.pods, nodes)

    def ready(self, group: GroupView) -> bool:
        """Return whether a group has all of its bundles, on living nodes of the fleet."""
        return group.state == READY and all(bundle.node_id in self.names for bundle in group.bundles)

    def in_doubt(self, group: GroupView) -> bool:
        """Return whether Ray shows a group as whole, though a node of it is not to be seen: it may be back (H1)."""
        return group.state == READY and all(bundle.node_id for bundle in group.bundles) and not self.ready(group)

    def replica_in(self, group: GroupView) -> str | None:
        """Return the replica that has a group, "" where the arbiter claimed it for itself, None when nobody has it."""
        return group.replica or self.board.adopted.get(group.group_id)

    def served_in(self, group: GroupView) -> str | None:
        """Return the service of the replica that has a group; None when no replica has it."""
        return group.service or self.board.adopted_for.get(group.group_id)

    def places(self, group: GroupView) -> tuple[str, ...]:
        """Return the names of the nodes that a ready group's bundles are on, in order."""
        return tuple(self.names[bundle.node_id or ""] for bundle in group.bundles)

    def status(self, record: Record) -> str | None:
        """Return the status of the job of a workload's current attempt; None when Ray knows none."""
        job = self.jobs.get(record.job_id)
        return None if job is None else job.status

    def over(self, record: Record) -> bool:
        """Return whether Ray says that the job of the current attempt ended, or does not know it any more."""
        status = self.status(record)
        return self.jobs_seen and (status is None or status in ENDED)

    def empty(self, name: str) -> bool:
        """Return whether nothing stands on a node in Ray's view; what is away has nothing on it that is known."""
        node = self.nodes.get(name)
        if node is None or not node.alive:
            return True
        return node.node_id not in self._standing and node.available.gpus == node.total.gpus

    @cached_property
    def _standing(self) -> frozenset[str | None]:
        return frozenset(bundle.node_id for group in self.groups.values() for bundle in group.bundles)

    @cached_property
    def acks(self) -> Mapping[str, Ack]:
        """Return what each attempt acknowledged last."""
        return {ack.attempt: ack for ack in self.board.acks}

    @cached_property
    def beats(self) -> Mapping[str, Beat]:
        """Return how far each attempt is."""
        return {beat.attempt: beat for beat in self.board.beats}


def look(ports: Ports, live: list[Record], ask: Callable[[], tuple[JobView, ...] | None]) -> Facts:
    """Return the world as it is; `ask` returns Ray's jobs, None when the job server is not to be asked or is away.

    That server is slow, and fails more easily than the rest of Ray; serving does not depend on it. The board is read
    after the processes were counted, so what the last one wrote before it went is seen. Raises FaultError when a port
    fails.
    """
    now = ports.clock.now()
    view = ports.cluster.observe()
    answer = ask()
    jobs = {job.job_id: job for job in answer or ()}
    holding = [record for record in live if record.workload.holding]
    ending = frozenset(record.job_id for record in holding if _may_be_gone(record, jobs, seen=answer is not None))
    ending |= frozenset(member for record in holding for member in record.leaving_members)
    left = ports.jobs.processes(ending) if ending else {}
    nodes = fleet_nodes(view)
    pools = ports.pools.observe()
    groups = [group for group in view.groups if contract.is_fleet_group(group.name) or group.replica]
    return Facts(
        now=now,
        nodes=nodes,
        groups={group.name: group for group in groups},
        ids={group.group_id: group for group in groups},
        jobs=jobs,
        jobs_seen=answer is not None,
        left={attempt: left.get(attempt, 0) for attempt in sorted(ending)},
        deaths=dict(_deaths(ports, holding, jobs)),
        board=ports.board.observe(),
        names={node.node_id: name for name, node in nodes.items() if node.alive},
        usage=ports.telemetry.usage(),
        cached=ports.telemetry.cached(),
        pools=pools,
        pods=pods.matched(nodes, pools),
    )


def _deaths(ports: Ports, holding: Iterable[Record], jobs: Mapping[str, JobView]) -> Iterator[tuple[str, Death | None]]:
    """Yield what is known of the ranks of each gang that failed; it is dear, and of no use for others."""
    for record in holding:
        job = jobs.get(record.job_id)
        if record.workload.kind is Kind.GANG and job is not None and job.status == "FAILED":
            with contextlib.suppress(
                FaultError, RequestError
            ):  # asked again in the next look, until the gang is given up
                yield record.job_id, ports.jobs.death(record.job_id)


def _may_be_gone(record: Record, jobs: Mapping[str, JobView], *, seen: bool) -> bool:
    """Looking for processes is dear, so only what ends is looked for."""
    job = jobs.get(record.job_id)
    launched = record.job_submitted or job is not None
    leaving = record.workload.leaving
    over = seen and (job is None or job.status in ENDED)
    return launched and (leaving or over)


def fleet_nodes(view: ClusterView) -> dict[str, NodeView]:
    """Return the nodes that carry a fleet class, by name, in the order of names.

    A node's own name is its label; a dead node gives its name up to a living one, and of two living ones with the
    same name the second goes by its Ray id.
    """
    found: dict[str, NodeView] = {}
    for node in sorted(view.nodes, key=lambda node: (not node.alive, node.node_id)):
        if node_class(node) is None:
            continue
        name = node.labels.get(contract.NODE_LABEL) or node.node_id
        if name in found and node.alive:
            name = node.node_id
        found.setdefault(name, node)
    return dict(sorted(found.items()))


def node_class(node: NodeView) -> NodeClass | None:
    """Return whose node it is; None when it is not the fleet's."""
    label = node.labels.get(contract.CLASS_LABEL)
    return NodeClass(label) if label in set(NodeClass) else None
