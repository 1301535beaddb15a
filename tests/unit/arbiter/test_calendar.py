"""The calendar from cycle to cycle: when bookings begin, end and are forgotten, and what each did cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet_app.arbiter import calendar
from fleet_app.arbiter.booked import Stage
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.records import Checkpoint
from fleet_app.engine.errors import ConflictError
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Rebook
from fleet_app.engine.workload import Workload
from tests.builders import backfill, gang
from tests.unit.arbiter.desk import APPROVE, CANCEL, EXTEND, HOUR, FakeOffice, record


@pytest.fixture
def office() -> FakeOffice:
    """Return an office that has booked nothing yet."""
    return FakeOffice()


def test_a_booking_begins_ends_and_is_forgotten_in_its_time(office: FakeOffice) -> None:
    office.make()
    stages = []
    for at in (HOUR - 1, HOUR, 3 * HOUR - 1, 3 * HOUR):
        office.turn(at)
        stages.append(office.get().stage)
    assert stages == [Stage.BOOKED, Stage.IN_FORCE, Stage.IN_FORCE, Stage.ENDED]
    assert office.told(What.BOOKING_STARTED) == [{"nodes": ["n1", "n2"], "breach": ""}]
    office.turn(4 * HOUR - 1)
    assert "bench" in office.book.bookings
    office.turn(4 * HOUR)
    assert "bench" not in office.book.bookings


def test_a_proposal_that_nobody_approves_lapses(office: FakeOffice) -> None:
    office.displaces = True
    office.make()
    office.turn(3 * HOUR)
    assert office.get().stage is Stage.LAPSED
    assert len(office.told(What.LAPSED)) == 1
    with pytest.raises(ConflictError, match="lapsed"):
        office.take(APPROVE)


STAYERS: dict[str, tuple[Workload, bool]] = {
    "its team's gang that began in it": (replace(gang("llm", on=("n2",)), admitted_at=2 * HOUR), True),
    "its team's gang that was there before": (replace(gang("llm", on=("n2",)), admitted_at=HOUR - 1), False),
    "its team's gang elsewhere": (replace(gang("llm", on=("n3",)), admitted_at=2 * HOUR), False),
    "another team's": (replace(gang("llm", on=("n2",), team="batch"), admitted_at=2 * HOUR), False),
}


@pytest.mark.parametrize(("stayer", "known"), STAYERS.values(), ids=STAYERS)
def test_what_is_over_stays_known_to_decisions_while_what_began_in_it_is_there(
    office: FakeOffice, stayer: Workload, known: bool
) -> None:
    office.make()
    office.turn(HOUR)
    office.book.put(record(stayer))
    office.turn(3 * HOUR)
    office.turn(3 * HOUR + 1)
    assert [booking.name for booking in calendar.binding(office.book)] == (["bench"] if known else [])
    office.turn(10 * HOUR)
    assert ("bench" in office.book.bookings) == known
    office.book.put(record(replace(stayer, phase=Phase.QUEUED, nodes=(), admitted_at=None)))
    office.turn(10 * HOUR + 1)
    assert list(calendar.binding(office.book)) == []
    office.turn(11 * HOUR)
    assert "bench" not in office.book.bookings


def test_what_takes_the_place_of_a_lost_node_and_what_is_missing_is_kept(office: FakeOffice) -> None:
    office.make()
    calendar.rebook(office.book, Rebook(booking="bench", nodes=("n1", "n7"), breach="", why="n2 is lost"), 5.0)
    calendar.rebook(office.book, Rebook(booking="bench", nodes=("n1", "n7"), breach="n7 is lost", why="w"), 6.0)
    calendar.rebook(office.book, Rebook(booking="bench", nodes=("n1", "n7"), breach="n7 is lost", why="w"), 7.0)
    calendar.rebook(office.book, Rebook(booking="nobody", nodes=(), breach="", why="w"), 8.0)
    assert (office.get().booking.nodes, office.get().booking.breach) == (("n1", "n7"), "n7 is lost")
    assert [told["nodes"] for told in office.told(What.REBOOKED)] == [["n1", "n7"]] * 2


# What it did cost: two nodes of 8 GPUs for two hours are 32 GPU-hours, at 3600 each.

WHOLE = 32 * 3600.0


def leaving(**more: Any) -> Workload:
    return backfill(
        "b1", on=("n1",), gpus=2, phase=Phase.DRAINING, drained_for="bench", started_at=0.0, team="batch", **more
    )


def test_what_it_did_cost_is_noted_beside_what_it_was_said_to(office: FakeOffice) -> None:
    office.make()
    assert [office.get().did_cost(3600, at) for at in (0.0, HOUR, 2 * HOUR, 9 * HOUR)] == [0, 0, WHOLE / 2, WHOLE]
    office.turn(HOUR)
    office.turn(3 * HOUR + 5)
    (told,) = office.told(What.BOOKING_ENDED)
    assert (told["said_price"], told["cost"], office.get().cost) == (0.0, WHOLE, WHOLE)


def test_what_is_given_up_costs_what_it_lasted(office: FakeOffice) -> None:
    office.make()
    office.turn(2 * HOUR)
    office.take(CANCEL)
    assert (office.get().cost, office.told(What.UNBOOKED)[0]["cost"]) == (WHOLE / 2, WHOLE / 2)


def test_who_had_to_leave_lost_work_and_went_without_until_it_was_back(office: FakeOffice) -> None:
    office.make()
    office.turn(HOUR - 100)
    office.book.put(record(leaving(saved_at=HOUR - 150)))
    office.turn(HOUR - 99)
    saved = Checkpoint(uri="x", step=1, at=HOUR - 60, attempt=1)
    queued = backfill("b1", gpus=2, team="batch", attempt=2)
    office.book.put(record(queued, checkpoint=saved))
    office.turn(HOUR - 50)  # it is gone: 10 seconds of 2 GPUs are to be done again
    office.turn(HOUR)
    office.book.put(record(replace(queued, nodes=("n9",), phase=Phase.ADMITTED, admitted_at=HOUR + 50)))
    office.turn(HOUR + 50)  # after 100 seconds it has GPUs again
    office.turn(3 * HOUR)
    (away,) = office.get().away
    assert (away.lost_gpu_s, away.left_at, away.back_at) == (20.0, HOUR - 50, HOUR + 50)
    (told,) = office.told(What.BOOKING_ENDED)
    assert (told["displaced"], told["displaced_gpu_hours"]) == (["b1"], round(220 / 3600, 3))


def test_who_is_not_back_when_it_ends_went_without_until_then(office: FakeOffice) -> None:
    office.make()
    office.book.put(record(leaving(saved_at=0.0)))
    office.turn(HOUR - 50)
    office.book.put(record(backfill("b1", gpus=2, team="batch", attempt=2)))
    office.turn(HOUR)
    office.turn(3 * HOUR + 7)
    assert office.told(What.BOOKING_ENDED)[0]["displaced_gpu_hours"] == 2 + 2 * 2


def test_an_extension_forgets_nobody_who_had_to_leave(office: FakeOffice) -> None:
    office.make()
    office.book.put(record(leaving(saved_at=0.0)))
    office.turn(HOUR)
    office.take(EXTEND)
    assert [away.workload for away in office.get().away] == ["b1"]


def test_who_finishes_its_work_when_asked_to_leave_loses_nothing(office: FakeOffice) -> None:
    office.make()
    office.book.put(record(leaving(saved_at=0.0)))
    office.turn(HOUR - 50)
    office.book.put(record(replace(leaving(), phase=Phase.SUCCEEDED), ended_at=HOUR))
    office.turn(HOUR)
    office.turn(3 * HOUR)
    assert office.get().displaced_gpu_s(3 * HOUR) == 0.0


def test_who_is_asked_twice_counts_twice(office: FakeOffice) -> None:
    office.make()
    for attempt in (1, 2):
        start = HOUR + 100.0 * attempt
        office.book.put(record(leaving(saved_at=start, attempt=attempt)))
        office.turn(start)
        office.book.put(record(backfill("b1", gpus=2, team="batch", attempt=attempt + 1)))
        office.turn(start + 10)
        back = backfill("b1", on=("n9",), gpus=2, team="batch", attempt=attempt + 1, started_at=start + 20)
        office.book.put(record(back))
        office.turn(start + 20)
    assert [(away.attempt, away.lost_gpu_s, away.taken_gpu_s(9e9)) for away in office.get().away] == [
        (1, 20.0, 40.0),
        (2, 20.0, 40.0),
    ]
