"""How much will be wanted, and how much more within a start-up: seasonal forecasts with quantiles (rules F5, F6).

Knows a history of wanted GPUs and quantiles. Does not know services, nodes or quota.

The formula, for the moment t and the quantile q:

    F(t, q) = max(0, base(t) + Q_q(spread))

With a season S of one week, or of one day while the history is shorter than two weeks, base(t) is the mean of what
was wanted within half an hour of the same moment of the latest season that is known (t - S, t - 2 S, ...), and the
spread is how much every sample of the same hour of the day differed from the base that stood one season before it.
A difference weighs half as much as one that is a season younger. A day's differences count with both signs, since
weekdays and weekends lie in them with either; a week's count with their own, since they are the trend. While the
history is shorter than two days, base(t) is the last value, and the spread is by how much what was wanted changed over
as long a time as t is ahead (at most a quarter of an hour, and half of the history), with both signs.

That is the seasonal-naive forecast (Hyndman and Athanasopoulos, Forecasting: Principles and Practice, 3rd ed.,
section 5.2) with its base smoothed and with quantiles of its own past errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from fleet_app.engine.errors import RequestError

HOUR_S = 3600
DAY_S = 24 * HOUR_S
WEEK_S = 7 * DAY_S
SEASONS_S = (WEEK_S, DAY_S)
"""The seasons, in the order in which they are preferred; each needs twice its length of history."""

LONGEST_CHANGE_S = 900.0
"""How far apart two samples may lie whose difference is the spread of a history without seasons."""

EXACT = 1e-9
"""What a float may be off before a whole number of samples is rounded up."""

Weighted = tuple[float, float]
"""A value and its weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Wanted GPUs, evenly spaced in time: sample i at `first_at + i * every_s` (seconds since the epoch, UTC)."""

    first_at: float
    every_s: float
    wanted_gpus: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raise RequestError when there is no sample, or no time between samples."""
        if not self.wanted_gpus:
            raise RequestError("has no sample", where="history", fix="Give at least one sample of wanted GPUs")
        if not self.every_s > 0:
            raise RequestError(
                f"is {self.every_s}", where="history.every_s", fix="Give the seconds between samples, above 0"
            )

    @property
    def last_at(self) -> float:
        """Return the moment of the last sample."""
        return self.at(len(self.wanted_gpus) - 1)

    def at(self, index: int) -> float:
        """Return the moment of a sample."""
        return self.first_at + index * self.every_s

    def until(self, now: float) -> History:
        """Return the history without what is after `now`. Raises RequestError when that leaves nothing."""
        known = max(0, math.floor((now - self.first_at) / self.every_s + EXACT) + 1)
        return History(first_at=self.first_at, every_s=self.every_s, wanted_gpus=self.wanted_gpus[:known])


def forecast(history: History, at: float, quantiles: Sequence[float]) -> tuple[float, ...]:
    """Return how many GPUs will be wanted at a moment, one number a quantile (F5).

    `quantiles` lie between 0 and 1. Nothing of the history may be after the moment at which the forecast is made.
    Raises RequestError for a moment that is not after the last sample.
    """
    if at <= history.last_at:
        raise RequestError("is not after the last sample", where="at", fix=f"Ask for a time after {history.last_at}")
    base, spread = _seasonal(history, at) or _from_last_value(history, at)
    return tuple(max(0.0, base + each) for each in weighted_quantiles(spread, quantiles))


