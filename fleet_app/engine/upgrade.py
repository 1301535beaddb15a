"""Maintenance windows that roll a driver over the fleet, one domain after another (rule C11).

Proposes what to book, and books nothing. Knows the facts, what is booked, and which windows can be honoured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fleet_app.engine.booking import offer
from fleet_app.engine.calendar import BookingAsk, Offer
from fleet_app.engine.errors import ConflictError, RequestError
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import NOTHING, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """What is rolled, by domains of which level, from when, how long each takes and the next waits, and who asks."""

    driver: str
    level: str
    start_at: float
    window_s: float = 3600.0
    pause_s: float = 0.0
    asked_by: str = ""


def roll(state: FleetState, policy: Policy, now: float, how: Roll) -> tuple[BookingAsk, ...]:
    """Return one maintenance window for each domain of the level that has another driver, one after another (C11).

    Each begins at the earliest moment at which it can be honoured: no service below its floor, no booking in its way,
    committed work moved. Raises RequestError for a level that is not in the policy, ConflictError for a domain that
    can never be had.
    """
    driver, level = how.driver, how.level
    if level not in policy.levels:
        fix = f"Name one of: {', '.join(policy.levels)}"
        raise RequestError(f"the policy has no level {level!r}", where="level", fix=fix)
    asks: list[BookingAsk] = []
    at = how.start_at
    for domain, nodes in sorted(_domains(state, driver, policy.levels.index(level) + 1).items()):
        ask = BookingAsk(
            name=f"driver-{driver}-{'-'.join(domain)}",
            team=None,
            shape=NOTHING,
            count=len(nodes),
            nodes=tuple(nodes),
            start_at=at,
            end_at=at + how.window_s,
            asked_by=how.asked_by,
        )
        found = _earliest(state, policy, now, ask)
        asks.append(found.ask)
        state = replace(state, bookings=(*state.bookings, found.offer.booking))
        at = found.ask.end_at + how.pause_s
    return tuple(asks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    ask: BookingAsk
    offer: Offer


def _domains(state: FleetState, driver: str, depth: int) -> dict[tuple[str, ...], list[str]]:
    """Return the nodes with another driver by their domain; one whose place is not known so deep by what is known."""
    found: dict[tuple[str, ...], list[str]] = {}
    for node in sorted(state.nodes, key=_place):
        if node.driver != driver:
            found.setdefault(node.domains[:depth], []).append(node.name)
    return found


def _place(node: Node) -> tuple[tuple[str, ...], str]:
    return (node.domains, node.name)


def _earliest(state: FleetState, policy: Policy, now: float, ask: BookingAsk) -> _Found:
    """Return the window at the earliest moment at which it is offered."""
    while True:
        answer = offer(state, policy, now, ask)
        if isinstance(answer, Offer):
            return _Found(ask=ask, offer=answer)
        if answer.possible_at is None or answer.possible_at <= ask.start_at:
            raise ConflictError(
                f"{', '.join(ask.nodes)} cannot be had: {answer.why}",
                where="upgrade",
                fix="Let what is in the way end or move, or upgrade fewer nodes at once",
            )
        ask = replace(ask, start_at=answer.possible_at, end_at=answer.possible_at + ask.end_at - ask.start_at)
