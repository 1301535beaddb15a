"""The calendar from cycle to cycle: when bookings begin, end and are forgotten, whom each displaced, what it did cost.

Pure. Knows the book and the moment. Does not know whether a booking can be honoured, nor who asks for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.booked import BINDING, Away, BookingRecord, Stage
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.records import Record
from fleet_app.arbiter.rules import Rules
from fleet_app.engine.calendar import Booking
from fleet_app.engine.errors import NotFoundError
from fleet_app.engine.plan import Rebook

LONGEST_SUBJECT = 100


def find(book: Book, name: str) -> BookingRecord:
    """Return a booking. Raises NotFoundError."""
    record = book.bookings.get(name)
    if record is None:
        raise NotFoundError("no booking of that name", where=name[:LONGEST_SUBJECT], fix="See `fleet calendar`")
    return record


def note(book: Book, what: What, record: BookingRecord, now: float, **more: object) -> None:
    """Note something about a booking, with all that it is and who asked for and approved it."""
    booking, said = record.booking, record.said
    detail = {
        "team": booking.team,
        "nodes": list(booking.nodes),
        "gpus": booking.shape.gpus,
        "start_at": booking.start_at,
        "end_at": booking.end_at,
        "asked_by": record.ask.asked_by,
        "approved_by": booking.approved_by,
        "price": said.price,
        "displaces": [each.workload for each in said.displaced],
        "transfers": [f"{each.lender}={each.gpus}:{each.approved_by}" for each in booking.transfers],
    }
    book.note(now, what, record.name, **detail, **more)


def turn(book: Book, rules: Rules, now: float) -> None:
    """Let bookings begin and end, proposals lapse, and what ended long ago be forgotten."""
    for record in book.bookings:
        turned = _turned(book, record, rules, now)
        if turned is None:
            book.bookings.drop(record.name)
        else:
            book.bookings.put(record.name, turned)


def _turned(book: Book, record: BookingRecord, rules: Rules, now: float) -> BookingRecord | None:
    booking = record.booking
    if record.stage is Stage.PROPOSED and booking.over(now):
        book.note(now, What.LAPSED, record.name, why="nobody approved it before its end")
        return replace(record, stage=Stage.LAPSED, ended_at=now, cleared=True)
    if record.stage in BINDING and booking.over(now):
        return _ended(book, record, rules, now)
    if record.stage is Stage.BOOKED and booking.at(now):
        book.note(now, What.BOOKING_STARTED, record.name, nodes=list(booking.nodes), breach=booking.breach)
        return replace(record, stage=Stage.IN_FORCE)
    if record.ended_at is None:
        return record
    if not record.cleared:
        return replace(record, cleared=not _in_use(book, booking))
    return None if now >= record.ended_at + rules.file.calendar.keep else record


def _ended(book: Book, record: BookingRecord, rules: Rules, now: float) -> BookingRecord:
    spent = cost(record, rules, record.booking.end_at)
    detail = account(record, spent, record.booking.end_at) | {"breach": record.booking.breach}
    book.note(now, What.BOOKING_ENDED, record.name, **detail)
    return replace(record, stage=Stage.ENDED, ended_at=now, cost=spent, change=None)


def account(record: BookingRecord, spent: float | None, until: float) -> dict[str, object]:
    """Return what a booking was said to cost and did, in money and in what others had to give for it."""
    return {
        "said_price": record.said.price,
        "cost": spent,
        "displaced": sorted({away.workload for away in record.away}),
        "said_displaced_gpu_hours": round(record.said_displaced_gpu_s / 3600, 3),
        "displaced_gpu_hours": round(record.displaced_gpu_s(until) / 3600, 3),
    }


def cost(record: BookingRecord, rules: Rules, until: float) -> float:
    """Return what a booking has cost by `until`, in the policy's money."""
    return round(record.did_cost(rules.engine.calendar.price_per_gpu_hour, until), 6)


def binding(book: Book) -> Iterator[Booking]:
    """Yield the bookings that bind, and those that are over while what began in them is still on their nodes (C7)."""
    for record in book.bookings:
        began = record.ended_at is not None and record.ended_at > record.booking.start_at
        if record.stage in BINDING or (began and not record.cleared):
            yield record.booking


def _in_use(book: Book, booking: Booking) -> bool:
    """Return whether something of the booking's team that began while it was in force still has a node of it."""
    taken = set(booking.nodes)
    return any(
        record.workload.team == booking.team
        and record.workload.holding
        and booking.at(record.workload.admitted_at or 0.0)
        and not taken.isdisjoint(record.workload.nodes)
        for record in book.live()
    )


def rebook(book: Book, action: Rebook, now: float) -> None:
    """Give a booking other nodes in place of those that it lost, and say what it lacks (C6)."""
    record = book.bookings.get(action.booking)
    if record is None or record.stage not in BINDING:
        return
    booking = replace(record.booking, nodes=action.nodes, breach=action.breach)
    if booking != record.booking:
        book.bookings.put(record.name, replace(record, booking=booking))
        detail = {"was": list(record.booking.nodes), "breach": action.breach, "why": action.why}
        book.note(now, What.REBOOKED, record.name, nodes=list(action.nodes), **detail)


# What it did cost.


def tally(book: Book, now: float) -> None:
    """Keep account of those who leave for a booking: who, since when, and when each is back."""
    kept = [record for record in book.bookings if record.stage in BINDING]
    leaving = [one for one in book.live() if one.workload.drained_for is not None] if kept else []
    for record in kept:
        left = {away.workload for away in record.away if away.back_at is None}
        new = (one for one in leaving if one.workload.drained_for == record.name and one.name not in left)
        known = (_followed(away, book.records.get(away.workload), now) for away in record.away)
        book.bookings.put(record.name, replace(record, away=(*known, *(_away(one, now) for one in new))))


def _away(record: Record, now: float) -> Away:
    workload = record.workload
    saved_at = now if workload.saved_at is None else workload.saved_at
    return Away(
        workload=workload.name, team=workload.team, gpus=workload.gpus, attempt=workload.attempt, saved_at=saved_at
    )


def _followed(away: Away, record: Record | None, now: float) -> Away:
    if away.back_at is not None:
        return away
    ended = record is None or record.ended_at is not None
    holding = record is not None and record.workload.holding
    if away.left_at is None:
        if holding and record is not None and record.workload.attempt == away.attempt:
            return away
        away = replace(away, left_at=now, lost_gpu_s=0.0 if ended else away.gpus * max(0.0, now - _saved(away, record)))
    return replace(away, back_at=now) if holding or ended else away


def _saved(away: Away, record: Record | None) -> float:
    """Return the moment up to which the work of the attempt that left is safe."""
    saved = None if record is None else record.checkpoint
    return away.saved_at if saved is None or saved.attempt != away.attempt else max(away.saved_at, saved.at)