def growth_within(history: History, now: float, seconds: float, q: float) -> float:
    """Return by how many GPUs demand rises within so many seconds of `now`, in all but 1 - q of the cases (F6).

    The rise that began at a sample is the highest that was reached within `seconds` of it, less the sample. What counts
    are the rises that began in the same hour of the week, else of the day, else at any time: the first of these of
    which there are at least 1 / (1 - q), for a quantile is not known from less. Samples lie `every_s` apart, so
    `seconds` are rounded up to whole samples: on the safe side.
    """
    known = history.until(now)
    steps = max(1, math.ceil(seconds / known.every_s - EXACT))
    rises = _rises(known.wanted_gpus, steps)
    if not rises:
        return 0.0
    enough = math.inf if q >= 1 else 1 / (1 - q) - EXACT
    for season_s in SEASONS_S:
        alike = [rises[i] for i in _of_hour(known, now, season_s) if i < len(rises)]
        if len(alike) >= enough:
            break
    else:
        alike = rises
    return weighted_quantiles([(rise, 1.0) for rise in alike], (q,))[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the immediate tier is to cover: the growth within a start-up, in all but 1 - `quantile` of the cases."""

    quantile: float = 0.99
    startup_s: float = 90.0
    minimum_gpus: int = 0
    maximum_gpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """How many GPUs the immediate tier should hold, the growth behind that, and a sentence that says so."""

    gpus: int
    growth_gpus: float
    sentence: str


def knows_growth(history: History, now: float, seconds: float, q: float) -> bool:
    """Return whether enough rises have been seen to know that quantile of them (F6)."""
    known = history.until(now)
    rises = len(known.wanted_gpus) - max(1, math.ceil(seconds / known.every_s - EXACT))
    return q < 1 and rises >= 1 / (1 - q) - EXACT


def immediate_tier(history: History, now: float, bounds: Bounds) -> Advice:
    """Return how many GPUs to hold free at `now`, between the bounds (F6)."""
    return advice(growth_within(history, now, bounds.startup_s, bounds.quantile), bounds)


def advice(growth: float, bounds: Bounds) -> Advice:
    """Return how many GPUs to hold free for a growth, between the bounds."""
    needed = math.ceil(growth - EXACT)
    most = math.inf if bounds.maximum_gpus is None else bounds.maximum_gpus
    gpus = int(min(max(needed, bounds.minimum_gpus), most))
    limit = "" if gpus == needed else f", {'at least' if gpus > needed else 'at most'} {gpus} are to be held"
    name = f"p{100 * bounds.quantile:g} growth in {bounds.startup_s:g} s is {needed}"
    return Advice(gpus=gpus, growth_gpus=growth, sentence=f"holding {gpus} GPUs free: {name}{limit}")


def weighted_quantiles(values: Sequence[Weighted], quantiles: Sequence[float]) -> tuple[float, ...]:
    """Return quantiles of weighted values: each stands at the middle of its weight, straight lines between them."""
    ordered = sorted(values)
    ends = list(accumulate(weight for _, weight in ordered))
    middles = [(end - weight / 2) / ends[-1] for end, (_, weight) in zip(ends, ordered, strict=True)]
    return tuple(_between(middles, [value for value, _ in ordered], q) for q in quantiles)


def _between(places: Sequence[float], values: Sequence[float], q: float) -> float:
    after = next((i for i, place in enumerate(places) if place >= q), len(places))
    if after in {0, len(places)}:
        return values[min(after, len(places) - 1)]
    share = (q - places[after - 1]) / (places[after] - places[after - 1])
    return values[after - 1] + share * (values[after] - values[after - 1])


def _seasonal(history: History, at: float) -> tuple[float, list[Weighted]] | None:
    """Return base and spread of the longest season of which there are two; None when there is none."""
    samples, sums = history.wanted_gpus, [0.0, *accumulate(history.wanted_gpus)]
    half = round(HOUR_S / history.every_s) // 2

    def base(index: int) -> float:
        first, last = max(0, index - half), min(len(samples), index + half + 1)
        return (sums[last] - sums[first]) / (last - first)

    for season_s in SEASONS_S:
        period = round(season_s / history.every_s)
        if 0 < 2 * period <= len(samples):
            alike = [i for i in range(period, len(samples)) if _hour(history.at(i), DAY_S) == _hour(at, DAY_S)]
            spread = [(samples[i] - base(i - period), 0.5 ** ((len(samples) - 1 - i) // period)) for i in alike]
            if not spread:
                continue
            if season_s == DAY_S:
                spread += [(-difference, weight) for difference, weight in spread]
            ahead = math.ceil((at - history.first_at) / history.every_s - EXACT)
            return base(ahead - period * math.ceil((ahead - len(samples) + 1) / period)), spread
    return None


def _from_last_value(history: History, at: float) -> tuple[float, list[Weighted]]:
    """Return the last value, and by how much demand changed over as long a time as lies ahead."""
    samples = history.wanted_gpus
    ahead = math.ceil((at - history.last_at) / history.every_s - EXACT)
    steps = max(1, min(ahead, int(LONGEST_CHANGE_S / history.every_s), (len(samples) - 1) // 2))
    changes = [after - before for before, after in zip(samples, samples[steps:], strict=False)] or [0.0]
    return samples[-1], [(sign * change, 1.0) for change in changes for sign in (1, -1)]


def _rises(samples: Sequence[float], steps: int) -> list[float]:
    """Return for every sample that has so many after it how much higher the highest of these is, at least 0."""
    after = [samples[step : len(samples) - steps + step] for step in range(1, steps + 1)]
    highest = after[0] if steps == 1 else list(map(max, *after))
    return [high - sample if high > sample else 0.0 for sample, high in zip(samples, highest, strict=False)]


def _of_hour(history: History, at: float, season_s: int) -> Iterator[int]:
    """Yield the samples of the same hour of the season as a moment, in order, without a look at all others."""
    hour, first, every_s = _hour(at, season_s), history.first_at, history.every_s
    starts_at, count, after = first // season_s * season_s + hour * HOUR_S, len(history.wanted_gpus), 0
    while starts_at <= history.last_at and after < count:
        before = math.floor((starts_at - first) / every_s) - 1
        until = math.ceil((starts_at + HOUR_S - first) / every_s) + 1
        after = max(after, before)
        for i in range(after, min(count, until + 1)):
            if _hour(history.at(i), season_s) == hour:
                yield i
        after = max(after, until + 1)
        starts_at += season_s


def _hour(at: float, season_s: int) -> int:
    """Return the hour of the season in which a moment lies, in UTC; weeks begin on the epoch's own weekday."""
    return int(at % season_s // HOUR_S)
