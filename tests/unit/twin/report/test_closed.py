"""The estimate, for the month that is often quoted."""

from __future__ import annotations

import pytest

from fleet_app.twin.report.closed import Assumed, closed

SEED = Assumed(
    guaranteed_gpus=1200,
    mean_gpus=800,
    trough_gpus=500,
    low_h_a_day=12.0,
    preemptions_a_day=2.0,
    loses_s=600.0,
    price_per_gpu_hour=2.5,
)


def test_a_fixed_split_leaves_400_gpus_idle_for_730_hours():
    assert closed(SEED, 730.0).idle_money == pytest.approx(730_000)


def test_700_gpus_can_be_lent_for_12_hours_on_30_days():
    found = closed(SEED, 720.0)
    assert (found.lent_gpu_h, found.lent_money) == (pytest.approx(252_000), pytest.approx(630_000))


def test_two_preemptions_a_day_of_10_minutes_take_3_percent():
    found = closed(SEED, 720.0)
    assert found.tax_gpu_h == pytest.approx(7_000)
    assert found.tax_share == pytest.approx(0.0278, abs=0.0001)
