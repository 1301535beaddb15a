"""Rows of any history as jobs of ours."""

from __future__ import annotations

import pytest

from fleet_app.engine.workload import Kind
from fleet_app.twin.readers.row import Casting, Row, equal, whole_and_rest


def row(gpus: int, **rest: object) -> Row:
    return Row(**{"name": "j", "team": "bio", "submitted_at": 5.0, "run_s": 60.0, "gpus": gpus, **rest})


LAID = {
    "a part of a node is one bundle": (equal, 4, [(1, 4)]),
    "two equal bundles": (equal, 12, [(2, 6)]),
    "a whole node and a rest": (whole_and_rest, 12, [(1, 8), (1, 4)]),
    "whole nodes without a rest": (whole_and_rest, 16, [(2, 8)]),
    "a rest alone": (whole_and_rest, 4, [(1, 4)]),
}


@pytest.mark.parametrize(("how", "gpus", "want"), LAID.values(), ids=LAID)
def test_how_gpus_lie_on_nodes(how, gpus, want):
    assert [(group.bundles, group.shape.gpus) for group in how(row(gpus), 8)] == want


def test_what_a_history_says_of_its_nodes_counts():
    assert equal(row(16, nodes=4), 8)[0].bundles == 4


def test_large_jobs_are_gangs_and_others_backfill():
    small, large = (Casting().job(row(gpus)).workload for gpus in (1, 16))
    assert (small.kind, small.priority, small.bundles, small.gpus) == (Kind.BACKFILL, 1_000, 1, 1)
    assert (large.kind, large.priority, large.bundles, large.gpus) == (Kind.GANG, 50_000, 2, 16)


def test_several_shapes_are_groups():
    one = Casting(bundles=whole_and_rest).job(row(12)).workload
    assert (one.gpus, one.bundles, len(one.groups)) == (12, 2, 2)


def test_a_job_declares_its_limit_or_else_how_long_it_ran():
    casting = Casting(declares=True)
    assert casting.job(row(1, limit_s=100.0)).workload.max_run_s == 100.0
    assert casting.job(row(1)).workload.max_run_s == 60.0
    assert Casting().job(row(1)).workload.max_run_s is None


def test_the_first_submitted_comes_first_and_equals_stay_as_they_were():
    rows = [row(1, name="b"), row(1, name="a"), row(1, name="c", submitted_at=1.0)]
    assert [one.workload.name for one in Casting().jobs(rows)] == ["c", "b", "a"]
