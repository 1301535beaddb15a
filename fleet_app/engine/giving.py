"""What follows when a place was found for a workload: it is entered in all books, at once or when the room has come.

Knows the ledger, the calendar, uplinks, and one workload with its nodes in rank order. Chooses neither nodes nor
victims.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet_app.engine import notices
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Action, Admit, DomainRoom, Reason, Wait
from fleet_app.engine.pulls import Gate
from fleet_app.engine.reclaim import Eviction
from fleet_app.engine.uplinks import use
from fleet_app.engine.values import Shape
from fleet_app.engine.workload import Workload


def admitted(ledger: Ledger, workload: Workload, nodes: Sequence[str], why: str, gate: Gate | None) -> Admit:
    """Give a workload its nodes and its quota, and return its admission; the gate adds what is pulled first (G1)."""
    yields = ledger.class_of(workload).yields
    for shape, part in _by_shape(workload, nodes):
        ledger.give(workload.team, part, shape, firm=not yields)
    use(ledger, nodes)
    if ledger.calendar is not None:
        ledger.calendar.place(workload, nodes, yields=yields, since=ledger.now)
    about = "" if gate is None else gate.about(workload, nodes)
    return Admit(workload=workload.name, nodes=tuple(nodes), why=why + about)


def coming(
    ledger: Ledger, workload: Workload, found: Eviction, why: str, rooms: tuple[DomainRoom, ...] = ()
) -> Iterator[Action | Wait]:
    """Ask the victims to leave, keep for a gang what is free and what comes, and yield its wait for that (R6)."""
    ready = sum(shape.fits(ledger.free[name]) for name, shape in zip(found.nodes, workload.shapes, strict=True))
    yield from notices.asked_for_gang(ledger, found.victims, workload.name, why)
    keep(ledger, workload, found.nodes)
    yield Wait(
        workload=workload.name,
        reason=Reason.DRAIN_UNDER_WAY,
        asked=workload.bundles,
        available=ready,
        level=workload.within,
        rooms=rooms,
        blocked_by=ledger.members.names_of(found.victims),
    )


def keep(ledger: Ledger, workload: Workload, nodes: Sequence[str]) -> None:
    """Keep for one that never yields what is free of its room on some nodes, and what is coming (R6, O12)."""
    for shape, part in _by_shape(workload, nodes):
        ledger.claim(workload.name, workload.team, part, shape)
    if ledger.calendar is not None:
        soon = ledger.now + ledger.policy.drain.longest_grace_s
        ledger.calendar.place(workload, nodes, yields=False, since=soon)


def _by_shape(workload: Workload, nodes: Sequence[str]) -> Iterator[tuple[Shape, Sequence[str]]]:
    """Yield each shape with the nodes of the ranks that have it: ranks are numbered group after group."""
    if not workload.groups:
        yield workload.shape, nodes
    first = 0
    for group in workload.groups:
        yield group.shape, nodes[first : first + group.bundles]
        first += group.bundles
