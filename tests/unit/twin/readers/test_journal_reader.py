"""The fleet's own past, read back: nodes, jobs as they were submitted, how long they ran, and what services wanted."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.journal import Journal, Snapshot
from fleet_app.arbiter.notes import Note, What
from fleet_app.arbiter.ports import Demand
from fleet_app.arbiter.records import Job, Record
from fleet_app.engine.errors import RequestError
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Plan
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Condition
from fleet_app.twin.readers.attempts import attempts
from fleet_app.twin.readers.journal import FORGOTTEN, NOBODYS, UNSTARTED, past, wanted
from fleet_app.twin.work import Known
from tests.builders import gang, node, shape, used

ENDED = {"a": Phase.SUCCEEDED, "b": Phase.FAILED, "c": Phase.RUNNING, "d": Phase.STOPPED, "e": Phase.QUEUED}


@pytest.fixture
def path(tmp_path):
    """A journal of a gang that was drained once, one that failed, one that runs, one that never ran, one that waits."""
    book = Book()
    for number, (name, phase) in enumerate(ENDED.items()):
        one = replace(gang(name, submitted_at=float(7 + number)), phase=phase, attempt=2, requeued=True)
        book.put(Record(workload=one, job=Job(entrypoint="true"), saves=5 * (name == "a")))
    book.demands.put("chat", Demand(service="chat", team="serving", shape=shape(2), wanted=1, floor=1, at=130.0))
    told = [
        (10.0, What.ARBITER, "arbiter", {}),
        (12.0, What.SUBMITTED, "gone", {}),
        (15.0, What.DEMANDED, "chat", {"was": 2, "wanted": 3}),
        (15.0, What.GRANTED, "chat", {"grant": "g1"}),
        (17.0, What.GRANT_OCCUPIED, "chat", {"grant": "g1"}),
        (18.0, What.DEMANDED, "old", {"was": 0, "wanted": 1}),
        (20.0, What.ADMITTED, "a", {"attempt": 1}),
        (25.0, What.STARTED, "a", {"attempt": 1}),
        (70.0, What.DRAINING, "a", {"attempt": 1}),
        (71.0, What.ACKNOWLEDGED, "a", {"attempt": 1}),
        (75.0, What.REQUEUED, "a", {"attempt": 1}),
        (100.0, What.ADMITTED, "a", {"attempt": 2}),
        (110.0, What.STARTED, "a", {"attempt": 2}),
        (140.0, What.SUCCEEDED, "a", {"attempt": 2}),
        (20.0, What.STARTED, "b", {}),
        (30.0, What.FAILED, "b", {}),
        (20.0, What.STARTED, "c", {}),
        (130.0, What.DEMANDED, "chat", {"was": 3, "wanted": 1}),
        (134.0, What.GRANT_IDLE, "chat", {"grant": "g1"}),
        (150.0, What.POLICY, "arbiter", {}),
    ]
    for at, kind, subject, detail in told:
        book.note(at, kind, subject, **detail)
    for minute, gpus in ((1, 4), (2, 4), (3, 6)):
        book.wanted.put(f"{minute:012d}", gpus)
    kept = Journal(tmp_path / "journal.db")
    nodes = (node("n1"), node("n2", condition=Condition.DOWN, foreign=shape(1)))
    state = FleetState(nodes=nodes, usage=(used("c", 70), used("chat", 40)))
    kept.commit(book, Snapshot(at=160.0, state=state, plan=Plan()))
    kept.close()
    return tmp_path / "journal.db"


def spoil(path, statement, *values):
    with sqlite3.connect(path) as db:
        db.execute(statement, values)
    db.close()


def test_jobs_are_as_they_were_submitted_and_work_until_they_had_saved(path):
    found = [(one.workload, one.run_s, one.start_s, one.fails) for one in past(path).jobs[:2]]
    assert found == [
        (gang("a", submitted_at=7.0), 76.0, 7.5, False),
        (gang("b", submitted_at=8.0), 10.0, 0.0, True),
    ]


def test_what_is_archived_is_told_as_if_it_were_not(path):
    want = past(path)
    with closing(Journal(path)) as journal:
        book = journal.load()
        for name in ("a", "b", "d"):
            book.archive(name)
        journal.commit(book)
    assert past(path) == want


def test_how_each_attempt_behaved_is_kept(path):
    want = (Known(attempt=1, start_s=5.0, leaves_s=5.0, saves_s=1.0), Known(attempt=2, start_s=10.0))
    assert past(path).jobs[0].known == want


def test_work_was_saved_as_often_as_it_was_beside_when_it_had_to_leave(path):
    assert {one.workload.name: one.save_every_s for one in past(path).jobs[:2]} == {"a": 19.0, "b": None}


def test_who_never_started_or_had_to_leave_would_do_so_as_others_do(path):
    others = [one for one in past(path).jobs if one.workload.name != "a"]
    assert {one.workload.name: (one.start_s, one.leaves.median_s) for one in others} == {
        "b": (0.0, 5.0),
        "c": (0.0, 5.0),
        "e": (2.5, 5.0),
    }


def test_what_has_not_ended_does_not_end_in_the_history(path):
    known = past(path)
    runs = {one.workload.name: one.run_s for one in known.jobs}
    assert (known.begins_at, known.ends_at) == (10.0, 160.0)
    assert {"c": runs["c"], "e": runs["e"]} == {"c": 140.0 + 151.0, "e": 151.0}


def test_what_never_ran_or_is_forgotten_is_left_aside_and_counted(path):
    assert dict(past(path).reading.aside) == {UNSTARTED: 1, FORGOTTEN: 1, NOBODYS: 1}


def test_nodes_are_those_of_the_last_look_all_of_them_sound(path):
    assert past(path).nodes == (node("n1"), node("n2"))


def test_a_service_wants_what_it_wanted_when_it_did(path):
    (one,) = past(path).traffic
    assert (one.service.name, one.service.team, one.service.shape, one.service.floor) == (
        "chat",
        "serving",
        shape(2),
        1,
    )
    assert one.rates == ((10.0, 2.0), (15.0, 3.0), (130.0, 1.0))
    assert (one.start_s.median_s, one.stops_s, one.objective_s) == (2.0, 4.0, None)


def test_who_is_measured_at_the_end_computes_as_much_all_the_time(path):
    known = past(path)
    assert {one.workload.name: one.sm_active for one in known.jobs} == {"a": None, "b": None, "c": 0.7, "e": None}
    assert [one.sm_active for one in known.traffic] == [0.4]


def test_changes_of_the_policy_are_counted(path):
    assert past(path).policies == 1


def test_what_services_wanted_is_told_where_it_changes(path):
    assert wanted(path) == ((60.0, 4.0), (180.0, 6.0))


SPOILT = {
    "a workload": ("UPDATE workloads SET value = '{' WHERE name = 'b'", "workload b: not a Record", 2),
    "a service": ("UPDATE services SET value = '{}'", "service chat: not a Demand", 1),
    "an event of no known kind": ("UPDATE events SET kind = 'sang' WHERE seq = 3", "event 3: 'sang'", 3),
    "an event whose detail is no JSON": ("UPDATE events SET detail = '{' WHERE seq = 4", "event 4: Expecting", 4),
}


@pytest.mark.parametrize(("statement", "why", "line"), SPOILT.values(), ids=SPOILT)
def test_a_row_that_makes_no_sense_is_counted_and_skipped_or_refused(path, statement, why, line):
    spoil(path, statement)
    (one,) = past(path).reading.malformed
    assert (one.why.startswith(why), one.line) == (True, line)
    with pytest.raises(RequestError, match=why.split(":")[0]):
        past(path, strict=True)


def test_a_journal_that_is_not_there_is_said(tmp_path):
    with pytest.raises(RequestError, match="no journal"):
        past(tmp_path / "none")


def test_a_journal_without_a_decision_is_said(tmp_path):
    Journal(tmp_path / "journal.db").close()
    with pytest.raises(RequestError, match="tells of no decision"):
        past(tmp_path / "journal.db")


def note(at: float, kind: What, **detail: object) -> Note:
    return Note(at=at, kind=kind, subject="x", detail={"attempt": 1, **detail})


ATTEMPTS = {
    "one that never got its room is none": ([note(1.0, What.ADMITTED), note(9.0, What.WITHDRAWN)], []),
    "one that was killed has not saved": (
        [note(1.0, What.ADMITTED), note(3.0, What.STARTED), note(5.0, What.DRAINING), note(9.0, What.REQUEUED)],
        [(2.0, 4.0, None, 6.0)],
    ),
    "one that goes on works until now": (
        [note(1.0, What.ADMITTED), note(3.0, What.STARTED)],
        [(2.0, None, None, 97.0)],
    ),
    "one that was asked to move left when it liked": (
        [note(0.0, What.STARTED), note(5.0, What.MOVING), note(50.0, What.ACKNOWLEDGED), note(52.0, What.REQUEUED)],
        [(0.0, None, None, 50.0)],
    ),
    "one that was killed before it began did not work": (
        [note(1.0, What.ADMITTED), note(2.0, What.DRAINING), note(3.0, What.REQUEUED)],
        [(None, 1.0, None, 0.0)],
    ),
}


@pytest.mark.parametrize(("notes", "want"), ATTEMPTS.values(), ids=ATTEMPTS)
def test_attempts(notes, want):
    assert [(one.start_s, one.leaves_s, one.saves_s, one.worked_s(100.0)) for one in attempts(notes)] == want
