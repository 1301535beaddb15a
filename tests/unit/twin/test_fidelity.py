"""Replays beside records: how they are compared, and one that comes out as it was (R1)."""

from __future__ import annotations

import pytest

from benchmarks import fidelity
from fleet_app.twin.report.spread import spread


def test_what_is_in_use_after_each_moment():
    changes = [(10.0, 8.0), (20.0, -8.0), (20.0, 2.0)]
    assert fidelity.in_use(changes, [0.0, 10.0, 15.0, 20.0, 30.0]) == [0.0, 8.0, 8.0, 2.0, 2.0]


def test_the_difference_is_told_with_how_much_of_it_is_more():
    waits = (spread([]), spread([]))
    found = fidelity.compared([10.0, 10.0, 10.0, 10.0], [10.0, 13.0, 9.0, 10.0], waits)
    assert (found.recorded_gpus, found.replayed_gpus, found.error, found.more) == (10.0, 10.5, 0.1, 0.75)


def test_a_cluster_that_was_rarely_full_comes_out_as_it_was():
    assert fidelity.helios("vc3sl", "passes").error == pytest.approx(0.0, abs=0.05)
