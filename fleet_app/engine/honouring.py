"""Bookings are kept whole, and cleared in time for their start (rules C2, C5, C6, C8, D7).

Knows what is booked and who is in the way there. Admits nobody, and does not know who will come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fleet_app.engine import saving
from fleet_app.engine.booked import Booked, Seated
from fleet_app.engine.calendar import Booking
from fleet_app.engine.ends import grace_s, spoken
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Drain, Move, Rebook
from fleet_app.engine.values import Node, NodeClass, Shape, smaller
from fleet_app.engine.workload import Workload

Answer = Iterator[Rebook | Drain | Move]


def step(ledger: Ledger) -> Answer:
    """Yield other nodes for those that bookings lost, and who has to leave for a start that is near."""
    calendar = ledger.calendar
    if calendar is None:
        return
    for name in list(calendar.bookings):
        yield from _made_whole(ledger, calendar, calendar.bookings[name])
        yield from _cleared(ledger, calendar, calendar.bookings[name])


def hold(ledger: Ledger) -> None:
    """Hold what is booked now and was given to nobody in this decision, so that nobody else takes it (C3)."""
    if ledger.calendar is None:
        return
    for booking in ledger.calendar.bookings.values():
        if booking.team is not None and booking.at(ledger.now):
            for name in sorted(booking.nodes):
                _hold(ledger, ledger.calendar, booking, name)


def _hold(ledger: Ledger, calendar: Booked, booking: Booking, name: str) -> None:
    node = ledger.nodes.get(name)
    idle = calendar.view(name, ledger.now).inside.get(str(booking.team))
    if node is None or not node.placeable or idle is None:
        return
    held = smaller(smaller(booking.shape, idle), ledger.free[name])
    if held.gpus > 0:
        ledger.hold(booking.name, name, held)


# --- whole ----------------------------------------------------------------------------------------------------------


def _made_whole(ledger: Ledger, calendar: Booked, booking: Booking) -> Iterator[Rebook]:
    """Yield other nodes for those that are lost or not clear, or the breach that there are none (C6)."""
    if booking.team is None:
        return
    nodes, said, breach = list(booking.nodes), [], []
    for name, why in _lacking(ledger, calendar, booking):
        other = _replacement(ledger, calendar, replace(booking, nodes=tuple(nodes)), name)
        if other is None:
            breach.append(f"{name} {why}, and nothing else there can take its place")
        else:
            nodes[nodes.index(name)] = other
            said.append(f"{name} {why}: {other} takes its place")
    missing = "; ".join(breach)
    if missing != booking.breach or tuple(nodes) != booking.nodes:
        calendar.rebook(replace(booking, nodes=tuple(nodes), breach=missing))
        why = "; ".join([*said, *breach]) or "it is whole again"
        yield Rebook(booking=booking.name, nodes=tuple(nodes), breach=missing, why=why)


def _lacking(ledger: Ledger, calendar: Booked, booking: Booking) -> list[tuple[str, str]]:
    """Return the nodes that the booking cannot have, and why; by name."""
    found = []
    for name in sorted(booking.nodes):
        node = ledger.nodes.get(name)
        if node is None or ledger.gone(name):
            found.append((name, "is lost"))
        elif not node.placeable and not ledger.in_doubt(node) and not _own_there(ledger, booking, name):
            found.append((name, f"is {node.condition}"))
        elif booking.at(ledger.now) and not Shape().fits(calendar.view(name, ledger.now).beside):
            outside = sorted(seated.workload.name for seated in calendar.view(name, ledger.now).outside)
            found.append((name, f"was not left by {', '.join(outside)}" if outside else "has too little room"))
    return found


def _own_there(ledger: Ledger, booking: Booking, name: str) -> bool:
    assert ledger.calendar is not None
    return any(seated.workload.team == booking.team for seated in ledger.calendar.firm[name])


def _replacement(ledger: Ledger, calendar: Booked, booking: Booking, lost: str) -> str | None:
    """Return the node that takes the place of one: in the same domain and of the same kind, free before by drain."""
    like = [node for name in (lost, *booking.nodes) if (node := ledger.nodes.get(name)) is not None]
    if not like:
        return None
    depth = ledger.policy.levels.index(booking.within) + 1 if booking.within in ledger.policy.levels else 0
    able = [node for node in ledger.placeable() if _could_replace(calendar, booking, node, like[0], depth)]

    def rank(node: Node) -> tuple[bool, float, tuple[str, ...], str]:
        lost_gpu_s = sum(ledger.lost_gpu_s(one) for one in ledger.lodgers.get(node.name, ()))
        return (not booking.shape.fits(ledger.free[node.name]), lost_gpu_s, node.domains, node.name)

    return min(able, key=rank).name if able else None


def _could_replace(calendar: Booked, booking: Booking, node: Node, like: Node, depth: int) -> bool:
    alike = node.block(depth) == like.block(depth)
    if not alike or node.node_class is not NodeClass.TRAINING or node.name in booking.nodes:
        return False
    others = [one for one in calendar.on.get(node.name, ()) if one.start_at < booking.end_at]
    moments = sorted({calendar.moment(booking), *(max(calendar.moment(booking), one.start_at) for one in others)})
    return all(booking.shape.fits(calendar.view(node.name, at).beside) for at in moments)


# --- clear ----------------------------------------------------------------------------------------------------------


def _cleared(ledger: Ledger, calendar: Booked, booking: Booking) -> Iterator[Drain | Move]:
    """Yield notices to those in the way whose time has come: what yields by its grace, what is committed to move."""
    policy = ledger.policy
    lead_s = max(policy.drain.longest_grace_s, policy.calendar.reclaim_lead_s, policy.calendar.move_lead_s)
    if ledger.now < booking.start_at - lead_s:
        return
    begins_in = booking.start_at - ledger.now
    why = f"{booking.name} begins in {spoken(begins_in)}" if begins_in > 0 else f"{booking.name} has begun"
    for one in _in_the_way(ledger, calendar, booking):
        if ledger.class_of(one).yields and calendar.due(one, booking):
            if not saving.may_begin(ledger, one.name, booking.name, urgent=_is_urgent(ledger, one, booking)):
                continue
            deadline_at = ledger.now + grace_s(policy.drain, one)
            ledger.release_soon(one)
            yield Drain(workload=one.name, beneficiary=booking.name, deadline_at=deadline_at, why=why)
        elif _is_to_move(ledger, calendar, one) and begins_in <= policy.calendar.move_lead_s:
            calendar.moving.add(one.name)
            saving.may_begin(ledger, one.name, booking.name, urgent=True)
            yield Move(workload=one.name, beneficiary=booking.name, why=why)


def _is_urgent(ledger: Ledger, one: Workload, booking: Booking) -> bool:
    """Return whether there is no time to wait for another's longest grace and have its own before the start (D7)."""
    drain = ledger.policy.drain
    return ledger.now + drain.longest_grace_s + grace_s(drain, one) > booking.start_at


