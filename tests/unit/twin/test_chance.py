"""Luck depends on the seed and on what it is for, and on nothing else."""

from __future__ import annotations

import statistics

import pytest

from fleet_app.twin.chance import Chance, Spread


def test_what_is_drawn_does_not_depend_on_what_was_drawn_before():
    first, second = Chance(7), Chance(7)
    second.until(10.0, "something else")
    assert first.until(10.0, "node", "n1", 0) == second.until(10.0, "node", "n1", 0)


def test_another_seed_or_another_name_is_other_luck():
    drawn = {Chance(seed).until(10.0, name) for seed in (1, 2) for name in ("a", "b")}
    assert len(drawn) == 4


def test_without_spread_it_is_always_the_median():
    assert Chance(1).seconds(Spread(median_s=3.0), "x") == 3.0


def test_half_of_what_is_drawn_is_below_the_median():
    drawn = [Chance(1).seconds(Spread(median_s=3.0, sigma=0.5), number) for number in range(2_000)]
    assert statistics.median(drawn) == pytest.approx(3.0, rel=0.05)
    assert min(drawn) > 0.0


def test_of_samples_each_is_drawn_as_often_as_another():
    spread = Spread(samples=(1.0, 5.0, 9.0))
    drawn = [Chance(1).seconds(spread, number) for number in range(3_000)]
    assert {one: round(drawn.count(one) / 3_000, 1) for one in spread.samples} == {1.0: 0.3, 5.0: 0.3, 9.0: 0.3}
