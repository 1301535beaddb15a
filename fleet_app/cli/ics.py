"""The calendar as iCalendar (RFC 5545), for the calendars that people have.

Knows the control API's bookings. Does not know who reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from icalendar import Calendar, Event

from fleet_app import __version__
from fleet_app.cli.agenda import size, where, whom
from fleet_app.cli.tables import Row

_STATUS = {"proposed": "TENTATIVE", "cancelled": "CANCELLED", "lapsed": "CANCELLED"}


def to_ics(bookings: Iterable[Row], fleet: str) -> str:
    """Return the bookings as a calendar in text; `fleet` keeps names of several fleets apart."""
    calendar = Calendar()
    calendar.add("prodid", f"-//fleet-arbiter//fleet {__version__}//EN")
    calendar.add("version", "2.0")
    calendar.add("x-wr-calname", f"GPU fleet {fleet}")
    for booking in bookings:
        calendar.add_component(_event(booking, fleet))
    text: bytes = calendar.to_ical()
    return text.decode()


def _event(booking: Row, fleet: str) -> Event:
    event = Event()
    event.add("uid", f"{booking['name']}@{fleet}")
    event.add("dtstamp", _at(float(booking["made_at"])))
    event.add("dtstart", _at(float(booking["start_at"])))
    event.add("dtend", _at(float(booking["end_at"])))
    event.add("summary", f"{booking['name']}: {size(booking)} GPUs for {whom(booking)}")
    event.add("location", where(booking))
    event.add("description", "\n".join(_facts(booking)))
    event.add("status", _STATUS.get(str(booking["stage"]), "CONFIRMED"))
    return event


def _facts(booking: Row) -> Iterable[str]:
    yield f"Nodes: {', '.join(map(str, booking['nodes']))}"
    yield f"Stage: {booking['stage']}, asked by {booking['asked_by']}, approved by {booking['approved_by'] or 'nobody'}"
    if booking["breach"]:
        yield f"Not whole: {booking['breach']}"


def _at(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
