"""Forecasts of what will be wanted, and of how much more within a start-up (F5, F6)."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from fleet_app.engine.errors import RequestError
from fleet_app.engine.forecast import (
    DAY_S,
    HOUR_S,
    SEASONS_S,
    WEEK_S,
    Bounds,
    History,
    forecast,
    growth_within,
    immediate_tier,
    knows_growth,
    weighted_quantiles,
)

TRACES = Path(__file__).parents[3] / "clusters" / "traces"
QUANTILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)


def hourly(wanted: Callable[[int], float], hours: int) -> History:
    """Return a history of whole hours from the epoch on; `wanted` is given the hour's number."""
    return History(first_at=0.0, every_s=HOUR_S, wanted_gpus=tuple(wanted(hour) for hour in range(hours)))


def by_day(hour: int) -> float:
    """Return a day of 0 to 23 GPUs."""
    return float(hour % 24)


def by_week(hour: int) -> float:
    """Return days that differ: on day `d` of a week 100 d GPUs more."""
    return 100.0 * (hour // 24 % 7) + hour % 24


BASES: dict[str, tuple[History, int, float]] = {
    "with two weeks of history the same hour of the week": (hourly(by_week, 14 * 24), 14 * 24 + 30, 106.0),
    "further ahead than a week too": (hourly(by_week, 14 * 24), 22 * 24 + 6, 106.0),
    "with two days of history the same hour of the day": (hourly(by_day, 48), 48 + 7, 7.0),
    "with less the last value": (hourly(lambda hour: 5.0 if hour == 46 else 3.0, 47), 53, 5.0),
    "of one sample that sample": (hourly(by_day, 1), 1, 0.0),
}


@pytest.mark.parametrize(("history", "hour", "want"), BASES.values(), ids=BASES)
def test_the_middle_of_the_forecast(history: History, hour: int, want: float) -> None:
    assert forecast(history, hour * HOUR_S, (0.5,)) == pytest.approx((want,))


def test_a_trend_from_week_to_week_goes_on() -> None:
    history = hourly(lambda hour: 10.0 * (hour // (24 * 7)), 21 * 24)
    assert forecast(history, 21 * 24 * HOUR_S + DAY_S, (0.1, 0.5, 0.9)) == pytest.approx((30.0, 30.0, 30.0))


def test_a_younger_week_counts_twice_as_much_as_the_one_before() -> None:
    steps = (0.0, 10.0, 30.0)  # rises of 10, then of 20
    history = hourly(lambda hour: steps[hour // (24 * 7)], 21 * 24)
    at = 21 * 24 * HOUR_S + 12.0 * HOUR_S
    low, high = forecast(history, at, (0.0, 1.0))
    assert (low, high) == (40.0, 50.0)
    assert sum(each > 45.0 for each in forecast(history, at, [i / 100 for i in range(101)])) == pytest.approx(
        66, abs=12
    )


def test_days_that_rose_and_fell_say_nothing_about_the_next() -> None:
    history = hourly(lambda hour: (2.0, 12.0)[hour // 24], 48)
    low, middle, high = forecast(history, 48 * HOUR_S + 12.0 * HOUR_S, (0.01, 0.5, 0.99))
    assert (low, middle, high) == (2.0, 12.0, 22.0)


@pytest.mark.parametrize("slope", [3.0, -3.0], ids=["rising", "falling"])
def test_without_a_season_what_rose_may_fall_as_far(slope: float) -> None:
    history = hourly(lambda hour: 100.0 + slope * hour, 9)
    low, middle, high = forecast(history, 9 * HOUR_S, (0.0, 0.5, 1.0))
    assert (high - middle, middle - low, middle) == (3.0, 3.0, history.wanted_gpus[-1])


def test_the_base_is_smoothed_over_an_hour() -> None:
    wanted = tuple(100.0 if i == 72 else 0.0 for i in range(288))  # samples of ten minutes: a spike at noon
    history = History(first_at=0.0, every_s=600.0, wanted_gpus=wanted)
    assert forecast(history, history.at(288 + 72), (0.5,)) == (0.0,)
    (high,) = forecast(history, history.at(288 + 72), (1.0,))
    assert high == pytest.approx(100 / 7)


def test_nothing_negative_is_ever_wanted() -> None:
    history = hourly(lambda hour: (50.0, 0.0)[hour // 24], 48)
    assert min(forecast(history, 50 * HOUR_S, QUANTILES)) == 0.0


def test_quantiles_never_cross() -> None:
    history, _ = held_out("azure_llm_2024_code_week.csv")
    for hours in range(1, 49):
        found = forecast(history, history.last_at + hours * HOUR_S, QUANTILES)
        assert list(found) == sorted(found)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "no samples": (lambda: History(first_at=0.0, every_s=60.0, wanted_gpus=()), "has no sample"),
    "no time between samples": (lambda: History(first_at=0.0, every_s=0.0, wanted_gpus=(1.0,)), "is 0.0"),
    "the past": (lambda: forecast(hourly(by_day, 3), 2 * HOUR_S, (0.5,)), "not after the last sample"),
    "a moment before the first sample": (lambda: growth_within(hourly(by_day, 3), -1.0, 60.0, 0.5), "has no sample"),
}


@pytest.mark.parametrize(("ask", "want"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_answered_is_refused(ask: Callable[[], object], want: str) -> None:
    with pytest.raises(RequestError, match=want):
        ask()


WEIGHTED: dict[str, tuple[list[tuple[float, float]], float, float]] = {
    "one value is every quantile": ([(3.0, 1.0)], 0.99, 3.0),
    "the middle of two": ([(1.0, 1.0), (3.0, 1.0)], 0.5, 2.0),
    "beyond the outermost middles the outermost value": ([(1.0, 1.0), (3.0, 1.0)], 0.9, 3.0),
    "weight pulls": ([(1.0, 3.0), (3.0, 1.0)], 0.5, 1.5),
    "in any order": ([(3.0, 1.0), (1.0, 1.0)], 0.25, 1.0),
}


@pytest.mark.parametrize(("values", "q", "want"), WEIGHTED.values(), ids=WEIGHTED)
def test_weighted_quantiles(values: list[tuple[float, float]], q: float, want: float) -> None:
    assert weighted_quantiles(values, (q,)) == (want,)


MINUTE = 60.0


def saw(hour: float, rise: float) -> Callable[[int], float]:
    """Return minutes in which demand jumps by `rise` every tenth minute of one hour of the day, and falls again."""
    return lambda minute: rise if minute % (24 * 60) // 60 == hour and minute % 10 == 5 else 0.0


def minutely(wanted: Callable[[int], float], minutes: int) -> History:
    return History(first_at=0.0, every_s=MINUTE, wanted_gpus=tuple(wanted(minute) for minute in range(minutes)))


GROWTH: dict[str, tuple[History, float, float, float, float]] = {
    "the highest within the time, not the last": (minutely(lambda m: m % 5 * 2.0, 50), 49 * MINUTE, 120.0, 1.0, 4.0),
    "a steady rise": (minutely(lambda m: m * 1.0, 500), 499 * MINUTE, 90.0, 0.99, 2.0),
    "seconds are rounded up to whole samples": (minutely(lambda m: m * 1.0, 500), 499 * MINUTE, 1.0, 0.99, 1.0),
    "a fall is no growth": (minutely(lambda m: 500.0 - m, 500), 499 * MINUTE, 90.0, 0.99, 0.0),
    "one sample knows no growth": (minutely(lambda _: 5.0, 1), 0.0, 90.0, 0.99, 0.0),
    "the same hour of the day when it has seen enough": (
        minutely(saw(9, 40.0), 2880),
        2880 * MINUTE + 9 * HOUR_S,
        60.0,
        0.99,
        40.0,
    ),
    "another hour does not count then": (minutely(saw(9, 40.0), 2880), 2880 * MINUTE + 3 * HOUR_S, 60.0, 0.99, 0.0),
    "an hour that has seen too little is not asked": (
        minutely(saw(9, 40.0), 1440),
        1440 * MINUTE + 3 * HOUR_S,
        60.0,
        0.999,
        40.0,
    ),
    "what came later is not known": (minutely(lambda m: 99.0 if m > 60 else 0.0, 120), 60 * MINUTE, 60.0, 1.0, 0.0),
}


@pytest.mark.parametrize(("history", "now", "seconds", "q", "want"), GROWTH.values(), ids=GROWTH)
def test_growth_within(history: History, now: float, seconds: float, q: float, want: float) -> None:
    assert growth_within(history, now, seconds, q) == want


STEADY = minutely(lambda m: m * 7.0, 500)

TIERS: dict[str, tuple[Bounds, int, str]] = {
    "the growth within a start-up": (Bounds(), 14, "holding 14 GPUs free: p99 growth in 90 s is 14"),
    "no less than the least": (
        Bounds(minimum_gpus=20),
        20,
        "holding 20 GPUs free: p99 growth in 90 s is 14, at least 20 are to be held",
    ),
    "no more than the most": (
        Bounds(maximum_gpus=8),
        8,
        "holding 8 GPUs free: p99 growth in 90 s is 14, at most 8 are to be held",
    ),
    "another quantile and another time": (
        Bounds(quantile=0.5, startup_s=240),
        28,
        "holding 28 GPUs free: p50 growth in 240 s is 28",
    ),
}


@pytest.mark.parametrize(("bounds", "gpus", "sentence"), TIERS.values(), ids=TIERS)
def test_immediate_tier(bounds: Bounds, gpus: int, sentence: str) -> None:
    found = immediate_tier(STEADY, STEADY.last_at, bounds)
    assert (found.gpus, found.sentence) == (gpus, sentence)


def test_a_part_of_a_gpu_is_a_whole_one() -> None:
    assert immediate_tier(minutely(lambda m: m * 0.3, 500), 499 * MINUTE, Bounds()).gpus == 1


# On real traffic.


KNOWN = {
    "two rises know the middle": (3, 60.0, 0.5, True),
    "one does not": (2, 60.0, 0.5, False),
    "a start-up shorter than what lies between samples is one of them": (3, 0.0, 0.5, True),
    "a longer one leaves fewer rises": (3, 61.0, 0.5, False),
    "of as many samples more there are enough": (4, 61.0, 0.5, True),
    "a hundred know the 99th percentile": (101, 60.0, 0.99, True),
    "ninety-nine do not": (100, 60.0, 0.99, False),
    "the most there could be nobody knows": (9999, 60.0, 1.0, False),
}


@pytest.mark.parametrize(("samples", "seconds", "q", "want"), KNOWN.values(), ids=KNOWN)
def test_how_many_rises_are_enough(samples: int, seconds: float, q: float, want: bool) -> None:
    history = minutely(float, samples)
    assert knows_growth(history, history.last_at, seconds, q) is want


def held_out(file: str, days: float = 1.0) -> tuple[History, tuple[float, ...]]:
    """Return a trace without its last part, and that part."""
    with (TRACES / file).open() as lines:
        rows = list(csv.DictReader(lines))
    times = [datetime.fromisoformat(row["time_utc"]).timestamp() for row in rows]
    wanted = tuple(float(row["requests_per_minute"]) for row in rows)
    every_s = (times[-1] - times[0]) / (len(times) - 1)
    known = len(wanted) - round(days * DAY_S / every_s)
    return History(first_at=times[0], every_s=every_s, wanted_gpus=wanted[:known]), wanted[known:]


def naive(history: History, index: int) -> float:
    """Return the seasonal-naive forecast: the same sample of the last season, else the last value."""
    known = len(history.wanted_gpus)
    for season_s in SEASONS_S:
        period = round(season_s / history.every_s)
        if period <= known:
            return history.wanted_gpus[index - period * -((known - 1 - index) // period)]
    return history.wanted_gpus[-1]


def pinball(actual: float, guesses: Sequence[float]) -> float:
    """Return the mean pinball loss over QUANTILES (Koenker and Bassett 1978)."""
    pairs = zip(QUANTILES, guesses, strict=True)
    return sum(max(q * (actual - guess), (q - 1) * (actual - guess)) for q, guess in pairs) / len(QUANTILES)


HELD_OUT = {
    "conversation, the last day of a week": ("azure_llm_2024_conv_week.csv", 1.0),
    "conversation, the last two days of a week": ("azure_llm_2024_conv_week.csv", 2.0),
    "code, the last day of a week": ("azure_llm_2024_code_week.csv", 1.0),
    "conversation, the last hours of one day": ("azure_llm_2024_conv_day.csv", 0.25),
}


@pytest.mark.parametrize(("file", "days"), HELD_OUT.values(), ids=HELD_OUT)
def test_it_beats_the_seasonal_naive_forecast_on_what_it_has_not_seen(file: str, days: float) -> None:
    history, later = held_out(file, days)
    ours = theirs = 0.0
    for index, actual in enumerate(later, start=len(history.wanted_gpus)):
        ours += pinball(actual, forecast(history, history.at(index), QUANTILES))
        theirs += pinball(actual, [naive(history, index)] * len(QUANTILES))
    assert ours < theirs


@pytest.mark.parametrize("file", ["azure_llm_2024_conv_week.csv", "azure_llm_2024_code_week.csv"])
def test_the_p99_of_growth_covers_the_growth_of_the_held_out_day(file: str) -> None:
    history, later = held_out(file)
    whole = History(first_at=history.first_at, every_s=history.every_s, wanted_gpus=history.wanted_gpus + later)
    first = len(history.wanted_gpus)
    covered = [
        whole.wanted_gpus[i + 1] - whole.wanted_gpus[i] <= growth_within(whole, whole.at(i), whole.every_s, 0.99)
        for i in range(first, first + len(later) - 1)
    ]
    assert sum(covered) >= 0.95 * len(covered)


def test_a_season_is_a_week_and_else_a_day() -> None:
    assert SEASONS_S == (WEEK_S, DAY_S)
