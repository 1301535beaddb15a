"""Requests about bookings, answered: taken, proposed, approved, extended, given up, or refused with the obstacle.

Whether one can be honoured, and what it would cost, is decided in the engine, on the state at the moment of asking; it
is taken only on its offer. Pure. Does not know files, Ray, or what becomes of a booking later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import assert_never

from fleet_app.arbiter import calendar
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.booked import BINDING, OPEN, BookingRecord, Stage
from fleet_app.arbiter.inbox import AboutBooking, ApproveBooking, CancelBooking, ExtendBooking, MakeBooking
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.rules import Rules
from fleet_app.engine.booking import offer
from fleet_app.engine.calendar import BookingAsk, Declined, Offer
from fleet_app.engine.errors import ConflictError
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.policy.bookings import booking_from_mapping, to_ask

Offerer = Callable[[FleetState, Policy, float, BookingAsk], Offer | Declined]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What a request about a booking is answered from: the fleet as it is, the rules, the moment in seconds.

    `offer` says whether a booking can be honoured.
    """

    state: FleetState
    rules: Rules
    now: float
    offer: Offerer = offer

    def offered(self, ask: BookingAsk) -> Offer:
        """Return the offer for what is asked. Raises ConflictError that says why there is none."""
        return offered(self.offer(self.state, self.rules.engine, self.now, ask))


def ingest(book: Book, request: AboutBooking, desk: Desk) -> None:
    """Do in the book what a request about a booking asks for. Raises RequestError; nothing was changed then."""
    match request:
        case MakeBooking():
            _make(book, request, desk)
        case ApproveBooking():
            _approve(book, request, desk)
        case ExtendBooking():
            _extend(book, request, desk)
        case CancelBooking():
            _cancel(book, request, desk)
        case _:
            assert_never(request)


def offered(found: Offer | Declined) -> Offer:
    """Return what was offered. Raises ConflictError that says why nothing was."""
    if isinstance(found, Declined):
        raise declined(found)
    return found


def declined(found: Declined) -> ConflictError:
    """Return the refusal that says what the first obstacle is, and what would remove it."""
    ways = []
    if found.possible_at is not None:
        ways.append(f"It could start at {datetime.fromtimestamp(found.possible_at, UTC):%Y-%m-%dT%H:%M:%SZ}")
    if found.blocked_by:
        ways.append(f"In its way: {', '.join(found.blocked_by)}")
    return ConflictError(
        f"cannot be booked: {found.why}",
        where=found.booking,
        fix=". ".join(ways) or "Ask for less, for another time, or for other nodes",
    )


def extension(record: BookingRecord, end_at: float, asked_by: str) -> BookingAsk:
    """Return what is asked when a booking is to end later, on the nodes that it has.

    Raises ConflictError when it does not bind, or would not end later.
    """
    if record.stage not in BINDING:
        raise ConflictError(f"it is {record.stage}", where=record.name, fix="Only what is booked can be extended")
    if end_at <= record.booking.end_at:
        raise ConflictError(
            "it would not end later than it does", where=record.name, fix="Give a later time, or cancel it"
        )
    nodes = record.booking.nodes
    return replace(record.ask, end_at=end_at, nodes=nodes, count=len(nodes), replaces=record.name, asked_by=asked_by)


def to_approve(record: BookingRecord, who: str, now: float) -> BookingAsk:
    """Return what `who` would approve at `now`: not what it asked for itself (C10).

    Raises ConflictError when it is, or nothing waits for approval.
    """
    if record.stage is Stage.PROPOSED:
        ask = replace(record.ask, start_at=max(record.ask.start_at, now))
    elif record.stage in BINDING and record.change is not None:
        ask = replace(record.change, nodes=record.booking.nodes)
    else:
        raise ConflictError(f"it is {record.stage}; nothing waits for approval", where=record.name)
    if who == ask.asked_by:
        raise ConflictError(
            f"{who} asked for it", where=record.name, fix="Somebody other than the asker has to approve it"
        )
    return ask


