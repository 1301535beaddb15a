"""N1, N2: nodes that go away are left by all who can be asked, in time, and nobody is asked twice."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.plan import Drain, Move
from tests import virtual
from tests.laws.effort import tries
from tests.laws.reference import case_of, check
from tests.strategies import crowded, fleets
from tests.virtual import Fleet

GOING = st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(-20, 200))), min_size=1, max_size=4)


def going_away(fleet: Fleet, going: list[tuple[int, int | None]], *, movable: bool) -> Fleet:
    fleet = replace(fleet, workloads=tuple(replace(one, movable=one.movable or movable) for one in fleet.workloads))
    for name, within_s in {fleet.nodes[which % len(fleet.nodes)].name: end for which, end in going}.items():
        known = any(one.node == name for one in fleet.departures)
        gone_at = None if within_s is None else fleet.now + within_s
        fleet = fleet if known else virtual.going_away(fleet, name, gone_at)
    return fleet


@tries(150)
@given(st.one_of(fleets(longest=8), crowded().map(lambda crowd: crowd[0])), GOING, st.booleans())
def test_who_is_on_a_node_that_goes_is_asked_once(
    fleet: Fleet, going: list[tuple[int, int | None]], movable: bool
) -> None:
    fleet = going_away(fleet, going, movable=movable)
    check(case_of(fleet))
    after = virtual.cycle(fleet)
    check(case_of(after))
    asked = {action.workload for action in case_of(fleet).actions(Drain)}
    assert asked.isdisjoint(action.workload for action in case_of(after).actions(Drain, Move))
