"""What the arbiter, the jobs and Serve say to one another, and how it is spelt: names, keys, JSON, environment.

The one place that spells the board's keys and entries, the environment of a fleet job, group names and node
labels. Knows strings and plain values; imports neither Ray nor the rest of the fleet, so any process can use it.
Does not know how the board is reached: `fleet_app.adapters.board` and the worker library do that.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

RAY_NAMESPACE = "fleet"
"""Ray namespace of the arbiter and of its placement groups."""

ARBITER_ACTOR = "fleet-arbiter"
"""Name of the arbiter's actor in `RAY_NAMESPACE`."""

BOARD_NAMESPACE = b"fleet"
"""Namespace of the board in Ray's internal KV."""

LEASE_RENEWAL_S = 0.5
LEASE_STALE_S = 10.0
"""A lease older than this says that the arbiter is silent: Serve then helps itself."""

# Keys of the board.

LEASE = "lease"
DEMAND = "demand/"
GRANTS = "grants/"
ADOPTED = "adopted/"
NOTICE = "notice/"
ACK = "ack/"
BEAT = "beat/"
DONE = "done/"


def demand_key(service: str) -> str:
    """Return the key under which a service says what it wants."""
    return DEMAND + service


def grants_key(service: str) -> str:
    """Return the key under which the arbiter says what a service may have."""
    return GRANTS + service


def adopted_key(group_id: str) -> str:
    """Return the key that says which replica lives in a group of the fleet."""
    return ADOPTED + group_id


def notice_key(attempt: str) -> str:
    """Return the key under which an attempt finds its drain notice."""
    return NOTICE + attempt


def ack_key(attempt: str) -> str:
    """Return the key under which an attempt acknowledges a checkpoint."""
    return ACK + attempt


def beat_key(attempt: str) -> str:
    """Return the key under which rank 0 of an attempt says how far it is."""
    return BEAT + attempt


def done_key(attempt: str) -> str:
    """Return the key under which an attempt says that its work is complete, not merely saved."""
    return DONE + attempt


# Names of placement groups.

GROUP_PREFIX = "fleet/"
WORKLOAD_GROUP = "fleet/w/"
GRANT_GROUP = "fleet/g/"
HOLD_GROUP = "fleet/h/"


def workload_group(attempt: str) -> str:
    """Return the name of the group that an attempt of a workload runs in."""
    return WORKLOAD_GROUP + attempt


def grant_group(service: str, tag: str) -> str:
    """Return the name of a group that stands ready for a replica of a service, or has one in it."""
    return f"{GRANT_GROUP}{service}/{tag}"


def hold_group(node: str, beneficiary: str) -> str:
    """Return the name of a group that keeps idle GPUs of a node for somebody."""
    return f"{HOLD_GROUP}{node}/{beneficiary}"


def is_fleet_group(name: str) -> bool:
    """Return whether the arbiter made the group of that name."""
    return name.startswith(GROUP_PREFIX)


def service_name(app: str, deployment: str) -> str:
    """Return what the fleet calls a Serve deployment: `app.deployment`, each `/` replaced by `.`."""
    return f"{app}.{deployment}".replace("/", ".")


# Labels of nodes.

CLASS_LABEL = "fleet/class"
NODE_LABEL = "fleet/node"
DRIVER_LABEL = "fleet/driver"
PARTITION_LABEL = "fleet/partition"
LEVEL_LABEL_PREFIX = "fleet/"
ACCELERATOR_LABEL = "ray.io/accelerator-type"
NODE_ID_LABEL = "ray.io/node-id"

# Entries of the board.


