"""Whoever gets a place, by whatever road, is entered in all books (C3, G1, P7, P9, R6, R8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine import giving
from fleet_app.engine.decide import decide
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Reason
from fleet_app.engine.reclaim import Eviction
from fleet_app.engine.uplinks import uplinks
from fleet_app.engine.workload import Workload
from tests.builders import backfill, booking, gang, node, nodes, policy, shape, state, team

RULES = policy(team("research", nominal=64), team("vision", nominal=0), team("idle", nominal=64))
FABRIC = (node("a1", at="s1/l1"), node("b1", at="s1/l2"), node("c1", at="s1/l3"), node("d1", at="s1/l4"))
PARTS = {"ps": (1, shape(0, cpus=16)), "actors": (1, shape(8, cpus=8))}
ROADS = {"of one shape": gang("x", nodes=2), "of several shapes": gang("x", groups=PARTS)}


@pytest.mark.parametrize("workload", ROADS.values(), ids=ROADS)
def test_who_is_admitted_uses_its_uplinks_and_its_quota(workload: Workload) -> None:
    ledger = Ledger(state(*FABRIC), RULES, 100.0)
    assert uplinks(ledger, 2) == set()
    giving.admitted(ledger, workload, ("a1", "b1"), "why", None)
    assert uplinks(ledger, 2) == {("s1", "l1"), ("s1", "l2")}
    assert ledger.used["research"] == workload.gpus
    assert [ledger.free[name] for name in ("a1", "b1")] == [FABRIC[0].capacity - seat for seat in workload.shapes]


@pytest.mark.parametrize("workload", ROADS.values(), ids=ROADS)
def test_who_waits_for_drains_keeps_what_is_free_and_what_comes(workload: Workload) -> None:
    lent = backfill("lent", team="vision", gpus=8, on=["b1"])
    ledger = Ledger(state(*FABRIC, lent), RULES, 100.0)
    found = Eviction(nodes=("a1", "b1"), victims=(lent,))
    drain, wait = giving.coming(ledger, workload, found, "why")
    assert (drain.workload, wait.workload) == ("lent", "x")
    assert [ledger.soon(name) for name in ("a1", "b1")] == [FABRIC[0].capacity - seat for seat in workload.shapes]
    assert ledger.firm["research"] == workload.gpus


WAITING = {
    "of one shape": gang("x", nodes=2),
    "of several shapes": gang("x", groups={"a": (1, shape(4)), "b": (1, shape(8))}),
}


@pytest.mark.parametrize("booked", [False, True], ids=["in the open", "inside its booking"])
@pytest.mark.parametrize("workload", WAITING.values(), ids=WAITING)
def test_a_member_that_has_to_leave_is_named_by_its_workload(workload: Workload, booked: bool) -> None:
    """An elastic job has all nodes and may lose members: the wait names the job, whoever asks and wherever."""
    names = ("n1", "n2", "n3")
    job = backfill("job", team="vision", gpus=8, minimum=1, at_most=3, on=list(names))
    block = booking("block", *names, team="research", start_at=0.0, end_at=9000.0)
    facts = state(*nodes(3), job, workload, *([block] if booked else []))
    plan = decide(facts, replace(RULES, calendar=replace(RULES.calendar, hold_s=0.0)), 1000.0)
    wait = next(one for one in plan.waits if one.workload == "x")
    assert (wait.reason, wait.blocked_by) == (Reason.DRAIN_UNDER_WAY, ("job",))


def test_who_waits_for_its_room_takes_its_place_in_a_booking_after_who_is_there() -> None:
    """C1: `there` fills what is booked and `x` is beside it, so that one GPU more is left to others."""
    there, lent = gang("there", gpus=4, on=["n1"]), backfill("lent", team="guest", gpus=4, on=["n1"])
    half = booking("half", "n1", gpus=4, start_at=9000.0, end_at=10_000.0)
    waiting = [gang("x", gpus=3), gang("small", gpus=1, team="vision", submitted_at=1.0)]
    rules = policy(team("research", nominal=64), team("vision", nominal=8), team("guest", nominal=0))
    plan = decide(state(*nodes(1), there, lent, half, *waiting), rules, 100.0)
    assert {one.workload: one.reason for one in plan.waits} == dict.fromkeys(("x", "small"), Reason.DRAIN_UNDER_WAY)
