"""Who may start on a booked node, by when it would have left and by what is booked there (C1 to C3, C8)."""

from __future__ import annotations

import pytest

from fleet_app.engine.calendar import Booking
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.policy import Calendar
from fleet_app.engine.workload import Workload
from tests.builders import backfill, booking, gang, node, policy, state, team

RULES = policy(team("research"), team("vision"), calendar=Calendar(reclaim_lead_s=200.0, hold_s=100.0))
HALF = booking(gpus=4)
SHUT = booking("shut", team=None)


def theirs(name: str = "theirs", gpus: int = 8, **rest: object) -> Workload:
    return gang(name, gpus=gpus, team="vision", **rest)  # type: ignore[arg-type]  # a test's keywords


def lent(gpus: int = 8, **rest: object) -> Workload:
    return backfill("lent", gpus=gpus, team="vision", **rest)  # type: ignore[arg-type]  # a test's keywords


CASES: dict[str, tuple[list[Booking | Workload], Workload, float, bool]] = {
    "committed work of others that need not end stays out": ([booking()], theirs(), 0.0, False),
    "one that has left by the start comes in": ([booking()], theirs(max_run_s=880.0), 0.0, True),
    "a second too long stays out": ([booking()], theirs(max_run_s=881.0), 0.0, False),
    "its own comes in before": ([booking()], gang(), 0.0, True),
    "its own comes in while it lasts": ([booking()], gang(), 1500.0, True),
    "its own takes no more than is booked": ([HALF], gang(gpus=5), 1500.0, False),
    "beside a part of a node there is room": ([HALF], theirs(gpus=4), 1500.0, True),
    "but no more than that": ([HALF], theirs(gpus=5), 1500.0, False),
    "the part beside goes once": ([HALF, theirs("first", 2, on=["n1"])], theirs(gpus=4), 1500.0, False),
    "who has left by then is not in it": (
        [HALF, theirs("first", 4, on=["n1"], max_run_s=100.0)],
        theirs(gpus=4),
        0.0,
        True,
    ),
    "what its team has beyond its part is outside": ([HALF, gang(gpus=8, on=["n1"])], theirs(gpus=1), 1500.0, False),
    "two bookings of one node leave nothing": ([HALF, booking("two", gpus=4)], theirs(gpus=1), 1500.0, False),
    "what yields comes in until its notice is due": ([booking()], lent(), 799.0, True),
    "and not after": ([booking()], lent(), 800.0, False),
    "a long grace is due before the policy's lead": ([booking()], lent(grace_s=300.0), 750.0, False),
    "what yields and fits beside need not leave": ([HALF], lent(4), 900.0, True),
    "booked room is held at first": ([booking()], lent(), 1099.0, False),
    "and lent after that": ([booking()], lent(), 1100.0, True),
    "what yields of its own team comes at any time": ([booking()], backfill(), 1000.0, True),
    "maintenance is nobody's": ([SHUT], gang(), 1500.0, False),
    "not even lent": ([SHUT], lent(), 1500.0, False),
    "what is over is in nobody's way": ([booking()], theirs(), 2000.0, True),
    "who keeps its place beside is not overlooked": (
        [HALF, lent(4, on=["n1"])],
        theirs(gpus=4),
        900.0,
        False,
    ),
}


@pytest.mark.parametrize(("parts", "workload", "now", "want"), CASES.values(), ids=CASES)
def test_open_to(parts: list[Booking | Workload], workload: Workload, now: float, want: bool) -> None:
    ledger = Ledger(state(node("n1"), *parts), RULES, now)
    assert ledger.calendar is not None
    yields = ledger.class_of(workload).yields
    assert ledger.calendar.open_to(workload, yields=yields)("n1") is want
    assert (ledger.calendar.blocking(workload, ["n1"], yields=yields) == ()) is want


def test_without_bookings_there_is_no_calendar() -> None:
    assert Ledger(state(node("n1")), RULES, 0.0).calendar is None
