"""How many GPUs the immediate tier holds: a fixed number, or the growth that is forecast for a start-up (rule S7).

Knows the policy's headroom and one number of a forecast. Does not know services, nodes or quota.
"""

from __future__ import annotations

import math

from fleet_app.engine.forecast import EXACT, Advice, Bounds, History, advice, growth_within, knows_growth
from fleet_app.engine.policy import Headroom


def growth_gpus(headroom: Headroom, history: History, now: float) -> int | None:
    """Return how many GPUs more may be wanted within a start-up; None when nobody asks, or too little is known."""
    q, startup_s = headroom.quantile, headroom.startup_s
    if q is None or not knows_growth(history, now, startup_s, q):
        return None
    return math.ceil(growth_within(history, now, startup_s, q) - EXACT)


def immediate_gpus(headroom: Headroom, growth: int | None) -> int:
    """Return how many GPUs to hold free, given the growth that is forecast; None when it is not known."""
    found = advised(headroom, growth)
    return headroom.immediate_gpus if found is None else found.gpus


def advised(headroom: Headroom, growth: int | None) -> Advice | None:
    """Return what the forecast says to hold, with its sentence; None where the fixed number holds."""
    if headroom.quantile is None or growth is None:
        return None
    bounds = Bounds(
        quantile=headroom.quantile,
        startup_s=headroom.startup_s,
        minimum_gpus=headroom.minimum_gpus,
        maximum_gpus=headroom.maximum_gpus,
    )
    return advice(growth, bounds)


def sentence(headroom: Headroom, growth: int | None) -> str:
    """Return why so many GPUs are held free; nothing where the policy asks for no forecast."""
    found = advised(headroom, growth)
    if found is not None:
        return found.sentence
    if headroom.quantile is None:
        return ""
    return f"holding {headroom.immediate_gpus} GPUs free: too little is known of demand for a forecast"
