"""A scenario as people write it: the fleet, its policy, who asks for what, what breaks, for how long.

Knows the shape of the file and what a value may be. Does not know the engine, and reads no file.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fleet_app.policy.section import Section
from fleet_app.policy.units import (
    Gpus,
    LevelName,
    Mebibytes,
    MilliCpus,
    Name,
    PositiveGpus,
    PositiveSeconds,
    Seconds,
)
from fleet_app.twin.scenarios.sources import Azure, History

Count = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
Positive = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Rate = Annotated[float, Field(gt=0.0, le=1_000_000.0)]
Sigma = Annotated[float, Field(ge=0.0, le=3.0)]


class Machine(Section):
    """What every node has; `peak_tflops` is what one of its GPUs can compute at most, in 10^12 FLOPs a second."""

    gpus: PositiveGpus = 8
    cpus: MilliCpus = 192_000
    memory: Mebibytes = 2 * 1024 * 1024
    accelerator: str = "H100"
    peak_tflops: Rate | None = None


class Machines(Section):
    """The nodes: how many of each class, and how many of them are in one domain of each topology level.

    `per_domain` counts the nodes of one domain, outermost level first. Serving's nodes come first.
    """

    serving: Count
    training: Count
    per_domain: tuple[Positive, ...] = ()
    machine: Machine = Machine()


class Lasting(Section):
    """A time that differs from case to case: its median, and the deviation of its logarithm."""

    median: Seconds = 0.0
    sigma: Sigma = 0.0


class Window(Section):
    """Hours of each day in which demand is low, `until` being when it begins to rise."""

    since: Seconds
    until: Seconds


class Day(Section):
    """Demand that is the same every day: low in some windows, at its peak outside of them, with even ramps between.

    `noise` is the deviation of the logarithm of what is laid over it, anew every `every`; `weekend` is how much of it
    there is on the sixth and seventh day of a week.
    """

    source: Literal["day"]
    peak: Gpus
    trough: Gpus
    low: tuple[Window, ...]
    ramp: Seconds = 0.0
    every: PositiveSeconds = 600.0
    noise: Sigma = 0.0
    weekend: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0


class Trace(Section):
    """Demand over time from a file of `time,value` rows, scaled so that its highest is the peak, and repeated."""

    source: Literal["trace"]
    file: str
    peak: Gpus


class Spikes(Section):
    """Sudden demand on top, up to the peak: so many a week, of so many GPUs, that rise within `rises` and last a while.

    Where they rise at once `rises` is 0s; else in equal parts, one a second.
    """

    a_week: Annotated[float, Field(ge=0.0, le=10_000.0)]
    gpus: PositiveGpus
    lasts: PositiveSeconds
    rises: Seconds = 0.0


class Demand(Section):
    """One service: how many GPUs its traffic needs over time, and how its replicas behave.

    A replica answers `requests_per_s` at most; as many are wanted as keep `busy` of that busy. One that is to end has
    its GPUs for `stops` more. Its GPUs compute for `sm_active` of the time, a request takes `tflop_a_request` 10^12
    useful FLOPs, where that is known.
    """

    name: Name
    team: Name
    gpus: PositiveGpus = 1
    priority: Name = "serving-production"
    floor: Count = 0
    gpus_over_time: Annotated[Day | Trace | Azure, Field(discriminator="source")]
    spikes: Spikes | None = None
    requests_per_s: Annotated[float, Field(gt=0.0)] = 4.0
    slots: Positive = 16
    busy: Annotated[float, Field(gt=0.0, le=1.0)] = 0.7
    keeps: Seconds = 300.0
    start: Lasting = Lasting()
    stops: Seconds = 0.0
    objective: PositiveSeconds = 0.8
    sm_active: Share | None = None
    tflop_a_request: Rate | None = None


class Manners(Section):
    """How a job behaves: how long it takes to start, how often it saves, how it leaves; a share of them clings.

    After a notice it works on for `saves`, until it leaves where that is not said; it saves whole steps of `step`.
    While it runs, each of its GPUs computes for `sm_active` of the time, and does `model_tflops` 10^12 FLOPs a second
    of its model's own, where that is known.
    """

    start: Seconds = 0.0
    saves_every: PositiveSeconds | None = None
    saves: Seconds | None = None
    step: Seconds = 0.0
    leaves: Lasting = Lasting()
    clings: Share = 0.0
    movable: bool = False
    sm_active: Share | None = None
    model_tflops: Rate | None = None


class Shape(Section):
    """What one of a stream's workloads asks for: nodes, GPUs on each, and how often such a one comes (`weight`)."""

    nodes: Positive = 1
    gpus: PositiveGpus = 8
    weight: Positive = 1


