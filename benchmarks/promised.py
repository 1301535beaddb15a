"""`stranded` and `tax`: what the twin comes to on the shipped scenarios, beside what the design promises of it.

No speed: a share that is worked out, the same on every machine.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.result import Result, Samples, result
from fleet_app.twin.report.figures import Figures
from fleet_app.twin.scenarios.load import load
from fleet_app.twin.simulate import simulate

SCENARIOS = Path(__file__).parents[1] / "clusters" / "scenarios"
DAY_S = 86_400.0
DAYS, MONTH_DAYS = 2, 30


def stranded() -> Result:
    """Return how much of a class's GPUs lay idle beside others in use (F1), for the class where it was more."""
    shares = {one.node_class: 100.0 * one.stranded_share for one in _figures("shared", DAYS).classes}
    each = ", ".join(f"{name} {share:.2f} %" for name, share in shares.items())
    what = f"stranded GPUs, {DAYS} days of clusters/scenarios/shared.yaml (Azure, ITP, Philly): {each}"
    return result("stranded", what, "%", Samples(ours=[max(shares.values())]))


def tax() -> Result:
    """Return how much of the lent GPU-hours went into preemption."""
    found = _figures("seed", MONTH_DAYS)
    what = f"preemption's share of lent GPU-hours, {MONTH_DAYS} days of clusters/scenarios/seed.yaml"
    return result("tax", what, "%", Samples(ours=[100.0 * found.tax_share]))


def _figures(scenario: str, days: int) -> Figures:
    return simulate(load(SCENARIOS / f"{scenario}.yaml", until=days * DAY_S)).figures


BENCHMARKS = {"stranded": stranded, "tax": tax}
