"""From a loaded scenario to what it comes to: one run, counted as it goes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fleet_app.engine.values import NodeClass
from fleet_app.twin.report.closed import Assumed, Closed, closed
from fleet_app.twin.report.counts import HOUR_S
from fleet_app.twin.report.figures import Figures
from fleet_app.twin.report.tally import About, Tally
from fleet_app.twin.run import Progress, run
from fleet_app.twin.scenarios.load import Loaded

NO_PRICE = "the policy has no price: money is counted in GPU-hours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What a scenario comes to, beside the estimate that its file asks for; how much happened and was decided."""

    figures: Figures
    estimate: Closed | None
    events: int
    decisions: int


def simulate(loaded: Loaded, progress: Progress | None = None) -> Simulated:
    """Run a scenario from its beginning to its end."""
    tally = Tally(about(loaded))
    ran = run(loaded.scenario, tally.tell, progress)
    figures = tally.figures()
    unpriced = () if loaded.policy.accounting.price_per_gpu_hour else (NO_PRICE,)
    figures = replace(figures, notes=(*loaded.read, *figures.notes, *unpriced))
    return Simulated(figures=figures, estimate=estimate(loaded), events=ran.events, decisions=ran.decisions)


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
        serving=frozenset(node.name for node in scenario.nodes if node.node_class is NodeClass.SERVING),
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
