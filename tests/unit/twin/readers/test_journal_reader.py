"""The fleet's own past, read back: jobs as they were submitted, how long they ran, and what services wanted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.journal import Journal
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.records import Job, Record
from fleet_app.engine.errors import RequestError
from fleet_app.engine.lifecycle import Phase
from fleet_app.twin.readers.journal import journal, wanted
from tests.builders import gang


@pytest.fixture
def path(tmp_path):
    """A journal of a gang that was drained once, one that failed, one that runs and one that never ran."""
    book = Book()
    ended = {"a": Phase.SUCCEEDED, "b": Phase.FAILED, "c": Phase.RUNNING, "d": Phase.STOPPED}
    for number, (name, phase) in enumerate(ended.items()):
        one = replace(gang(name, submitted_at=float(7 + number)), phase=phase, attempt=2, requeued=True)
        book.put(Record(workload=one, job=Job(entrypoint="true")))
    told = [
        (20.0, What.ADMITTED, "a"),
        (25.0, What.STARTED, "a"),
        (75.0, What.REQUEUED, "a"),
        (100.0, What.ADMITTED, "a"),
        (110.0, What.STARTED, "a"),
        (140.0, What.SUCCEEDED, "a"),
        (20.0, What.STARTED, "b"),
        (30.0, What.FAILED, "b"),
        (20.0, What.STARTED, "c"),
    ]
    for note in told:
        book.note(*note)
    for minute, gpus in ((1, 4), (2, 4), (3, 6)):
        book.wanted.put(f"{minute:012d}", gpus)
    kept = Journal(tmp_path / "journal.sqlite")
    kept.commit(book)
    kept.close()
    return tmp_path / "journal.sqlite"


def test_jobs_are_as_they_were_submitted_and_work_as_long_as_they_ran(path):
    found = [(one.workload, one.run_s, one.start_s, one.fails) for one in journal(path).found]
    assert found == [
        (gang("a", submitted_at=7.0), 80.0, 5.0, False),
        (gang("b", submitted_at=8.0), 10.0, 0.0, True),
    ]


def test_what_has_not_ended_or_never_ran_is_left_aside(path):
    assert [count for _, count in journal(path).aside] == [1, 1]


def test_what_services_wanted_is_told_where_it_changes(path):
    assert wanted(path) == ((60.0, 4.0), (180.0, 6.0))


def test_a_journal_that_is_not_there_is_said(tmp_path):
    with pytest.raises(RequestError, match="no journal"):
        journal(tmp_path / "none")
