"""One pool with quotas, on the first week of the month that `python -m benchmarks pool-philly` goes through."""

from __future__ import annotations

import pytest

from benchmarks import peers, pool

FIRST = 4_000
"""So many of its jobs."""


@pytest.fixture(scope="module")
def jobs():
    return peers.rows(pool.POOL.trace)[:FIRST]


@pytest.fixture(scope="module")
def ours(jobs):
    return pool.shared(jobs)


@pytest.fixture(scope="module")
def apart(jobs):
    return pool.split(jobs)


def test_nobody_waits_longer_than_the_grace_for_what_is_inside_its_nominal(ours):
    assert len(ours.by_job_s) == FIRST
    assert sum(ours.asked.values()) > 20
    assert sum(map(len, ours.inside_s.values())) > FIRST / 2
    assert ours.late_s == []


def test_no_team_waits_longer_than_on_nodes_of_its_own_but_for_those_who_leave(ours, apart):
    assert {team: ours.mean_s(team) <= apart.mean_s(team) + pool.GRACE_S for team in ours.waits_s} == dict.fromkeys(
        ours.waits_s, True
    )
    assert pool.later_s(ours, apart)[-1] <= pool.GRACE_S
    assert ours.mean_s() < apart.mean_s() / 4


def test_what_is_printed_is_what_was_found(ours, apart, jobs):
    assert pool.table(apart, pool.pooled(jobs), ours).row_count == len(pool.NODES) + 1
    assert pool.sentences(apart, ours)[0].startswith("0 of ")
