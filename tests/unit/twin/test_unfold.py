"""Totals of a cluster over time, and the jobs that explain them."""

from __future__ import annotations

import pytest

from benchmarks.unfold import LONG_S, unfold
from fleet_app.twin.readers.helios_state import Sampled


def sampled(*totals: tuple[int, int, int, int]) -> list[Sampled]:
    """Return samples of what ran and waited (jobs, GPUs, jobs, GPUs), one every 600 s."""
    return [
        Sampled(at=600.0 * place, running=ran, running_gpus=gpus, pending=waited, pending_gpus=wanted, gpus=64)
        for place, (ran, gpus, waited, wanted) in enumerate(totals)
    ]


ON = LONG_S + 600.0

EXPLAINED = {
    "what is there comes and runs on": (sampled((1, 8, 0, 0), (1, 8, 0, 0)), [(0.0, 8, 0.0, ON)]),
    "one ends": (sampled((1, 8, 0, 0), (0, 0, 0, 0)), [(0.0, 8, 0.0, 600.0)]),
    "one comes, waits and begins": (
        sampled((0, 0, 1, 4), (1, 4, 0, 0), (0, 0, 0, 0)),
        [(0.0, 4, 600.0, 600.0)],
    ),
    "of several the one with the right size ends": (
        sampled((2, 9, 0, 0), (1, 5, 0, 0)),
        [(0.0, 4, 0.0, 600.0), (0.0, 5, 0.0, ON)],
    ),
    "one that waits takes the place of one that ends": (
        sampled((1, 8, 1, 8), (1, 8, 0, 0)),
        [(0.0, 8, 0.0, 600.0), (0.0, 8, 600.0, LONG_S)],
    ),
    "two come rather than one of a size that nobody asks for": (
        sampled((1, 16, 0, 0), (1, 17, 0, 0), (2, 17, 0, 0)),
        [(0.0, 16, 0.0, 600.0), (600.0, 17, 600.0, 600.0), (1200.0, 9, 1200.0, LONG_S), (1200.0, 8, 1200.0, LONG_S)],
    ),
    "one that waits at the end is long, too": (sampled((0, 0, 1, 4)), [(0.0, 4, None, LONG_S)]),
}


@pytest.mark.parametrize(("samples", "want"), EXPLAINED.values(), ids=EXPLAINED)
def test_jobs_that_explain_totals(samples, want):
    assert [(row.submitted_at, row.gpus, row.started_at, row.run_s) for row in unfold(samples)] == want


def test_who_waited_and_is_gone_without_having_run_has_no_work():
    rows = unfold(sampled((0, 0, 3, 24), (0, 0, 0, 0)))
    assert [(row.gpus, row.started_at, row.run_s) for row in rows] == [(8, None, 0.0)] * 3


def test_totals_that_no_jobs_have_are_refused():
    with pytest.raises(ValueError, match="no jobs have the totals"):
        unfold(sampled((3, 2, 0, 0)))


def test_the_jobs_add_up_to_the_totals_at_every_sample():
    samples = sampled((3, 20, 1, 8), (2, 12, 2, 24), (5, 47, 0, 0), (1, 1, 9, 80), (2, 3, 9, 80))
    rows = unfold(samples)
    for one in samples:
        there = [row for row in rows if row.submitted_at <= one.at]
        ran = [row for row in there if row.started_at is not None and row.started_at <= one.at]
        on = [row for row in ran if row.started_at + row.run_s > one.at]
        waits = [row for row in there if row not in ran]
        found = (len(on), sum(row.gpus for row in on), len(waits), sum(row.gpus for row in waits))
        assert found == (one.running, one.running_gpus, one.pending, one.pending_gpus)
