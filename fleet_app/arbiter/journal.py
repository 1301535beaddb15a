"""What survives the arbiter: records, events and the last observation, in one SQLite file.

One `Journal` writes, any number of `JournalReader`s read at the same time, also while no arbiter runs. All changes of
one cycle are one transaction. Knows tables; does not know what the values mean.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from fleet_app.arbiter import codec
from fleet_app.arbiter.book import Book, Table
from fleet_app.arbiter.booked import BookingRecord
from fleet_app.arbiter.notes import Entry, Note, What
from fleet_app.arbiter.ports import Demand
from fleet_app.arbiter.records import GrantRecord, Record, Recut
from fleet_app.engine.errors import FaultError
from fleet_app.engine.failures import Failure, Quarantined
from fleet_app.engine.lifecycle import TERMINAL, Phase
from fleet_app.engine.plan import Plan
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Crossing

V = TypeVar("V")

EventLine = tuple[int, float, str, str, str]
"""An event as it is written: its number, its moment, its kind, whom it is about, and its detail as JSON."""

Lined = Literal["workloads", "archive", "services", "bookings"]
"""A table whose rows can be read as they were written."""

SCHEMA_VERSION = 2
"""2 has bookings: a version of the fleet that does not know them would give their nodes away."""

KEEP_EVENTS = 200_000
PRUNE_EVERY = 1000
BUSY_TIMEOUT_S = 10.0

_PHASE = "CASE WHEN json_valid(value) THEN json_extract(value, '$.workload.phase') END"
"""A workload's phase in SQL; none of a damaged row, which must not keep others from being read."""

_LIVE = ", ".join(f"'{phase.value}'" for phase in Phase if phase not in TERMINAL)

_TABLES = f"""
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS workloads (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS grants (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS services (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS quarantines (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bookings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS wanted (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS crossings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS recuts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS archive (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
    detail TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS events_of ON events (subject, seq);
CREATE INDEX IF NOT EXISTS phase_of ON workloads ({_PHASE});
CREATE TABLE IF NOT EXISTS snapshot (
    one INTEGER PRIMARY KEY CHECK (one = 1), at REAL NOT NULL, state TEXT NOT NULL, plan TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the arbiter last saw and decided; written when either differs from the time before (`at`, seconds)."""

    at: float
    state: FleetState
    plan: Plan


