"""A small cluster in memory with Ray's manners, on a clock that only moves when told to.

Availability lags behind by 0.1 s, jobs take a second to start and may ignore notices, and Ray learns late that one
ended. What a job does is a function of time, so that time may jump. `fakes` puts the arbiter's ports on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fleet_app.arbiter.ports import Death, Demand, Fence, JobRequest, Seat
from fleet_app.engine.cards import Slice
from fleet_app.engine.layouts import Layout
from fleet_app.engine.telemetry import Usage
from fleet_app.engine.values import NOTHING, Shape

LAG_S = 0.1
DIES_IN_S = 0.25
CALL_S = 0.0005


class BrokenError(AssertionError):
    """A promise of the arbiter was broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How a workload's job behaves: `steps` of `step_s` seconds, acknowledged every `ack_every`.

    `yields_in_s` is how long it takes to leave after a notice, None for one that ignores it; `member_yields_in_s` the
    same of one member of an elastic one. Ray says that it ended `said_in_s` after its last process went.
    `members_cling` is whether a member's processes outlive its group. `leaves_behind_s` is how long processes outlive
    the driver.
    """

    steps: int = 10
    step_s: float = 1.0
    ack_every: int = 2
    start_s: float = 1.0
    yields_in_s: float | None = 0.3
    fails_at: int | None = None
    says_done: bool = True
    hears_board: bool = True
    said_in_s: float = 0.5
    member_yields_in_s: float | None = 0.3
    members_cling: bool = False
    leaves_behind_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class FakeJob:
    """One Ray job, as a function of time."""

    request: JobRequest
    how: Behaviour
    submitted_at: float
    first: int
    notice_at: float | None = None
    moved_at: float | None = None
    stop_at: float | None = None
    kill_at: float | None = None
    cleared_at: float | None = None
    members_noticed: dict[str, float] = field(default_factory=dict)
    members: tuple[Seat, ...] = ()
    members_ended: set[str] = field(default_factory=set)

    @property
    def run_at(self) -> float:
        return self.submitted_at + self.how.start_s

    def end(self) -> tuple[float, str]:
        """Return when its driver goes, as far as is known now, and why."""
        last = self.how.steps if self.how.fails_at is None else self.how.fails_at
        ends = [(self.run_at + max(0, last - self.first) * self.how.step_s, "ended")]
        asked = [at for at in (self.notice_at if self.how.hears_board else None, self.stop_at) if at is not None]
        if asked and self.how.yields_in_s is not None:
            ends.append((max(min(asked), self.run_at) + self.how.yields_in_s, "yielded"))
        if self.moved_at is not None and self.how.hears_board and self.how.yields_in_s is not None:
            ends.append((self.boundary(self.moved_at), "yielded"))
        if self.kill_at is not None:
            ends.append((self.kill_at + (DIES_IN_S if self.kill_at >= self.run_at else 0.0), "killed"))
        return min(ends)

    def boundary(self, at: float) -> float:
        """Return when it has its next checkpoint after a moment."""
        every_s = self.how.ack_every * self.how.step_s
        return self.run_at + every_s * (int(max(0.0, at - self.run_at) // every_s) + 1)

    def processes(self, now: float) -> int:
        at, why = self.end()
        gone_at = at if why == "killed" else at + self.how.leaves_behind_s
        if self.kill_at is not None:
            gone_at = min(gone_at, self.kill_at + DIES_IN_S)
        return int(self.request.environment["FLEET_BUNDLES"]) if self.run_at <= now < gone_at else 0

    def member_left(self, group_id: str, now: float) -> bool:
        """Return whether a member left because it was asked to; it says so as it goes."""
        told, yields_in_s = self.members_noticed.get(group_id), self.how.member_yields_in_s
        return told is not None and yields_in_s is not None and now >= max(told, self.run_at) + yields_in_s

    def status(self, now: float) -> str:
        at, why = self.end()
        if now < at + self.how.said_in_s:
            return "PENDING" if now < self.run_at else "RUNNING"
        if why == "killed" or (why == "ended" and self.how.fails_at is not None):
            return "FAILED"
        return "STOPPED" if why == "yielded" and self.stop_at is not None else "SUCCEEDED"

    def step(self, now: float) -> int:
        at, _ = self.end()
        return self.first + max(0, int((min(now, at) - self.run_at) / self.how.step_s + 1e-9))

    def ack(self, now: float) -> tuple[int, float] | None:
        """Return the last step that it acknowledged, and when."""
        at, why = self.end()
        if now >= at and why == "yielded":
            return self.step(now), at
        step = self.step(now)
        saved = step - step % self.how.ack_every
        if saved <= self.first:
            return None
        return saved, self.run_at + (saved - self.first) * self.how.step_s

    def done(self, now: float) -> bool:
        at, why = self.end()
        return now >= at and why == "ended" and self.how.fails_at is None and self.how.says_done


@dataclass(slots=True, kw_only=True)
class FakeGroup:
    """A placement group; `gone_at` is when it was removed. `device` is the GPU that Ray put its share of one on.

    `service` is whose replica it is when Serve made it.
    """

    group_id: str
    name: str
    bundles: tuple[tuple[str, Shape], ...]
    made_at: float
    gone_at: float | None = None
    part: Slice | None = None
    device: int | None = None
    service: str = ""


@dataclass(slots=True, kw_only=True)
class FakeNode:
    """A node; `foreign` is what others use there since `foreign_at`, `foreign_slices` what of its `slices`."""

    node_id: str
    labels: Mapping[str, str]
    total: Shape
    alive: bool = True
    draining: bool = False
    foreign: Shape = NOTHING
    foreign_at: float = 0.0
    slices: dict[str, int] = field(default_factory=dict)
    foreign_slices: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    """The cluster, its jobs, the board, Serve and the time."""

    now: float = 1_000_000.0
    nodes: dict[str, FakeNode] = field(default_factory=dict)
    groups: dict[str, FakeGroup] = field(default_factory=dict)
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    demands: dict[str, Demand] = field(default_factory=dict)
    adopted: dict[str, str] = field(default_factory=dict)
    adopted_for: dict[str, str] = field(default_factory=dict)
    grants: dict[str, tuple[int, tuple[Fence, ...]]] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    cached: dict[str, tuple[str, ...]] = field(default_factory=dict)
    deaths: dict[str, Death] = field(default_factory=dict)
    notices: dict[str, float | None] = field(default_factory=dict)
    members: dict[str, tuple[Seat, ...]] = field(default_factory=dict)
    layouts: dict[str, tuple[Layout, ...]] = field(default_factory=dict)
    no_layouts: dict[str, str] = field(default_factory=dict)
    recutting: bool = True
    deletes_jobs: bool = True
    lease: float = 0.0
    pools: Any = None
    log: list[tuple[float, str, str]] = field(default_factory=list)
    made: int = 0

    # What the test does.

    def add_node(self, name: str, *, gpus: int = 4, cpus: int = 64, serving: bool = False, at: str = "s1/l1") -> None:
        """Let a node join; its Ray id is new each time."""
        self.made += 1
        spine, leaf = at.split("/")
        labels = {
            "fleet/node": name,
            "fleet/class": "serving" if serving else "training",
            "fleet/spine": spine,
            "fleet/leaf": leaf,
        }
        node_id = f"node{self.made:04d}"
        total = Shape(gpus=gpus, cpu_milli=cpus * 1000, memory_mib=1024 * 1024)
        slices = {"shared": 10_000 * gpus} if gpus else {}
        self.nodes[node_id] = FakeNode(node_id=node_id, labels=labels, total=total, slices=slices)

    def cut(self, name: str, slices: dict[str, int], *, accelerator: str = "H100", label: str = "whole") -> None:
        """Let a node have parts of cards, or let its GPUs be `shared`, by its label."""
        node = self.node(name)
        node.labels = {**node.labels, "ray.io/accelerator-type": accelerator, "fleet/partition": label}
        node.slices |= slices

    def node(self, name: str) -> FakeNode:
        """Return the living node of that name."""
        return next(node for node in self.nodes.values() if node.labels["fleet/node"] == name and node.alive)

    def lose_node(self, name: str) -> None:
        """Let a node die, and with it what ran there."""
        node = self.node(name)
        node.alive = False
        for job in self.jobs.values():
            bundles = [bundle for group in self.groups_of(job) for bundle in group.bundles]
            on_it = any(node_id == node.node_id for node_id, _ in bundles)
            if on_it and job.processes(self.now) and job.kill_at is None:
                job.how = Behaviour(start_s=job.how.start_s, steps=10_000, yields_in_s=None)  # the other ranks hang

    def use(self, name: str, gpus: int) -> None:
        """Let somebody use GPUs of a node without the fleet."""
        node = self.node(name)
        node.foreign, node.foreign_at = Shape(gpus=gpus), self.now

    def want(
        self,
        service: str,
        wanted: int,
        *,
        gpus: int = 1,
        team: str = "serving",
        floor: int = 0,
        part: Slice | None = None,
    ) -> None:
        """Let a service want replicas."""
        shape = Shape(gpus=0 if part is not None else gpus)
        self.demands[service] = Demand(
            service=service, team=team, shape=shape, wanted=wanted, floor=floor, at=self.now, slice=part
        )

    def serve(self) -> None:
        """Let Serve do what it does all the time: say what it wants, start what it may, stop what it need not."""
        for service, demand in self.demands.items():
            self.demands[service] = replace(demand, at=self.now)
            granted, fences = self.grants.get(service, (0, ()))
            mine = sorted(group_id for group_id, owner in self.adopted_for.items() if owner == service)
            mine += self.alone(service)
            while len(mine) > max(0, demand.wanted):
                self.leave(mine.pop())
            for fence in fences:
                if len(mine) < min(demand.wanted, granted) and self.enter(fence.group_id, service):
                    mine.append(fence.group_id)

    def enter(self, group_id: str, service: str) -> bool:
        """Let a replica of a service claim a group, if it can be had."""
        group = self.groups[group_id]
        if group_id in self.adopted or group.gone_at is not None:
            return False
        self.adopted[group_id] = f"{service}#{len(self.log)}"
        self.adopted_for[group_id] = service
        self.log.append((self.now, "replica", service))
        return True

    def start_alone(self, service: str, name: str, shape: Shape) -> str:
        """Let Serve start a replica by itself on a node; return the id of the group that it makes for it."""
        self.made += 1
        group_id = f"{self.made:036x}"
        bundles = ((self.node(name).node_id, shape),)
        replica = f"serve:SERVE_REPLICA::{service}#{self.made}"
        self.groups[group_id] = FakeGroup(
            group_id=group_id, name=replica, bundles=bundles, made_at=self.now, service=service
        )
        return group_id

    def alone(self, service: str) -> list[str]:
        """Return the ids of the groups that Serve made for replicas of a service that run."""
        return [group.group_id for group in self.groups.values() if group.service == service and group.gone_at is None]

    def leave(self, group_id: str) -> None:
        """Let the replica in a group end."""
        if group_id in self.groups and self.groups[group_id].service:
            self.groups[group_id].gone_at = self.now
        self.adopted.pop(group_id, None)
        self.adopted_for.pop(group_id, None)

    # What is true, and what Ray shows.

    def used(self, node_id: str) -> Shape:
        """Return what groups and others have on a node, truly."""
        total = self.nodes[node_id].foreign
        for group in self.groups.values():
            if group.gone_at is None:
                total = sum((shape for where, shape in group.bundles if where == node_id), total)
        return total

    def shown(self, node_id: str) -> Shape:
        """Return what Ray shows as free, which lags behind."""
        node = self.nodes[node_id]
        used = node.foreign if self.now >= node.foreign_at + LAG_S else NOTHING
        for group in self.groups.values():
            gone = group.gone_at is not None and self.now >= group.gone_at + LAG_S
            if self.now >= group.made_at + LAG_S and not gone:
                used = sum((shape for where, shape in group.bundles if where == node_id), used)
        return (node.total - used).at_least_nothing()

    def slices_used(self, node_id: str, *, shown: bool = False) -> Counter[str]:
        """Return what of cut and shared cards is in use on a node: truly, or as Ray shows it, which lags behind."""
        used = Counter(self.nodes[node_id].foreign_slices)
        lag = LAG_S if shown else 0.0
        for group in self.groups.values():
            here = group.gone_at is None or (shown and self.now < group.gone_at + lag)
            if here and (not shown or self.now >= group.made_at + lag):
                used["shared"] += sum(shape.gpus for where, shape in group.bundles if where == node_id) * 10_000
                if group.part is not None and group.bundles[0][0] == node_id:
                    used[group.part.partition] += group.part.share or 1
        return used

    def device(self, node_id: str, share: int) -> int | None:
        """Return the GPU that Ray puts a share on: the fullest on which it fits; None when there is none."""
        left = [10_000] * self.nodes[node_id].total.gpus
        for group in self.groups.values():
            if group.gone_at is None and group.device is not None and group.bundles[0][0] == node_id:
                left[group.device] -= group.part.share if group.part is not None else 0
        able = [number for number, room in enumerate(left) if room >= share]
        return min(able, key=left.__getitem__, default=None)

    def running(self) -> dict[str, FakeJob]:
        """Return the jobs that have processes now."""
        return {job_id: job for job_id, job in self.jobs.items() if job.processes(self.now)}

    def groups_of(self, job: FakeJob) -> list[FakeGroup]:
        """Return the groups that stand for a job: its one, or one for each member that it has."""
        name = f"fleet/w/{job.request.job_id}"
        standing = [group for group in self.groups.values() if group.gone_at is None]
        return [group for group in standing if group.name == name or group.name.startswith(f"{name}/")]

    def member_processes(self, job_id: str, group_id: str) -> int:
        """Return how many processes a member of an elastic job has: one, until it leaves or is ended."""
        job, group = self.jobs[job_id], self.groups[group_id]
        ended = group.gone_at is not None and self.now >= group.gone_at + DIES_IN_S
        ended = group_id in job.members_ended or (ended and not job.how.members_cling)
        used = any(seat.group_id == group_id for seat in job.members)
        return int(bool(job.processes(self.now)) and used and not ended and not job.member_left(group_id, self.now))

    def acked(self, name: str) -> int:
        """Return the furthest step that any attempt of a workload acknowledged."""
        jobs = (job for job in self.jobs.values() if job.request.environment["FLEET_WORKLOAD"] == name)
        return max((ack[0] for job in jobs if (ack := job.ack(self.now)) is not None), default=0)

    def count(self, what: str, whose: str | None = None) -> int:
        """Return how often something was logged."""
        return sum(1 for _, kind, subject in self.log if kind == what and whose in (None, subject))
