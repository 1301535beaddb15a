"""Whether a booking is inside what its team may have then, and what serving keeps whatever is booked (rules C8, C10).

Knows nominal quota in force, transfers, the numbers for whole GPUs of an accelerator, what services need at least, and
what serving wanted so far. Does not know which nodes would do as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fleet_app.engine.calendar import Booking, BookingAsk, Declined, Transfer
from fleet_app.engine.ends import gone_at
from fleet_app.engine.forecast import WEEK_S
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.ordering import by_precedence
from fleet_app.engine.state import FleetState
from fleet_app.engine.transfers import nominal_at
from fleet_app.engine.values import NodeClass, Shape
from fleet_app.engine.workload import Service


def short_of_nominal(ledger: Ledger, state: FleetState, others: Sequence[Booking], ask: BookingAsk) -> Declined | None:
    """Return the refusal of what nominal and transfers do not cover, or what a lender may not give (C10)."""
    if ask.team is None:
        return None
    booked = Booking(
        name=ask.name,
        team=ask.team,
        shape=ask.shape,
        nodes=tuple(f"{number}" for number in range(ask.count)),
        start_at=ask.start_at,
        end_at=ask.end_at,
        transfers=ask.transfers,
    )
    for transfer in ask.transfers:
        refused = _not_lent(ledger, state, others, booked, transfer)
        if refused is not None:
            return refused
    for at in _moments(others, booked):
        nominal = nominal_at(ledger.policy, (*others, booked), ask.team, at)
        used = sum(_gpus(one) for one in (*others, booked) if one.team == ask.team and one.at(at))
        if used > nominal:
            why = f"team {ask.team} has {nominal} GPUs of nominal then, {used} would be booked: "
            why += f"{used - nominal} more have to be transferred by a lender"
            return Declined(booking=ask.name, why=why, asked=used, available=nominal)
    return None


def above_caps(ledger: Ledger, others: Sequence[Booking], booking: Booking) -> Declined | None:
    """Return the refusal of more whole GPUs of an accelerator than the team's entries may have (C10, V9)."""
    caps = ledger.caps
    if caps is None or booking.team is None:
        return None
    for accelerator in sorted({ledger.nodes[name].accelerator for name in booking.nodes}):
        for entry, most in caps.limits(booking.team, accelerator).items():
            alike = [one for one in (*others, booking) if one.team is not None and entry in caps.above(one.team)]
            used = max(_booked(ledger, alike, accelerator, at) for at in _moments(others, booking))
            if used > most:
                why = f"{entry} may have {most} whole GPUs of {accelerator}, {used} would be booked"
                return Declined(booking=booking.name, why=why, asked=used, available=most)
    return None


def _booked(ledger: Ledger, bookings: Iterable[Booking], accelerator: str, at: float) -> int:
    """Return the GPUs of an accelerator that are booked at a moment."""
    kind = accelerator.lower()
    nodes = ((one.shape.gpus, ledger.nodes.get(name)) for one in bookings if one.at(at) for name in one.nodes)
    return sum(gpus for gpus, node in nodes if node is not None and node.accelerator.lower() == kind)


def _not_lent(
    ledger: Ledger, state: FleetState, others: Sequence[Booking], booked: Booking, transfer: Transfer
) -> Declined | None:
    """Return why a lender may not give what is transferred: nobody approved it, or it needs it itself."""
    name, lender = booked.name, transfer.lender
    if not transfer.approved_by:
        why = f"nobody has approved the transfer of {transfer.gpus} GPUs from {lender}"
        return Declined(booking=name, why=why, asked=transfer.gpus)
    if lender not in ledger.tree.entries or lender == booked.team or transfer.gpus < 1:
        return Declined(
            booking=name, why=f"{lender} is nobody who could lend {transfer.gpus} GPUs", asked=transfer.gpus
        )
    needs = _needs(ledger, state, booked, lender)
    alone = replace(booked, transfers=())
    gives = sum(one.gpus for one in booked.transfers if one.lender == lender)
    spare = min(nominal_at(ledger.policy, (*others, alone), lender, at) for at in _moments(others, booked)) - needs
    if gives > spare:
        why = f"{lender} can lend {max(0, spare)} GPUs: it needs {needs} of its nominal itself then"
        return Declined(booking=name, why=why, asked=gives, available=max(0, spare), blocked_by=(lender,))
    return None


def _needs(ledger: Ledger, state: FleetState, booked: Booking, lender: str) -> int:
    """Return the GPUs that a lender keeps: for committed work that will still be there, and for its services' peak."""
    firm = 0
    for one in ledger.holding:
        if one.team == lender and not ledger.class_of(one).yields:
            gone = gone_at(ledger.policy.drain, one, ledger.now)
            firm += one.gpus if gone is None or gone > booked.start_at else 0
    served = sum(_least(one) for one in state.services if one.team == lender)
    return firm + max(served, _peak(state) - _served_by_others(ledger, state, lender) if served else 0)


def _least(service: Service) -> int:
    return max(service.floor, service.wanted, len(service.grants)) * service.shape.gpus


def _peak(state: FleetState) -> int:
    """Return the most GPUs that services wanted within the last week that is known; none where nobody knows."""
    if state.demand is None:
        return 0
    last = max(1, round(WEEK_S / state.demand.every_s))
    return round(max(state.demand.wanted_gpus[-last:]))


def _served_by_others(ledger: Ledger, state: FleetState, lender: str) -> int:
    teams = {service.team for service in state.services if service.team != lender}
    return sum(ledger.tree.nominal(team) for team in teams)


def _moments(others: Iterable[Booking], booked: Booking) -> list[float]:
    """Return the moments in a booking's time at which what is in force changes."""
    starts = {one.start_at for one in others} | {one.end_at for one in others}
    return sorted({booked.start_at, *(at for at in starts if booked.start_at < at < booked.end_at)})


def _gpus(booking: Booking) -> int:
    return booking.shape.gpus * len(booking.nodes)


def short_of_floors(ledger: Ledger, state: FleetState, others: Sequence[Booking], booking: Booking) -> Declined | None:
    """Return the refusal of a maintenance window that would take a service below its floor (C8)."""
    serving = [ledger.nodes[name] for name in booking.nodes if ledger.nodes[name].node_class is NodeClass.SERVING]
    if booking.team is not None or not serving:
        return None
    room = _room_left(ledger, others, booking)
    for service in by_precedence(state.services):
        for number in range(service.floor):
            fitting = [name for name in sorted(room) if service.shape.fits(room[name])]
            if not fitting:
                why = f"{service.name} would have room for {number} of the {service.floor} replicas of its floor"
                return Declined(
                    booking=booking.name, why=why, asked=service.floor, available=number, blocked_by=(service.name,)
                )
            room[min(fitting, key=lambda name: (room[name].gpus, name))] -= service.shape
    return None


def _room_left(ledger: Ledger, others: Iterable[Booking], booking: Booking) -> dict[str, Shape]:
    """Return what serving's nodes would have for replicas if everybody who yields had left."""
    shut = {
        name
        for one in (*others, booking)
        if one.team is None and one.start_at < booking.end_at and booking.start_at < one.end_at
        for name in one.nodes
    }
    room = {
        node.name: ledger.empty[node.name]
        for node in ledger.placeable()
        if node.node_class is NodeClass.SERVING and node.name not in shut
    }
    for one in ledger.holding:
        for name, shape in one.seats:
            if name in room and not ledger.class_of(one).yields:
                room[name] -= shape
    return room
