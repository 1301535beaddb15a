"""The nodes that go away: who is asked to leave them, and by when (rules N1, N2).

Knows which nodes go, when, and what is on them. Does not know why, nor who takes them away; nothing new is placed there
anyway, since they are not among those that take any. Replicas are Serve's to move.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet_app.engine.ends import grace_s
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Drain, Move
from fleet_app.engine.values import Departure
from fleet_app.engine.workload import Workload


def step(ledger: Ledger, departures: Sequence[Departure]) -> Iterator[Drain | Move]:
    """Yield whom to ask to leave, each once: those of a node whose end is near before those of one that can wait."""
    asked: set[str] = set()
    for departure in sorted(departures, key=_soonest):
        for one in [one for one in ledger.holding if departure.node in one.nodes]:
            if one.name in asked or one.name in ledger.leaving:
                continue
            notice = _notice(ledger, departure, one)
            if notice is not None:
                asked.add(one.name)
                yield notice


def _soonest(departure: Departure) -> tuple[bool, float, str]:
    return (departure.gone_at is None, departure.gone_at or 0.0, departure.node)


def _notice(ledger: Ledger, departure: Departure, one: Workload) -> Drain | Move | None:
    """Return the notice: by the node's end for everybody (N2), else a move where nobody is to be hurried (N1)."""
    beneficiary = f"the end of {departure.node}"
    why = f"{departure.node} goes away: {departure.why}"
    if departure.gone_at is None and not ledger.class_of(one).yields:
        movable = one.movable and not one.moving
        return Move(workload=one.name, beneficiary=beneficiary, why=why) if movable else None
    deadline_at = ledger.now + grace_s(ledger.policy.drain, one)
    if departure.gone_at is not None:
        deadline_at = max(ledger.now, min(deadline_at, departure.gone_at))
    ledger.release_soon(one)
    return Drain(workload=one.name, beneficiary=beneficiary, deadline_at=deadline_at, why=why)
