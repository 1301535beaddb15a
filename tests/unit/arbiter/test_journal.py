"""The journal keeps all of a cycle or nothing, has one writer, and anybody may read it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.booked import Away, BookingRecord, Stage
from fleet_app.arbiter.journal import Journal, JournalReader, Snapshot
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.ports import Demand
from fleet_app.arbiter.records import Checkpoint, GrantRecord, Job, Notice, Record
from fleet_app.engine.calendar import Booking, BookingAsk, Displaced, Offer, Transfer
from fleet_app.engine.errors import FaultError
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import (
    Admit,
    Alike,
    DomainRoom,
    Drain,
    Expire,
    GiveGrant,
    Hold,
    Kill,
    Lose,
    Move,
    Plan,
    Reason,
    Rebook,
    Relabel,
    TakeGrant,
    Wait,
)
from fleet_app.engine.values import NodeClass
from tests.builders import backfill, crossing, gang, node, service, shape, state

RECORD = Record(
    workload=replace(gang("llm", on=("n1", "n2")), phase=Phase.DRAINING, deadline_at=9.5, drained_for="chat"),
    job=Job(entrypoint="true", runtime_env={"env_vars": {"A": "1"}}, metadata={"k": "v"}, notice=Notice.LIBRARY),
    group_id="abc",
    checkpoint=Checkpoint(uri="file:///x", step=2**62, at=1.25, attempt=1),
    noticed_at=3.5,
)
GRANT = GrantRecord(name="1", service="chat", node="n1", shape=shape(2), made_at=4.5, occupied=True)
DEMAND = Demand(service="chat", team="serving", shape=shape(2), wanted=3, floor=1, at=5.5)
BOOKING = Booking(
    name="bench",
    team=None,
    shape=shape(8),
    nodes=("n1", "n2"),
    start_at=10.5,
    end_at=20.5,
    within="leaf",
    transfers=(Transfer(lender="batch", gpus=4, approved_by="grace"),),
    asked_by="ada",
)
ASK = BookingAsk(name="bench", team=None, shape=shape(8), count=2, start_at=10.5, end_at=20.5, nodes=("n1", "n2"))
DISPLACED = Displaced(workload="b", team="batch", how="drained", gpus=2, lost_gpu_s=1.5)
BOOKED = BookingRecord(
    booking=BOOKING,
    ask=ASK,
    said=Offer(booking=BOOKING, displaced=(DISPLACED,), off_peak=((1.5, 2.5),), price=3.5),
    stage=Stage.IN_FORCE,
    change=replace(ASK, end_at=30.5, replaces="bench"),
    away=(Away(workload="b", team="batch", gpus=2, attempt=1, saved_at=1.5, left_at=2.5),),
)
SNAPSHOT = Snapshot(
    at=6.5,
    state=replace(state(node("n1"), gang("llm", on=("n1",)), service("chat", on=("n1",))), bookings=(BOOKING,)),
    plan=Plan(
        actions=(
            Admit(workload="a", nodes=("n1",), why="w"),
            Drain(workload="a", beneficiary="b", deadline_at=1.5, why="w"),
            Relabel(node="n1", node_class=NodeClass.SERVING, why="w"),
            Move(workload="a", beneficiary="b", why="w"),
            Expire(workload="a", deadline_at=1.5, why="w"),
            Kill(workload="a", why="w"),
            Lose(workload="a", node="n1", why="w"),
            GiveGrant(service="s", node="n1", shape=shape(1), why="w"),
            TakeGrant(service="s", grant="g", why="w"),
            Rebook(booking="bench", nodes=("n1",), breach="x", why="w"),
        ),
        holds=(Hold(node="n1", beneficiary="b", shape=shape(1)),),
        answers=(
            Wait(
                workload="a",
                reason=Reason.NO_ROOM,
                asked=4,
                available=2,
                level="spine",
                rooms=(DomainRoom(domain="s1", free_nodes=1, draining_nodes=0, drainable_nodes=2, total_nodes=4),),
                planned_at=9.5,
                planned_after="b",
            ),
        ),
        alike=(Alike("a", ("c", "d")),),
    ),
)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(Journal(tmp_path / "journal.db")) as opened:
        yield opened


@pytest.fixture
def reader(tmp_path: Path) -> JournalReader:
    return JournalReader(tmp_path / "journal.db")


CROSSING = crossing("n1", moved_at=7.0)
LATER = [("000000000010", 1), ("000000000011", 2)]


EIGHT, SIXTEEN = (replace(SNAPSHOT, state=state(*(node(f"n{number}") for number in range(count)))) for count in (1, 2))
GPUS: dict[str, tuple[list[Snapshot | None], int | None]] = {
    "nobody has looked yet": ([], None),
    "no node is there yet": ([replace(SNAPSHOT, state=state())], None),
    "those of all nodes": ([SIXTEEN], 16),
    "those of the last look": ([SIXTEEN, EIGHT], 8),
    "what was not looked at again stays": ([EIGHT, None], 8),
    "all nodes have gone": ([EIGHT, replace(SNAPSHOT, state=state())], None),
}


def filled() -> Book:
    book = Book()
    book.put(RECORD)
    book.grants.put("1", GRANT)
    book.demands.put("chat", DEMAND)
    book.bookings.put("bench", BOOKED)
    book.crossings.put("n1", CROSSING)
    for minute in range(3):
        book.wanted.put(f"{9 + minute:012d}", minute)
    book.note(7.5, What.DRAINING, "llm", why="for chat", nodes=["n1"])
    return book


def test_everything_comes_back_as_it_was_written(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "journal.db")) as journal:
        journal.commit(filled(), SNAPSHOT)
    with closing(Journal(tmp_path / "journal.db")) as again:
        book = again.load()
        assert (list(book.records), list(book.grants), list(book.demands)) == ([RECORD], [GRANT], [DEMAND])
        assert list(book.bookings) == [BOOKED]
        assert (list(book.crossings), book.wanted.items()) == ([CROSSING], [("000000000009", 0), *LATER])
        assert book.wanted.newest() == LATER[-1][0]
        assert again.snapshot() == SNAPSHOT
        assert not book.changed


def test_a_reader_sees_what_the_writer_wrote_while_it_writes(journal: Journal, reader: JournalReader) -> None:
    assert reader.records() == {}
    book = filled()
    journal.commit(book, SNAPSHOT)
    assert reader.record("llm") == RECORD
    assert reader.record("nobody") is None
    assert (reader.grants(), reader.demands(), reader.snapshot()) == ({"1": GRANT}, {"chat": DEMAND}, SNAPSHOT)
    assert reader.bookings() == {"bench": BOOKED}
    book.drop("llm")
    book.grants.drop("1")
    book.bookings.drop("bench")
    journal.commit(book)
    assert (reader.records(), reader.grants(), reader.snapshot(), reader.bookings()) == ({}, {}, SNAPSHOT, {})


@pytest.mark.parametrize(("snapshots", "want"), GPUS.values(), ids=GPUS)
def test_how_many_gpus_there_are_is_known_without_the_snapshot(
    journal: Journal, reader: JournalReader, snapshots: list[Snapshot | None], want: int | None
) -> None:
    for snapshot in snapshots:
        journal.commit(Book(), snapshot)
    assert reader.gpus() == want


def test_no_journal_reads_as_an_empty_one(tmp_path: Path, reader: JournalReader) -> None:
    empty: tuple[object, ...] = ({}, {}, {}, (), None, None, None, {}, {}, False, frozenset(), 0)
    assert (
        reader.records(),
        reader.grants(),
        reader.demands(),
        reader.events(),
        reader.snapshot(),
        reader.record("a"),
        reader.archived("a"),
        reader.live(),
        reader.phases(),
        reader.paused(),
        reader.ingested(),
        reader.last_event(),
    ) == empty
    assert not (tmp_path / "journal.db").exists()


def test_events_are_read_on_from_a_number_and_by_subject(journal: Journal, reader: JournalReader) -> None:
    book = Book()
    for number in range(10):
        book.note(float(number), What.STARTED, "even" if number % 2 == 0 else "odd", number=number)
    journal.commit(book)
    assert [entry.note.detail["number"] for entry in reader.events(after=3, limit=4)] == [3, 4, 5, 6]
    assert [entry.seq for entry in reader.events(subject="odd")] == [2, 4, 6, 8, 10]
    assert reader.last_event() == 10


def ended(name: str, phase: Phase = Phase.SUCCEEDED) -> Record:
    return Record(workload=replace(gang(name), phase=phase), job=Job(entrypoint="true"), ended_at=1.5, message="over")


def test_what_is_archived_is_not_loaded_and_found_by_its_name_alone(journal: Journal, reader: JournalReader) -> None:
    book = filled()
    book.put(ended("old"))
    journal.commit(book)
    book.archive("old")
    assert book.find("old") == ended("old"), "also before it is written"
    journal.commit(book)
    assert book.archived.items() == []
    known = journal.load()
    assert (list(known.records), known.find("old"), known.find("nobody")) == ([RECORD], ended("old"), None)
    assert (reader.records(), reader.record("old"), reader.archived("old")) == ({"llm": RECORD}, None, ended("old"))
    assert [name for name, _ in reader.lines("workloads", "archive")] == ["llm", "old"]


def test_what_comes_out_of_the_archive_and_is_dropped_is_nowhere(journal: Journal, reader: JournalReader) -> None:
    book = Book()
    book.put(ended("old"))
    book.archive("old")
    journal.commit(book)
    book = journal.load()
    old = book.find("old")
    assert old is not None
    book.unarchive(old)
    journal.commit(book)
    assert (reader.records(), reader.archived("old")) == ({"old": old}, None)
    book.drop("old")
    journal.commit(book)
    assert (reader.records(), book.find("old")) == ({}, None)


def test_a_journal_of_before_there_was_an_archive_is_read_and_taken_over(tmp_path: Path, reader: JournalReader) -> None:
    with closing(Journal(tmp_path / "journal.db")) as journal:
        book = filled()
        book.put(ended("old"))
        journal.commit(book)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as database, database:
        database.executescript("DROP TABLE archive; DROP INDEX phase_of; DELETE FROM meta WHERE key = 'phases'")
    assert (reader.archived("old"), list(reader.live())) == (None, ["llm"])
    assert [name for name, _ in reader.lines("workloads", "archive")] == ["llm", "old"]
    with closing(Journal(tmp_path / "journal.db")) as journal:
        book = journal.load()
        book.archive("old")
        journal.commit(book)
    assert (reader.archived("old"), list(reader.live())) == (ended("old"), ["llm"])
    assert {phase: count for phase, count in reader.phases().items() if count} == {"draining": 1}


def test_the_living_are_read_without_the_others_and_all_are_counted(journal: Journal, reader: JournalReader) -> None:
    book = filled()
    for number, phase in enumerate((Phase.SUCCEEDED, Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED)):
        book.put(ended(f"e{number}", phase))
    book.put(Record(workload=gang("waits"), job=Job(entrypoint="true")))
    book.drop("e0")
    journal.commit(book)
    assert list(reader.live()) == ["llm", "waits"]
    want = {"queued": 1, "draining": 1, "succeeded": 1, "failed": 1, "stopped": 1}
    assert {phase: count for phase, count in reader.phases().items() if count} == want
    assert journal.load().phases == Counter({Phase(phase): count for phase, count in want.items()})


def test_old_events_go_and_their_numbers_are_not_used_again(tmp_path: Path, reader: JournalReader) -> None:
    book = Book()
    with closing(Journal(tmp_path / "journal.db", keep_events=100)) as journal:
        for _ in range(25):
            for number in range(100):
                book.note(float(number), What.STARTED, "a")
            journal.commit(book)
    kept = [entry.seq for entry in reader.events(limit=10_000)]
    assert kept[-1] == 2500
    assert 100 <= len(kept) <= 1100


def test_a_commit_that_fails_changes_nothing_and_forgets_nothing(journal: Journal, reader: JournalReader) -> None:
    book = filled()
    book.note(8.5, What.STARTED, "a", unwritable=object())
    with pytest.raises(TypeError):
        journal.commit(book, SNAPSHOT)
    assert reader.records() == {}
    assert book.changed
    book.notes.pop()
    journal.commit(book, SNAPSHOT)
    assert reader.records() == {"llm": RECORD}


def test_a_second_arbiter_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "journal.db")), pytest.raises(FaultError, match="another arbiter"):
        Journal(tmp_path / "journal.db")
    Journal(tmp_path / "journal.db").close()


def test_a_newer_journal_is_refused_by_writer_and_reader(tmp_path: Path) -> None:
    Journal(tmp_path / "journal.db").close()
    database = sqlite3.connect(tmp_path / "journal.db")
    with database:
        database.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    database.close()
    with pytest.raises(FaultError, match="version 99"):
        Journal(tmp_path / "journal.db")
    with pytest.raises(FaultError, match="version 99"):
        JournalReader(tmp_path / "journal.db").records()


def test_a_journal_of_before_there_were_bookings_is_read_and_taken_over(tmp_path: Path, reader: JournalReader) -> None:
    with closing(Journal(tmp_path / "journal.db")) as journal:
        journal.commit(filled())
    with closing(sqlite3.connect(tmp_path / "journal.db")) as database, database:
        database.execute("DROP TABLE bookings")
        database.execute("UPDATE meta SET value = '1' WHERE key = 'schema_version'")
    assert (reader.bookings(), reader.records()) == ({}, {"llm": RECORD})
    with closing(Journal(tmp_path / "journal.db")) as journal:
        book = journal.load()
        book.bookings.put("bench", BOOKED)
        journal.commit(book)
    assert (reader.bookings(), reader.meta("schema_version")) == ({"bench": BOOKED}, "2")


def test_a_file_that_is_no_journal_is_a_fault_of_ours(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_text("not a database, and long enough to be read as one" * 50)
    with pytest.raises(FaultError, match="cannot be used"):
        JournalReader(tmp_path / "journal.db").records()


def test_fields_that_a_version_does_not_know_are_left_out(tmp_path: Path) -> None:
    book = Book()
    book.put(Record(workload=backfill("a"), job=Job(entrypoint="true")))
    with closing(Journal(tmp_path / "journal.db")) as journal:
        journal.commit(book)
    database = sqlite3.connect(tmp_path / "journal.db")
    with database:
        database.execute("UPDATE workloads SET value = json_set(value, '$.future', 1)")
    database.close()
    assert JournalReader(tmp_path / "journal.db").record("a") == Record(
        workload=backfill("a"), job=Job(entrypoint="true")
    )


def test_the_latest_events_of_a_subject_are_the_last_ones_in_order(journal: Journal, reader: JournalReader) -> None:
    book = Book()
    for number in range(5):
        book.note(float(number), What.STARTED, "llm")
        book.note(float(number), What.STARTED, "other")
    journal.commit(book)
    assert [entry.note.at for entry in reader.latest_events("llm", 2)] == [3.0, 4.0]
