"""Percentiles by nearest rank."""

from __future__ import annotations

import pytest

from fleet_app.twin.report.spread import spread

CASES = {
    "of nothing all are nothing": ([], (0, 0.0, 0.0, 0.0, 0.0)),
    "of one all are that one": ([7.0], (1, 7.0, 7.0, 7.0, 7.0)),
    "of two the half is the smaller": ([9.0, 1.0], (2, 1.0, 9.0, 9.0, 9.0)),
    "each is one that occurred": ([float(n) for n in range(1, 101)], (100, 50.0, 90.0, 99.0, 100.0)),
}


@pytest.mark.parametrize(("seconds", "want"), CASES.values(), ids=CASES)
def test_spread(seconds, want):
    found = spread(seconds)
    assert (found.count, found.p50_s, found.p90_s, found.p99_s, found.longest_s) == want
