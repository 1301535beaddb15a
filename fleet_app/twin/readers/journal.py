"""The fleet's own past, from its journal: nodes, workloads, bookings, and how many replicas its services wanted.

A workload's work is how long its attempts ran until they had saved it and left, and all of it where one was cut short
without that: the journal does not tell what had to be done again, nor how many members an elastic one had meanwhile.
What had not ended when the journal ends does not end in a run either. Nodes are those of the arbiter's last look, all
of them sound: when each was away is not told. Of who is there then and measured, the most that its GPUs ever computed
stands for all of its time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TypeVar

from fleet_app.arbiter import codec
from fleet_app.arbiter.booked import BookingRecord, Stage
from fleet_app.arbiter.journal import JournalReader, Lined
from fleet_app.arbiter.notes import Note, What
from fleet_app.arbiter.ports import Demand
from fleet_app.arbiter.records import Record
from fleet_app.arbiter.wanted import history_of
from fleet_app.engine.errors import FaultError, RequestError
from fleet_app.engine.lifecycle import TERMINAL, Phase
from fleet_app.engine.values import NOTHING, Condition, Node
from fleet_app.engine.workload import Service, Workload
from fleet_app.twin.chance import Spread
from fleet_app.twin.readers.attempts import Ran, attempts
from fleet_app.twin.readers.azure import Rate
from fleet_app.twin.readers.reading import Aside, Malformed, Reading, gathered
from fleet_app.twin.work import Asked, Job, Known, Traffic

T = TypeVar("T")
F = TypeVar("F")
Found = Job | Traffic | Asked
Notes = Mapping[str, Sequence[Note]]

UNSTARTED = "workloads that were cancelled or refused before they ran, or ran so long ago that it is forgotten"
FORGOTTEN = "workloads that somebody has deleted since"
NOT_BOOKED = "bookings that never came to be"
NOBODYS = "services that nobody announces any more"

TABLES: Mapping[type, tuple[tuple[Lined, ...], str]] = {
    Record: (("workloads", "archive"), "workload"),
    Demand: (("services",), "service"),
    BookingRecord: (("bookings",), "booking"),
}
"""Where the journal has what, and what a row is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A journal as the twin can be fed with it; `policies` is how often the policy changed in it."""

    begins_at: float
    ends_at: float
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    traffic: tuple[Traffic, ...]
    bookings: tuple[Asked, ...]
    policies: int
    reading: Reading[Found]


def past(path: Path, *, strict: bool = False) -> Past:
    """Return what a journal tells. Raises RequestError when there is none, or nothing in it that could be run again.

    Rows that make no sense are skipped and counted, or with `strict` refused at the first one.
    """
    reader = _reader(path)
    wrong: list[Malformed | Aside] = []
    notes = list(_good(_notes(reader), wrong))
    snapshot = reader.snapshot()
    if snapshot is None or not notes:
        raise RequestError("tells of no decision", where=str(path), fix="Give the journal of a fleet that has run")
    when = (notes[0].at, max(notes[-1].at, snapshot.at))
    told = _by_subject(notes)
    everything: list[Found | Malformed | Aside] = [*wrong]
    everything += [
        *_jobs(reader, told, when),
        *_services(reader, told, when[0]),
        *_rows(reader, told, BookingRecord, _asked),
    ]
    known: Reading[Found] = gathered((), lambda _: iter(everything), str(path), strict=strict)
    used = {one.subject: one.sm_active_percent / 100.0 for one in snapshot.state.usage}
    jobs = [replace(one, sm_active=used.get(one.workload.name)) for one in known.found if isinstance(one, Job)]
    traffic = [one for one in known.found if isinstance(one, Traffic)]
    return Past(
        begins_at=when[0],
        ends_at=when[1],
        nodes=tuple(_sound(node) for node in snapshot.state.nodes),
        jobs=_as_usual(sorted(jobs, key=_order)),
        traffic=tuple(replace(one, sm_active=used.get(one.service.name)) for one in traffic),
        bookings=tuple(one for one in known.found if isinstance(one, Asked)),
        policies=sum(note.kind is What.POLICY for note in notes),
        reading=known,
    )


def wanted(path: Path) -> tuple[Rate, ...]:
    """Return what services wanted over time, in GPUs: traffic for replicas of one GPU that answer one request a second.

    Raises RequestError when there is no journal.
    """
    samples = history_of(list(_reader(path).wanted().items()))
    if samples is None:
        return ()
    every = [(samples.at(place), gpus) for place, gpus in enumerate(samples.wanted_gpus)]
    return tuple(new for old, new in zip([None, *every], every, strict=False) if old is None or old[1] != new[1])


# --- workloads ------------------------------------------------------------------------------------------------------


def _jobs(reader: JournalReader, told: Notes, when: tuple[float, float]) -> Iterator[Job | Aside | Malformed]:
    yield from _rows(reader, told, Record, lambda record, notes: job_of(record, notes, when))
    yield from _gone(reader, told, Record, What.SUBMITTED, FORGOTTEN)


def job_of(record: Record, notes: Iterable[Note], when: tuple[float, float]) -> Job | Aside:
    """Return a workload of the journal as it was submitted, with how long it ran in all and how it behaved."""
    one, (begins_at, ends_at) = record.workload, when
    ran = [each for each in attempts(notes) if each.started_at is not None or one.phase not in TERMINAL]
    if not ran and one.started_at is not None:
        ran = [_last(record)]
    ended = one.phase in TERMINAL
    if ended and not any(each.worked_s(ends_at) for each in ran):
        return Aside(why=UNSTARTED)
    worked_s = sum(each.worked_s(ends_at) for each in ran)
    saves = [each.saves_s for each in ran if each.saves_s is not None]
    return Job(
        workload=as_submitted(one),
        run_s=worked_s if ended else worked_s + (ends_at - begins_at) + 1.0,
        start_s=_usual(each.start_s for each in ran),
        save_every_s=_save_every_s(record, ran, worked_s),
        leaves=Spread(median_s=_usual(each.leaves_s for each in ran)),
        saves_s=median(saves) if saves else None,
        clings=one.broken_drains > 0,
        fails=one.phase is Phase.FAILED,
        known=tuple(map(_known, ran)),
    )


def _save_every_s(record: Record, ran: Iterable[Ran], worked_s: float) -> float | None:
    """Return how often a workload saved its work by itself; None where it never did but when it was asked to leave."""
    times = record.saves - sum(each.saved_at is not None for each in ran)
    return worked_s / times if times > 0 and worked_s > 0.0 else None


def _as_usual(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return jobs of which those that never started, or never had to leave, do so as others do."""
    known = [each for job in jobs for each in job.known]
    start_s, leaves_s = _usual(each.start_s for each in known), _usual(each.leaves_s for each in known)
    found = []
    for job in jobs:
        if all(each.start_s is None for each in job.known):
            job = replace(job, start_s=start_s)  # noqa: PLW2901  # as usual
        if all(each.leaves_s is None for each in job.known):
            job = replace(job, leaves=Spread(median_s=leaves_s))  # noqa: PLW2901  # as usual
        found.append(job)
    return tuple(found)


