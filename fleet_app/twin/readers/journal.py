"""The fleet's own past: the workloads of a journal, and what its services wanted, as what the twin can be fed with.

A workload's work is the time that its attempts ran, all of it where one was cut short: the journal does not tell what
had to be done again. One that has not ended is left aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from fleet_app.arbiter.journal import JournalReader
from fleet_app.arbiter.notes import Note, What
from fleet_app.arbiter.records import Record
from fleet_app.arbiter.wanted import history_of
from fleet_app.engine.errors import RequestError
from fleet_app.engine.lifecycle import TERMINAL, Phase
from fleet_app.engine.workload import Workload
from fleet_app.twin.readers.azure import Rate
from fleet_app.twin.readers.reading import Aside, Reading, gathered
from fleet_app.twin.work import Job

AT_ONCE = 10_000
ENDS = frozenset({What.REQUEUED, What.SUCCEEDED, What.FAILED, What.STOPPED})


def journal(path: Path) -> Reading[Job]:
    """Return the jobs of a journal, first submitted first. Raises RequestError when there is no journal."""
    reader = _reader(path)
    notes = _notes(reader)
    jobs = [job_of(record, notes.get(name, ())) for name, record in reader.records().items()]
    known = gathered((), lambda _: jobs, str(path))
    return replace(known, found=tuple(sorted(known.found, key=_order)))


def wanted(path: Path) -> tuple[Rate, ...]:
    """Return what services wanted over time, in GPUs: traffic for replicas of one GPU that answer one request a second.

    Raises RequestError when there is no journal.
    """
    samples = history_of(list(_reader(path).wanted().items()))
    if samples is None:
        return ()
    every = [(samples.at(place), gpus) for place, gpus in enumerate(samples.wanted_gpus)]
    return tuple(new for old, new in zip([None, *every], every, strict=False) if old is None or old[1] != new[1])


def job_of(record: Record, notes: Iterable[Note]) -> Job | Aside:
    """Return a workload of the journal as it was submitted, with how long it ran in all."""
    if record.workload.phase not in TERMINAL:
        return Aside(why="workloads that have not ended")
    runs = list(_runs(notes))
    if not runs:
        return Aside(why="workloads that never started, or so long ago that it is forgotten")
    return Job(
        workload=as_submitted(record.workload),
        run_s=sum(ended_at - started_at for _, started_at, ended_at in runs),
        start_s=runs[0][1] - runs[0][0],
        fails=record.workload.phase is Phase.FAILED,
    )


def as_submitted(one: Workload) -> Workload:
    """Return a workload as it was before anything became of it."""
    fresh = one.without_nodes(Phase.QUEUED)
    return replace(fresh, attempt=1, requeued=False, expired=False, broken_drains=0)


def _runs(notes: Iterable[Note]) -> Iterator[tuple[float, float, float]]:
    """Yield when each attempt that ran was admitted, started and ended."""
    admitted_at = started_at = None
    for note in notes:
        if note.kind is What.ADMITTED:
            admitted_at = note.at
        elif note.kind is What.STARTED:
            started_at = note.at
        elif note.kind in ENDS and started_at is not None:
            yield (started_at if admitted_at is None else admitted_at), started_at, note.at
            admitted_at = started_at = None


def _reader(path: Path) -> JournalReader:
    if not path.exists():
        raise RequestError("there is no journal", where=str(path), fix="Give the journal of a fleet's home")
    return JournalReader(path)


def _notes(reader: JournalReader) -> dict[str, list[Note]]:
    found: dict[str, list[Note]] = {}
    after = 0
    while entries := reader.events(after, AT_ONCE):
        after = entries[-1].seq
        for entry in entries:
            found.setdefault(entry.note.subject, []).append(entry.note)
    return found


def _order(job: Job) -> tuple[float, str]:
    return (job.workload.submitted_at, job.workload.name)
