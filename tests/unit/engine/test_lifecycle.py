"""The lifecycle's table, and the phases that hold nodes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from fleet_app.engine.errors import FaultError, IllegalTransitionError
from fleet_app.engine.lifecycle import HOLDING, LEAVING, TABLE, TERMINAL, Event, Phase, after, allowed
from fleet_app.engine.workload import Workload
from tests.builders import gang


@pytest.mark.parametrize(("phase", "event"), TABLE)
def test_a_row_of_the_table_is_what_happens(phase: Phase, event: Event) -> None:
    assert after(phase, event) is TABLE[phase, event]


@pytest.mark.parametrize(("phase", "event"), [pair for pair in product(Phase, Event) if pair not in TABLE])
def test_what_has_no_row_is_refused_and_says_what_would_do(phase: Phase, event: Event) -> None:
    with pytest.raises(IllegalTransitionError, match=f"a workload that is {phase} cannot {event}") as caught:
        after(phase, event)
    assert isinstance(caught.value, FaultError)
    assert all(name in caught.value.fix for name in allowed(phase))


def test_nothing_leaves_a_terminal_phase() -> None:
    assert {phase for phase, _ in TABLE} == set(Phase) - TERMINAL
    assert all(allowed(phase) == () for phase in TERMINAL)


def test_every_phase_can_be_reached_and_every_live_one_left_for_good() -> None:
    assert set(TABLE.values()) == set(Phase)
    reaches_end = set(TERMINAL)
    for _ in Phase:
        reaches_end |= {phase for (phase, _), then in TABLE.items() if then in reaches_end}
    assert reaches_end == set(Phase)


def test_phases_are_either_queued_or_holding_or_over() -> None:
    assert HOLDING | TERMINAL | {Phase.QUEUED} == set(Phase)
    assert not HOLDING & TERMINAL
    assert LEAVING < HOLDING


LEAVING_CASES = {
    "one that runs is not": (gang(on=["n1"]), False),
    "one that drains is": (gang(on=["n1"], phase=Phase.DRAINING, deadline_at=9.0), True),
    "one that was asked to move is not": (gang(on=["n1"], phase=Phase.DRAINING), False),
    "one that moves and lost a node is": (replace(gang(on=["n1"], phase=Phase.DRAINING), killed=True), True),
    "one that was cancelled is": (gang(on=["n1"], phase=Phase.STOPPING), True),
    "one that waits is not": (gang(), False),
    "one that has ended is not": (gang(phase=Phase.SUCCEEDED), False),
}


@pytest.mark.parametrize(("workload", "want"), LEAVING_CASES.values(), ids=LEAVING_CASES)
def test_leaving(workload: Workload, want: bool) -> None:
    assert workload.leaving is want