class BadEntryError(ValueError):
    """An entry of the board is not what its key says; whoever wrote it does not keep this contract."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The arbiter with that process id was alive `at` (seconds since the epoch)."""

    at: float
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a service wants: `wanted` replicas of that shape, never fewer than `floor`."""

    service: str
    team: str
    gpus: int
    cpu_milli: int
    memory_mib: int
    wanted: int
    floor: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A group of one bundle that stands ready on a node for a replica."""

    group_id: str
    node_id: str
    gpus: int
    cpu_milli: int
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """How many replicas a service may have, and the groups for those that do not run yet."""

    granted: int
    fences: tuple[Fence, ...]
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """A replica of a service took a group."""

    replica: str
    service: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An attempt has to be gone by `deadline_at` (seconds since the epoch); None: at its next checkpoint boundary."""

    deadline_at: float | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """A checkpoint of an attempt: where it is, at which step, when it was complete."""

    uri: str
    step: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """How far an attempt is."""

    step: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The work of an attempt is complete: it does not want to be resumed, whatever it was asked meanwhile."""

    at: float


Entry = Lease | Demand | Grants | Adoption | Notice | Ack | Beat | Done

E = TypeVar("E", Lease, Demand, Grants, Adoption, Notice, Ack, Beat, Done)
T = TypeVar("T")


def encode(entry: Entry) -> bytes:
    """Return an entry as the JSON that stands on the board."""
    return json.dumps(dataclasses.asdict(entry), separators=(",", ":"), allow_nan=False).encode()


def decode(kind: type[E], raw: bytes) -> E:
    """Return the entry in `raw`; keys it does not know are ignored, so writers may be newer. Raises BadEntryError."""
    try:
        return _build(kind, json.loads(raw))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise BadEntryError(f"not a {kind.__name__}: {raw[:200]!r} ({error!r})") from error


def _build(kind: type[T], item: Mapping[str, object]) -> T:
    names = {field.name: str(field.type) for field in dataclasses.fields(kind)}  # type: ignore[arg-type]  # all are
    return kind(**{name: _READERS[type_name](item[name]) for name, type_name in names.items()})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value


def _moment(value: str | float) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"not a moment: {value!r}")
    return number


# By the annotations above, which are strings here.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "int": int,
    "float": _moment,
    "float | None": lambda value: None if value is None else _moment(value),
    "str": _text,
    "tuple[Fence, ...]": lambda items: tuple(_build(Fence, item) for item in items),
}

# Environment of every process of a fleet job.

ENV_HOME = "FLEET_HOME"
ENV_ATTEMPT = "FLEET_ATTEMPT"
ENV_WORKLOAD = "FLEET_WORKLOAD"
ENV_GROUP_ID = "FLEET_GROUP_ID"
ENV_BUNDLES = "FLEET_BUNDLES"
ENV_GPUS_PER_BUNDLE = "FLEET_GPUS_PER_BUNDLE"
ENV_CPU_MILLI_PER_BUNDLE = "FLEET_CPU_MILLI_PER_BUNDLE"
ENV_NODES = "FLEET_NODES"
ENV_GROUPS = "FLEET_GROUPS"
ENV_RESUME_URI = "FLEET_RESUME_URI"
ENV_RESUME_STEP = "FLEET_RESUME_STEP"
ENV_CHECKPOINT_DIR = "FLEET_CHECKPOINT_DIR"
ENV_GRACE_S = "FLEET_GRACE_S"
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
    bundle are the most that any has. `resume_uri` and `resume_step` are both None when there is no
    acknowledged checkpoint to resume from.
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
            # Without it a driver that holds no GPU sees all GPUs of its node.
            ENV_RAY_HIDE_GPUS: "1",
        }
        if self.groups:
            env[ENV_GROUPS] = json.dumps([dataclasses.asdict(group) for group in self.groups])
        if self.resume_uri is not None and self.resume_step is not None:
            env |= {ENV_RESUME_URI: self.resume_uri, ENV_RESUME_STEP: str(self.resume_step)}
        return env

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> JobEnvironment | None:
        """Return what a process was told, None when it is no process of a fleet job. Raises BadEntryError."""
        if ENV_ATTEMPT not in env:
            return None
        try:
            step = env.get(ENV_RESUME_STEP)
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
                groups=tuple(_build(RankGroup, group) for group in json.loads(env.get(ENV_GROUPS, "[]"))),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise BadEntryError(f"the environment of {env[ENV_ATTEMPT]} is not a fleet job's: {error!r}") from error
