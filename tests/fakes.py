"""The arbiter's ports on a world in memory, and a proxy that lets the arbiter's process die after any effect.

What Ray would refuse is refused; breaking a promise that only the arbiter can keep fails the test at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from fleet_app.arbiter.facts import NoPools, Ports
from fleet_app.arbiter.ports import (
    Ack,
    Beat,
    BoardView,
    BundleView,
    ClusterView,
    Death,
    Fence,
    GroupView,
    JobRequest,
    JobView,
    NodeView,
    Seat,
)
from fleet_app.engine.cards import Slice
from fleet_app.engine.errors import RequestError
from fleet_app.engine.layouts import Layout
from fleet_app.engine.telemetry import Usage
from fleet_app.engine.values import NOTHING, Shape
from tests.world import Behaviour, BrokenError, FakeGroup, FakeJob, World


class FakeClock:
    """Time, which only the test moves."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> float:
        return self._world.now


class FakeTelemetry:
    """What the test measured."""

    def __init__(self, world: World) -> None:
        self._world = world

    def usage(self) -> tuple[Usage, ...]:
        return tuple(self._world.usage.values())

    def cached(self) -> dict[str, tuple[str, ...]]:
        return dict(self._world.cached)


class FakeCluster:
    """Ray's nodes and groups."""

    def __init__(self, world: World) -> None:
        self._world = world

    def observe(self) -> ClusterView:
        world = self._world
        nodes = tuple(
            NodeView(
                node_id=node.node_id,
                labels=node.labels,
                alive=node.alive,
                draining=node.draining,
                total=node.total if node.alive else NOTHING,
                available=world.shown(node.node_id) if node.alive else NOTHING,
                slices=dict(node.slices) if node.alive else {},
                free_slices=self._free(node.node_id) if node.alive else {},
            )
            for node in world.nodes.values()
        )
        return ClusterView(nodes=nodes, groups=tuple(map(self._view, self._standing())))

    def _free(self, node_id: str) -> dict[str, int]:
        used = self._world.slices_used(node_id, shown=True)
        return {sort: max(0, count - used[sort]) for sort, count in self._world.nodes[node_id].slices.items()}

    def _standing(self) -> list[FakeGroup]:
        return [group for group in self._world.groups.values() if group.gone_at is None]

    def _view(self, group: FakeGroup) -> GroupView:
        alive = [self._world.nodes[node_id].alive for node_id, _ in group.bundles]
        return GroupView(
            group_id=group.group_id,
            name=group.name,
            state="CREATED" if all(alive) else "RESCHEDULING",
            bundles=tuple(
                BundleView(node_id=node_id if up else None, shape=shape, slice=group.part)
                for (node_id, shape), up in zip(group.bundles, alive, strict=True)
            ),
            replica=group.name if group.service else "",
            service=group.service,
        )

    def create_group(
        self, name: str, bundles: tuple[tuple[str, Shape], ...], timeout_s: float, part: Slice | None = None
    ) -> str | None:
        world = self._world
        known = next((group for group in self._standing() if group.name == name), None)
        if known is not None:
            if (known.bundles, known.part) != (bundles, part):
                raise BrokenError(f"{name} stands elsewhere")
            return known.group_id
        if len({node_id for node_id, _ in bundles}) != len(bundles):
            raise BrokenError(f"{name} has two bundles on a node")
        for node_id, shape in bundles:
            if not shape.fits(world.nodes[node_id].total - world.used(node_id)):
                world.now += timeout_s
                return None
        device = None if part is None else world.device(bundles[0][0], part.share)
        if part is not None and not self._has(bundles[0][0], part, device):
            world.now += timeout_s
            return None
        world.made += 1
        group_id = f"{world.made:036x}"
        world.groups[group_id] = FakeGroup(
            group_id=group_id,
            name=name,
            bundles=bundles,
            made_at=world.now,
            part=part,
            device=device if part is not None and part.share else None,
        )
        world.log.append((world.now, "create", name))
        return group_id

    def _has(self, node_id: str, part: Slice, device: int | None) -> bool:
        """Return whether a node has room for part of a card: a share on one GPU."""
        has = self._world.nodes[node_id].slices.get(part.partition, 0)
        left = has - self._world.slices_used(node_id)[part.partition]
        return left >= (part.share or 1) and (not part.share or device is not None)

    def remove_group(self, group_id: str) -> None:
        world = self._world
        group = world.groups[group_id]
        if group.gone_at is not None:
            return
        if group.service:
            raise BrokenError(f"{group.name} is Serve's own to remove")
        if world.adopted.get(group_id):
            raise BrokenError(f"{group.name} is removed under the replica {world.adopted[group_id]}")
        alive = all(world.nodes[node_id].alive for node_id, _ in group.bundles)
        for job_id, job in world.running().items():
            if group in world.groups_of(job) and job.kill_at is None and alive:
                self._check_member(group, job_id)
        group.gone_at = world.now
        world.log.append((world.now, "remove", group.name))

    def _check_member(self, group: FakeGroup, job_id: str) -> None:
        """Fail unless the group was of a member that has left, or is past its deadline."""
        world = self._world
        deadline_at = world.notices.get(f"{job_id}/{group.group_id}")
        left = "/" in group.name.removeprefix("fleet/w/") and not world.member_processes(job_id, group.group_id)
        if not left and (deadline_at is None or world.now < deadline_at):
            raise BrokenError(f"{group.name} is removed under the job {job_id}")

    def users_of(self, node_id: str, ours: frozenset[str]) -> tuple[str, ...]:
        somebody = ["actor Somebody"] if self._world.nodes[node_id].foreign.gpus else []
        foreign = [group for group in self._standing() if group.bundles[0][0] == node_id and group.group_id not in ours]
        return tuple(somebody + sorted(f"placement group {group.name}" for group in foreign))


