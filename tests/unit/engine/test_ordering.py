"""Who comes first (O1, O2, O8, O10), and which class a workload has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.ordering import by_precedence, class_of, queue, ranking
from fleet_app.engine.policy import Ordering, PriorityClass
from fleet_app.engine.workload import Workload
from tests.builders import BACKFILL, COMMITTED, backfill, gang, policy, service

QUEUES = {
    "higher priority first": ([backfill("a", submitted_at=1), gang("b", submitted_at=2)], ["b", "a"]),
    "then what was torn down": ([gang("a", submitted_at=1), gang("b", submitted_at=2, requeued=True)], ["b", "a"]),
    "then who was submitted first": ([gang("a", submitted_at=2), gang("b", submitted_at=1)], ["b", "a"]),
    "then the name": ([gang("b"), gang("a")], ["a", "b"]),
    "who runs does not wait": ([gang("a", on=["n1"]), gang("b")], ["b"]),
}


@pytest.mark.parametrize(("workloads", "want"), QUEUES.values(), ids=QUEUES)
def test_queue(workloads: list[Workload], want: list[str]) -> None:
    assert [one.name for one in queue(workloads)] == want


LADDER = (
    PriorityClass(name="serving", value=100),
    PriorityClass(name="urgent", value=60, teams=("research",)),
    PriorityClass(name="committed", value=50),
    PriorityClass(name="polite", value=12, yields=True),
    PriorityClass(name="backfill", value=10, borrows=True, yields=True),
    PriorityClass(name="scavenger", value=1, borrows=True, yields=True),
)

RANKS = {
    "who has waited less than a period": (gang(priority=50, submitted_at=901.0), (50, 0)),
    "one period is the next class": (gang(priority=50, submitted_at=900.0), (60, 0)),
    "never the highest, and from there on it counts among equals": (gang(priority=50, submitted_at=650.0), (60, 2)),
    "only where its team may submit": (gang(priority=50, submitted_at=650.0, team="vision"), (50, 3)),
    "never from a class that yields to one that does not": (backfill(priority=1, submitted_at=550.0), (10, 3)),
    "nor to one that borrows": (backfill(priority=12, submitted_at=550.0), (12, 4)),
    "a priority that is no class's climbs too": (backfill(priority=5, submitted_at=850.0), (10, 0)),
    "a clock that was ahead": (gang(priority=50, submitted_at=2000.0), (50, 0)),
}


@pytest.mark.parametrize(("workload", "want"), RANKS.values(), ids=RANKS)
def test_waiting_counts_as_steps(workload: Workload, want: tuple[int, int]) -> None:
    rules = replace(policy(classes=LADDER), ordering=Ordering(ageing_s=100.0))
    assert ranking(rules, 1000.0)(workload) == want


def test_where_nothing_ages_waiting_is_no_step() -> None:
    assert ranking(policy(classes=LADDER), 1000.0)(gang(priority=50, submitted_at=0.0)) == (50, 0)


def test_who_aged_goes_before_what_was_torn_down_and_before_shares() -> None:
    rules = replace(policy(), ordering=Ordering(ageing_s=100.0))
    old, torn = backfill("old", submitted_at=0.0), backfill("torn", submitted_at=150.0, requeued=True)
    assert [one.name for one in queue([torn, old], ranking(rules, 200.0))] == ["old", "torn"]
    assert [one.name for one in queue([torn, old], ranking(policy(), 200.0))] == ["torn", "old"]


SHORTEST = {
    "the shortest declared run time first": ([("a", 60.0), ("b", 30.0)], ["b", "a"]),
    "what declares none last": ([("a", None), ("b", 30.0)], ["b", "a"]),
    "of equals the earliest": ([("b", 30.0), ("a", 30.0)], ["b", "a"]),
}


@pytest.mark.parametrize(("declared", "want"), SHORTEST.values(), ids=SHORTEST)
def test_shorter_work_first(declared, want) -> None:
    """O10."""
    rules = replace(policy(), ordering=Ordering(shortest_first=True))
    given = [gang(name, max_run_s=run_s, submitted_at=float(at)) for at, (name, run_s) in enumerate(declared)]
    assert [one.name for one in queue(given, ranking(rules, 100.0))] == want


def test_shorter_work_comes_before_what_was_torn_down_but_not_before_higher_priority() -> None:
    rules = replace(policy(), ordering=Ordering(shortest_first=True, ageing_s=50.0))
    given = [backfill("short", max_run_s=1.0), gang("torn", requeued=True), gang("long", max_run_s=9.0)]
    assert [one.name for one in queue(given, ranking(rules, 10.0))] == ["long", "torn", "short"]


def test_services_by_priority_then_name() -> None:
    services = [service("b"), service("a"), service("c", priority=200_000)]
    assert [one.name for one in by_precedence(services)] == ["c", "a", "b"]


CLASSES = {
    "a known value is its class": (gang("g", priority=COMMITTED), "training-committed"),
    "also of the other kind": (gang("g", priority=BACKFILL), "training-backfill"),
}


@pytest.mark.parametrize(("workload", "want"), CLASSES.values(), ids=CLASSES)
def test_class_of(workload: Workload, want: str) -> None:
    assert class_of(policy(), workload).name == want


@pytest.mark.parametrize(("workload", "lent"), [(gang("g", priority=7), False), (backfill("b", priority=7), True)])
def test_without_a_class_the_kind_decides(workload: Workload, lent: bool) -> None:
    assert class_of(policy(), workload) == PriorityClass(name=workload.kind, value=7, borrows=lent, yields=lent)