def _known(one: Ran) -> Known:
    return Known(attempt=one.number, start_s=one.start_s, leaves_s=one.leaves_s, saves_s=one.saves_s)


def as_submitted(one: Workload) -> Workload:
    """Return a workload as it was before anything became of it."""
    fresh = one.without_nodes(Phase.QUEUED)
    return replace(fresh, attempt=1, requeued=False, expired=False, broken_drains=0)


def _last(record: Record) -> Ran:
    """Return the last attempt of a workload of which there are no notes any more."""
    one = record.workload
    began_at = one.started_at or 0.0
    return Ran(
        number=one.attempt, admitted_at=one.admitted_at or began_at, started_at=began_at, ended_at=record.ended_at
    )


def _usual(seconds: Iterable[float | None]) -> float:
    known = [each for each in seconds if each is not None]
    return median(known) if known else 0.0


# --- services and bookings ------------------------------------------------------------------------------------------


def _services(reader: JournalReader, told: Notes, begins_at: float) -> Iterator[Traffic | Aside | Malformed]:
    yield from _rows(reader, told, Demand, lambda demand, notes: _traffic(demand, notes, begins_at))
    yield from _gone(reader, told, Demand, What.DEMANDED, NOBODYS)


def _traffic(demand: Demand, notes: Sequence[Note], begins_at: float) -> Traffic:
    """Return traffic that wants as many replicas as the service did; how many requests there were is not known."""
    changes = [note for note in notes if note.kind is What.DEMANDED]
    before = _count(changes[0], "was") if changes else demand.wanted
    rates = [(begins_at, before), *((note.at, _count(note, "wanted")) for note in changes)]
    service = Service(
        name=demand.service,
        team=demand.team,
        priority=0,
        shape=demand.shape,
        floor=demand.floor,
        affinity=demand.affinity,
        slice=demand.slice,
    )
    return Traffic(
        service=service,
        rates=tuple(rates),
        slot_rate=1.0,
        busy=1.0,
        keeps_s=0.0,
        start_s=Spread(median_s=_usual(_between(notes, What.GRANTED, What.GRANT_OCCUPIED))),
        stops_s=_usual(_stops(notes)),
        objective_s=None,
    )


