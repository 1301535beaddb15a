"""Forecasts held against what came: losses and coverage worked out by hand, and that a run tells what they rest on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.policy import Headroom
from fleet_app.twin.record import Demanded, Foreseen
from fleet_app.twin.report.foresight import ForesightCount, pinball
from tests.builders import node, policy, service
from tests.twins import of, scenario, told, traffic

LOSSES = {
    "too little": (0.9, 10.0, 4.0, 5.4),
    "too much": (0.9, 4.0, 10.0, 0.6),
    "just right": (0.9, 4.0, 4.0, 0.0),
    "the median errs the same either way": (0.5, 4.0, 10.0, 3.0),
}


@pytest.mark.parametrize(("quantile", "came", "foreseen", "want"), LOSSES.values(), ids=LOSSES)
def test_pinball(quantile, came, foreseen, want):
    assert pinball(quantile, came, foreseen) == pytest.approx(want)


def look(at: float, growth: int | None, kept: int) -> Foreseen:
    return Foreseen(at=at, within_s=60.0, quantile=None if growth is None else 0.9, growth_gpus=growth, kept_gpus=kept)


def counted(*told: Demanded | Foreseen) -> ForesightCount:
    count = ForesightCount()
    for one in told:
        if isinstance(one, Demanded):
            count.demanded(one)
        else:
            count.foreseen(one)
    count.close(10_000.0)
    return count


def test_what_demand_grew_by_is_the_highest_within_the_time():
    wants = [Demanded(at=at, service="chat", gpus=gpus) for at, gpus in ((0.0, 10), (20.0, 18), (40.0, 6), (61.0, 90))]
    found = counted(wants[0], look(0.0, 4, 5), *wants[1:]).figures()
    assert (found.looks, found.grew_gpus, found.short_gpus, found.most_short_gpus) == (1, 8.0, 3.0, 3)
    assert (found.pinball_gpus, found.covered_share) == (pytest.approx(0.9 * 4), 0.0)


def test_what_is_wanted_at_the_very_end_of_the_time_counts():
    found = counted(look(0.0, 4, 4), Demanded(at=60.0, service="chat", gpus=4)).figures()
    assert (found.grew_gpus, found.covered_share) == (4.0, 1.0)


def test_services_are_wanted_together():
    wants = [Demanded(at=10.0, service=name, gpus=3) for name in ("chat", "search")]
    assert counted(look(0.0, 4, 4), *wants).figures().grew_gpus == 6.0


def test_a_fixed_number_has_coverage_and_no_loss():
    found = counted(look(0.0, None, 4), look(100.0, None, 4), Demanded(at=110.0, service="chat", gpus=5)).figures()
    assert (found.covered_share, found.pinball_gpus, found.quantile) == (0.5, None, None)


def test_nobody_looked():
    found = ForesightCount().figures()
    assert (found.looks, found.covered_share) == (0, None)


HEADROOMS = {
    "a fixed number": (Headroom(immediate_gpus=2), None, [2, 2, 2, 2]),
    "a forecast, once enough is known": (
        Headroom(immediate_gpus=3, quantile=0.5, startup_s=60.0, minimum_gpus=1),
        0.5,
        [3, 3, 2, 1],
    ),
}


@pytest.mark.parametrize(("headroom", "quantile", "kept"), HEADROOMS.values(), ids=HEADROOMS)
def test_a_run_tells_what_was_foreseen_and_wanted(headroom, quantile, kept):
    chat = traffic(service("chat", gpus=2), (0.0, 1.0), (100.0, 3.0))
    rules = replace(policy(), headroom=headroom)
    given = scenario(rules, [node("s1", serving=True)], traffic=[chat], ends_at=1900.0, sample_s=600.0)
    records = told(given)
    assert [(one.at, one.gpus) for one in of(records, Demanded)] == [(0.0, 2), (100.0, 6)]
    looks = of(records, Foreseen)
    assert [(one.at, one.within_s, one.quantile) for one in looks] == [(600.0 * n, 600.0, quantile) for n in range(4)]
    assert [one.kept_gpus for one in looks] == kept


def test_a_fleet_that_keeps_nothing_free_does_not_look_ahead():
    given = scenario(
        policy(), [node("s1", serving=True)], traffic=[traffic(service("chat"), (0.0, 1.0))], ends_at=1900.0
    )
    assert of(told(given), Foreseen) == []