def _is_to_move(ledger: Ledger, calendar: Booked, one: Workload) -> bool:
    """Return whether committed work that can be moved was not asked to yet."""
    return one.movable and not one.moving and one.name not in calendar.moving and not ledger.class_of(one).yields


def _in_the_way(ledger: Ledger, calendar: Booked, booking: Booking) -> list[Workload]:
    """Return who would not fit beside what is booked when the booking needs its room, by name (C2, C5).

    Who cannot leave in time any more keeps its place before those who can, then the higher priority does.
    """
    at = calendar.moment(booking)
    views = {name: calendar.view(name, at) for name in booking.nodes}
    room: dict[str, Shape] = {}
    there: dict[str, list[tuple[str, Seated]]] = {}
    for name in sorted(views):
        outside = list(views[name].outside)
        room[name] = sum([seated.workload.shape for seated in outside], views[name].beside)
        for seated in [*outside, *_lodging(calendar, booking, name, at)]:
            there.setdefault(seated.workload.name, []).append((name, seated))
    leaving = []
    for seats in sorted(there.values(), key=lambda seats: _stays_before(ledger, calendar, booking, seats[0][1])):
        if all(seated.workload.shape.fits(room[name]) for name, seated in seats):
            for name, seated in seats:
                room[name] -= seated.workload.shape
        else:
            leaving.append(seats[0][1].workload)
    return sorted(leaving, key=lambda one: one.name)


def _lodging(calendar: Booked, booking: Booking, name: str, at: float) -> list[Seated]:
    """Return who yields on a node, is of another team, and need not have left by then."""
    return [one for one in calendar.lodgers[name] if one.until > at and one.workload.team != booking.team]


def _stays_before(ledger: Ledger, calendar: Booked, booking: Booking, seated: Seated) -> tuple[bool, bool, int, str]:
    one = seated.workload
    late = ledger.now > booking.start_at - calendar.lead_s(one)
    return (ledger.class_of(one).yields, not late, -one.priority, one.name)
