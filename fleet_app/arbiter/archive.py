"""Workloads that ended long ago leave the arbiter's book for the journal's archive, so that neither grows. Pure.

Ray deletes their jobs first. Nobody who goes on needs them: whoever was displaced is back or gone by its end, failures
are remembered apart, and their names stay taken, because the archive is asked for them. Does not know Ray or SQLite.
"""

from __future__ import annotations

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.records import Record

AT_ONCE = 10
"""How many leave at a time, since for each Ray is asked to delete its jobs, and others wait meanwhile."""

PATIENCE_S = 3600.0
"""How long Ray may go on having a job of one that leaves, before that keeps nobody any more."""


def turn(book: Book, keep_s: float, now: float) -> None:
    """Let those leave that ended `keep_s` ago or earlier, some at a time, the earliest first."""
    book.let_go(now - keep_s, now, AT_ONCE)


def leave(book: Book, record: Record, now: float, *, jobs: int) -> None:
    """Let a workload that goes leave, once Ray has no `jobs` of it: for the archive, or for good if it was deleted."""
    if record.forgotten and not jobs:
        book.drop(record.name)
        book.note(now, What.FORGOTTEN, record.name)
    elif not record.forgotten and (not jobs or book.done_for_s(record.name, now) > PATIENCE_S):
        book.archive(record.name)
