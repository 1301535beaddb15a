"""Demand over time: GPUs that a service's traffic needs, from a day's shape or from a trace, as requests a second.

Pure: a trace's rows are given. Luck is drawn by name, so a run is the same each time.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from fleet_app.twin.chance import Chance
from fleet_app.twin.scenarios.schema import Day, Demand, Spikes

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
WORKDAYS = 5

Points = list[tuple[float, float]]
"""GPUs from a moment on, in seconds since the beginning."""


def day(shape: Day, chance: Chance, name: str, lasts_s: float) -> Points:
    """Return the GPUs that are needed at each step of a day's shape that is repeated."""
    found: Points = []
    for step in range(math.ceil(lasts_s / shape.every)):
        at = step * shape.every
        luck = math.exp(chance.of("noise", name, step).gauss(0.0, shape.noise)) if shape.noise else 1.0
        week = 1.0 if at % WEEK_S < WORKDAYS * DAY_S else shape.weekend
        found.append((at, min(float(shape.peak), level(shape, at % DAY_S) * luck * week)))
    return found


def level(shape: Day, second: float) -> float:
    """Return the GPUs that are needed at a second of the day; a ramp ends where a window begins, and begins at its end.

    The nearest window counts, over midnight too.
    """
    away = min((_away(second, one.since, one.until) for one in shape.low), default=math.inf)
    if away <= 0.0:
        return float(shape.trough)
    if away >= shape.ramp:
        return float(shape.peak)
    return shape.trough + (shape.peak - shape.trough) * away / shape.ramp


def _away(second: float, since: float, until: float) -> float:
    """Return how far a second of the day is from a window, 0 inside of it; windows lie within one day."""
    if since <= second < until:
        return 0.0
    return min((since - second) % DAY_S, (second - until) % DAY_S)


def repeated(rows: Sequence[tuple[float, float]], peak: float, lasts_s: float) -> Points:
    """Return a trace's rows scaled to a peak, over and over until it has been long enough."""
    if len(rows) < 2:
        return [(0.0, peak)] if rows else []
    highest, first = max(value for _, value in rows), rows[0][0]
    length = rows[-1][0] - first + (rows[1][0] - rows[0][0])
    found: Points = []
    for turn in range(math.ceil(lasts_s / length)):
        found += [(at - first + turn * length, value / highest * peak) for at, value in rows]
    return [(at, gpus) for at, gpus in found if at < lasts_s]


def turned(rows: Sequence[tuple[float, float]], begins_at: float) -> list[tuple[float, float]]:
    """Return a trace's rows from a moment on, what was before it after its end; all of them where it lies outside."""
    if len(rows) < 2:
        return list(rows)
    length = rows[-1][0] - rows[0][0] + (rows[1][0] - rows[0][0])
    place = bisect_left([at for at, _ in rows], begins_at) % len(rows)
    return [*rows[place:], *((at + length, value) for at, value in rows[:place])]


def with_spikes(points: Points, demand: Demand, chance: Chance, lasts_s: float) -> Points:
    """Return demand with spikes on top, at random moments that do not overlap; none is higher than the peak."""
    spikes, peak = demand.spikes, float(demand.gpus_over_time.peak)
    if spikes is None:
        return points
    lasts, parts = spikes.lasts, max(1, round(spikes.rises))
    began = list(_moments(spikes, chance, demand.name, lasts_s))
    edges = {at for one in began for at in (*(one + second for second in range(parts)), one + lasts) if at < lasts_s}
    starts = [at for at, _ in points]

    def gpus(at: float) -> float:
        base = points[max(0, bisect_right(starts, at) - 1)][1]
        risen = next((min(parts, int(at - one + 1e-6) + 1) for one in began if one <= at < one + lasts), 0)
        return min(peak, base + spikes.gpus * risen / parts) if risen else base

    return [(at, gpus(at)) for at in sorted({*starts, *edges})]


def _moments(spikes: Spikes, chance: Chance, name: str, lasts_s: float) -> Iterator[float]:
    at, count = 0.0, 0
    while spikes.a_week > 0.0:
        at += spikes.lasts * (count > 0) + chance.until(WEEK_S / spikes.a_week, "spike", name, count)
        count += 1
        if at >= lasts_s:
            return
        yield at


def rates(demand: Demand, points: Points) -> tuple[tuple[float, float], ...]:
    """Return the requests a second for which a service needs just so many GPUs."""
    each = demand.requests_per_s * demand.busy / demand.gpus
    return tuple((at, gpus * each) for at, gpus in points)
