"""A calendar at work in tests: an engine that offers what it is told to, and the arbiter's book before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fleet_app.arbiter import bookings, calendar, inbox
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.booked import BookingRecord
from fleet_app.arbiter.inbox import ApproveBooking, CancelBooking, ExtendBooking
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.records import Job, Record
from fleet_app.engine.calendar import Booking, BookingAsk, Declined, Displaced, Offer
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.workload import Workload
from fleet_app.policy.load import parse_policy, to_engine

POLICY = """
version: 1
name: test
organisations: {lab: {teams: {research: {nominal: 64}, batch: {}}}}
calendar: {keep: 1h}
accounting: {price_per_gpu_hour: 3600}
"""
"""A GPU-second costs 1."""

HOUR = 3600.0
EXTEND = ExtendBooking(name="bench", end_at=4 * HOUR, asked_by="ada", ref="r2")
APPROVE = ApproveBooking(name="bench", who="grace", ref="r2")
CANCEL = CancelBooking(name="bench", who="ada", ref="r2")
DISPLACED = Displaced(workload="b1", team="batch", how="drained", gpus=2, lost_gpu_s=60.0, again_at=9000.0)


def record(workload: Workload, **more: Any) -> Record:
    """Return the journal's record of a workload."""
    return Record(workload=workload, job=Job(entrypoint="true"), **more)


class FileRules:
    """A policy that no file holds."""

    def __init__(self) -> None:
        self.file = parse_policy(POLICY)
        self.engine = to_engine(self.file)


@dataclass
class FakeOffice:
    """Answers asks in the engine's place, and takes requests to a book. What displaces costs 100 and needs approval."""

    book: Book = field(default_factory=Book)
    now: float = 0.0
    obstacle: str = ""
    displaces: bool = False
    asked: list[BookingAsk] = field(default_factory=list)

    def offer(self, state: FleetState, policy: Policy, now: float, ask: BookingAsk) -> Offer | Declined:
        """Answer an ask."""
        self.asked.append(ask)
        if self.obstacle:
            return Declined(booking=ask.name, why=self.obstacle, possible_at=7200.0, blocked_by=("llm",))
        nodes = ask.nodes or tuple(f"n{number + 1}" for number in range(ask.count))
        booking = Booking(
            name=ask.name,
            team=ask.team,
            shape=ask.shape,
            nodes=nodes,
            start_at=ask.start_at,
            end_at=ask.end_at,
            transfers=ask.transfers,
            asked_by=ask.asked_by,
            made_at=now,
        )
        if not self.displaces:
            return Offer(booking=booking)
        return Offer(booking=booking, displaced=(DISPLACED,), lent_gpu_s=7200.0, price=100.0, approver=True)

    def take(self, request: inbox.AboutBooking) -> None:
        """Take a request in."""
        rules: Any = FileRules()
        desk = bookings.Desk(state=FleetState(), rules=rules, now=self.now, offer=self.offer)
        bookings.ingest(self.book, request, desk)

    def make(self, name: str = "bench", *, by: str = "ada", approved_by: str = "", **spec: Any) -> None:
        """Ask for two nodes from one hour to three hours after the beginning."""
        given = {"name": name, "team": "research", "nodes": 2, "start_at": HOUR, "end_at": 3 * HOUR, **spec}
        self.take(inbox.MakeBooking(spec=given, asked_by=by, approved_by=approved_by, ref="r1"))

    def turn(self, now: float) -> None:
        """Let it be that moment."""
        self.now = now
        calendar.turn(self.book, FileRules(), now)  # type: ignore[arg-type]  # a policy without its file
        calendar.tally(self.book, now)

    def get(self, name: str = "bench") -> BookingRecord:
        """Return a booking."""
        return calendar.find(self.book, name)

    def told(self, what: What) -> list[dict[str, Any]]:
        """Return the details of the notes of one kind."""
        return [dict(note.detail) for note in self.book.notes if note.kind is what]
