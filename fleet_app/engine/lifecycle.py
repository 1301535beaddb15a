"""The life of a workload as one table: (phase, event) -> phase.

Knows phases and events. Does not know time, nodes or quota. Nothing else sets a phase.
"""

from __future__ import annotations

from enum import StrEnum

from fleet_app.engine.errors import IllegalTransitionError


class Phase(StrEnum):
    """Where a workload is in its life."""

    QUEUED = "queued"
    ADMITTED = "admitted"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


class Event(StrEnum):
    """What can happen to a workload."""

    ADMIT = "admit"
    START = "start"
    DRAIN = "drain"
    REQUEUE = "requeue"
    SUCCEED = "succeed"
    FAIL = "fail"
    CANCEL = "cancel"
    GONE = "gone"
    REFUSE = "refuse"


HOLDING = frozenset({Phase.ADMITTED, Phase.RUNNING, Phase.DRAINING, Phase.STOPPING})
"""Phases in which a workload has nodes and is charged to its team."""

LEAVING = frozenset({Phase.DRAINING, Phase.STOPPING})
"""Phases in which it was told to end and still has its nodes."""

TERMINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED})
"""Phases that a workload never leaves."""

TABLE: dict[tuple[Phase, Event], Phase] = {
    (Phase.QUEUED, Event.ADMIT): Phase.ADMITTED,
    (Phase.QUEUED, Event.CANCEL): Phase.STOPPED,
    (Phase.QUEUED, Event.REFUSE): Phase.FAILED,
    (Phase.ADMITTED, Event.START): Phase.RUNNING,
    (Phase.ADMITTED, Event.DRAIN): Phase.DRAINING,
    (Phase.ADMITTED, Event.CANCEL): Phase.STOPPING,
    (Phase.ADMITTED, Event.REQUEUE): Phase.QUEUED,
    (Phase.ADMITTED, Event.SUCCEED): Phase.SUCCEEDED,
    (Phase.ADMITTED, Event.FAIL): Phase.FAILED,
    (Phase.RUNNING, Event.DRAIN): Phase.DRAINING,
    (Phase.RUNNING, Event.CANCEL): Phase.STOPPING,
    (Phase.RUNNING, Event.REQUEUE): Phase.QUEUED,
    (Phase.RUNNING, Event.SUCCEED): Phase.SUCCEEDED,
    (Phase.RUNNING, Event.FAIL): Phase.FAILED,
    (Phase.DRAINING, Event.DRAIN): Phase.DRAINING,
    (Phase.DRAINING, Event.REQUEUE): Phase.QUEUED,
    (Phase.DRAINING, Event.CANCEL): Phase.STOPPING,
    (Phase.DRAINING, Event.SUCCEED): Phase.SUCCEEDED,
    (Phase.DRAINING, Event.FAIL): Phase.FAILED,
    (Phase.STOPPING, Event.GONE): Phase.STOPPED,
}


def after(phase: Phase, event: Event) -> Phase:
    """Return the phase that follows `phase` when `event` happens.

    Raises IllegalTransitionError when the table has no such row.
    """
    try:
        return TABLE[phase, event]
    except KeyError:
        raise IllegalTransitionError(
            f"a workload that is {phase} cannot {event}",
            where="lifecycle",
            fix=f"From {phase} it can: {', '.join(allowed(phase)) or 'nothing'}",
        ) from None


def allowed(phase: Phase) -> tuple[str, ...]:
    """Return the names of the events that the table allows in `phase`, sorted."""
    return tuple(sorted(event.value for known, event in TABLE if known is phase))