class Fixed(Section):
    """Workloads that are all there from the beginning, `count` of each shape, for as long as `runs` says."""

    source: Literal["fixed"]
    count: Positive = 1
    runs: PositiveSeconds
    begins: Seconds = 0.0


class Coming(Section):
    """Workloads that come at random moments, `a_day` of them, each for as long as `runs` says."""

    source: Literal["random"]
    a_day: Annotated[float, Field(gt=0.0, le=1_000_000.0)]
    runs: Lasting


class Work(Section):
    """One stream of gangs or backfill jobs; what they ask for is in `shapes`, or in the history that they come from.

    With `max_run` each declares that no attempt has its nodes for longer, and is ended for good then (D5).
    """

    name: Name
    team: Name
    kind: Literal["gang", "backfill"] = "gang"
    priority: Name
    cpus: MilliCpus = 8_000
    memory: Mebibytes = 64 * 1024
    within: LevelName | None = None
    grace: PositiveSeconds = 120.0
    max_run: PositiveSeconds | None = None
    shapes: tuple[Shape, ...] = ()
    arrives: Annotated[Fixed | Coming | History, Field(discriminator="source")]
    manners: Manners = Manners()


class Transfer(Section):
    """Nominal that another team gives to a booking while it lasts, and who approved that (C4)."""

    lender: Name
    gpus: PositiveGpus
    approved_by: Name


class Booking(Section):
    """Nodes that a team books inside one domain, and when it asks for them."""

    name: Name
    team: Name
    nodes: Positive
    asked: Seconds
    since: Seconds
    until: Seconds
    within: LevelName | None = None
    most_domains: Positive = 1
    transfers: tuple[Transfer, ...] = ()


class Breaks(Section):
    """What breaks: a node on average once in so long, and back after `repair`; a GPU's rank once in so long."""

    node_every: PositiveSeconds | None = None
    repair: Lasting = Lasting.model_validate({"median": "4h"})
    rank_every: PositiveSeconds | None = None


class Estimate(Section):
    """What an estimate by arithmetic rests on, to be shown beside the run: GPUs that serving is guaranteed and uses.

    `trough` is what it uses for `low_a_day`; all the rest is lent then, and taken back `preemptions_a_day` times, each
    time at a loss of `loses`.
    """

    guaranteed: Gpus
    mean: Gpus
    trough: Gpus
    low_a_day: PositiveSeconds
    preemptions_a_day: Annotated[float, Field(ge=0.0)]
    loses: Seconds


class ScenarioFile(Section):
    """A whole file. `policy` is a path as seen from the file; `changes` puts other values at dotted paths in it.

    `commits` names the class at which teams commit what waits first in them and fits inside their nominal.
    `malformed` is whether a line of a history that nobody can make sense of is skipped, counted and shown, or refused.
    """

    version: Literal[1]
    name: Name
    about: str = ""
    policy: str
    changes: dict[str, object] = Field(default_factory=dict)
    fleet: Machines
    lasts: PositiveSeconds
    seed: Count = 0
    demand: tuple[Demand, ...] = ()
    work: tuple[Work, ...] = ()
    commits: Name | None = None
    bookings: tuple[Booking, ...] = ()
    breaks: Breaks = Breaks()
    span: PositiveSeconds = 3600.0
    malformed: Literal["skip", "refuse"] = "skip"
    estimate: Estimate | None = None
