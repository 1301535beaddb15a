"""The calendar as the control API shows it."""

from __future__ import annotations

import json

import pytest

from fleet_app.arbiter import agenda, calendar
from fleet_app.arbiter.booked import Away
from fleet_app.arbiter.inbox import ExtendBooking
from fleet_app.engine.calendar import Displaced, Offer
from fleet_app.engine.plan import Rebook
from tests.builders import node
from tests.unit.arbiter.desk import HOUR, FakeOffice

NODES = [node("n1", at="s1/l1"), node("n2", at="s1/l2")]


def test_a_row_has_where_it_is_what_it_was_said_to_cost_and_what_it_has_cost_so_far() -> None:
    office = FakeOffice(displaces=True)
    office.make(approved_by="grace")
    office.turn(HOUR)
    (row,) = agenda.bookings(office.book.bookings, NODES, 3600.0, 2 * HOUR)
    want = {
        "name": "bench",
        "stage": "in-force",
        "domains": {"s1/l1": ["n1"], "s1/l2": ["n2"]},
        "asked_by": "ada",
        "approved_by": "grace",
        "price": 100.0,
        "cost": 16 * 3600.0,
        "said_displaced_gpu_hours": round(7260 / 3600, 3),
        "displaced_gpu_hours": 0.0,
    }
    assert {key: row[key] for key in want} == want
    assert json.loads(json.dumps(row))


def test_the_first_to_begin_is_in_front_and_a_node_that_is_not_there_is_nowhere() -> None:
    office = FakeOffice()
    office.make("a", start_at=2 * HOUR)
    office.make("b", start_at=HOUR)
    rows = agenda.bookings(office.book.bookings, [], 1.0, 0.0)
    assert [(row["name"], row["domains"]) for row in rows] == [("b", {"": ["n1", "n2"]}), ("a", {"": ["n1", "n2"]})]


def test_what_waits_for_approval_is_said() -> None:
    office = FakeOffice()
    office.make()
    office.displaces = True
    office.take(ExtendBooking(name="bench", end_at=4 * HOUR, asked_by="eve"))
    (row,) = agenda.bookings(office.book.bookings, NODES, 1.0, 0.0)
    assert (row["end_at"], row["proposed_end_at"], row["proposed_by"]) == (3 * HOUR, 4 * HOUR, "eve")


def test_an_offer_has_its_numbers_in_hours_and_money() -> None:
    office = FakeOffice()
    office.make()
    displaced = Displaced(workload="b1", team="batch", how="drained", gpus=2, lost_gpu_s=60.0)
    found = Offer(
        booking=office.get().booking,
        displaced=(displaced,),
        lent_gpu_s=5400.0,
        serving_left_gpus=3,
        off_peak=((1.0, 2.0),),
        price=7.5,
        approver=True,
    )
    row = agenda.offer(found, NODES)
    assert (row["lent_gpu_hours"], row["serving_left_gpus"], row["off_peak"]) == (1.5, 3, [[1.0, 2.0]])
    assert (row["price"], row["approver"]) == (7.5, True)
    assert json.loads(json.dumps(row)) == row


SENTENCES: dict[str, tuple[bool, float, str, str]] = {
    "one that is to come": (
        False,
        0.0,
        "",
        "booked for team research: 2 nodes of 8 GPUs in 1 h, for 2 h",
    ),
    "one that is in force, and not whole": (
        False,
        2 * HOUR,
        "n2 is lost",
        "in-force for team research: 2 nodes of 8 GPUs for 1 h more; it is not whole: n2 is lost",
    ),
    "one that waits for somebody": (
        True,
        0.0,
        "",
        """proposed for team research: 2 nodes of 8 GPUs in 1 h, for 2 h; \
it displaces 2.0 GPU-hours and waits for an approver other than ada""",
    ),
    "one that has ended": (
        False,
        3 * HOUR,
        "",
        "ended for team research: 2 nodes of 8 GPUs; it was said to cost 0.00 and did cost 115200.00",
    ),
}


@pytest.mark.parametrize(("displaces", "at", "breach", "want"), SENTENCES.values(), ids=SENTENCES)
def test_a_booking_is_told_in_a_sentence(displaces: bool, at: float, breach: str, want: str) -> None:
    office = FakeOffice(displaces=displaces)
    office.make()
    calendar.rebook(office.book, Rebook(booking="bench", nodes=("n1", "n2"), breach=breach, why="w"), 0.0)
    office.turn(at)
    assert agenda.sentence(office.get(), at) == want


def test_every_stage_is_counted() -> None:
    office = FakeOffice()
    office.make()
    assert {stage: count for stage, count in agenda.counts(office.book.bookings).items() if count} == {"booked": 1}
    assert len(agenda.counts([])) == 6


def test_what_is_away_counts_from_when_it_left() -> None:
    away = Away(workload="b", team="batch", gpus=2, attempt=1, saved_at=0.0)
    assert away.taken_gpu_s(100.0) == 0.0
