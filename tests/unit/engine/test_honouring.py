"""Bookings are cleared in time, and made whole when they lose a node (C2, C5, C6, C8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.calendar import Booking
from fleet_app.engine.decide import decide
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Action, Drain, Move, Rebook
from fleet_app.engine.policy import Calendar
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Workload
from tests.builders import backfill, booking, gang, node, nodes, policy, service, state, team

Parts = list[Node | Workload | Booking]
RULES = policy(team("research"), team("vision"), calendar=Calendar(move_lead_s=500.0))
DOWN = node("n1", condition=Condition.DOWN)


def firm(name: str = "firm", gpus: int = 8, on: str = "n1", **rest: object) -> Workload:
    return gang(name, gpus=gpus, team="vision", on=[on], movable=True, **rest)  # type: ignore[arg-type]  # keywords


def lent(name: str = "lent", gpus: int = 8, on: str = "n1", **rest: object) -> Workload:
    return backfill(name, gpus=gpus, team="vision", on=[on], **rest)  # type: ignore[arg-type]  # keywords


def decided(parts: Parts, now: float) -> list[Action]:
    return list(decide(state(*parts), RULES, now).actions)


CLEARED: dict[str, tuple[Parts, float, list[str]]] = {
    "what yields is not asked before its grace needs it": ([booking(), lent()], 879.0, []),
    "and then is": ([booking(), lent()], 880.0, ["drain lent"]),
    "who has left by then is not asked": ([booking(), lent(max_run_s=600.0)], 900.0, ["expire lent"]),
    "its own team's is not asked": ([booking(), backfill(gpus=8, on=["n1"])], 900.0, []),
    "beside a part of a node one may stay": ([booking(gpus=4), lent(gpus=4)], 900.0, []),
    "of two the one with the higher priority": (
        [booking(gpus=4), lent("a", 4), lent("b", 4, priority=2_000)],
        900.0,
        ["drain a"],
    ),
    "who is too late to be gone in time stays before one who is not": (
        [booking(gpus=4), lent("slow", 4, grace_s=300.0), lent("quick", 4, grace_s=60.0, priority=2_000)],
        940.0,
        ["drain quick"],
    ),
    "committed work is asked to move the policy's lead before": ([booking(), firm()], 500.0, ["move firm"]),
    "but not earlier": ([booking(), firm()], 499.0, []),
    "and only once": ([booking(), firm(phase=Phase.DRAINING)], 900.0, []),
    "and not if it does not hear it": ([booking(), gang(team="vision", on=["n1"])], 900.0, []),
    "for maintenance everybody leaves": (
        [booking("shut", team=None), lent("a", 2), firm("b", 2)],
        900.0,
        ["drain a", "move b"],
    ),
}


def said(action: Action) -> str:
    return f"{type(action).__name__.lower()} {getattr(action, 'workload', '')}"


@pytest.mark.parametrize(("parts", "now", "want"), CLEARED.values(), ids=CLEARED)
def test_who_leaves(parts: Parts, now: float, want: list[str]) -> None:
    assert [said(action) for action in decided([node("n1"), *parts], now)] == want


def test_a_notice_says_for_what() -> None:
    (drain,) = decided([node("n1"), booking(), lent()], 880.0)
    assert isinstance(drain, Drain)
    assert (drain.beneficiary, drain.deadline_at, drain.why) == ("run", 1000.0, "run begins in 2 min")
    (move,) = decided([node("n1"), booking(), firm()], 1200.0)[1:]
    assert isinstance(move, Move)
    assert (move.beneficiary, move.why) == ("run", "run has begun")


WHOLE: dict[str, tuple[Parts, float, tuple[tuple[str, ...], str] | None]] = {
    "nothing is lost": ([node("n1"), node("n2"), booking()], 500.0, None),
    "another takes its place": ([DOWN, node("n2"), booking()], 500.0, (("n2",), "")),
    "a free one before one with somebody on it": (
        [DOWN, node("n2"), node("n3"), lent(on="n2"), booking()],
        500.0,
        (("n3",), ""),
    ),
    "one with somebody who yields before none": ([DOWN, node("n2"), lent(on="n2"), booking()], 500.0, (("n2",), "")),
    "none with committed work on it": (
        [DOWN, node("n2"), firm(on="n2"), booking()],
        500.0,
        (("n1",), "n1 is lost, and nothing else there can take its place"),
    ),
    "none where nobody knows any more what it had": (
        [node("n2"), booking("run", "gone")],
        500.0,
        (("gone",), "gone is lost, and nothing else there can take its place"),
    ),
    "also one of another leaf, where it has to be one spine": (
        [DOWN, node("n2", at="s1/l2"), booking()],
        500.0,
        (("n2",), ""),
    ),
    "none of another domain": (
        [DOWN, node("n2", at="s2/l1"), booking()],
        500.0,
        (("n1",), "n1 is lost, and nothing else there can take its place"),
    ),
    "none of another kind": (
        [DOWN, node("n2", driver="560"), booking()],
        500.0,
        (("n1",), "n1 is lost, and nothing else there can take its place"),
    ),
    "none that is booked already": (
        [DOWN, node("n2"), booking("a", "n2"), booking("b", "n1")],
        500.0,
        (("n1",), "n1 is lost, and nothing else there can take its place"),
    ),
    "what was said is not said again": (
        [DOWN, booking(breach="n1 is lost, and nothing else there can take its place")],
        500.0,
        None,
    ),
    "what comes back is said": (
        [node("n1"), booking(breach="n1 is lost, and nothing else there can take its place")],
        500.0,
        (("n1",), ""),
    ),
    "one that is kept out with its own work on it stays": (
        [node("n1", condition=Condition.CORDONED), node("n2"), gang(on=["n1"]), booking()],
        1500.0,
        None,
    ),
    "one that was not left in time is replaced": (
        [node("n1"), node("n2"), firm(phase=Phase.DRAINING), booking()],
        1000.0,
        (("n2",), ""),
    ),
    "or is said": (
        [node("n1"), firm(phase=Phase.DRAINING), booking()],
        1000.0,
        (("n1",), "n1 was not left by firm, and nothing else there can take its place"),
    ),
}


@pytest.mark.parametrize(("parts", "now", "want"), WHOLE.values(), ids=WHOLE)
def test_made_whole(parts: Parts, now: float, want: tuple[tuple[str, ...], str] | None) -> None:
    rebooked = [action for action in decided(parts, now) if isinstance(action, Rebook)]
    assert [(action.nodes, action.breach) for action in rebooked] == ([] if want is None else [want])


def test_replicas_have_a_place_elsewhere_before_a_window_begins() -> None:
    """C8: a grant on a node that is about to be serviced counts no more, and one that nobody took is taken back."""
    serving = [node("n1", serving=True), node("n2", serving=True)]
    chat = service(wanted=2, gpus=4, on=["n1", "n1"])
    shut = booking("shut", team=None)
    rules = policy(team("serving"), calendar=Calendar(move_lead_s=500.0))
    assert decide(state(*serving, chat, shut), rules, 499.0).actions == ()
    plan = decide(state(*serving, chat, shut), rules, 500.0)
    assert [(said(action), getattr(action, "node", "")) for action in plan.actions] == [("givegrant ", "n2")] * 2


def test_nothing_new_starts_in_a_maintenance_window() -> None:
    shut = booking("shut", *(f"n{n}" for n in (1, 2)), team=None)
    plan = decide(state(*nodes(2), shut, gang("x"), backfill("y")), RULES, 1500.0)
    assert plan.actions == ()


HELD: dict[str, tuple[Parts, dict[str, int]]] = {
    "all of what is booked and idle": ([booking()], {"n1": 8}),
    "the idle part of it": ([booking(gpus=6), gang(gpus=4, on=["n1"])], {"n1": 2}),
    "nothing of what is lent": ([booking(), lent()], {}),
    "what somebody outside leaves of it": ([booking(), firm(gpus=2, phase=Phase.DRAINING)], {"n1": 6}),
    "each of two bookings": ([booking("a", gpus=4), booking("b", gpus=4, team="vision")], {"n1": 8}),
    "nothing before it begins": ([booking(start_at=1600.0)], {}),
    "nothing for maintenance": ([booking(team=None)], {}),
    "nothing on a node that takes nothing": ([node("n1", condition=Condition.CORDONED), booking()], {}),
}


@pytest.mark.parametrize(("parts", "want"), HELD.values(), ids=HELD)
def test_what_is_booked_is_held(parts: Parts, want: dict[str, int]) -> None:
    """C3: so that nobody takes it who does not ask the fleet."""
    places = [] if isinstance(parts[0], Node) else [node("n1")]
    held: dict[str, int] = {}
    for hold in decide(state(*places, *parts), replace(RULES, calendar=Calendar(hold_s=0.0)), 1500.0).holds:
        held[hold.node] = held.get(hold.node, 0) + hold.shape.gpus
    assert held == want
