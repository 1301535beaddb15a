"""Who comes first: rules O1, O2, O8 and O10.

Knows priority, requeueing, submission and names, and how long each has waited. Does not know room or quota.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.policy import Policy, PriorityClass
from fleet_app.engine.workload import Kind, Service, Workload

Rank = tuple[float, ...]
"""What counts as a workload's priority in the order, how many steps it waited beyond what that can grow to, and where
shorter work comes first how short it is: whoever has more of the first part in which two differ comes first."""

Ranking = Callable[[Workload], Rank]


def class_of(policy: Policy, workload: Workload) -> PriorityClass:
    """Return the priority class with the workload's value; without one, what its kind implies."""
    for known in policy.classes:
        if known.value == workload.priority:
            return known
    lent = workload.kind is Kind.BACKFILL
    return PriorityClass(name=workload.kind, value=workload.priority, borrows=lent, yields=lent)


def by_priority(workload: Workload) -> Rank:
    """Return the rank of a workload where waiting counts for nothing."""
    return (workload.priority, 0)


def ranking(policy: Policy, now: float) -> Ranking:
    """Return what ranks the workloads of a policy now: priority, waiting where work ages, and shortness (O8, O10)."""
    rank = by_priority if policy.ordering.ageing_s is None else _by_age(policy, now)
    return _and_shortness(rank) if policy.ordering.shortest_first else rank


def _by_age(policy: Policy, now: float) -> Ranking:
    """Return a ranking in which waiting counts (O8)."""
    known: dict[tuple[int, Kind, str], list[int]] = {}

    def aged(workload: Workload) -> Rank:
        steps = steps_waited(policy, workload, now)
        key = (workload.priority, workload.kind, workload.team)
        if key not in known:
            known[key] = _rungs(policy, workload)
        rungs = known[key][:steps]
        return (rungs[-1] if rungs else workload.priority, steps - len(rungs))

    return aged


def _and_shortness(rank: Ranking) -> Ranking:
    """Return a ranking in which of equals those come first that declared to be shorter; who declared nothing last."""

    def ranked(workload: Workload) -> Rank:
        return (*rank(workload), -math.inf if workload.max_run_s is None else -workload.max_run_s)

    return ranked


def steps_waited(policy: Policy, workload: Workload, now: float) -> int:
    """Return how many full periods a workload has waited; none where none age (O8)."""
    period_s = policy.ordering.ageing_s
    return 0 if period_s is None else max(0, int((now - workload.submitted_at) // period_s))


def _rungs(policy: Policy, workload: Workload) -> list[int]:
    """Return the classes that waiting can lift a workload to, the lowest first: of the same rights, open to its team.

    Never the highest: that is serving's.
    """
    own = class_of(policy, workload)
    highest = max((known.value for known in policy.classes), default=0)
    return sorted(
        known.value
        for known in policy.classes
        if own.value < known.value < highest
        and (known.borrows, known.yields) == (own.borrows, own.yields)
        and (known.teams is None or workload.team in known.teams)
    )


def queue(workloads: Iterable[Workload], rank: Ranking = by_priority) -> list[Workload]:
    """Return the queued workloads, first to be considered first (O1).

    Higher rank first; within it what was torn down through no wish of its own, then the earliest submitted.
    """
    waiting = [workload for workload in workloads if workload.phase is Phase.QUEUED]
    if rank is by_priority:
        return sorted(waiting, key=lambda w: (-w.priority, not w.requeued, w.submitted_at, w.name))
    ranks = {one.name: rank(one) for one in waiting}

    def place(one: Workload) -> tuple[Rank, bool, float, str]:
        return (tuple(-part for part in ranks[one.name]), not one.requeued, one.submitted_at, one.name)

    return sorted(waiting, key=place)


def by_precedence(services: Iterable[Service]) -> list[Service]:
    """Return the services, first to be served first (O2)."""
    return sorted(services, key=lambda service: (-service.priority, service.name))
