"""Who comes first: rules O1 and O2.

Knows priority, requeueing, submission and names. Does not know room or quota.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.policy import Policy, PriorityClass
from fleet_app.engine.workload import Kind, Service, Workload


def class_of(policy: Policy, workload: Workload) -> PriorityClass:
    """Return the priority class with the workload's value; without one, what its kind implies."""
    for known in policy.classes:
        if known.value == workload.priority:
            return known
    lent = workload.kind is Kind.BACKFILL
    return PriorityClass(name=workload.kind, value=workload.priority, borrows=lent, yields=lent)


def queue(workloads: Iterable[Workload]) -> list[Workload]:
    """Return the queued workloads, first to be considered first (O1).

    Higher priority first; within it what was torn down through no wish of its own, then the earliest submitted.
    """
    waiting = [workload for workload in workloads if workload.phase is Phase.QUEUED]
    return sorted(waiting, key=lambda w: (-w.priority, not w.requeued, w.submitted_at, w.name))


def by_precedence(services: Iterable[Service]) -> list[Service]:
    """Return the services, first to be served first (O2)."""
    return sorted(services, key=lambda service: (-service.priority, service.name))
