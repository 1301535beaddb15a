"""What the arbiter, the jobs and Serve say to one another, and how it is spelt: names, keys, JSON.

The one place that spells the board's keys and entries, group names and node labels; a job's environment is spelt in
`environment`. Knows strings and plain values; imports neither Ray nor the rest of the fleet, so any process can use it.
Does not know how the board is reached: `fleet_app.adapters.board` and the worker library do that.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
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
MEMBERS = "members/"
GONE = "gone/"


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


def members_key(attempt: str) -> str:
    """Return the key under which an elastic attempt finds its members."""
    return MEMBERS + attempt


def gone_key(member: str) -> str:
    """Return the key under which a member of an elastic attempt says that it has left; its `member_id`."""
    return GONE + member


def member_id(attempt: str, group_id: str) -> str:
    """Return what a member of an elastic attempt goes by wherever an attempt goes by its id.

    By its placement group, which nobody ever has again: not by its node, which it may leave and come back to. No
    attempt has a `/` in its id.
    """
    return f"{attempt}/{group_id}"


# Names of placement groups.

GROUP_PREFIX = "fleet/"
WORKLOAD_GROUP = "fleet/w/"
GRANT_GROUP = "fleet/g/"
HOLD_GROUP = "fleet/h/"


def workload_group(attempt: str) -> str:
    """Return the name of the group that an attempt of a workload runs in."""
    return WORKLOAD_GROUP + attempt


def member_group(attempt: str, node: str) -> str:
    """Return the name of the group of an elastic attempt's member on a node; no attempt has a `/` in its id."""
    return f"{WORKLOAD_GROUP}{attempt}/{node}"


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
POD_LABEL = "fleet/pod"
DRIVER_LABEL = "fleet/driver"
PARTITION_LABEL = "fleet/partition"
LEVEL_LABEL_PREFIX = "fleet/"
ACCELERATOR_LABEL = "ray.io/accelerator-type"
NODE_ID_LABEL = "ray.io/node-id"

# Resources of nodes.

PARTITION_RESOURCE = re.compile(r"mig-\d+g\.\d+gb")
"""What Ray's resource for the MIG partitions of one profile is called; bundles of groups have longer names."""

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
    """What a service wants: `wanted` replicas of that shape, never fewer than `floor`.

    In place of GPUs a replica may have part of one card: a `partition` by its MIG profile (`1g.10gb`), or a `share` in
    ten-thousandths.

    It may ask to be spread over the domains of a level (`spread`), to have at most `per_node` replicas on a node, and
    none beside those of other services (`apart_from`); empty and 0 ask for nothing.
    """

    service: str
    team: str
    gpus: int
    cpu_milli: int
    memory_mib: int
    spread: str = ""
    per_node: int = 0
    apart_from: tuple[str, ...] = ()
    wanted: int
    floor: int
    at: float
    partition: str = ""
    share: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A group of one bundle that stands ready on a node for a replica; `partition` and `share` as in `Demand`."""

    group_id: str
    node_id: str
    gpus: int
    cpu_milli: int
    memory_mib: int
    partition: str = ""
    share: int = 0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of an elastic attempt: its placement group of one bundle, on which node, whether it has to leave."""

    node: str
    group_id: str
    leaving: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The members that an elastic attempt has, those that joined last at the end."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A member of an elastic attempt has left: nothing runs in its placement group any more, or does in a moment."""

    at: float


Entry = Lease | Demand | Grants | Adoption | Notice | Ack | Beat | Done | Members | Gone

E = TypeVar("E", Lease, Demand, Grants, Adoption, Notice, Ack, Beat, Done, Members, Gone)
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
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # all are
    # What has a default may be missing: whoever wrote it may be older.
    given = [one for one in fields if one.name in item or one.default is dataclasses.MISSING]
    return kind(**{one.name: _READERS[str(one.type)](item[one.name]) for one in given})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value


def _items(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"not a list: {value!r}")
    return value


def _moment(value: str | float) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"not a moment: {value!r}")
    return number


# By the annotations above, which are strings here.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "int": int,
    "bool": bool,
    "float": _moment,
    "float | None": lambda value: None if value is None else _moment(value),
    "str": _text,
    "tuple[str, ...]": lambda items: tuple(_text(item) for item in _items(items)),
    "tuple[Fence, ...]": lambda items: tuple(_build(Fence, item) for item in items),
    "tuple[Member, ...]": lambda items: tuple(_build(Member, item) for item in items),
}
