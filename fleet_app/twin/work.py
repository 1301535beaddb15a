"""What a run is made of: jobs and how they behave, traffic, faults, bookings, and the fleet that meets them.

Values only. Does not know where they come from (`readers`, scenario files) nor what becomes of them (`run`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fleet_app.engine.calendar import BookingAsk
from fleet_app.engine.policy import Policy
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Service, Workload
from fleet_app.twin.chance import Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """How one attempt of a job really behaved, in seconds, None where that is not known: see `Job`."""

    attempt: int
    start_s: float | None = None
    leaves_s: float | None = None
    saves_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A workload as it is submitted, and how it behaves once it runs.

    `run_s` is its work, in seconds with all of its bundles; an elastic one with half of them takes twice as long.
    `start_s` passes from its admission until its ranks run, beside what has to be pulled, and `resume_s` more where it
    ran before. It saves its work every
    `save_every_s` seconds, only when it is asked to leave where that is None, and takes `leaves` to save and exit
    after a notice, working on until it has saved `saves_s` after it, or until it exits where that is None. It saves
    whole steps of `step_s` seconds; what there is of another is lost with the attempt. With 0 it saves all. One that
    `clings` ignores notices and is killed. `fails` is whether it ends in failure by itself. What is `known` of an
    attempt counts before the rest. While it runs, its GPUs compute for `sm_active` of the time and do `tflops` 10^12
    useful FLOPs a second each, None where nobody measures or says so.
    """

    workload: Workload
    run_s: float
    start_s: float = 0.0
    resume_s: float = 0.0
    save_every_s: float | None = None
    leaves: Spread = field(default_factory=Spread)
    saves_s: float | None = None
    step_s: float = 0.0
    clings: bool = False
    fails: bool = False
    known: tuple[Known, ...] = ()
    sm_active: float | None = None
    tflops: float | None = None

    def of(self, attempt: int) -> Known:
        """Return what is known of an attempt."""
        return next((one for one in self.known if one.attempt == attempt), Known(attempt=attempt))


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The requests of one service over time, and the replicas that they need.

    From each moment in `rates` on, the first of which may lie before the run, so many requests come a second. A replica
    answers `slots` at once, each in 1 / `slot_rate` seconds on average. As many replicas are wanted as keep `busy` of
    all slots busy; fewer only once that was enough for `keeps_s` seconds. A replica answers `start_s` after it has its
    GPUs, beside what has to be pulled, and one that is to end has them for `stops_s` more. A request is late when it
    waited more than `objective_s` for a slot. Where that is None, requests are not known, and none is counted. GPUs of
    replicas compute for `sm_active` of the time, a request takes `tflop_a_request` 10^12 useful FLOPs; None where
    nobody measures or says so.
    """

    service: Service
    rates: tuple[tuple[float, float], ...]
    slot_rate: float
    slots: int = 1
    busy: float = 0.7
    keeps_s: float = 300.0
    start_s: Spread = field(default_factory=Spread)
    stops_s: float = 0.0
    objective_s: float | None = 0.8
    sm_active: float | None = None
    tflop_a_request: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often things break, None for never: a node, in seconds on average, and a rank, in GPU-seconds on average.

    A node that broke is back after `repair`.
    """

    node_mean_s: float | None = None
    repair: Spread = field(default_factory=lambda: Spread(median_s=14_400.0))
    rank_mean_gpu_s: float | None = None

    @property
    def any(self) -> bool:
        """Return whether anything breaks at all."""
        return self.node_mean_s is not None or self.rank_mean_gpu_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Somebody asks for a booking at a moment; what is offered is taken."""

    at: float
    ask: BookingAsk


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that a run depends on: equal scenarios tell equal records.

    `jobs` come first submitted first, and can be gone through again. It begins at `begins_at` and ends at `ends_at`,
    or where that is None once all work has ended. `dies_s` is how long processes take to be gone after a kill.
    A record of who had how much is told every `span_s` seconds; forecasts rest on a sample of demand every `sample_s`.
    With `commits_at` each team commits, at that priority, what waits first in it and fits inside its nominal.
    """

    policy: Policy
    nodes: tuple[Node, ...]
    jobs: Iterable[Job] = ()
    traffic: tuple[Traffic, ...] = ()
    bookings: tuple[Asked, ...] = ()
    faults: Faults = field(default_factory=Faults)
    begins_at: float = 0.0
    ends_at: float | None = None
    seed: int = 0
    dies_s: float = 0.25
    span_s: float = 3600.0
    sample_s: float = 600.0
    commits_at: int | None = None
