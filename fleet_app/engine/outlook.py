"""The most that serving is forecast to want, for as far ahead as the boundary looks (rule B1).

Knows a history of wanted GPUs and how forecasts are made. Does not know nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fleet_app.engine.forecast import DAY_S, EXACT, HOUR_S, History, forecast
from fleet_app.engine.policy import Boundary


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The most that serving is forecast to want, in GPUs; `known` is whether two days of demand are behind it."""

    peak_gpus: int = 0
    known: bool = False


def outlook(history: History | None, now: float, rules: Boundary) -> Outlook:
    """Return the peak of what will be wanted within the horizon, at the policy's quantile (B1).

    From the highest of every hour, so that a peak is not missed between samples; never less than was wanted last.
    """
    if history is None:
        return Outlook()
    hours = _hourly(history.until(now))
    count = max(1, math.ceil(rules.horizon_s / HOUR_S))
    ahead = (forecast(hours, hours.last_at + HOUR_S * hour, (rules.quantile,))[0] for hour in range(1, count + 1))
    peak = max(hours.wanted_gpus[-1], *ahead)
    return Outlook(peak_gpus=math.ceil(peak - EXACT), known=len(hours.wanted_gpus) * HOUR_S >= 2 * DAY_S)


def _hourly(history: History) -> History:
    """Return the highest that was wanted in each hour of the clock."""
    first = math.floor(history.first_at / HOUR_S)
    highest: dict[int, float] = {}
    for number, gpus in enumerate(history.wanted_gpus):
        hour = math.floor(history.at(number) / HOUR_S)
        highest[hour] = max(highest.get(hour, 0.0), gpus)
    last, wanted = 0.0, []
    for hour in range(first, max(highest) + 1):
        last = highest.get(hour, last)
        wanted.append(last)
    return History(first_at=first * HOUR_S, every_s=HOUR_S, wanted_gpus=tuple(wanted))
