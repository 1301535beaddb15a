"""What becomes of a fleet if all goes as declared: each order carried out, and who is gone when (O9)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine import forward
from fleet_app.engine.cards import Slice
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import (
    Action,
    Admit,
    AdmitSlice,
    Drain,
    Expire,
    GiveGrant,
    Grow,
    Kill,
    Lose,
    Move,
    Plan,
    Quarantine,
    Rebook,
    Shrink,
    TakeGrant,
)
from fleet_app.engine.values import Condition
from fleet_app.engine.workload import Workload
from tests.builders import backfill, booking, gang, grant, node, policy, quarantined, service, shape, state

NOW = 1000.0
RULES = policy(longest_grace_s=300.0)
RUNS = gang("x", on=["n1"])
WAITS = gang("x")
MANY = backfill("x", on=["n1", "n2", "n3"], minimum=1, at_most=4)

ORDERS: dict[str, tuple[Workload, Action, Workload]] = {
    "who is admitted runs at once": (
        WAITS,
        Admit(workload="x", nodes=("n1",), why=""),
        replace(WAITS, phase=Phase.RUNNING, nodes=("n1",), admitted_at=NOW, started_at=NOW, saved_at=NOW),
    ),
    "on a card too": (
        WAITS,
        AdmitSlice(workload="x", node="n1", card=2, slice=Slice(share=5_000), why=""),
        replace(WAITS, phase=Phase.RUNNING, nodes=("n1",), card=2, admitted_at=NOW, started_at=NOW, saved_at=NOW),
    ),
    "who is drained leaves by the deadline": (
        RUNS,
        Drain(workload="x", beneficiary="y", deadline_at=1100.0, why=""),
        replace(RUNS, phase=Phase.DRAINING, deadline_at=1100.0, drained_for="y"),
    ),
    "whose time is over ends for good by then": (
        RUNS,
        Expire(workload="x", deadline_at=1100.0, why=""),
        replace(RUNS, phase=Phase.DRAINING, deadline_at=1100.0, expired=True),
    ),
    "who is asked to move stays, nobody knows until when": (
        RUNS,
        Move(workload="x", beneficiary="y", why=""),
        replace(RUNS, phase=Phase.DRAINING, drained_for="y"),
    ),
    "who is killed": (RUNS, Kill(workload="x", why=""), replace(RUNS, killed=True)),
    "who lost a node": (RUNS, Lose(workload="x", node="n1", why=""), replace(RUNS, killed=True)),
    "members that leave": (
        MANY,
        Shrink(workload="x", nodes=("n2",), beneficiary="y", deadline_at=1100.0, why=""),
        replace(MANY, going=("n2",), going_by=1100.0, going_for="y"),
    ),
    "members that join": (
        MANY,
        Grow(workload="x", nodes=("n4",), why=""),
        replace(MANY, nodes=("n1", "n2", "n3", "n4"), grown_at=NOW),
    ),
    "what happens to nodes only": (RUNS, Quarantine(node="n1", until=NOW, owner="fleet", why=""), RUNS),
}


@pytest.mark.parametrize(("before", "order", "want"), ORDERS.values(), ids=ORDERS)
def test_an_order_is_carried_out(before: Workload, order: Action, want: Workload) -> None:
    after = forward.carried_out(state(before), Plan(actions=(order,)), NOW)
    assert after.workloads == (want,)


def test_replicas_start_in_what_a_service_is_given_as_many_as_it_wants() -> None:
    before = service(wanted=2, grants=[grant("grant-0"), grant("gone", occupied=False)])
    given = GiveGrant(service="chat", node="n2", shape=shape(1), why="")
    plan = Plan(actions=(TakeGrant(service="chat", grant="gone", why=""), given, given))
    (after,) = forward.carried_out(state(before), plan, NOW).services
    assert after.grants == (
        grant("grant-0"),
        grant("grant-1", node="n2"),
        grant("grant-2", node="n2", occupied=False),
    )


def test_a_booking_has_the_nodes_that_replace_lost_ones() -> None:
    told = Rebook(booking="run", nodes=("n2",), breach="one short", why="")
    (after,) = forward.carried_out(state(booking("run", "n1")), Plan(actions=(told,)), NOW).bookings
    assert after == booking("run", "n2", breach="one short")


def test_who_has_nodes_runs_and_who_was_told_to_end_has_a_deadline() -> None:
    admitted, stopping = gang("a", on=["n1"], phase=Phase.ADMITTED), gang("b", on=["n2"], phase=Phase.STOPPING)
    began = forward.begun(state(admitted, stopping, WAITS), RULES, NOW)
    assert began.workloads == (
        replace(admitted, phase=Phase.RUNNING, started_at=NOW, saved_at=NOW),
        replace(stopping, deadline_at=NOW + 120.0),
        WAITS,
    )


AGAIN = replace(WAITS, requeued=True, attempt=2)
LATE = {"phase": Phase.DRAINING, "deadline_at": NOW}

LEAVING: dict[str, tuple[Workload, tuple[Workload, ...], tuple[str, ...]]] = {
    "who was drained waits again": (gang("x", on=["n1"], **LATE), (AGAIN,), ("x",)),
    "who has not had its time stays": (
        gang("x", on=["n1"], phase=Phase.DRAINING, deadline_at=NOW + 1),
        (gang("x", on=["n1"], phase=Phase.DRAINING, deadline_at=NOW + 1),),
        (),
    ),
    "whose run time is over has ended": (gang("x", on=["n1"], expired=True, **LATE), (), ("x",)),
    "who was cancelled has ended": (gang("x", on=["n1"], phase=Phase.STOPPING, deadline_at=NOW), (), ("x",)),
    "who is killed is gone at once": (replace(RUNS, killed=True), (AGAIN,), ("x",)),
    "members leave, and the rest stays": (
        replace(MANY, going=("n2",), going_by=NOW, going_for="y"),
        (replace(MANY, nodes=("n1", "n3")),),
        ("x",),
    ),
    "but not before they have to": (
        replace(MANY, going=("n2",), going_by=NOW + 1, going_for="y"),
        (replace(MANY, going=("n2",), going_by=NOW + 1, going_for="y"),),
        (),
    ),
}


@pytest.mark.parametrize(("before", "stay", "left"), LEAVING.values(), ids=LEAVING)
def test_who_is_gone(before: Workload, stay: tuple[Workload, ...], left: tuple[str, ...]) -> None:
    after, gone = forward.gone(state(before), RULES, NOW)
    assert (after.workloads, gone) == (stay, left)


NEXT: dict[str, tuple[list[object], float | None]] = {
    "nothing is known to change": ([RUNS, WAITS], None),
    "a deadline": ([gang("x", on=["n1"], phase=Phase.DRAINING, deadline_at=1100.0)], 1100.0),
    "a run time": ([gang("x", on=["n1"], max_run_s=1200.0)], 1200.0),
    "what is past is not next": ([gang("x", on=["n1"], max_run_s=1000.0)], None),
    "members that have to leave": ([replace(MANY, going=("n2",), going_by=1100.0)], 1100.0),
    "also of what ends as a whole later": (
        [replace(MANY, going=("n2",), going_by=1100.0, phase=Phase.DRAINING, deadline_at=1200.0)],
        1100.0,
    ),
    "who runs undisturbed for a while": ([gang("x", on=["n1"], attempt=2, started_at=950.0)], 1150.0),
    "but not who was never torn down": ([gang("x", on=["n1"], started_at=950.0)], None),
    "the start of a booking, what leads to it first": ([booking(start_at=5000.0, end_at=6000.0)], 1400.0),
    "then the notice of who is in its way": ([booking(start_at=2000.0, end_at=6000.0)], 1880.0),
    "the end of what it holds": ([booking(start_at=900.0, end_at=6000.0)], 1800.0),
    "its end": ([booking(start_at=0.0, end_at=1300.0)], 1300.0),
    "the end of a quarantine": ([quarantined(until=1300.0)], 1300.0),
    "the moment from which a node that is away is lost": (
        [node("n1", condition=Condition.DOWN, down_since=990.0)],
        1020.0,
    ),
    "not of one that is over": ([quarantined(until=1300.0, released_at=990.0)], None),
}


@pytest.mark.parametrize(("parts", "want"), NEXT.values(), ids=NEXT)
def test_next_moment(parts: list[object], want: float | None) -> None:
    rules = replace(RULES, drain=replace(RULES.drain, min_run_s=200.0))
    assert forward.next_at(state(*parts), rules, NOW) == want
