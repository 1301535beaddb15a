"""What becomes of one workload, service or node when something happens to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine import life
from fleet_app.engine.lifecycle import Event, Phase
from fleet_app.engine.plan import Grow, Shrink
from fleet_app.engine.values import Condition, Crossing, Node, NodeClass
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, crossing, gang, grant, node, service

NOW = 1000.0
RUNS = gang("x", on=["n1", "n2"], started_at=10.0, max_run_s=60.0)
MANY = backfill("x", on=["n1", "n2", "n3"], minimum=1, at_most=4)
WAITS = gang("x", nodes=2, submitted_at=0.0, max_run_s=60.0)

ENDS: dict[str, tuple[Workload, Workload | None]] = {
    "who was asked to leave waits again, before others, for another attempt": (
        replace(RUNS, phase=Phase.DRAINING, deadline_at=NOW, drained_for="y"),
        replace(WAITS, requeued=True, attempt=2),
    ),
    "an attempt that never ran is not counted": (
        replace(RUNS, phase=Phase.ADMITTED, started_at=None, killed=True),
        replace(WAITS, requeued=True, attempt=1),
    ),
    "who was told to end for good has ended": (
        replace(RUNS, phase=Phase.DRAINING, expired=True, deadline_at=NOW),
        None,
    ),
    "who was cancelled has": (replace(RUNS, phase=Phase.STOPPING), None),
}


@pytest.mark.parametrize(("one", "want"), ENDS.values(), ids=ENDS)
def test_who_is_gone_waits_again_or_has_ended(one: Workload, want: Workload | None) -> None:
    after = life.gone(one)
    assert (after if after.phase is Phase.QUEUED else None) == want
    assert after.nodes == ()


def test_a_started_workload_has_lost_nothing_yet() -> None:
    admitted = life.admitted(WAITS, ("n1", "n2"), 5.0)
    assert admitted == replace(WAITS, phase=Phase.ADMITTED, nodes=("n1", "n2"), admitted_at=5.0)
    started = life.started(admitted, NOW)
    assert started == replace(admitted, phase=Phase.RUNNING, started_at=NOW, saved_at=NOW)
    assert life.at_work(WAITS, ("n1", "n2"), NOW) == replace(started, admitted_at=NOW)
    assert life.admitted(WAITS, ("n1",), 5.0, 3).card == 3


def test_an_event_that_the_table_does_not_allow_changes_nothing() -> None:
    with pytest.raises(Exception, match="queued"):
        life.stepped(WAITS, Event.START)


def test_members_leave_one_after_another_and_others_join() -> None:
    leave = [Shrink(workload="x", nodes=(name,), beneficiary="y", deadline_at=NOW, why="") for name in ("n2", "n1")]
    first = life.resized(MANY, leave[0], NOW)
    assert (first.nodes, first.going, first.going_by, first.going_for) == (("n1", "n2", "n3"), ("n2",), NOW, "y")
    both = life.resized(first, leave[1], NOW)
    assert both.going == ("n2", "n1")
    left = life.without_members(both)
    assert left == replace(MANY, nodes=("n3",))
    grown = life.resized(left, Grow(workload="x", nodes=("n4",), why=""), NOW)
    assert (grown.nodes, grown.grown_at) == (("n3", "n4"), NOW)


def taken(*occupied: bool) -> Service:
    """Return a service with so many grants, some of them with a replica."""
    return service("chat", grants=[grant(f"g{number}", occupied=one) for number, one in enumerate(occupied)])


OCCUPIED: dict[str, tuple[Service, int, Service]] = {
    "as many as start, in order": (taken(False, False, False), 2, taken(True, True, False)),
    "beside those that are there": (taken(True, False, True, False), 1, taken(True, True, True, False)),
    "no more than there are grants": (taken(True, False), 3, taken(True, True)),
    "none": (taken(True, False), 0, taken(True, False)),
    "nor fewer than none": (taken(True, False), -1, taken(True, False)),
}


@pytest.mark.parametrize(("before", "count", "want"), OCCUPIED.values(), ids=OCCUPIED)
def test_replicas_start_in_idle_grants(before: Service, count: int, want: Service) -> None:
    assert life.occupied(before, count) == want


VACATED: dict[str, tuple[Service, int, Service]] = {
    "as many as end, in order": (taken(True, True, True), 2, taken(False, False, True)),
    "only those that are there": (taken(False, True, True), 1, taken(False, False, True)),
    "no more than there are": (taken(True, False), 3, taken(False, False)),
    "none": (taken(True, False), 0, taken(True, False)),
}


@pytest.mark.parametrize(("before", "count", "want"), VACATED.values(), ids=VACATED)
def test_replicas_end_and_their_grants_stay(before: Service, count: int, want: Service) -> None:
    assert life.vacated(before, count) == want


def test_grants_come_and_go_by_name() -> None:
    assert life.with_grant(taken(True), grant("g1")) == taken(True, True)
    assert [one.name for one in life.without_grants(taken(True, True, False), ("g2", "g0")).grants] == ["g1"]


TO_SERVING = crossing("n1", to=NodeClass.SERVING)
CROSSED = replace(TO_SERVING, moved_at=50.0)

CROSSES: dict[str, tuple[Node, list[Crossing], Node]] = {
    "nothing crosses": (node("n1"), [], node("n1")),
    "another node does": (node("n1"), [crossing("n2")], node("n1")),
    "another node did": (node("n1"), [crossing("n2", moved_at=50.0)], node("n1")),
    "it is closed while it does": (node("n1"), [TO_SERVING], node("n1", condition=Condition.CORDONED)),
    "and of the class that it leaves, whatever its label says": (
        node("n1", serving=True),
        [TO_SERVING],
        node("n1", condition=Condition.CORDONED),
    ),
    "one that takes nothing anyway stays as it is": (
        node("n1", condition=Condition.DOWN),
        [TO_SERVING],
        node("n1", condition=Condition.DOWN),
    ),
    "of the other class once it did": (node("n1"), [CROSSED], node("n1", serving=True)),
    "also behind others that cross": (
        node("n1"),
        [crossing("n2"), crossing("n3", moved_at=50.0), CROSSED],
        node("n1", serving=True),
    ),
}


@pytest.mark.parametrize(("one", "crossings", "want"), CROSSES.values(), ids=CROSSES)
def test_a_node_is_as_its_crossing_makes_it(one: Node, crossings: list[Crossing], want: Node) -> None:
    assert life.as_it_crosses(one, crossings) == want
