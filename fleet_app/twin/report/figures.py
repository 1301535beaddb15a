"""What a run comes to, in numbers. Values only.

GPU-hours end in `_gpu_h`, money in `_money` and is in the policy's own, durations end in `_s`. Of a month of a fleet
these are some thousand numbers, however many records it told.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How long something took, of so many: half, nine of ten, 99 of 100 took no longer, and the longest."""

    count: int
    p50_s: float
    p90_s: float
    p99_s: float
    longest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What held GPU-hours were used for (`effort` has the formulas).

    Of those `measured`, GPUs computed in `used`. For those `counted`, useful FLOPs are known: 10^18 of them, what they
    are of the peak, and what 10^18 cost. None where it is not known.
    """

    measured_gpu_h: float
    used_gpu_h: float
    counted_gpu_h: float
    useful_exaflop: float
    mfu: float | None
    money_per_exaflop: float | None

    @property
    def known(self) -> bool:
        """Return whether anything is."""
        return self.measured_gpu_h > 0.0 or self.counted_gpu_h > 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """How good forecasts of growth within a start-up were, and whether what was kept free was enough, of so many looks.

    `pinball_gpus` is the mean loss of the forecasts for their `quantile`, `covered_share` how often what was kept free
    was enough; None without any. `kept`, `grew` and `short` are means, in GPUs.
    """

    looks: int
    forecasts: int
    quantile: float | None
    pinball_gpus: float | None
    covered_share: float | None
    kept_gpus: float
    grew_gpus: float
    short_gpus: float
    most_short_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassUse:
    """The GPU-hours of one class of nodes; all but `lent`, `reclaimed` and `stranded` add up to `total`.

    `reclaimed` is what those lacked who gave its GPUs back when they were asked to: until they had GPUs again, or to
    the end of the run.
    """

    node_class: str
    total_gpu_h: float
    allocated_gpu_h: float
    draining_gpu_h: float
    held_gpu_h: float
    idle_gpu_h: float
    down_gpu_h: float
    lent_gpu_h: float
    reclaimed_gpu_h: float
    stranded_share: float
    """Of all of its GPUs, those that lay idle beside others in use: they form no whole node (F1)."""
    effort: Effort


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamUse:
    """One team: `own`, `lent` and `unused` add up to its nominal, and what it borrowed stands apart.

    `useful` is what its gangs and jobs computed and did not lose. `reclaimed_gpus` counts GPUs that others were asked
    to give back for it, `reclaimed_gpu_h` is what those lacked until they had GPUs again, `asked` how often its own
    workloads were asked to leave, `breaks` how often one did not in time. `waited` is how long its workloads waited
    each time, `still_waiting` how many wait at the end.
    """

    team: str
    nominal_gpu_h: float
    own_gpu_h: float
    lent_gpu_h: float
    unused_gpu_h: float
    borrowed_gpu_h: float
    useful_gpu_h: float
    lost_gpu_h: float
    reclaimed_gpus: int
    reclaimed_gpu_h: float
    asked: int
    breaks: int
    own_money: float
    borrowed_money: float
    waited: Spread
    still_waiting: int
    effort: Effort


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long workloads of one size waited each time, until they were admitted; those that still wait are counted."""

    size: str
    waited: Spread
    still_waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """What it cost that attempts were cut short for one cause, in GPU-hours.

    `lost` was computed and has to be computed again, `leaving` passed between the notice and the end, `restarting`
    between having nodes again and being at work.
    """

    cause: str
    count: int
    lost_gpu_h: float
    leaving_gpu_h: float
    restarting_gpu_h: float

    @property
    def cost_gpu_h(self) -> float:
        """Return all of it."""
        return self.lost_gpu_h + self.leaving_gpu_h + self.restarting_gpu_h


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUse:
    """One service: what its requests met, and how long its replicas had to be waited for.

    `short_gpu_min` is GPUs that were wanted and had no place, over time, `overdue_gpu_min` what of it was later than
    the drain contract allows.
    """

    service: str
    team: str
    mean_gpus: float
    peak_gpus: int
    requests: float
    late: float
    short_gpu_min: float
    overdue_gpu_min: float
    ready: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The fleet in one span: mean GPUs by what they did, what waited, and the share that was stranded at its end."""

    at: float
    serving_gpus: float
    training_gpus: float
    lent_gpus: float
    draining_gpus: float
    held_gpus: float
    idle_gpus: float
    down_gpus: float
    headroom_gpus: float
    """Of serving's nodes, those that a replica could have at once: idle, or kept for one."""
    waiting: int
    waiting_gpus: int
    stranded_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One attempt of a workload: from when until when it had how many GPUs, and how that ended."""

    workload: str
    team: str
    kind: str
    began_at: float
    ended_at: float
    gpus: int
    ended: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """What serving's nodes are worth by what became of them; the parts add up to `total`.

    `lent` is what was lent and came to something, `tax` what of the lent GPUs went into leaving, coming back and work
    done twice. `idle_unlent` is what would have been idle if nothing had been lent.
    """

    price_per_gpu_hour: float
    total: float
    serving: float
    lent: float
    tax: float
    held: float
    idle: float
    down: float

    @property
    def idle_unlent(self) -> float:
        """Return what would have been idle if nothing were lent."""
        return self.lent + self.tax + self.held + self.idle


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All of a run."""

    name: str
    lasted_s: float
    gpus: int
    classes: tuple[ClassUse, ...]
    teams: tuple[TeamUse, ...]
    services: tuple[ServiceUse, ...]
    waits: tuple[Waits, ...]
    interrupted: tuple[Interrupted, ...]
    given_back: Spread
    """From a notice to the moment at which the GPUs are free."""
    given_back_curve: tuple[float, ...]
    """Of the same, the seconds within which 1 %, 2 % ... 100 % were; empty without any."""
    ready_after_drain: Spread
    """From the moment at which a replica is wanted until it answers, where somebody had to leave for it."""
    ended: int
    failed: int
    effort: Effort
    foresight: Foresight
    tax_share: float
    """Of all lent GPU-hours, those that preemption cost."""
    money: Money
    moments: tuple[Moment, ...]
    bars: tuple[Bar, ...]
    notes: tuple[str, ...]
    """What happened to nodes and bookings, in words."""
