"""The arbiter's working copy of what the journal keeps, with what changed since it was last written.

The only thing in the arbiter that changes in memory and matters: whatever is not in here follows from Ray. Does not
know SQLite or rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, TypeVar

from fleet_app.arbiter.booked import BookingRecord
from fleet_app.arbiter.notes import Note, What
from fleet_app.arbiter.ports import Demand
from fleet_app.arbiter.records import GrantRecord, Record, Recut
from fleet_app.engine.failures import Failure, Quarantined
from fleet_app.engine.lifecycle import TERMINAL, Phase
from fleet_app.engine.values import Crossing

V = TypeVar("V")

News = Note | Failure
"""What a look at a workload brings beside its record: what happened, and what went wrong."""

Past = Callable[[str], Record | None]
"""Whoever finds a workload of a name in the archive."""


class Table(Generic[V]):
    """Values by name; `changed` holds the names whose value differs from what the journal has."""

    def __init__(self, rows: Mapping[str, V] | None = None) -> None:
        """Start with what the journal has."""
        self._rows: dict[str, V] = dict(rows or {})
        self.changed: set[str] = set()

    def __iter__(self) -> Iterator[V]:
        """Yield the values by name; the table may be changed meanwhile."""
        return iter([self._rows[name] for name in sorted(self._rows)])

    def items(self) -> list[tuple[str, V]]:
        """Return names and values, by name."""
        return sorted(self._rows.items(), key=lambda row: row[0])

    def __contains__(self, name: str) -> bool:
        """Return whether there is a value of that name."""
        return name in self._rows

    def get(self, name: str) -> V | None:
        """Return the value of that name."""
        return self._rows.get(name)

    def newest(self) -> str | None:
        """Return the name that was added last; None when there is none."""
        return next(reversed(self._rows), None)

    def put(self, name: str, value: V) -> None:
        """Set the value of that name."""
        known = self._rows.get(name)
        if known is not value and known != value:
            self._rows[name] = value
            self.changed.add(name)

    def drop(self, name: str) -> None:
        """Remove the value of that name; nothing happens when there is none."""
        if self._rows.pop(name, None) is not None:
            self.changed.add(name)

    def erase(self, name: str) -> None:
        """Remove the value of that name from the journal, whether or not it is here."""
        self._rows.pop(name, None)
        self.changed.add(name)


class Book:
    """What the journal keeps, a table each, and the notes that are not written yet.

    Of workloads that ended long ago only the journal knows: they are in its archive, where `past` finds them, and in
    `archived` until that is written.
    """

    def __init__(
        self,
        records: Mapping[str, Record] | None = None,
        grants: Mapping[str, GrantRecord] | None = None,
        demands: Mapping[str, Demand] | None = None,
        meta: Mapping[str, str] | None = None,
    ) -> None:
        """Start with what the journal has; `failures` and what follows it are set once it is read."""
        self.records: Table[Record] = Table(records)
        self.grants: Table[GrantRecord] = Table(grants)
        self.demands: Table[Demand] = Table(demands)
        self.meta: Table[str] = Table(meta)
        self.failures: Table[Failure] = Table()
        self.quarantines: Table[Quarantined] = Table()
        self.bookings: Table[BookingRecord] = Table()
        self.wanted: Table[int] = Table()
        self.crossings: Table[Crossing] = Table()
        self.recuts: Table[Recut] = Table()
        self.archived: Table[Record] = Table()
        self.past: Past = lambda _: None
        self.notes: list[Note] = []
        known = (records or {}).values()
        self._live = {record.name for record in known if record.workload.phase not in TERMINAL}
        self._order: list[str] | None = None
        self._forgotten = {record.name for record in known if record.forgotten}
        ended = ((one.ended_at, one.name) for one in known if one.ended_at is not None and not one.forgotten)
        self._ended = {name: at for at, name in sorted(ended)}
        self._done_since: dict[str, float] = {}
        self.phases: Counter[Phase] = Counter(record.workload.phase for record in known)
        """How many workloads are in each phase; the archive's are not counted."""

    @property
    def changed(self) -> bool:
        """Return whether anything waits to be written."""
        return bool(self.notes) or any(table.changed for table in self._tables())

    def written(self) -> None:
        """Forget what changed: the journal has it."""
        self.notes.clear()
        for table in self._tables():
            table.changed.clear()
        self.archived = Table()

    def _tables(self) -> tuple[Table[Any], ...]:
        return (
            self.records,
            self.grants,
            self.demands,
            self.meta,
            self.failures,
            self.quarantines,
            self.bookings,
            self.wanted,
            self.crossings,
            self.recuts,
            self.archived,
        )

    def live(self) -> list[Record]:
        """Return the records of workloads that have not ended, by name."""
        if self._order is None:
            self._order = sorted(self._live)
        return [record for name in self._order if (record := self.records.get(name)) is not None]

    def find(self, name: str) -> Record | None:
        """Return the record of a workload, wherever it is; None where none of that name is known."""
        return self.records.get(name) or self.archived.get(name) or self.past(name)

    def going(self) -> list[Record]:
        """Return the records that leave once Ray has let go of their jobs, by name: deleted, or over for long."""
        names = sorted(self._forgotten | self._done_since.keys())
        return [record for name in names if (record := self.records.get(name)) is not None]

    def let_go(self, ended_by: float, most: int, now: float, at_once: int) -> None:
        """Let those go that had ended by a moment, or are more than `most`: the earliest, so many at once."""
        surplus = len(self._ended) - most
        earliest = enumerate(islice(self._ended.items(), at_once))
        due = [name for place, (name, at) in earliest if place < surplus or at <= ended_by]
        self._done_since = {name: self._done_since.get(name, now) for name in due}

    def done_for_s(self, name: str, now: float) -> float:
        """Return for how long a workload has been going because it was over for long, in seconds."""
        return now - self._done_since.get(name, now)

    def put(self, record: Record, news: Iterable[News] = ()) -> None:
        """Set a workload's record, with what happened to it."""
        self._count(record.name, -1)
        self.records.put(record.name, record)
        self._count(record.name, 1)
        for one in news:
            if isinstance(one, Failure):
                self.failures.put(f"{one.workload}/{one.node or ''}/{one.at:.3f}", one)
            else:
                self.notes.append(one)
        self._mark(record.name, live=record.workload.phase not in TERMINAL)
        if record.forgotten:
            self._forgotten.add(record.name)
            self._ended.pop(record.name, None)
        elif record.ended_at is not None:
            self._ended.setdefault(record.name, record.ended_at)

    def drop(self, name: str) -> None:
        """Remove a workload's record."""
        self._count(name, -1)
        self.records.drop(name)
        self._mark(name, live=False)
        self._forgotten.discard(name)
        self._ended.pop(name, None)
        self._done_since.pop(name, None)

    def archive(self, name: str) -> None:
        """Move a workload's record to the archive."""
        record = self.records.get(name)
        if record is not None:
            self.drop(name)
            self.archived.put(name, record)

    def unarchive(self, record: Record) -> None:
        """Take a workload's record out of the archive, if it is there."""
        if record.name not in self.records:
            self.archived.erase(record.name)
            self.put(record)

    def _count(self, name: str, by: int) -> None:
        record = self.records.get(name)
        if record is not None:
            self.phases[record.workload.phase] += by

    def _mark(self, name: str, *, live: bool) -> None:
        if live != (name in self._live):
            (self._live.add if live else self._live.discard)(name)
            self._order = None

    def note(self, at: float, kind: What, subject: str, /, **detail: object) -> None:
        """Add a note."""
        self.notes.append(Note(at=at, kind=kind, subject=subject, detail=detail))

    @property
    def paused(self) -> bool:
        """Return whether nothing new may be started or drained."""
        return self.meta.get("paused") == "yes"

    def pause(self, *, paused: bool) -> None:
        """Start or end a pause."""
        self.meta.put("paused", "yes" if paused else "no")

    def next_tag(self) -> str:
        """Return a name for a grant that was never used before."""
        number = int(self.meta.get("last_grant") or 0) + 1
        self.meta.put("last_grant", str(number))
        return f"{number:08x}"
