"""When a workload has to end: its declared maximum run time, and the grace that follows (rules D1, D5).

Knows one workload, the drain contract and the moment. Does not know nodes, quota or who waits. A maximum run time
counts from the admission of an attempt, the moment from which nobody else has its nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fleet_app.engine.policy import DrainContract
from fleet_app.engine.workload import Workload

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


Limited = tuple[float, str, Workload]
"""A workload with a maximum run time: when that is over, its name, and itself; sorted, the first to end first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A planned start (O7), in seconds: at `asked_at` all that is in the way has gone or been asked to leave.

    `at` is when all of that is gone at the latest, and `after` names the last to be asked.
    """

    asked_at: float
    at: float
    after: str


def grace_s(drain: DrainContract, workload: Workload) -> float:
    """Return how many seconds a notice gives the workload (D1)."""
    return min(workload.grace_s, drain.longest_grace_s)


def limit_at(workload: Workload) -> float | None:
    """Return the moment in seconds when its maximum run time is over; None for one that declared none or waits."""
    if workload.max_run_s is None or workload.admitted_at is None:
        return None
    return workload.admitted_at + workload.max_run_s


def limited(workload: Workload) -> Limited:
    """Return a workload that declared a maximum run time with when that is over; never, for one that waits."""
    limit = limit_at(workload)
    return (math.inf if limit is None else limit, workload.name, workload)


def gone_at(drain: DrainContract, workload: Workload, now: float) -> float | None:
    """Return when the workload will have left at the latest, in seconds; None when that is not known."""
    if workload.leaving:
        return leaves_by(drain, workload, now)
    limit = limit_at(workload)
    return None if limit is None else max(now, limit) + grace_s(drain, workload)


def leaves_by(drain: DrainContract, leaver: Workload, now: float) -> float:
    """Return when a workload that was asked to leave, now or before, is gone at the latest, in seconds."""
    if leaver.killed:
        return now
    asked = leaver.deadline_at if leaver.leaving else None
    return now + grace_s(drain, leaver) if asked is None else max(now, asked)


def gone_before(drain: DrainContract, workload: Workload, now: float, start: Start) -> bool:
    """Return whether the workload, admitted now, is gone before anybody is asked to leave for the planned start."""
    if workload.max_run_s is None:
        return False
    return now + workload.max_run_s + grace_s(drain, workload) <= start.asked_at


def over(workload: Workload) -> str:
    """Return as a reason that the maximum run time is over; or that nobody used it, when that came first."""
    limit = limit_at(workload)
    early = limit is not None and workload.deadline_at is not None and workload.deadline_at < limit
    if workload.interactive and (workload.max_run_s is None or early):
        return "nobody used it for as long as the policy allows"
    return f"its maximum run time of {spoken(workload.max_run_s or 0.0)} is over"


def spoken(seconds: float) -> str:
    """Return a duration as people say it, in its two largest units: `2 h 5 min`."""
    left, parts = max(0, round(seconds)), []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
