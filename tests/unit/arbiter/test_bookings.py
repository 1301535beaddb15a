"""Requests about bookings: who may take one, approve it, extend it and give it up, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.arbiter import calendar
from fleet_app.arbiter.booked import Stage
from fleet_app.arbiter.inbox import AboutBooking, ApproveBooking, CancelBooking
from fleet_app.arbiter.notes import What
from fleet_app.engine.errors import ConflictError, NotFoundError, RequestError
from fleet_app.engine.plan import Rebook
from tests.builders import gang
from tests.unit.arbiter.desk import APPROVE, CANCEL, EXTEND, HOUR, FakeOffice, record


@pytest.fixture
def office() -> FakeOffice:
    """Return an office that has booked nothing yet."""
    return FakeOffice()


# Asking.


def test_what_displaces_little_is_booked_at_once_and_binds(office: FakeOffice) -> None:
    office.make()
    booked = office.get()
    assert (booked.stage, booked.booking.nodes, booked.booking.asked_by) == (Stage.BOOKED, ("n1", "n2"), "ada")
    assert list(calendar.binding(office.book)) == [booked.booking]
    (told,) = office.told(What.BOOKED)
    want = {"asked_by": "ada", "approved_by": "", "price": 0.0, "nodes": ["n1", "n2"], "ref": "r1", "displaces": []}
    assert want.items() <= told.items()


def test_what_cannot_be_honoured_is_refused_with_the_obstacle_and_what_would_remove_it(office: FakeOffice) -> None:
    office.obstacle = "asks 2 nodes, 1 can be had"
    with pytest.raises(ConflictError) as refused:
        office.make()
    assert refused.value.where == "bench"
    assert "asks 2 nodes, 1 can be had" in refused.value.what
    assert refused.value.fix == "It could start at 1970-01-01T02:00:00Z. In its way: llm"
    assert list(office.book.bookings) == []


APPROVERS = {
    "nobody": ("", Stage.PROPOSED),
    "the asker": ("ada", Stage.PROPOSED),
    "somebody else": ("grace", Stage.BOOKED),
}


@pytest.mark.parametrize(("approved_by", "want"), APPROVERS.values(), ids=APPROVERS)
def test_what_displaces_much_binds_only_with_an_approver_other_than_the_asker(
    office: FakeOffice, approved_by: str, want: Stage
) -> None:
    office.displaces = True
    office.make(approved_by=approved_by)
    assert office.get().stage is want
    assert len(list(calendar.binding(office.book))) == (want is Stage.BOOKED)
    assert office.get().booking.approved_by == ("grace" if want is Stage.BOOKED else "")


def test_the_cost_is_worked_out_anew_when_a_proposal_is_approved(office: FakeOffice) -> None:
    office.displaces = True
    office.make()
    assert (office.get().said.price, office.told(What.PROPOSED)[0]["displaces"]) == (100.0, ["b1"])
    office.displaces, office.now = False, 600.0
    office.take(APPROVE)
    booked = office.get()
    assert (booked.stage, booked.booking.price, booked.booking.approved_by) == (Stage.BOOKED, 0.0, "grace")
    assert (booked.booking.made_at, booked.booking.asked_by) == (600.0, "ada")


def test_a_proposal_that_is_approved_after_its_start_starts_then(office: FakeOffice) -> None:
    office.displaces = True
    office.make()
    office.now = 2 * HOUR
    office.take(APPROVE)
    assert office.get().booking.start_at == 2 * HOUR


def test_a_proposal_that_cannot_be_honoured_any_more_stays_a_proposal(office: FakeOffice) -> None:
    office.displaces = True
    office.make()
    office.obstacle = "no room"
    with pytest.raises(ConflictError):
        office.take(APPROVE)
    assert office.get().stage is Stage.PROPOSED


NOT_NOW: dict[str, tuple[bool, AboutBooking, type[RequestError], str]] = {
    "the asker approves": (True, ApproveBooking(name="bench", who="ada"), ConflictError, "ada asked for it"),
    "what is booked is approved": (False, APPROVE, ConflictError, "nothing waits for approval"),
    "what is proposed is extended": (True, EXTEND, ConflictError, "it is proposed"),
    "an extension that makes it end earlier": (
        False,
        EXTEND.model_copy(update={"end_at": 2 * HOUR}),
        ConflictError,
        "would not end later",
    ),
    "nobody's booking is cancelled": (
        False,
        CancelBooking(name="nobody", who="ada"),
        NotFoundError,
        "no booking of that name",
    ),
}


@pytest.mark.parametrize(("displaces", "request_", "kind", "says"), NOT_NOW.values(), ids=NOT_NOW)
def test_what_cannot_be_done_now_is_refused_and_changes_nothing(
    office: FakeOffice, displaces: bool, request_: AboutBooking, kind: type[RequestError], says: str
) -> None:
    office.displaces = displaces
    office.make()
    before = office.get()
    with pytest.raises(kind, match=says):
        office.take(request_)
    assert office.get() == before


def test_a_name_that_is_booked_is_taken_until_the_booking_is_over(office: FakeOffice) -> None:
    office.make()
    with pytest.raises(ConflictError, match="booked already"):
        office.make()
    office.take(CANCEL)
    office.make(nodes=1)
    assert office.get().booking.nodes == ("n1",)


# Extending and giving up.


def test_an_extension_keeps_the_nodes_and_replaces_the_booking(office: FakeOffice) -> None:
    office.make()
    calendar.rebook(office.book, Rebook(booking="bench", nodes=("n1", "n7"), breach="", why="n2 is lost"), 5.0)
    office.take(EXTEND)
    asked = office.asked[-1]
    assert (asked.nodes, asked.count, asked.replaces, asked.end_at) == (("n1", "n7"), 2, "bench", 4 * HOUR)
    assert (office.get().stage, office.get().booking.end_at) == (Stage.BOOKED, 4 * HOUR)
    assert office.told(What.EXTENDED)[0]["was_until"] == 3 * HOUR


def test_an_extension_that_displaces_much_waits_for_approval_and_the_booking_stands_meanwhile(
    office: FakeOffice,
) -> None:
    office.make()
    office.turn(HOUR)
    office.displaces = True
    office.take(EXTEND)
    assert (office.get().booking.end_at, office.get().stage) == (3 * HOUR, Stage.IN_FORCE)
    with pytest.raises(ConflictError, match="ada asked for it"):
        office.take(ApproveBooking(name="bench", who="ada"))
    calendar.rebook(office.book, Rebook(booking="bench", nodes=("n1", "n7"), breach="", why="n2 is lost"), 5.0)
    office.take(APPROVE)
    extended = office.get()
    assert extended.booking.nodes == ("n1", "n7")
    assert (extended.booking.end_at, extended.stage, extended.change) == (4 * HOUR, Stage.IN_FORCE, None)
    assert (extended.booking.approved_by, extended.booking.price) == ("grace", 100.0)


CANCELLED = {
    "before its start it never was": (0.0, 3 * HOUR, 0),
    "in its time it ends at once, and stays known while its gang is there": (2 * HOUR, 2 * HOUR, 1),
}


@pytest.mark.parametrize(("at", "end_at", "bindings"), CANCELLED.values(), ids=CANCELLED)
def test_a_booking_is_given_up(office: FakeOffice, at: float, end_at: float, bindings: int) -> None:
    office.make()
    if at:
        office.turn(HOUR)
        office.book.put(record(replace(gang("llm", on=("n1", "n2")), admitted_at=HOUR)))
    office.turn(at)
    office.take(CANCEL)
    office.turn(at + 1)
    assert (office.get().stage, office.get().booking.end_at) == (Stage.CANCELLED, end_at)
    assert len(list(calendar.binding(office.book))) == bindings
    assert office.told(What.UNBOOKED)[0]["who"] == "ada"
    with pytest.raises(ConflictError, match="cancelled already"):
        office.take(CANCEL)
