"""Who comes first (O1, O2), and which class a workload has."""

from __future__ import annotations

import pytest

from fleet_app.engine.ordering import by_precedence, class_of, queue
from fleet_app.engine.policy import PriorityClass
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
