"""M/M/c against values that can be worked out by hand."""

from __future__ import annotations

import math

import pytest

from fleet_app.twin.queueing import late_share, replicas_for, waiting_share

WAITING = {
    "one server is busy as often as its load says": (0.5, 1, 0.5),
    "two servers at a load of one: 1/3 (Kleinrock, problem 3.5)": (1.0, 2, 1 / 3),
    "three servers at a load of two: 4/9": (2.0, 3, 4 / 9),
}


@pytest.mark.parametrize(("load", "slots", "want"), WAITING.values(), ids=WAITING)
def test_waiting_share(load, slots, want):
    assert waiting_share(load, slots) == pytest.approx(want)


def test_who_waits_does_so_for_an_exponential_time():
    assert late_share(1.0, 1.0, 2, 2.0) == pytest.approx(math.exp(-2.0) / 3)


LATE = {
    "without requests nobody is late": (0.0, 1.0, 0, 0.0),
    "without replicas everybody is": (1.0, 1.0, 0, 1.0),
    "where the queue grows without end everybody is": (4.0, 1.0, 4, 1.0),
}


@pytest.mark.parametrize(("rate", "slot_rate", "slots", "want"), LATE.values(), ids=LATE)
def test_late_share(rate, slot_rate, slots, want):
    assert late_share(rate, slot_rate, slots, 1.0) == want


NEEDED = {
    "none without requests": (0.0, 0),
    "exactly as many as are enough": (14.0, 2),
    "one more as soon as they are not": (14.1, 3),
}


@pytest.mark.parametrize(("rate", "want"), NEEDED.values(), ids=NEEDED)
def test_replicas_for(rate, want):
    assert replicas_for(rate, 1.0, 10, 0.7) == want
