"""What a decision says: actions to take, GPUs to hold, and why everybody else waits.

A closed union of actions; each carries the reason that a person would be given.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from fleet_app.engine.cards import Slice
from fleet_app.engine.layouts import Layout
from fleet_app.engine.values import NodeClass, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """Give a queued workload its quota and these nodes, in rank order."""

    workload: str
    nodes: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Give a running workload notice; at `deadline_at` (seconds) what is left is killed."""

    workload: str
    beneficiary: str
    deadline_at: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink:
    """Give the members of an elastic workload on these nodes notice; what is left of them at the deadline is killed."""

    workload: str
    nodes: tuple[str, ...]
    beneficiary: str
    deadline_at: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grow:
    """Give a running elastic workload members on these nodes, in rank order after those that it has."""

    workload: str
    nodes: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """Give a workload whose maximum run time is over notice to end for good; what is left at the deadline is killed."""

    workload: str
    deadline_at: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """End at once a workload whose deadline has passed."""

    workload: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lose:
    """End and requeue a workload that lost a node: a gang lives whole or not at all."""

    workload: str
    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveGrant:
    """Hold one replica's shape on a node for a service; its next replica starts there at once."""

    service: str
    node: str
    shape: Shape
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeGrant:
    """Take back a grant that no replica has taken."""

    service: str
    grant: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """Keep a node out of placement until `until` (seconds); what runs there goes on."""

    node: str
    until: float
    owner: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Let a node whose quarantine is over take new work again."""

    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebook:
    """Give a booking that lost a node these nodes in place of those it had; `breach` says what it still lacks."""

    booking: str
    nodes: tuple[str, ...]
    breach: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Ask committed work to leave at its next checkpoint boundary, with no deadline, no kill; it is requeued (D6)."""

    workload: str
    beneficiary: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Relabel:
    """Let a node that crosses have its other class from now on; its GPUs count for that class's nominal (B4, B5)."""

    node: str
    node_class: NodeClass
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitSlice:
    """Give a queued job its slice of one card of a node."""

    workload: str
    node: str
    card: int
    slice: Slice
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveSlice:
    """Hold a slice of one card, and one replica's CPUs and memory, for a service."""

    service: str
    node: str
    card: int
    slice: Slice
    shape: Shape
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Repartition:
    """Take a card that nothing is on out of use, and give it another layout; an empty one makes it whole again."""

    node: str
    card: int
    layout: Layout
    why: str


OnNodes = (
    Admit
    | Drain
    | Expire
    | Kill
    | Lose
    | GiveGrant
    | TakeGrant
    | Quarantine
    | Release
    | Move
    | Relabel
    | Rebook
    | Shrink
    | Grow
)
OnCards = AdmitSlice | GiveSlice | Repartition
Action = OnNodes | OnCards


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Free room on a node that is kept for `beneficiary` until the rest of what it needs is free too."""

    node: str
    beneficiary: str
    shape: Shape


class Reason(StrEnum):
    """The first thing that would have to change for a workload to start; one member a rule."""

    TOO_LARGE_FOR_FLEET = "too-large-for-fleet"
    TOO_LARGE_FOR_QUOTA = "too-large-for-quota"
    QUOTA_USED = "quota-used"
    NO_ROOM = "no-room"
    RESERVED = "reserved"
    BEHIND = "behind"
    ITS_TURN = "its-turn"
    DRAIN_UNDER_WAY = "drain-under-way"
    BOOKED = "booked"
    DRAINS_LIMITED = "drains-limited"
    REPARTITION_UNDER_WAY = "repartition-under-way"
    CONTRACT_BROKEN = "contract-broken"
    UNKNOWN_TEAM = "unknown-team"
    PULLING = "pulling"
    APART = "apart"


HOPELESS = {Reason.UNKNOWN_TEAM, Reason.TOO_LARGE_FOR_FLEET, Reason.TOO_LARGE_FOR_QUOTA, Reason.CONTRACT_BROKEN}
"""What no wait ends: it is in nobody's way (O3)."""

ROOM_COMES = {Reason.DRAIN_UNDER_WAY, Reason.ITS_TURN}
"""Whose wait is for this has its room kept, or will have it once those have left who leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRoom:
    """What one domain has for a workload: nodes that fit now, that a drain would add, that it has at all.

    `drainable` names who could be asked to leave there, on the nodes that do not fit; `quarantined` are nodes that
    would do if they were not kept out, `spares` if they were not kept for gangs that were torn down.
    """

    domain: str
    free_nodes: int
    draining_nodes: int
    drainable_nodes: int
    total_nodes: int
    drainable: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    spares: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Why a workload, or a replica of a service, does not start now.

    `asked` and `available` are in GPUs for quota reasons, in nodes that fit a bundle for room reasons, and for RESERVED
    in what the one ahead waits for; for a slice in the unit of its flavor's quota, and in cards; for PULLING in pulls,
    and `level` is their source or node; for quota `level` is the flavor of whole GPUs whose cap is used up (V9).
    `blocked_by` names who is ahead, who has to leave, which bookings are in the
    way, or for QUOTA_USED which of its own team's bookings will bring enough. `group` names the group that room is
    short for, of those that have room beside one another first (P7).
    `planned_at` is when it starts at the latest, in seconds since the epoch, None when that is not known;
    `planned_after` names the last who has to end for that.
    """

    workload: str
    reason: Reason
    asked: int
    available: int
    level: str | None = None
    rooms: tuple[DomainRoom, ...] = ()
    blocked_by: tuple[str, ...] = ()
    group: str = ""
    planned_at: float | None = None
    planned_after: str = ""

    def of(self, name: str) -> Wait:
        """Return the wait of another that asked for the same: a planned start is not its own."""
        return Wait(
            workload=name,
            reason=self.reason,
            asked=self.asked,
            available=self.available,
            level=self.level,
            blocked_by=self.blocked_by,
            group=self.group,
        )


class Alike(NamedTuple):
    """Those that asked for the same as `workload` after it, in order: one answer for all."""

    workload: str
    names: tuple[str, ...]


Part = Action | Wait | Alike
"""What a step yields, one at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The outcome of one decision, in the order in which it is to be carried out.

    `answers` are waits, one for all that are `alike`.
    """

    actions: tuple[Action, ...] = ()
    holds: tuple[Hold, ...] = ()
    answers: tuple[Wait, ...] = ()
    alike: tuple[Alike, ...] = ()

    @property
    def waits(self) -> tuple[Wait, ...]:
        """Return the wait of everybody that waits, by name."""
        firsts = {one.workload: one for one in self.answers}
        others = [firsts[sort.workload].of(name) for sort in self.alike for name in sort.names]
        return tuple(sorted((*self.answers, *others), key=lambda one: one.workload))

    def wait_of(self, name: str) -> Wait | None:
        """Return why one workload or service waits; None when it does not."""
        first = next((sort.workload for sort in self.alike if name in sort.names), name)
        wait = next((one for one in self.answers if one.workload == first), None)
        return wait if wait is None or first == name else wait.of(name)
