"""How many save at once: who is put off, who never is, and what that says (D7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.calendar import Booking
from fleet_app.engine.decide import decide
from fleet_app.engine.explain import explain
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.policy import Boundary, Calendar, Policy
from fleet_app.engine.values import Condition, Crossing, Node
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, booking, crossing, gang, node, nodes, policy, service, shape, state, team

Parts = list[Node | Workload | Booking | Crossing | Service]

TEAMS = (team("research"), team("vision"), team("serving", nominal=16))
BOOKED = booking("run", "n1", "n2", "n3")
"""Three nodes from 1000 on: with a lead of 800 s who yields there is due from 200 on."""
LENT = [backfill(f"b{i}", gpus=8, team="vision", on=[f"n{i}"], grace_s=60.0) for i in (1, 2, 3)]
LEAVES = gang("leaves", team="vision", on=["m1"], phase=Phase.DRAINING, deadline_at=900.0)
MOVES = gang("moves", team="vision", on=["m1"], phase=Phase.DRAINING, movable=True)
FIRM = [gang(f"g{i}", team="vision", on=[f"n{i}"], movable=True) for i in (1, 2)]
CLOSED = [node(f"n{i}", condition=Condition.CORDONED) for i in (1, 2)]
CROSS = [crossing(f"n{i}") for i in (1, 2)]


def rules(most: int | None = 1) -> Policy:
    found = policy(*TEAMS, longest_grace_s=300.0, calendar=Calendar(reclaim_lead_s=800.0, move_lead_s=500.0))
    boundary = Boundary(serving="serving", training="research")
    return replace(found, drain=replace(found.drain, most_at_once=most), boundary=boundary)


def asked(parts: Parts, now: float, most: int | None = 1) -> list[str]:
    plan = decide(state(*nodes(1, prefix="m"), *parts), rules(most), now)
    return [one.workload for one in plan.actions if hasattr(one, "beneficiary")]


ASKED: dict[str, tuple[Parts, float, int | None, list[str]]] = {
    "without a limit all at once": ([*nodes(3), BOOKED, *LENT], 200.0, None, ["b1", "b2", "b3"]),
    "one after another": ([*nodes(3), BOOKED, *LENT], 200.0, 1, ["b1"]),
    "two at a time": ([*nodes(3), BOOKED, *LENT], 200.0, 2, ["b1", "b2"]),
    "beside who leaves already": ([*nodes(3), BOOKED, *LENT, LEAVES], 200.0, 2, ["b1"]),
    "and who moves": ([*nodes(3), BOOKED, *LENT, MOVES], 200.0, 2, ["b1"]),
    "not beside more than may": (
        [*nodes(3), BOOKED, *LENT, replace(LEAVES, shape=shape(4)), replace(MOVES, shape=shape(4))],
        200.0,
        1,
        [],
    ),
    "while there is time for another's grace and their own": ([*nodes(3), BOOKED, *LENT], 640.0, 1, ["b1"]),
    "but no longer": ([*nodes(3), BOOKED, *LENT], 641.0, 1, ["b1", "b2", "b3"]),
    "to move for a booking's start nobody is put off": (
        [*nodes(3), BOOKED, *FIRM, MOVES],
        500.0,
        1,
        ["g1", "g2"],
    ),
    "for the boundary one after another": ([*CLOSED, *CROSS, *FIRM], 10.0, 1, ["g1"]),
    "not beside who leaves": ([*CLOSED, *CROSS, *FIRM, LEAVES], 10.0, 1, []),
    "for a gang all that it takes": (
        [*nodes(3), *(replace(one, team="research") for one in LENT), gang("x", nodes=4), LEAVES],
        10.0,
        1,
        ["b1", "b2", "b3"],
    ),
    "for replicas too": (
        [*nodes(3, serving=True), *LENT, service(gpus=8, wanted=2), LEAVES],
        10.0,
        1,
        ["b1", "b2"],
    ),
}


@pytest.mark.parametrize(("parts", "now", "most", "want"), ASKED.values(), ids=ASKED)
def test_who_is_asked(parts: Parts, now: float, most: int | None, want: list[str]) -> None:
    assert asked(parts, now, most) == want


def test_after_a_booking_one_moves_after_another() -> None:
    """C7: both are above their team's nominal once what was transferred has gone back."""
    over = booking("past", "n1", "n2", team="vision", start_at=0.0, end_at=100.0)
    own = [replace(one, admitted_at=50.0, started_at=50.0, saved_at=50.0) for one in FIRM]
    small = replace(rules(), quotas=policy(team("research"), team("vision", nominal=0), team("serving")).quotas)
    wants = gang("x", nodes=2, submitted_at=60.0)
    for most, want in ((None, ["g1", "g2"]), (1, ["g1"])):
        limited = replace(small, drain=replace(small.drain, most_at_once=most))
        plan = decide(state(*nodes(2), over, *own, wants), limited, 200.0)
        assert [one.workload for one in plan.actions] == want


def test_who_is_put_off_is_told_so() -> None:
    facts = state(*nodes(1, prefix="m"), *nodes(3), BOOKED, *LENT)
    assert explain(facts, rules(), 200.0, "b2").sentence == (
        "is running on n2; it is to leave for run, once fewer do: 1 leave or move, 1 may at once"
    )
    assert explain(facts, rules(), 200.0, "b1").sentence == "is running on n1"
    assert explain(facts, rules(None), 200.0, "b2").sentence == "is running on n2"
