"""How soon the next cycle is due, and how soon Ray's job server is to be asked again. Pure.

At once while somebody waits for what is about to happen, else in a second. The job server is a slow one, so it is asked
only as often as somebody waits for what it alone knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleet_app.arbiter import calendar, groups
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.records import Record
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Hold

IDLE_S = 1.0
FORGET_S = 0.5
LAUNCH_S = 0.1
ASK_LEAVING_S = 0.25
LEAVE_S = 0.05
MAKE_S = 0.02
"""Ray shows the GPUs of a removed group as free after 0.1 s: it pays to look often just then."""


def wait_s(book: Book, facts: Facts, holds: Iterable[Hold] | None) -> float:
    """Return in how many seconds to look again; `holds` None leaves holds as they are."""
    workloads = (wait for record in book.live() for wait in _workload(record, facts))
    due = (*_unfinished(book), *_groups(book, facts, holds), *workloads, *_bookings(book, facts.now))
    return max(MAKE_S, min((*due, IDLE_S)))


def ask_jobs_after_s(live: Iterable[Record]) -> float:
    """Return how many seconds after the last time Ray's jobs are to be asked for again."""
    return min((_ask_after_s(record) for record in live), default=IDLE_S)


def _ask_after_s(record: Record) -> float:
    workload = record.workload
    if workload.phase is Phase.ADMITTED:
        # A job is submitted only when Ray has just said that it has none of that id.
        return 0.0 if record.group_id is not None and not record.job_submitted else LAUNCH_S
    if workload.leaving:
        return ASK_LEAVING_S
    return IDLE_S


def _unfinished(book: Book) -> Iterator[float]:
    """What was done but is not journaled is journaled soon, so that others see it."""
    if book.changed:
        yield MAKE_S
    if book.going():
        yield FORGET_S


def _groups(book: Book, facts: Facts, holds: Iterable[Hold] | None) -> Iterator[float]:
    if any(grant.group_id is None or grant.taken for grant in book.grants):
        yield MAKE_S
    kept = None if holds is None else tuple(holds)
    if groups.unwanted(book, facts, kept) or groups.wanted(book, facts, kept):
        yield MAKE_S


def _bookings(book: Book, now: float) -> Iterator[float]:
    """A booking begins and ends on time."""
    moments = (at for booking in calendar.binding(book) for at in (booking.start_at, booking.end_at))
    return (at - now for at in moments if at > now)


def _workload(record: Record, facts: Facts) -> Iterator[float]:
    workload = record.workload
    if not workload.holding:
        return
    if workload.deadline_at is not None and not workload.killed:
        yield workload.deadline_at - facts.now
    if workload.leaving or workload.going or record.job_id in facts.left:
        yield LEAVE_S
    elif workload.phase is Phase.ADMITTED:
        yield LAUNCH_S if record.job_submitted or not facts.named(workload.nodes) else MAKE_S
