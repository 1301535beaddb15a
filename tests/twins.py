"""Runs of the twin for tests: a scenario in a line, and what its records say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from fleet_app.engine.policy import Policy
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Service, Workload
from fleet_app.twin.chance import Spread
from fleet_app.twin.record import Record
from fleet_app.twin.run import Run, run
from fleet_app.twin.work import Job, Scenario, Traffic

R = TypeVar("R")


def job(
    workload: Workload, run_s: float = 100.0, *, at: float | None = None, leaves_s: float = 0.0, **rest: object
) -> Job:
    """Return a job that works for 100 s and leaves at once when it is told."""
    if at is not None:
        workload = replace(workload, submitted_at=at)
    return Job(workload=workload, run_s=run_s, leaves=Spread(median_s=leaves_s), **rest)  # type: ignore[arg-type]


def traffic(service: Service, *rates: tuple[float, float], **rest: object) -> Traffic:
    """Return traffic for replicas that answer one request a second, and are all busy; fewer are wanted at once."""
    same: dict[str, object] = {"slot_rate": 1.0, "busy": 1.0, "keeps_s": 0.0, **rest}
    return Traffic(service=service, rates=rates, **same)  # type: ignore[arg-type]  # a test's keywords


def scenario(policy: Policy, nodes: Sequence[Node], jobs: Sequence[Job] = (), **rest: object) -> Scenario:
    """Return a scenario whose killed processes are gone at once."""
    same: dict[str, object] = {"dies_s": 0.0, **rest}
    return Scenario(policy=policy, nodes=tuple(nodes), jobs=tuple(jobs), **same)  # type: ignore[arg-type]


def told(given: Scenario) -> list[Record]:
    """Return all records of a run."""
    return ran(given)[1]


def ran(given: Scenario) -> tuple[Run, list[Record]]:
    """Return a run that has ended, and all of its records."""
    records: list[Record] = []
    return run(given, records.append), records


def of(records: Sequence[Record], kind: type[R]) -> list[R]:
    """Return the records of one kind."""
    return [one for one in records if isinstance(one, kind)]


def story(records: Sequence[Record]) -> list[tuple[float, str, str]]:
    """Return when what happened to which workload."""
    return [(one.at, type(one).__name__, one.workload) for one in records if hasattr(one, "workload")]