class FakeJobs:
    """Ray's job server."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.counted = 0

    def observe(self) -> tuple[JobView, ...]:
        now = self._world.now
        return tuple(JobView(job_id=job_id, status=job.status(now)) for job_id, job in self._world.jobs.items())

    def submit(self, request: JobRequest) -> None:
        world = self._world
        if request.job_id in world.jobs:
            return
        name, environment = request.environment["FLEET_WORKLOAD"], request.environment
        for job_id, job in world.running().items():
            if job.request.environment["FLEET_WORKLOAD"] == name:
                raise BrokenError(f"{request.job_id} starts while {job_id} runs")
        group = world.groups.get(environment["FLEET_GROUP_ID"])
        if group is None or group.gone_at is not None:
            raise BrokenError(f"{request.job_id} starts without its group")
        if "FLEET_MIN_NODES" in environment:
            self._check_members(request)
        first = int(environment.get("FLEET_RESUME_STEP", "0"))
        if first != world.acked(name):
            raise BrokenError(f"{request.job_id} resumes at {first}, acknowledged was {world.acked(name)}")
        how = world.behaviours.get(name, Behaviour())
        job = FakeJob(request=request, how=how, submitted_at=world.now, first=first)
        job.members = world.members.get(request.job_id, ())
        world.jobs[request.job_id] = job
        world.log.append((world.now, "submit", request.job_id))

    def _check_members(self, request: JobRequest) -> None:
        """Fail unless every member that an elastic job starts with stands, and the job can find them."""
        world = self._world
        told = [seat.node for seat in world.members.get(request.job_id, ())]
        nodes = json.loads(request.environment["FLEET_NODES"])
        standing = [group.name for group in world.groups.values() if group.gone_at is None]
        leaving = any(seat.leaving for seat in world.members.get(request.job_id, ()))
        if leaving or told != nodes or not all(f"fleet/w/{request.job_id}/{node}" in standing for node in nodes):
            raise BrokenError(f"{request.job_id} starts on {nodes} with {told} of {standing}")

    def end_member(self, member: str) -> None:
        job_id, _, group_id = member.partition("/")
        self._world.jobs[job_id].members_ended.add(group_id)
        self._world.log.append((self._world.now, "end", member))

    def stop(self, job_id: str) -> None:
        job = self._world.jobs[job_id]
        if job.stop_at is None and job.status(self._world.now) == "RUNNING":
            job.stop_at = self._world.now
            self._world.log.append((self._world.now, "stop", job_id))

    def kill(self, job_id: str, attempt: str) -> None:
        job = self._world.jobs[job_id]
        if job.kill_at is None:
            job.kill_at = self._world.now
            self._world.log.append((self._world.now, "kill", job_id))

    def processes(self, attempts: frozenset[str]) -> Mapping[str, int]:
        self.counted += 1
        world = self._world
        found = {attempt: world.jobs[attempt].processes(world.now) for attempt in attempts if attempt in world.jobs}
        for member in attempts:
            job_id, _, group_id = member.partition("/")
            if group_id and job_id in world.jobs:
                found[member] = world.member_processes(job_id, group_id)
        return found

    def death(self, job_id: str) -> Death | None:
        return self._world.deaths.get(job_id)

    def delete(self, job_id: str) -> None:
        if self._world.deletes_jobs:
            self._world.jobs.pop(job_id, None)


class FakeBoard:
    """Ray's internal KV."""

    def __init__(self, world: World) -> None:
        self._world = world

    def observe(self) -> BoardView:
        world = self._world
        posted = {
            job_id: job
            for job_id, job in world.jobs.items()
            if job.run_at <= world.now and (job.cleared_at is None or job.processes(world.now))
        }
        acks = []
        for job_id, job in posted.items():
            ack = job.ack(world.now)
            if ack is not None:
                acks.append(Ack(attempt=job_id, uri=f"file:///{job_id}", step=ack[0], at=ack[1]))
        return BoardView(
            acks=tuple(acks),
            beats=tuple(Beat(attempt=job_id, step=job.step(world.now), at=world.now) for job_id, job in posted.items()),
            demands=tuple(world.demands.values()),
            adopted=dict(world.adopted),
            adopted_for=dict(world.adopted_for),
            done=frozenset(job_id for job_id, job in posted.items() if job.done(world.now)),
            posted=frozenset((*world.notices, *world.members)),
            gone=frozenset(f"{job_id}/{group_id}" for job_id, job in posted.items() for group_id in self._gone(job)),
        )

    def _gone(self, job: FakeJob) -> list[str]:
        return [group_id for group_id in job.members_noticed if job.member_left(group_id, self._world.now)]

    def publish_members(self, attempt: str, members: tuple[Seat, ...]) -> None:
        self._world.members[attempt] = members
        if attempt in self._world.jobs:
            self._world.jobs[attempt].members = members

    def notify(self, attempt: str, deadline_at: float | None, why: str) -> None:
        world = self._world
        world.notices[attempt] = deadline_at
        job_id, _, group_id = attempt.partition("/")
        if group_id:
            world.jobs[job_id].members_noticed.setdefault(group_id, world.now)
            world.log.append((world.now, "notify", attempt))
        elif deadline_at is None:
            world.jobs[attempt].moved_at = world.now
            world.log.append((world.now, "move", attempt))
        elif world.jobs[attempt].notice_at is None:
            world.jobs[attempt].notice_at = world.now
            world.log.append((world.now, "notify", attempt))

    def clear(self, attempt: str) -> None:
        world = self._world
        world.notices.pop(attempt, None)
        world.members.pop(attempt, None)
        job_id, _, group_id = attempt.partition("/")
        if group_id and job_id in world.jobs:
            world.jobs[job_id].members_noticed.pop(group_id, None)
        if attempt in world.jobs:
            world.jobs[attempt].cleared_at = world.now

    def publish_grants(self, service: str, granted: int, fences: tuple[Fence, ...]) -> None:
        self._world.grants[service] = (granted, fences)

    def renew_lease(self, at: float) -> None:
        self._world.lease = at

    def claim(self, group_id: str) -> bool:
        return self._world.adopted.setdefault(group_id, "") == ""

    def forget_adoption(self, group_id: str) -> None:
        self._world.leave(group_id)


