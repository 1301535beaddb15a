"""Workloads that ended long ago, or before many others, leave the arbiter's book for the journal's archive. Pure.

So the book does not grow, nor does what Ray lists: their jobs are deleted there first. Nobody who goes on needs them:
whoever was displaced is back or gone by its end, failures are remembered apart, and their names stay taken, because the
archive is asked for them. Does not know Ray or SQLite.
"""

from __future__ import annotations

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.records import Record

AT_ONCE = 10
"""How many leave at a time, since for each Ray is asked to delete its jobs, and others wait meanwhile."""

PATIENCE_S = 3600.0
"""How long Ray may go on having a job of one that leaves, before that keeps nobody any more."""


def turn(book: Book, keep_s: float, most: int, now: float) -> None:
    """Let those leave that ended `keep_s` ago, or are more than `most`: the earliest first, some at a time."""
    book.let_go(now - keep_s, most, now, AT_ONCE)


def leave(book: Book, record: Record, now: float, *, jobs: int) -> None:
    """Let a workload that goes leave, once Ray has no `jobs` of it: for the archive, or for good if it was deleted."""
    if record.forgotten and not jobs:
        book.drop(record.name)
        book.note(now, What.FORGOTTEN, record.name)
    elif not record.forgotten and (not jobs or book.done_for_s(record.name, now) > PATIENCE_S):
        book.archive(record.name)
