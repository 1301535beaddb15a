"""What the arbiter tells every process of a fleet job, as environment variables.

The one place that spells them. Knows strings and plain values; imports neither Ray nor the rest of the fleet, so any
process can use it. Does not know the board: what changes while a job runs stands there.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet_app.worker.contract import BadEntryError

ENV_ATTEMPT = "FLEET_ATTEMPT"
ENV_WORKLOAD = "FLEET_WORKLOAD"
ENV_GROUP_ID = "FLEET_GROUP_ID"
ENV_BUNDLES = "FLEET_BUNDLES"
ENV_GPUS_PER_BUNDLE = "FLEET_GPUS_PER_BUNDLE"
ENV_CPU_MILLI_PER_BUNDLE = "FLEET_CPU_MILLI_PER_BUNDLE"
ENV_NODES = "FLEET_NODES"
ENV_GROUPS = "FLEET_GROUPS"
ENV_MIN_NODES = "FLEET_MIN_NODES"
ENV_MEMBER = "FLEET_MEMBER"
"""The placement group of the member that a process belongs to; the library sets it for the ranks that it starts."""
ENV_RESUME_URI = "FLEET_RESUME_URI"
ENV_RESUME_STEP = "FLEET_RESUME_STEP"
ENV_CHECKPOINT_DIR = "FLEET_CHECKPOINT_DIR"
ENV_GRACE_S = "FLEET_GRACE_S"
ENV_FLAVOR = "FLEET_FLAVOR"
ENV_PARTITION = "FLEET_PARTITION"
ENV_SHARE = "FLEET_SHARE"
ENV_CARD = "FLEET_CARD"
ENV_SLOT = "FLEET_SLOT"
ENV_RAY_STOP_WAIT_S = "RAY_JOB_STOP_WAIT_TIME_S"
RAY_KILLS_AFTER_S = 3
"""How long after a deadline Ray itself kills: inside the 5 s within which lent capacity is back."""
ENV_RAY_HIDE_GPUS = "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGroup:
    """Ranks of one shape in an attempt of several shapes: how many, with how much in each bundle."""

    name: str
    ranks: int
    gpus: int
    cpu_milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnvironment:
    """What the arbiter tells every process of one attempt; bundle i of the group is rank i.

    `nodes` are node names in rank order. With `groups` ranks are numbered group after group, and the numbers for each
    bundle are the most that any has. With `min_nodes` it is elastic: `bundles` and `nodes` are those that it starts
    with, `group_id` is its first member's, and the board has its members. `resume_uri` and `resume_step` are both None
    when there is no acknowledged checkpoint to resume from. One that has part of a card knows the `flavor` of that
    (`h100-mig-1g.10gb`), either the `partition` as Ray's resource is called (`mig-1g.10gb`) or the `share` of a GPU,
    and the index of the card on its node, and which `slot` of those partitions is its own.
    """

    attempt: str
    workload: str
    group_id: str
    bundles: int
    gpus_per_bundle: int
    cpu_milli_per_bundle: int
    nodes: tuple[str, ...]
    checkpoint_dir: str
    grace_s: float
    resume_uri: str | None = None
    resume_step: int | None = None
    groups: tuple[RankGroup, ...] = ()
    min_nodes: int | None = None
    flavor: str = ""
    partition: str = ""
    share: float = 0.0
    card: int | None = None
    slot: int | None = None

    def to_env(self) -> dict[str, str]:
        """Return it as environment variables, with those by which Ray itself keeps the drain contract."""
        env = {
            ENV_ATTEMPT: self.attempt,
            ENV_WORKLOAD: self.workload,
            ENV_GROUP_ID: self.group_id,
            ENV_BUNDLES: str(self.bundles),
            ENV_GPUS_PER_BUNDLE: str(self.gpus_per_bundle),
            ENV_CPU_MILLI_PER_BUNDLE: str(self.cpu_milli_per_bundle),
            ENV_NODES: json.dumps(self.nodes),
            ENV_CHECKPOINT_DIR: self.checkpoint_dir,
            ENV_GRACE_S: f"{self.grace_s:g}",
            # In whole seconds, as Ray takes them. Killing at the deadline is the arbiter's, which counts it; with the
            # arbiter gone Ray does it a little later.
            ENV_RAY_STOP_WAIT_S: str(math.ceil(self.grace_s) + RAY_KILLS_AFTER_S),
        }
        if not self.partition:
            # Without it a driver that holds no GPU sees all GPUs of its node. A partition is no GPU to Ray: with it the
            # ranks would not see theirs.
            env[ENV_RAY_HIDE_GPUS] = "1"
        if self.groups:
            env[ENV_GROUPS] = json.dumps([dataclasses.asdict(group) for group in self.groups])
        if self.min_nodes is not None:
            env[ENV_MIN_NODES] = str(self.min_nodes)
        if self.flavor:
            env[ENV_FLAVOR] = self.flavor
            env |= {ENV_PARTITION: self.partition} if self.partition else {ENV_SHARE: f"{self.share:g}"}
            env |= {} if self.card is None else {ENV_CARD: str(self.card)}
            env |= {} if self.slot is None else {ENV_SLOT: str(self.slot)}
        if self.resume_uri is not None and self.resume_step is not None:
            env |= {ENV_RESUME_URI: self.resume_uri, ENV_RESUME_STEP: str(self.resume_step)}
        return env

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> JobEnvironment | None:
        """Return what a process was told, None when it is no process of a fleet job. Raises BadEntryError."""
        if ENV_ATTEMPT not in env:
            return None
        try:
            step, least = env.get(ENV_RESUME_STEP), env.get(ENV_MIN_NODES)
            card, slot = env.get(ENV_CARD), env.get(ENV_SLOT)
            return cls(
                attempt=env[ENV_ATTEMPT],
                workload=env[ENV_WORKLOAD],
                group_id=env[ENV_GROUP_ID],
                bundles=int(env[ENV_BUNDLES]),
                gpus_per_bundle=int(env[ENV_GPUS_PER_BUNDLE]),
                cpu_milli_per_bundle=int(env[ENV_CPU_MILLI_PER_BUNDLE]),
                nodes=tuple(str(node) for node in json.loads(env[ENV_NODES])),
                checkpoint_dir=env[ENV_CHECKPOINT_DIR],
                grace_s=float(env[ENV_GRACE_S]),
                resume_uri=env.get(ENV_RESUME_URI),
                resume_step=None if step is None else int(step),
                groups=tuple(map(_rank_group, json.loads(env.get(ENV_GROUPS, "[]")))),
                min_nodes=None if least is None else int(least),
                flavor=env.get(ENV_FLAVOR, ""),
                partition=env.get(ENV_PARTITION, ""),
                share=float(env.get(ENV_SHARE, "0")),
                card=None if card is None else int(card),
                slot=None if slot is None else int(slot),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise BadEntryError(f"the environment of {env[ENV_ATTEMPT]} is not a fleet job's: {error!r}") from error


def _rank_group(item: Mapping[str, Any]) -> RankGroup:
    ranks, gpus, cpu_milli = int(item["ranks"]), int(item["gpus"]), int(item["cpu_milli"])
    return RankGroup(name=str(item["name"]), ranks=ranks, gpus=gpus, cpu_milli=cpu_milli)
