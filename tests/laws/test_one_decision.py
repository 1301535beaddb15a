"""Laws of a single decision, on fleets with any past."""

from __future__ import annotations

from hypothesis import given

from tests.laws.effort import tries
from tests.laws.reference import case_of, check
from tests.strategies import fleets
from tests.virtual import Fleet


@tries(300)
@given(fleet=fleets())
def test_every_decision_keeps_every_law(fleet: Fleet) -> None:
    check(case_of(fleet))