class FakeCards:
    """Whoever changes what cards are cut into: the test lets it happen."""

    def __init__(self, world: World) -> None:
        self._world = world

    def repartition(self, node: NodeView, layouts: tuple[Layout, ...]) -> None:
        name = node.labels["fleet/node"]
        refusal = self._world.no_layouts.get(name)
        if refusal:
            raise RequestError(refusal, where=name)
        used = self._world.slices_used(node.node_id)
        if +used:
            raise BrokenError(f"{name} is cut while {used} is used there")
        self._world.layouts[name] = layouts
        self._world.log.append((self._world.now, "repartition", name))


class Crash(BaseException):
    """The arbiter's process was killed."""


EFFECTS = frozenset(
    {
        "create_group",
        "remove_group",
        "submit",
        "stop",
        "kill",
        "delete",
        "notify",
        "clear",
        "publish_members",
        "end_member",
        "publish_grants",
        "claim",
        "forget_adoption",
        "repartition",
        "commit",
    }
)
"""Calls after which the world or the journal differs; a crash after any other is one after the last of these."""


class Crashing:
    """Anything with methods; after each effect, and before a commit, it asks whether the process dies now."""

    def __init__(self, inner: Any, after: Callable[[str], None]) -> None:
        self._inner = inner
        self._after = after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in EFFECTS:
            return method

        def call(*args: Any, **kwargs: Any) -> Any:
            if name == "commit":
                self._after("before commit")
            result = method(*args, **kwargs)
            self._after(name)
            return result

        return call


def ports(world: World, after: Callable[[str], None] | None = None) -> Ports:
    """Return the world's ports; `after` is told of each effect and may raise Crash."""
    parts: tuple[Any, ...] = FakeCluster(world), FakeJobs(world), FakeBoard(world), FakeCards(world)
    cluster, jobs, board, cards = parts if after is None else tuple(Crashing(part, after) for part in parts)
    return Ports(
        cluster=cluster,
        jobs=jobs,
        board=board,
        clock=FakeClock(world),
        telemetry=FakeTelemetry(world),
        cards=cards if world.recutting else None,
        pools=world.pools or NoPools(),
    )
