"""Teams that commit what fits inside their nominal: what was lent comes back for it, in the order of the team."""

from __future__ import annotations

from fleet_app.twin.record import Admitted, Committed, Left, Noticed, Started
from tests.builders import COMMITTED, backfill, node, policy, team
from tests.twins import job, of, scenario, told

TEAMS = policy(team("a", nominal=6), team("b", nominal=2), team("c", nominal=0))
ONE = (node("n1"),)


def lent(name: str, gpus: int, *, of_team: str = "a", at: float = 0.0, run_s: float = 100.0, **rest: object):
    return job(backfill(name, team=of_team, gpus=gpus), run_s, at=at, leaves_s=30.0, **rest)


def records(*jobs, nodes=ONE):
    return told(scenario(TEAMS, nodes, jobs, commits_at=COMMITTED))


def committed(found) -> list[tuple[str, float]]:
    return [(one.workload, one.at) for one in of(found, Committed)]


def test_what_fits_inside_the_nominal_is_committed_and_takes_back_what_was_lent():
    found = records(lent("b1", 2, of_team="b"), lent("b2", 6, of_team="b", run_s=500.0), lent("a1", 4, at=50.0))
    assert committed(found) == [("b1", 0.0), ("a1", 50.0)]
    assert [(one.workload, one.at, one.beneficiary) for one in of(found, Noticed)] == [("b2", 50.0, "a1")]
    assert [one.waited_s for one in of(found, Admitted) if one.workload == "a1"] == [30.0]


def test_nobody_is_committed_before_the_first_that_waits_in_the_team():
    found = records(
        lent("b1", 2, of_team="b"),
        lent("a1", 4),
        lent("a2", 4, at=10.0),
        lent("a3", 2, at=20.0),
        lent("a4", 1, at=120.0),
    )
    assert committed(found) == [("a1", 0.0), ("b1", 0.0), ("a2", 100.0), ("a4", 120.0)]
    assert [(one.workload, one.at) for one in of(found, Admitted)][-3:] == [("a3", 20.0), ("a2", 100.0), ("a4", 120.0)]


def test_who_was_drained_and_is_committed_itself_comes_after_whom_it_was_drained_for():
    found = records(
        lent("a0", 2, run_s=900.0),
        lent("b1", 2, of_team="b", run_s=60.0),
        lent("b2", 2, of_team="b", run_s=900.0),
        lent("b3", 2, of_team="b", run_s=900.0),
        lent("c1", 2, of_team="c", at=10.0, run_s=900.0),
        lent("a1", 4, at=50.0),
        nodes=[node("n1", gpus=4), node("n2", gpus=4)],
    )
    assert [(one.workload, one.at) for one in of(found, Left)][:2] == [("b2", 80.0), ("b3", 80.0)]
    assert committed(found)[2:] == [("a1", 50.0), ("b2", 80.0)]
    assert [(one.workload, one.at) for one in of(found, Admitted)][4:7] == [("c1", 60.0), ("a1", 80.0), ("b2", 110.0)]


def test_what_is_more_than_the_nominal_only_ever_borrows():
    found = records(lent("b1", 4, of_team="b"))
    assert committed(found) == []
    assert of(found, Admitted)[0].at == 0.0


def test_who_comes_back_takes_longer_to_start():
    found = records(lent("b1", 8, of_team="b", start_s=5.0, resume_s=60.0), lent("a1", 6, at=50.0))
    assert [(one.workload, one.at) for one in of(found, Started)] == [("b1", 5.0), ("a1", 80.0), ("b1", 245.0)]