# Requests.


def _make(book: Book, request: MakeBooking, desk: Desk) -> None:
    spec = booking_from_mapping(request.spec, desk.rules.file, desk.now)
    known = book.bookings.get(spec.name)
    if known is not None and known.stage in OPEN:
        raise ConflictError(f"it is {known.stage} already", where=spec.name, fix="Choose another name, or cancel it")
    ask = to_ask(spec, desk.rules.file, desk.state.nodes, request.asked_by, desk.now)
    said = desk.offered(ask)
    approver = _approver(request)
    if said.approver and not approver:
        record = BookingRecord(booking=said.booking, ask=ask, said=said, stage=Stage.PROPOSED)
        calendar.note(book, What.PROPOSED, record, desk.now, ref=request.ref)
    else:
        record = _bound(ask, said, approver, desk.now)
        calendar.note(book, What.BOOKED, record, desk.now, ref=request.ref)
    book.bookings.put(record.name, record)


def _approve(book: Book, request: ApproveBooking, desk: Desk) -> None:
    record = calendar.find(book, request.name)
    ask = to_approve(record, request.who, desk.now)
    said = desk.offered(ask)
    if record.stage is Stage.PROPOSED:
        record = _bound(ask, said, request.who, desk.now)
        calendar.note(book, What.BOOKED, record, desk.now, ref=request.ref)
        book.bookings.put(record.name, record)
    else:
        _change(book, record, _bound(ask, said, request.who, desk.now), desk.now, request.ref)


def _extend(book: Book, request: ExtendBooking, desk: Desk) -> None:
    record = calendar.find(book, request.name)
    ask = extension(record, request.end_at, request.asked_by)
    said = desk.offered(ask)
    approver = _approver(request)
    if said.approver and not approver:
        book.bookings.put(record.name, replace(record, change=ask))
        proposed = replace(record, booking=said.booking, ask=ask, said=said)
        calendar.note(book, What.PROPOSED, proposed, desk.now, ref=request.ref, was_until=record.booking.end_at)
    else:
        _change(book, record, _bound(ask, said, approver, desk.now), desk.now, request.ref)


def _change(book: Book, old: BookingRecord, new: BookingRecord, now: float, ref: str) -> None:
    kept = replace(new, stage=old.stage, away=old.away)
    book.bookings.put(old.name, kept)
    calendar.note(book, What.EXTENDED, kept, now, ref=ref, was_until=old.booking.end_at)


def _approver(request: MakeBooking | ExtendBooking) -> str:
    """Return who approves what is asked for: nobody, where that is who asks."""
    return "" if request.approved_by == request.asked_by else request.approved_by


def _bound(ask: BookingAsk, said: Offer, approved_by: str, now: float) -> BookingRecord:
    booking = replace(said.booking, asked_by=ask.asked_by, approved_by=approved_by, made_at=now, price=said.price)
    return BookingRecord(booking=booking, ask=ask, said=said, stage=Stage.BOOKED)


def _cancel(book: Book, request: CancelBooking, desk: Desk) -> None:
    record = calendar.find(book, request.name)
    if record.stage not in OPEN:
        raise ConflictError(f"it is {record.stage} already", where=record.name, fix="Nothing is left to be done")
    booking, spent = record.booking, None
    if record.stage is Stage.IN_FORCE:
        booking = replace(booking, end_at=desk.now)
    if record.stage in BINDING:
        spent = calendar.cost(record, desk.rules, desk.now)
    closed = replace(record, booking=booking, stage=Stage.CANCELLED, change=None, ended_at=desk.now, cost=spent)
    book.bookings.put(record.name, closed)
    detail = calendar.account(record, spent, desk.now) | {"ref": request.ref}
    book.note(desk.now, What.UNBOOKED, record.name, who=request.who, was=record.stage, **detail)
