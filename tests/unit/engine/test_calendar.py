"""When a booking is in force, and when it is over."""

from __future__ import annotations

import pytest

from fleet_app.engine.calendar import Booking
from tests.builders import shape

BOOKED = Booking(name="night", team="research", shape=shape(8), nodes=("n1",), start_at=100.0, end_at=200.0)

MOMENTS = {
    "before": (99.0, False, False),
    "from its start on": (100.0, True, False),
    "while it lasts": (150.0, True, False),
    "not any more at its end": (200.0, False, True),
    "nor after": (201.0, False, True),
}


@pytest.mark.parametrize(("now", "at", "over"), MOMENTS.values(), ids=MOMENTS)
def test_when_a_booking_is_in_force(now: float, at: bool, over: bool) -> None:
    assert (BOOKED.at(now), BOOKED.over(now)) == (at, over)
