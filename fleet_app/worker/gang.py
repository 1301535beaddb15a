"""Membership: what this process was told about its attempt, and the placement group that holds its GPUs.

Reads the environment that the arbiter gives to every process of a fleet job. Does not know notices or checkpoints'
contents; it never creates or removes a group, both are the arbiter's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray._raylet import PlacementGroupID
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from fleet_app.worker import devices
from fleet_app.worker.contract import Member
from fleet_app.worker.environment import ENV_ATTEMPT, ENV_MEMBER, JobEnvironment, RankGroup
from fleet_app.worker.members import members

NICENESS = "RAY_worker_niceness"
"""The environment variable in which an actor is told how nice to be."""

JOIN_TIMEOUT_S = 30.0
"""The arbiter submits a job only when its group is ready, so a wait this long means that the group is gone."""


class NotAFleetJobError(RuntimeError):
    """This process was not started by the fleet; nothing was done."""


class GroupLostError(RuntimeError):
    """The placement group of this attempt is gone: end, the arbiter starts the next attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """The last checkpoint that the fleet knows of: where it is and which step it holds."""

    uri: str
    step: int


@dataclass(frozen=True, slots=True)
class Membership:
    """One attempt of a fleet job, as any of its processes sees it."""

    job: JobEnvironment

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Membership:
        """Return what the arbiter told this process.

        Raises NotAFleetJobError outside a fleet job, contract.BadEntryError when the environment was tampered with.
        """
        job = JobEnvironment.from_env(environment)
        if job is None:
            raise NotAFleetJobError(
                f"{ENV_ATTEMPT} is not set, so this is no fleet job. Submit it with `fleet submit` or through the "
                "fleet's gateway."
            )
        return cls(job)

    @property
    def checkpoint_dir(self) -> Path:
        """Return the directory for this attempt's checkpoints; every attempt of a workload has its own.

        Its own, because an attempt that was killed may have left a checkpoint that nobody acknowledged, and the
        next attempt reaches the same step again.
        """
        return Path(self.job.checkpoint_dir) / self.job.attempt

    @property
    def bundle(self) -> dict[str, float]:
        """Return the GPUs and CPUs of one bundle as Ray writes them; absent when there are none.

        A partition of a card is a resource of its own, such as `mig-1g.10gb`; a share is a fraction of a GPU. With
        groups the most that any bundle has; `bundle_of` is each rank's own.
        """
        part = {self.job.partition: 1.0} if self.job.partition else {}
        return _amounts(self.job.share or self.job.gpus_per_bundle, self.job.cpu_milli_per_bundle) | part

    def bundle_of(self, rank: int) -> dict[str, float]:
        """Return the GPUs and CPUs of a rank's bundle, as `bundle` does."""
        group = self._group_of(rank)
        return self.bundle if group is None else _amounts(group.gpus, group.cpu_milli)

    def group_of(self, rank: int) -> str | None:
        """Return the name of the group that a rank is in; None in a gang of one shape."""
        group = self._group_of(rank)
        return None if group is None else group.name

    def ranks_of(self, group: str) -> range:
        """Return the ranks of a group. Raises KeyError when the gang has none of that name."""
        first = 0
        for each in self.job.groups:
            if each.name == group:
                return range(first, first + each.ranks)
            first += each.ranks
        raise KeyError(group)

    def _group_of(self, rank: int) -> RankGroup | None:
        return next((each for each in self.job.groups if rank in self.ranks_of(each.name)), None)

    def resume_point(self) -> ResumePoint | None:
        """Return the acknowledged checkpoint to go on from; None at the first start."""
        if self.job.resume_uri is None or self.job.resume_step is None:
            return None
        return ResumePoint(uri=self.job.resume_uri, step=self.job.resume_step)

    def group(self) -> PlacementGroup:
        """Return a handle of the placement group, without asking Ray about it. Needs ray.init()."""
        # By id: looking a group up by its name works in its own Ray namespace only, and a driver has another.
        return PlacementGroup(PlacementGroupID.from_hex(self.job.group_id))

    def join(self) -> PlacementGroup:
        """Return the placement group once Ray says that it is there. Raises GroupLostError."""
        group = self.group()
        if not group.wait(JOIN_TIMEOUT_S):
            raise GroupLostError(f"the placement group {self.job.group_id} of {self.job.attempt} is gone")
        return group

    def start_ranks(self, rank_class: Any, *arguments: Any, **options: Any) -> list[Any]:
        """Start one actor in each bundle and return their handles; rank i sits in bundle i.

        In an elastic job that is one on each member that does not have to leave already, in the order of `members()`.
        `rank_class` is a Ray actor class, or in a gang of several shapes one for each group, by name; it is made with
        its rank and then `arguments`. Each actor takes the whole bundle, and is as nice as this process. `options` are
        further Ray actor options. Raises KeyError, before anything starts, when a group has no class.
        """
        if self.job.min_nodes is not None:
            staying = [member for member in self._members() if not member.leaving]
            return [
                self.start_rank(member, rank, rank_class, *arguments, **options) for rank, member in enumerate(staying)
            ]
        classes = [self._class_of(rank_class, rank) for rank in range(self.job.bundles)]
        group = self.join()
        runtime_env, more = with_niceness(options.pop("runtime_env", {})), options.pop("resources", {})
        runtime_env["env_vars"] = {**self._device(), **runtime_env["env_vars"]}
        return [
            each.options(
                num_gpus=self.bundle_of(rank).get("GPU", 0),
                num_cpus=self.bundle_of(rank).get("CPU", 0),
                resources={**_custom(self.bundle_of(rank)), **more},
                # An actor that restarts in a removed group waits for ever, and so do its callers.
                max_restarts=0,
                runtime_env=runtime_env,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank),
                **options,
            ).remote(rank, *arguments)
            for rank, each in enumerate(classes)
        ]

    def start_rank(self, member: Member, rank: int, rank_class: Any, *arguments: Any, **options: Any) -> Any:
        """Start one actor on a member of an elastic job and return its handle; it takes the member's whole bundle.

        The actor is made with `rank`, a number that the job chooses, and then `arguments`. Its process knows its
        member, and is counted as the member's.
        """
        runtime_env = with_niceness(options.pop("runtime_env", {}))
        runtime_env["env_vars"][ENV_MEMBER] = member.group_id
        group = PlacementGroup(PlacementGroupID.from_hex(member.group_id))
        return rank_class.options(
            num_gpus=self.bundle.get("GPU", 0),
            num_cpus=self.bundle.get("CPU", 0),
            max_restarts=0,  # as above
            runtime_env=runtime_env,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0),
            **options,
        ).remote(rank, *arguments)

    def _device(self) -> dict[str, str]:
        """Return what lets a rank see its own partition and no other; this process is on the same node."""
        profile = self.job.partition.removeprefix("mig-")
        if not profile or self.job.slot is None:
            return {}
        uuid = devices.partition(devices.listing(), profile, self.job.slot)
        return {} if uuid is None else {devices.VISIBLE: uuid}

    def _members(self) -> tuple[Member, ...]:
        """Return the members of an elastic attempt; the arbiter posts them before it submits the job."""
        found = members()
        if not found:
            raise GroupLostError(f"the board has no members of {self.job.attempt}")
        return found

    def _class_of(self, rank_class: Any, rank: int) -> Any:
        return rank_class[self.group_of(rank)] if isinstance(rank_class, Mapping) else rank_class


def _custom(bundle: Mapping[str, float]) -> dict[str, float]:
    return {name: amount for name, amount in bundle.items() if name not in {"GPU", "CPU"}}


def _amounts(gpus: float, cpu_milli: int) -> dict[str, float]:
    amounts = {"GPU": gpus, "CPU": cpu_milli / 1000}
    return {name: amount for name, amount in amounts.items() if amount}


def with_niceness(runtime_env: Mapping[str, Any]) -> dict[str, Any]:
    """Return a runtime environment whose actors are as nice as this process, if it does not say how nice they are.

    `nice python job.py` then means the whole job: Ray itself starts a job's actors at niceness 0.
    """
    niceness = {NICENESS: str(os.getpriority(os.PRIO_PROCESS, 0))}
    return {**runtime_env, "env_vars": {**niceness, **runtime_env.get("env_vars", {})}}
