"""Committed work goes into what its team has booked first, and there may ask whoever yields to leave (rule C3).

Knows the bookings that are in force, the ledger, and one workload. Does not know the rest of the fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fleet_app.engine import giving, matching, mixed_reclaim, notices, placement, reclaim
from fleet_app.engine.booked import Booked
from fleet_app.engine.calendar import Booking
from fleet_app.engine.eligibility import asker, depth, eligible_together, sought_now
from fleet_app.engine.ends import spoken
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Action, Admit, Wait
from fleet_app.engine.pulls import Gate
from fleet_app.engine.rooms import rooms_of
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload


def place(ledger: Ledger, workload: Workload, gate: Gate | None = None) -> Iterator[Action | Wait]:
    """Yield its admission into what its team has booked, or the drains that make room there; nothing if neither is."""
    calendar = ledger.calendar
    if calendar is None or ledger.class_of(workload).yields:
        return
    for booking in calendar.blocks(workload.team):
        nodes = _nodes(ledger, workload, booking)
        chosen = _now(ledger, calendar, workload, booking, nodes)
        if chosen is not None:
            yield _admitted(ledger, calendar, workload, _Place(booking, chosen), gate)
            return
        found = list(_by_drain(ledger, calendar, workload, booking, nodes))
        if found:
            yield from found
            return


def _nodes(ledger: Ledger, workload: Workload, booking: Booking) -> list[Node]:
    """Return the nodes of a booking on which the workload may run, the same list for all that are alike in this."""
    able = eligible_together(ledger, workload)
    key = (booking.name, id(able))
    if key not in ledger.memo.eligible:
        ledger.memo.eligible[key] = [node for node in able if node.name in booking.nodes]
    return ledger.memo.eligible[key]


def _is_open(calendar: Booked, workload: Workload, booking: Booking, until: float) -> Callable[[Node], bool]:
    fits, is_open = calendar.fits_inside(workload, booking), calendar.open_to(workload, yields=False, until=until)
    return lambda node: fits(node.name) and is_open(node.name)


def _now(
    ledger: Ledger, calendar: Booked, workload: Workload, booking: Booking, nodes: list[Node]
) -> tuple[str, ...] | None:
    if ledger.available(workload.team) < workload.gpus:
        return None
    is_open = _is_open(calendar, workload, booking, calendar.gone_at(workload))
    return _chosen(ledger, workload, nodes, is_open)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a workload starts: in which booking, and on which of its nodes, in rank order."""

    booking: Booking
    nodes: tuple[str, ...]


def _admitted(ledger: Ledger, calendar: Booked, workload: Workload, place: _Place, gate: Gate | None) -> Admit | Wait:
    """Return the admission, or the wait for what has to be pulled first (G1)."""
    pulling = None if gate is None else gate.refusal(workload, place.nodes)
    if pulling is not None:
        return pulling
    why = f"{place.booking.name} is in force for {spoken(place.booking.end_at - ledger.now)}"
    return giving.admitted(ledger, workload, place.nodes, why, gate)


def _chosen(
    ledger: Ledger, workload: Workload, nodes: list[Node], is_open: Callable[[Node], bool]
) -> tuple[str, ...] | None:
    def tightness(node: Node) -> tuple[int, ...]:
        return (ledger.free[node.name].gpus,)

    if workload.groups:
        able = list(filter(is_open, nodes))
        return matching.place(
            sought_now(ledger, workload), able, lambda name, shape: shape.fits(ledger.free[name]), tightness
        )
    fitting = list(filter(is_open, rooms_of(ledger, workload.shape, nodes).now()))
    return placement.place(fitting, workload.bundles, depth(ledger, workload), tightness)


def _by_drain(
    ledger: Ledger, calendar: Booked, workload: Workload, booking: Booking, nodes: list[Node]
) -> Iterator[Action | Wait]:
    soon = ledger.now + ledger.policy.drain.longest_grace_s
    seeks = replace(asker(ledger, workload), anyone=True)
    find = mixed_reclaim.find if workload.groups else reclaim.find
    found = find(ledger, seeks, nodes, _is_open(calendar, workload, booking, calendar.gone_at(workload, soon)))
    if found is None or not notices.may_ask_now(ledger, found.victims):
        return
    why = f"{booking.name} is in force for {workload.name}"
    yield from giving.coming(ledger, workload, found, why)