def _between(notes: Iterable[Note], first: What, then: What) -> Iterator[float]:
    """Yield how long it took of each grant from one thing to another."""
    began: dict[object, float] = {}
    for note in notes:
        if note.kind is first:
            began[note.detail.get("grant")] = note.at
        elif note.kind is then and note.detail.get("grant") in began:
            yield note.at - began.pop(note.detail.get("grant"))


def _stops(notes: Iterable[Note]) -> Iterator[float]:
    """Yield how long after less was wanted each replica was gone."""
    fell_at: float | None = None
    for note in notes:
        if note.kind is What.DEMANDED:
            fell_at = note.at if _count(note, "wanted") < _count(note, "was") else None
        elif note.kind is What.GRANT_IDLE and fell_at is not None:
            yield note.at - fell_at


def _count(note: Note, key: str) -> float:
    number = note.detail.get(key)
    return float(number) if isinstance(number, int) else 0.0


def _asked(record: BookingRecord, notes: Iterable[Note]) -> Asked | Aside:
    asked_at = [note.at for note in notes if note.kind is What.BOOKED]
    if not asked_at or record.stage in {Stage.PROPOSED, Stage.CANCELLED, Stage.LAPSED}:
        return Aside(why=NOT_BOOKED)
    return Asked(at=asked_at[0], ask=replace(record.ask, replaces=None))


# --- rows -----------------------------------------------------------------------------------------------------------


def _reader(path: Path) -> JournalReader:
    if not path.is_file():
        raise RequestError("there is no journal", where=str(path), fix="Give a fleet's home, or the journal.db in it")
    return JournalReader(path)


def _rows(
    reader: JournalReader, told: Notes, kind: type[T], made: Callable[[T, Sequence[Note]], F | Aside]
) -> Iterator[F | Aside | Malformed]:
    """Yield what `made` makes of each row of a table and of what happened to it."""
    tables, what = TABLES[kind]
    for number, (name, text) in enumerate(reader.lines(*tables), 1):
        one = _loaded(kind, text, number, f"{what} {name}")
        yield one if isinstance(one, Malformed) else made(one, told.get(name, ()))


def _gone(reader: JournalReader, told: Notes, kind: type, began: What, why: str) -> Iterator[Aside]:
    """Yield who began, by the events, and has no row any more."""
    known = {name for name, _ in reader.lines(*TABLES[kind][0])}
    for name, notes in told.items():
        if name not in known and any(note.kind is began for note in notes):
            yield Aside(why=why)


def _loaded(kind: type[T], text: str, line: int, what: str) -> T | Malformed:
    try:
        return codec.load(kind, text)
    except FaultError as error:
        return Malformed(line=line, why=f"{what}: {error.what}")


def _good(notes: Iterable[Note | Malformed], wrong: list[Malformed | Aside]) -> Iterator[Note]:
    for note in notes:
        if isinstance(note, Malformed):
            wrong.append(note)
        else:
            yield note


def _notes(reader: JournalReader) -> Iterator[Note | Malformed]:
    for seq, at, kind, subject, detail in reader.event_lines():
        try:
            yield Note(at=at, kind=What(kind), subject=subject, detail=json.loads(detail))
        except ValueError as error:
            yield Malformed(line=seq, why=f"event {seq}: {error}")


def _by_subject(notes: Iterable[Note]) -> dict[str, list[Note]]:
    found: defaultdict[str, list[Note]] = defaultdict(list)
    for note in notes:
        found[note.subject].append(note)
    return found


def _sound(node: Node) -> Node:
    cards = tuple(replace(card, busy=False, becomes=None, idle_since=None) for card in node.cards)
    return replace(
        node, condition=Condition.READY, down_since=None, foreign=NOTHING, foreign_owners=(), cached=(), cards=cards
    )


def _order(job: Job) -> tuple[float, str]:
    return (job.workload.submitted_at, job.workload.name)
