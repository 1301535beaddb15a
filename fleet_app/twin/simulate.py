"""From a loaded scenario to what it comes to: one run, counted as it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from fleet_app.twin.report.closed import Assumed, Closed, closed
from fleet_app.twin.report.effort import HOUR_S
from fleet_app.twin.report.figures import Figures
from fleet_app.twin.report.tally import About, Tally
from fleet_app.twin.run import Progress, Run
from fleet_app.twin.saved import begun, continued, forget, save
from fleet_app.twin.scenarios.load import Loaded

NO_PRICE = "the policy has no price: money is counted in GPU-hours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What a scenario comes to, beside the estimate that its file asks for; how much happened and was decided."""

    figures: Figures
    estimate: Closed | None
    events: int
    decisions: int


class Due(Enum):
    """What whoever keeps a run in a file wants done about that now."""

    NOTHING = 0
    WRITE = 1
    STOP = 2


class StoppedError(Exception):
    """A run was stopped, and is in its file as it stood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """The file that a run is kept in, and what is to be done about it now, asked often."""

    path: Path
    due: Callable[[], Due]


def simulate(loaded: Loaded, progress: Progress | None = None, keeping: Keeping | None = None) -> Simulated:
    """Run a scenario to its end, from its beginning or from where its file stands; the file is gone in the end.

    One that goes on decides once more than one that was never stopped, and comes to the same.

    Raises StoppedError once it was stopped, RequestError when the file is of another scenario.
    """
    tally = Tally(about(loaded))
    one = _begun(loaded, tally, keeping)
    one.go(progress=_kept(one, tally, progress, keeping))
    one.finish()
    if keeping is not None:
        forget(keeping.path)
    figures = tally.figures()
    unpriced = () if loaded.policy.accounting.price_per_gpu_hour else (NO_PRICE,)
    figures = replace(figures, notes=(*loaded.read, *figures.notes, *unpriced))
    return Simulated(figures=figures, estimate=estimate(loaded), events=one.events, decisions=one.decisions)


def _begun(loaded: Loaded, tally: Tally, keeping: Keeping | None) -> Run:
    before = None if keeping is None else begun(keeping.path)
    if before is None:
        one = Run(loaded.scenario, tally.tell)
        one.begin()
        return one
    if before.told is not None:
        tally.go_on(before.told)
    return continued(before.run, loaded.scenario, tally.tell)


def _kept(one: Run, tally: Tally, progress: Progress | None, keeping: Keeping | None) -> Progress | None:
    """Return what is told of a run's progress, with the file written when that is due; between two of its moments."""
    if keeping is None:
        return progress

    def told(now: float, events: int) -> None:
        if progress is not None:
            progress(now, events)
        due = keeping.due()
        if due is not Due.NOTHING:
            save(one, keeping.path, tally.so_far)
        if due is Due.STOP:
            raise StoppedError

    return told


def about(loaded: Loaded) -> About:
    """Return what a run's records do not say."""
    scenario = loaded.scenario
    return About(
        name=loaded.name,
        began_at=scenario.begins_at,
        lasted_s=loaded.lasts_s,
        gpus=sum(node.capacity.gpus for node in scenario.nodes),
        price_per_gpu_hour=_price(loaded),
        team_of_service={one.service.name: one.service.team for one in scenario.traffic},
        class_of_node={node.name: node.node_class for node in scenario.nodes},
        effort_of_service={
            one.service.name: (one.sm_active, one.tflop_a_request)
            for one in scenario.traffic
            if one.sm_active is not None or one.tflop_a_request is not None
        },
        peak_tflops=loaded.peak_tflops,
    )


def estimate(loaded: Loaded) -> Closed | None:
    """Return what lending brings by arithmetic, over the time of the run, where the file says what that rests on."""
    given = loaded.estimate
    if given is None:
        return None
    assumed = Assumed(
        guaranteed_gpus=given.guaranteed,
        mean_gpus=given.mean,
        trough_gpus=given.trough,
        low_h_a_day=given.low_a_day / HOUR_S,
        preemptions_a_day=given.preemptions_a_day,
        loses_s=given.loses,
        price_per_gpu_hour=_price(loaded),
    )
    return closed(assumed, loaded.lasts_s / HOUR_S)


def _price(loaded: Loaded) -> float:
    return loaded.policy.accounting.price_per_gpu_hour or 1.0
