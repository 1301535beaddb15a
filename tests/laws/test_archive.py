"""Whatever ends, is deleted or asked for again, and whenever the arbiter dies: each workload is in one place, once."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.arbiter import archive
from fleet_app.arbiter.journal import Journal, JournalReader
from fleet_app.arbiter.records import Job, Record
from fleet_app.engine.lifecycle import TERMINAL, Phase
from tests.builders import gang
from tests.laws.effort import tries

KEEP_S = 10.0
NAMES = st.sampled_from("ab")
STEPS = st.one_of(
    st.tuples(st.sampled_from(["submit", "end", "live", "delete"]), NAMES),
    st.tuples(st.just("cycle"), st.sampled_from([5.0, 10.0])),
    st.tuples(st.just("restart"), st.none()),
)


class Desk:
    """A book and its journal; `known` is when each workload that was not deleted was submitted, `written` on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 0.0
        self.known: dict[str, float] = {}
        self.written: dict[str, float] = {}
        self.journal = Journal(path)
        self.book = self.journal.load()

    def submit(self, name: str) -> None:
        self.now += 0.001
        if self.book.find(name) is None:
            self.book.put(Record(workload=gang(name, submitted_at=self.now), job=Job(entrypoint="true")))
            self.known[name] = self.now

    def end(self, name: str) -> None:
        record = self.book.records.get(name)
        if record is not None and record.ended_at is None:
            over = replace(record.workload, phase=Phase.SUCCEEDED)
            self.book.put(replace(record, workload=over, ended_at=self.now))

    def live(self, name: str) -> None:
        self.submit(name)
        self.end(name)

    def delete(self, name: str) -> None:
        record = self.book.find(name)
        if record is not None and record.workload.phase in TERMINAL:
            self.book.unarchive(record)
            self.book.put(replace(record, forgotten=True))

    def cycle(self, for_s: float) -> None:
        self.now += for_s
        archive.turn(self.book, KEEP_S, 5000, self.now)
        self.commit()
        for record in self.book.going():
            archive.leave(self.book, record, self.now, jobs=0)
            if record.forgotten:
                del self.known[record.name]
        assert not [one for one in self.book.records if one.ended_at is not None and one.ended_at <= self.now - KEEP_S]
        self.commit()

    def commit(self) -> None:
        self.journal.commit(self.book)
        self.written = dict(self.known)

    def restart(self, _: None) -> None:
        self.journal.close()
        self.journal = Journal(self.path)
        self.book, self.known = self.journal.load(), dict(self.written)

    def check(self) -> None:
        found = {name: one.workload.submitted_at for name in "ab" if (one := self.book.find(name)) is not None}
        assert found == self.known
        assert +self.book.phases == Counter(record.workload.phase for record in self.book.records)
        lines = [name for name, _ in JournalReader(self.path).lines("workloads", "archive")]
        assert lines == sorted(self.written), "each once"


@tries(60)
@given(st.lists(STEPS, min_size=6, max_size=30))
def test_a_workload_is_in_one_place_once(steps: list[tuple[str, str | float | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder) / "journal.db")
        for what, about in steps:
            getattr(desk, what)(about)
            desk.check()
        desk.journal.close()