class Journal:
    """The writing side. Belongs to one thread of one process; a second writer of the same file is refused."""

    def __init__(self, path: Path, keep_events: int = KEEP_EVENTS) -> None:
        """Open the file, or make it; of the events at least the last `keep_events` are kept.

        Raises FaultError when another arbiter writes it, or a newer version of the fleet wrote it.
        """
        self._path = path
        self._keep_events = keep_events
        self._events_since_prune = 0
        with _ours(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(path.with_suffix(".lock"))
            try:
                self._db = _open_for_writing(path)
            except BaseException:
                os.close(self._lock)
                raise

    def close(self) -> None:
        """Close the file; another arbiter may write it then."""
        self._db.close()
        os.close(self._lock)

    def load(self) -> Book:
        """Return all that was written but the archive, in which the book looks things up.

        Raises FaultError when it cannot be read.
        """
        with _ours(self._path):
            book = Book(
                records=_rows(self._db, "workloads", Record),
                grants=_rows(self._db, "grants", GrantRecord),
                demands=_rows(self._db, "services", Demand),
                meta=dict(self._db.execute("SELECT key, value FROM meta")),
            )
            book.failures = Table(_rows(self._db, "failures", Failure))
            book.quarantines = Table(_rows(self._db, "quarantines", Quarantined))
            book.bookings = Table(_rows(self._db, "bookings", BookingRecord))
            book.crossings = Table(_rows(self._db, "crossings", Crossing))
            book.recuts = Table(_rows(self._db, "recuts", Recut))
            samples = self._db.execute("SELECT name, value FROM wanted ORDER BY name")
            book.wanted = Table({name: int(gpus) for name, gpus in samples})
            book.past = self._archived
            return book

    def _archived(self, name: str) -> Record | None:
        with _ours(self._path):
            return _row(self._db, "archive", name)

    def snapshot(self) -> Snapshot | None:
        """Return the last observation and decision. Raises FaultError when it cannot be read."""
        with _ours(self._path):
            return _snapshot(self._db)

    def commit(self, book: Book, snapshot: Snapshot | None = None) -> None:
        """Write what changed in the book, and the snapshot if there is a new one: all or nothing.

        Raises FaultError when it cannot be written; the book then still knows what changed.
        """
        with _ours(self._path), _transaction(self._db):
            self._write("workloads", book.records, codec.dump)
            self._write("archive", book.archived, codec.brief)
            self._write("grants", book.grants, codec.dump)
            self._write("services", book.demands, codec.dump)
            self._write("failures", book.failures, codec.dump)
            self._write("quarantines", book.quarantines, codec.dump)
            self._write("bookings", book.bookings, codec.dump)
            self._write("crossings", book.crossings, codec.dump)
            self._write("recuts", book.recuts, codec.dump)
            self._write("wanted", book.wanted, str)
            if snapshot is not None:
                book.meta.put("gpus", str(sum([node.capacity.gpus for node in snapshot.state.nodes])))
            book.meta.put("phases", json.dumps({phase.value: book.phases[phase] for phase in Phase}))
            self._write("meta", book.meta, str)
            self._db.executemany(
                "INSERT INTO events (at, kind, subject, detail) VALUES (?, ?, ?, ?)",
                [(note.at, note.kind.value, note.subject, json.dumps(note.detail)) for note in book.notes],
            )
            self._prune(len(book.notes))
            if snapshot is not None:
                row = (snapshot.at, codec.dump(snapshot.state), codec.dump(snapshot.plan))
                self._db.execute("INSERT OR REPLACE INTO snapshot VALUES (1, ?, ?, ?)", row)
        book.written()

    def _write(self, table: str, rows: Table[V], dump: Callable[[V], str]) -> None:
        for name in sorted(rows.changed):
            value = rows.get(name)
            if value is None:
                key = "key" if table == "meta" else "name"
                self._db.execute(f"DELETE FROM {table} WHERE {key} = ?", (name,))
            else:
                self._db.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", (name, dump(value)))

    def _prune(self, added: int) -> None:
        self._events_since_prune += added
        if self._events_since_prune >= PRUNE_EVERY:
            self._events_since_prune = 0
            oldest = "SELECT max(seq) - ? FROM events"
            self._db.execute(f"DELETE FROM events WHERE seq <= ({oldest})", (self._keep_events,))


class JournalReader:
    """The reading side: safe in any thread and process, never blocks the arbiter. No journal yet reads as empty.

    Every method raises FaultError when the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        """Read the file at that path; it may not exist yet."""
        self._path = path

    def records(self) -> dict[str, Record]:
        """Return every workload that is not in the archive, by name."""
        return self._read(lambda db: _rows(db, "workloads", Record), {})

    def live(self) -> dict[str, Record]:
        """Return every workload that has not ended, by name."""
        return self._read(lambda db: _rows(db, "workloads", Record, f"WHERE {_PHASE} IN ({_LIVE})"), {})

    def phases(self) -> dict[str, int]:
        """Return how many workloads are in each phase; the archive's are not counted."""
        return dict(json.loads(self.meta("phases") or "{}"))

    def gpus(self) -> int | None:
        """Return the GPUs of all nodes of the last snapshot, without reading that; None before there were any."""
        return int(self.meta("gpus") or 0) or None

    def record(self, name: str) -> Record | None:
        """Return one workload that is not in the archive."""
        return self._read(lambda db: _row(db, "workloads", name), None)

    def archived(self, name: str) -> Record | None:
        """Return one workload of the archive; none from a journal of before there was one.

        Ask for it after `record`: what leaves the one is in the other.
        """
        return self._read(lambda db: _row(db, "archive", name), None, table="archive")

    def grants(self) -> dict[str, GrantRecord]:
        """Return every grant, by name."""
        return self._read(lambda db: _rows(db, "grants", GrantRecord), {})

    def demands(self) -> dict[str, Demand]:
        """Return what every service last asked for, by its name."""
        return self._read(lambda db: _rows(db, "services", Demand), {})

    def bookings(self) -> dict[str, BookingRecord]:
        """Return every booking that is remembered, by its name; none from a journal of before there were any."""
        return self._read(lambda db: _rows(db, "bookings", BookingRecord), {}, table="bookings")

    def events(self, after: int = 0, limit: int = 1000, subject: str | None = None) -> tuple[Entry, ...]:
        """Return the first `limit` events with a number above `after`, in order; of one subject if it is given."""
        where, values = ("", ()) if subject is None else (" AND subject = ?", (subject,))
        query = f"SELECT seq, at, kind, subject, detail FROM events WHERE seq > ?{where} ORDER BY seq LIMIT ?"
        return self._read(lambda db: tuple(map(_entry, db.execute(query, (after, *values, limit)))), ())

    def latest_events(self, subject: str, limit: int = 1000) -> tuple[Entry, ...]:
        """Return the last `limit` events of one subject, in order."""
        query = "SELECT seq, at, kind, subject, detail FROM events WHERE subject = ? ORDER BY seq DESC LIMIT ?"
        return self._read(lambda db: tuple(map(_entry, db.execute(query, (subject, limit))))[::-1], ())

    def event_lines(self) -> tuple[EventLine, ...]:
        """Return every event as it was written, in order, for whoever goes on where one makes no sense."""
        query = "SELECT seq, at, kind, subject, detail FROM events ORDER BY seq"
        return self._read(lambda db: tuple(db.execute(query)), ())

    def lines(self, *tables: Lined) -> tuple[tuple[str, str], ...]:
        """Return the names and texts of tables as they were written, for whoever goes on where one makes no sense."""

        def rows(db: sqlite3.Connection) -> tuple[tuple[str, str], ...]:
            there = [table for table in tables if _is_there(db, table)]
            union = " UNION ALL ".join(f"SELECT name, value FROM {table}" for table in there)
            return tuple(db.execute(f"{union} ORDER BY name")) if there else ()

        return self._read(rows, ())

    def last_event(self) -> int:
        """Return the number of the last event, 0 when there is none."""
        return self._read(lambda db: int(db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]), 0)

    def wanted(self) -> dict[str, int]:
        """Return what was wanted in every minute that is remembered, in order of time."""
        query = "SELECT name, value FROM wanted ORDER BY name"
        return self._read(lambda db: {str(name): int(gpus) for name, gpus in db.execute(query)}, {})

    def snapshot(self) -> Snapshot | None:
        """Return the arbiter's last observation and decision."""
        return self._read(_snapshot, None)

    def meta(self, key: str) -> str | None:
        """Return one setting."""

        def one(db: sqlite3.Connection) -> str | None:
            row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
            return None if row is None else str(row[0])

        return self._read(one, None)

    def paused(self) -> bool:
        """Return whether the arbiter starts and drains nothing at present."""
        return self.meta("paused") == "yes"

    def ingested(self) -> frozenset[str]:
        """Return the inbox files that are journaled and may still lie there."""
        return frozenset(json.loads(self.meta("ingested") or "[]"))

    def _read(self, question: Callable[[sqlite3.Connection], V], empty: V, table: str = "snapshot") -> V:
        if not self._path.exists():
            return empty
        with _ours(self._path), closing(self._open()) as db:
            if not _is_there(db, table):
                return empty
            _check_version(db, self._path)
            return question(db)

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S)


