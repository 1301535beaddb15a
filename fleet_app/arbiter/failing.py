"""What the book keeps of failures and quarantines: how each comes in, and when it is forgotten. Pure.

Knows attempts and nodes. Does not know which failures keep a node out: that is decided in the engine.
"""

from __future__ import annotations

from dataclasses import replace

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.records import Record
from fleet_app.engine.errors import ConflictError
from fleet_app.engine.failures import Cause, Failure, Quarantined
from fleet_app.engine.policy import Health
from fleet_app.engine.workload import Kind


def failure(record: Record, now: float, cause: Cause, why: str, node: str | None = None) -> tuple[Failure, ...]:
    """Return the failure of a workload's current attempt, if it counts: backfill's own faults do not."""
    if record.workload.kind is not Kind.GANG and cause is not Cause.NODE:
        return ()
    workload = record.workload
    return (Failure(workload=workload.name, nodes=workload.nodes, at=now, cause=cause, node=node, why=why),)


def quarantine(book: Book, told: Quarantined) -> None:
    """Keep a node out; one that is kept out already is from now on kept out for this."""
    book.quarantines.put(told.node, told)
    book.note(told.since, What.QUARANTINED, told.node, until=told.until, owner=told.owner, why=told.reason)


def release(book: Book, node: str, now: float, why: str, who: str | None = None) -> None:
    """Let a node in again. Raises ConflictError when nobody keeps it out."""
    told = book.quarantines.get(node)
    if told is None or told.released_at is not None:
        raise ConflictError("it is not quarantined", where=node, fix="See `fleet nodes`")
    book.quarantines.put(node, replace(told, released_at=now))
    book.note(now, What.RELEASED, node, owner=who or told.owner, why=why)


def forget_old(book: Book, health: Health, now: float) -> None:
    """Drop what is older than the window: it is held against nobody any more."""
    for key, failed in book.failures.items():
        if failed.at <= now - health.window_s:
            book.failures.drop(key)
    for told in book.quarantines:
        if told.released_at is not None and told.released_at <= now - health.window_s:
            book.quarantines.drop(told.node)
