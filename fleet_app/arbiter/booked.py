"""What the journal keeps of one booking: the engine's value, who asked and approved, what it was said to cost and did.

Values only. The engine's `Booking` inside is the part that `decide` sees, once it binds. Does not know SQLite, nor
whether a booking can be honoured.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fleet_app.engine.calendar import Booking, BookingAsk, Offer


class Stage(StrEnum):
    """Where a booking stands. A proposal waits for somebody other than the asker to approve it, and binds nobody."""

    PROPOSED = "proposed"
    BOOKED = "booked"
    IN_FORCE = "in-force"
    ENDED = "ended"
    CANCELLED = "cancelled"
    LAPSED = "lapsed"


BINDING = frozenset({Stage.BOOKED, Stage.IN_FORCE})
OPEN = BINDING | {Stage.PROPOSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """A workload that had to leave for a booking; moments are seconds since the epoch.

    `attempt` is the one that left, whose work was safe up to `saved_at` when it was asked to. `left_at` is when its
    GPUs were free, `back_at` when it had some again, or had ended. `lost_gpu_s` is what it has to do again.
    """

    workload: str
    team: str
    gpus: int
    attempt: int
    saved_at: float
    left_at: float | None = None
    back_at: float | None = None
    lost_gpu_s: float = 0.0

    def taken_gpu_s(self, until: float) -> float:
        """Return what the booking took from it by `until`: GPU-seconds without GPUs, and those to be done again."""
        if self.left_at is None:
            return 0.0
        return self.lost_gpu_s + self.gpus * max(0.0, min(until, self.back_at or until) - self.left_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingRecord:
    """One booking in the journal, or a proposal of one.

    `ask` is what was asked, so that the offer can be made anew; `said` is the offer when it was last made. `change` is
    an extension that waits for an approver. `away` are those who had to leave for it. `cost` is what its nodes did
    cost, in the policy's money, once it has ended. `cleared` is whether nothing that began in it is on its nodes any
    more.
    """

    booking: Booking
    ask: BookingAsk
    said: Offer
    stage: Stage
    change: BookingAsk | None = None
    away: tuple[Away, ...] = ()
    ended_at: float | None = None
    cost: float | None = None
    cleared: bool = False

    @property
    def name(self) -> str:
        """Return the booking's name."""
        return self.booking.name

    def did_cost(self, price_per_gpu_hour: float, until: float) -> float:
        """Return what its nodes have cost by `until`, in the policy's money: a maintenance window costs nothing."""
        booking = self.booking
        if booking.team is None or self.stage is Stage.PROPOSED:
            return 0.0
        lasted_s = max(0.0, min(until, booking.end_at) - booking.start_at)
        return price_per_gpu_hour * len(booking.nodes) * booking.shape.gpus * lasted_s / 3600

    def displaced_gpu_s(self, until: float) -> float:
        """Return what it has taken from those who had to leave for it by `until`, in GPU-seconds."""
        return sum(away.taken_gpu_s(until) for away in self.away)

    @property
    def said_displaced_gpu_s(self) -> float:
        """Return what it was said to take from them: lent capacity that goes, and work to be done again."""
        return self.said.lent_gpu_s + sum(each.lost_gpu_s for each in self.said.displaced)
