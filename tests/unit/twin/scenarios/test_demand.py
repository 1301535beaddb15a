"""Demand over time: a day's shape, a trace, spikes."""

from __future__ import annotations

import pytest

from fleet_app.twin.chance import Chance
from fleet_app.twin.scenarios import demand
from fleet_app.twin.scenarios.schema import Day, Demand

HOUR = 3600.0
SHAPE = {
    "source": "day",
    "peak": 1000,
    "trough": 200,
    "low": [{"since": "2h", "until": "6h"}, {"since": "20h", "until": "22h"}],
    "ramp": "2h",
    "every": "1h",
}

LEVELS = {
    "inside a window it is low": (3.0, 200.0),
    "from its first second on": (2.0, 200.0),
    "when it ends, demand begins to rise": (6.0, 200.0),
    "half up the ramp it is half way": (7.0, 600.0),
    "after the ramp it is at its peak": (8.0, 1000.0),
    "it falls before a window as it rises after one": (1.0, 600.0),
    "far from any window it is at its peak": (14.0, 1000.0),
    "a window before midnight counts after it": (22.5, 400.0),
}


def day(**changes: object) -> Day:
    return Day.model_validate({**SHAPE, **changes})


def asks(**changes: object) -> Demand:
    return Demand.model_validate({"name": "chat", "team": "chat", "gpus_over_time": SHAPE, **changes})


@pytest.mark.parametrize(("hour", "want"), LEVELS.values(), ids=LEVELS)
def test_level(hour, want):
    assert demand.level(day(), hour * HOUR) == pytest.approx(want)


def test_without_windows_demand_is_always_at_its_peak():
    assert demand.level(day(low=[]), 5 * HOUR) == 1000.0


def test_a_day_is_repeated_and_weekends_are_lower():
    found = demand.day(day(weekend=0.5), Chance(1), "chat", 7 * 24 * HOUR)
    assert len(found) == 7 * 24
    assert [gpus for at, gpus in found if at % (24 * HOUR) == 14 * HOUR] == [1000.0] * 5 + [500.0] * 2


def test_noise_is_the_same_for_the_same_name_and_never_above_the_peak():
    one, same, other = (demand.day(day(noise=0.2), Chance(1), name, 24 * HOUR) for name in ("a", "a", "b"))
    assert one == same != other
    assert max(gpus for _, gpus in one) <= 1000.0
    assert len({gpus for at, gpus in one if at < 5 * HOUR and at >= 2 * HOUR}) == 3


def test_a_trace_is_scaled_to_the_peak_and_repeated():
    rows = [(100.0, 1.0), (110.0, 4.0), (120.0, 2.0)]
    assert demand.repeated(rows, 80.0, 50.0) == [(0.0, 20.0), (10.0, 80.0), (20.0, 40.0), (30.0, 20.0), (40.0, 80.0)]


def test_a_spike_rises_at_once_is_no_higher_than_the_peak_and_is_over_in_time():
    one = asks(spikes={"a_week": 20, "gpus": 900, "lasts": "20m"})
    flat = [(0.0, 500.0)]
    found = demand.with_spikes(flat, one, Chance(3), 7 * 24 * HOUR)
    highs = [at for at, gpus in found if gpus == 1000.0]
    assert highs
    assert all((at + 1200.0, 500.0) in found for at in highs if at + 1200.0 < 7 * 24 * HOUR)
    assert {gpus for _, gpus in found} == {500.0, 1000.0}


def test_a_spike_may_rise_in_equal_parts_one_a_second():
    one = asks(spikes={"a_week": 1, "gpus": 400, "lasts": "20m", "rises": "4s"})
    found = demand.with_spikes([(0.0, 500.0)], one, Chance(3), 7 * 24 * HOUR)
    (_, began), rest = found[0], found[1:]
    assert [gpus for _, gpus in rest[:5]] == [600.0, 700.0, 800.0, 900.0, began]
    assert [at - rest[0][0] for at, _ in rest[:5]] == pytest.approx([0.0, 1.0, 2.0, 3.0, 1200.0])


TURNED = {
    "from a moment on, what was before it after the end": (110.0, [(110.0, 4.0), (120.0, 2.0), (130.0, 1.0)]),
    "from the next row where none is at the moment": (105.0, [(110.0, 4.0), (120.0, 2.0), (130.0, 1.0)]),
    "as it is where the moment is before it": (50.0, [(100.0, 1.0), (110.0, 4.0), (120.0, 2.0)]),
    "as it is where the moment is after it": (121.0, [(100.0, 1.0), (110.0, 4.0), (120.0, 2.0)]),
}


@pytest.mark.parametrize(("begins_at", "want"), TURNED.values(), ids=TURNED)
def test_a_trace_is_turned(begins_at, want):
    assert demand.turned([(100.0, 1.0), (110.0, 4.0), (120.0, 2.0)], begins_at) == want


def test_rates_are_those_for_which_just_so_many_gpus_are_wanted():
    one = asks(gpus=2, requests_per_s=4.0, busy=0.5)
    assert demand.rates(one, [(0.0, 200.0)]) == ((0.0, 200.0),)  # 100 replicas, half of 4 a second each