@contextmanager
def _ours(path: Path) -> Iterator[None]:
    """Turn what SQLite and the file system raise into a FaultError."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise FaultError(
            f"the journal cannot be used: {error}", where=str(path), fix="Check the disk's space and who owns the file"
        ) from error


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _open_for_writing(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        # Inbox files are removed once journaled, so that must have reached the disk.
        db.execute("PRAGMA synchronous=FULL")
        _check_version(db, path)
        db.executescript(_TABLES)
        db.execute("INSERT OR REPLACE INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))
    except BaseException:
        db.close()
        raise
    return db


def _lock(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise FaultError("another arbiter writes this journal", where=str(path), fix="Stop it first") from error
    return handle


def _is_there(db: sqlite3.Connection, table: str) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None


def _check_version(db: sqlite3.Connection, path: Path) -> None:
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        return
    row = db.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    if row is not None and int(row[0]) > SCHEMA_VERSION:
        raise FaultError(
            f"the journal has version {row[0]}, this fleet reads up to {SCHEMA_VERSION}",
            where=str(path),
            fix="Use the version of the fleet that wrote it, or a newer one",
        )


def _rows(db: sqlite3.Connection, table: str, kind: type[V], where: str = "") -> dict[str, V]:
    query = f"SELECT name, value FROM {table} {where} ORDER BY name"
    return {str(name): codec.load(kind, text) for name, text in db.execute(query)}


def _row(db: sqlite3.Connection, table: str, name: str) -> Record | None:
    row = db.execute(f"SELECT value FROM {table} WHERE name = ?", (name,)).fetchone()
    return None if row is None else codec.load(Record, row[0])


def _snapshot(db: sqlite3.Connection) -> Snapshot | None:
    row = db.execute("SELECT at, state, plan FROM snapshot").fetchone()
    if row is None:
        return None
    return Snapshot(at=row[0], state=codec.load(FleetState, row[1]), plan=codec.load(Plan, row[2]))


def _entry(row: EventLine) -> Entry:
    seq, at, kind, subject, detail = row
    return Entry(seq=seq, note=Note(at=at, kind=What(kind), subject=subject, detail=json.loads(detail)))
