"""Bookings: nodes that are somebody's, or nobody's, from one moment to another; and what is asked for and offered.

Values only. Knows names, counts and moments (seconds since the epoch). Does not know the fleet, nor whether a booking
can be honoured.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet_app.engine.values import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Nominal that `lender` gives to a booking's team while the booking lasts, in GPUs, and who approved it."""

    lender: str
    gpus: int
    approved_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """`shape` on each of `nodes` from `start_at` to `end_at`: for `team`, or for nobody, which is a maintenance window.

    `within` names the topology level whose domains hold it, of which it may lie in `most_domains`. `breach` says why it
    is not whole any more, empty while it is. `price` is what it was said to cost when it was approved, in the policy's
    money.
    """

    name: str
    team: str | None
    shape: Shape
    nodes: tuple[str, ...]
    start_at: float
    end_at: float
    within: str | None = None
    most_domains: int = 1
    accelerator: str | None = None
    transfers: tuple[Transfer, ...] = ()
    asked_by: str = ""
    approved_by: str = ""
    made_at: float = 0.0
    price: float = 0.0
    breach: str = ""

    def at(self, now: float) -> bool:
        """Return whether the booking is in force at `now`."""
        return self.start_at <= now < self.end_at

    def over(self, now: float) -> bool:
        """Return whether the booking has ended by `now`."""
        return now >= self.end_at


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingAsk:
    """What somebody wants to book: `count` nodes with `shape` on each, or exactly `nodes` where they are named.

    `replaces` names the booking that it is to take the place of: an extension, or a change.
    """

    name: str
    team: str | None
    shape: Shape
    count: int
    start_at: float
    end_at: float
    nodes: tuple[str, ...] = ()
    within: str | None = None
    most_domains: int = 1
    accelerator: str | None = None
    transfers: tuple[Transfer, ...] = ()
    asked_by: str = ""
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Displaced:
    """One workload that a booking displaces: `how` (ends, drained, moved), its GPUs, and what that loses.

    `again_at` is when it would run again at the latest, in seconds since the epoch; None when that is not known.
    """

    workload: str
    team: str
    how: str
    gpus: int
    lost_gpu_s: float
    again_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A booking that can be honoured, and what it costs: nothing is booked until somebody takes it.

    `own` names the team's own committed work that is on the nodes and stays there. `lent_gpu_s` are GPU-seconds of lent
    capacity that go; `serving_left_gpus` is what serving has while it lasts; `off_peak` are the moments (from, to) to
    which displaced batch work can go; `price` is in the policy's money; `approver` is whether somebody other than the
    asker has to approve it.
    """

    booking: Booking
    displaced: tuple[Displaced, ...] = ()
    own: tuple[str, ...] = ()
    lent_gpu_s: float = 0.0
    serving_left_gpus: int = 0
    off_peak: tuple[tuple[float, float], ...] = ()
    price: float = 0.0
    approver: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """Why a booking cannot be honoured: the first obstacle, in numbers, and what would remove it."""

    booking: str
    why: str
    asked: int = 0
    available: int = 0
    blocked_by: tuple[str, ...] = ()
    possible_at: float | None = None
