"""All that a tally has counted so far, as one value: what is written when a run is stopped, to go on from."""

from __future__ import annotations

from dataclasses import dataclass

from fleet_app.engine.values import NodeClass
from fleet_app.twin.record import Cause, ClassSpan, Outcome
from fleet_app.twin.report.counts import Attempt, ClassCount, Cut, ServiceCount, TeamCount
from fleet_app.twin.report.effort import EffortCount
from fleet_app.twin.report.figures import Bar, Moment
from fleet_app.twin.report.foresight import ForesightCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a tally keeps, by the names that it has there."""

    here: dict[str, Attempt]
    teams: dict[str, TeamCount]
    classes: dict[NodeClass, ClassCount]
    services: dict[str, ServiceCount]
    waits: dict[int, list[float]]
    still: dict[int, int]
    cuts: dict[Cause, Cut]
    tax_gpu_s: float
    given_back: list[float]
    after_drain: list[float]
    outcomes: dict[Outcome, int]
    spans: list[ClassSpan]
    moments: list[Moment]
    bars: dict[str, list[Bar]]
    happened: dict[str, int]
    effort: EffortCount
    foresight: ForesightCount
