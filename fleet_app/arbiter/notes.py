"""What happened, for people and for proofs: the entries of the journal's event list.

Knows kinds and moments. Nothing is ever decided from them: what the arbiter does follows from records and Ray.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class What(StrEnum):
    """What sort of thing happened; the subject is a workload, a service, a node, a booking or the arbiter."""

    SUBMITTED = "submitted"
    REFUSED = "refused"
    ADMITTED = "admitted"
    WITHDRAWN = "withdrawn"
    PLACED = "placed"
    LAUNCHED = "launched"
    STARTED = "started"
    DRAINING = "draining"
    MOVING = "moving"
    SHRINKING = "shrinking"
    SHRUNK = "shrunk"
    GROWING = "growing"
    GROWN = "grown"
    NOTIFIED = "notified"
    ACKNOWLEDGED = "acknowledged"
    KILLED = "killed"
    LOST = "lost"
    REQUEUED = "requeued"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    FORGOTTEN = "forgotten"
    DEMANDED = "demanded"
    GRANTED = "granted"
    GRANT_READY = "grant-ready"
    GRANT_OCCUPIED = "grant-occupied"
    GRANT_IDLE = "grant-idle"
    GRANT_TAKEN = "grant-taken"
    GRANT_GONE = "grant-gone"
    NODE = "node"
    QUARANTINED = "quarantined"
    RELEASED = "released"
    PROPOSED = "proposed"
    BOOKED = "booked"
    EXTENDED = "extended"
    REBOOKED = "rebooked"
    BOOKING_STARTED = "booking-started"
    BOOKING_ENDED = "booking-ended"
    UNBOOKED = "unbooked"
    LAPSED = "lapsed"
    CROSSING = "crossing"
    CROSSING_CALLED_OFF = "crossing-called-off"
    RELABELLED = "relabelled"
    REPARTITIONING = "repartitioning"
    REPARTITIONED = "repartitioned"
    NOT_REPARTITIONED = "not-repartitioned"
    REPOOLED = "repooled"
    POLICY = "policy"
    PAUSED = "paused"
    RESUMED = "resumed"
    ARBITER = "arbiter"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that happened `at` (seconds since the epoch) to `subject`; `detail` holds JSON values only."""

    at: float
    kind: What
    subject: str
    detail: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A note in the journal; `seq` grows with time and is never used twice."""

    seq: int
    note: Note
