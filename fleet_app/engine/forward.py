"""What becomes of a fleet if all goes as declared: plans carried out, and what has to end gone when it has to (O9).

Plays on values what the arbiter does on Ray: who is admitted starts at once, runs for as long as it may and leaves at
its deadline, replicas are as many as are wanted now, and what has no end runs on. Does not know the line, nor why
anything is done. What moves at a checkpoint, crosses or is cut anew stays as it is: nobody knows when that happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from fleet_app.engine import life
from fleet_app.engine.ends import leaves_by, limit_at
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import (
    Admit,
    AdmitSlice,
    Drain,
    Expire,
    GiveGrant,
    GiveSlice,
    Grow,
    Kill,
    Lose,
    Move,
    Plan,
    Rebook,
    Shrink,
    TakeGrant,
)
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Condition
from fleet_app.engine.workload import Grant, Service, Workload

Told = Admit | AdmitSlice | Drain | Expire | Move | Kill | Lose | Shrink | Grow
"""What a workload may be told."""


def begun(state: FleetState, policy: Policy, now: float) -> FleetState:
    """Return the fleet with everybody started who has nodes, and with a deadline for everybody who was told to end."""
    found = []
    for one in state.workloads:
        if one.phase is Phase.ADMITTED and not one.killed:
            found.append(life.started(one, now))
        elif one.leaving and one.deadline_at is None:
            found.append(replace(one, deadline_at=leaves_by(policy.drain, one, now)))
        else:
            found.append(one)
    return replace(state, workloads=tuple(found), services=tuple(map(_occupied, state.services)))


def carried_out(state: FleetState, plan: Plan, now: float) -> FleetState:
    """Return the fleet with a plan carried out at once."""
    workloads = {one.name: one for one in state.workloads}
    services = {one.name: one for one in state.services}
    bookings = {one.name: one for one in state.bookings}
    for action in plan.actions:
        if isinstance(action, Told):
            workloads[action.workload] = _told(workloads[action.workload], action, now)
        elif isinstance(action, GiveGrant | GiveSlice | TakeGrant):
            services[action.service] = _served(services[action.service], action)
        elif isinstance(action, Rebook):
            bookings[action.booking] = replace(bookings[action.booking], nodes=action.nodes, breach=action.breach)
    return replace(
        state,
        workloads=tuple(workloads.values()),
        services=tuple(map(_occupied, services.values())),
        bookings=tuple(bookings.values()),
    )


def gone(state: FleetState, policy: Policy, now: float) -> tuple[FleetState, tuple[str, ...]]:
    """Return the fleet when those have left who have to by now, and who that was, by name."""
    stay: list[Workload] = []
    left: list[str] = []
    for one in state.workloads:
        if one.leaving and leaves_by(policy.drain, one, now) <= now:
            left.append(one.name)
            again = life.gone(one)
            stay += [again] if again.phase is Phase.QUEUED else []
        elif one.going and (one.going_by or now) <= now:
            left.append(one.name)
            stay.append(life.without_members(one))
        else:
            stay.append(one)
    return replace(state, workloads=tuple(stay)), tuple(sorted(left))


def next_at(state: FleetState, policy: Policy, now: float) -> float | None:
    """Return the next moment at which something is known to change, in seconds; None when nothing is."""
    return min((at for at in _moments(state, policy, now) if at > now), default=None)


def _moments(state: FleetState, policy: Policy, now: float) -> Iterator[float]:
    for one in state.workloads:
        if one.going_by is not None:
            yield one.going_by
        if one.leaving:
            yield leaves_by(policy.drain, one, now)
        elif one.holding:
            limit = limit_at(one)
            yield from () if limit is None else (limit,)
            if one.attempt > 1 and one.started_at is not None:
                yield one.started_at + policy.drain.min_run_s
    for booking in state.bookings:
        leads = (0.0, policy.drain.grace_s, policy.calendar.reclaim_lead_s, policy.calendar.move_lead_s)
        yield from (booking.start_at - lead for lead in leads)
        yield from (booking.start_at + policy.calendar.hold_s, booking.end_at)
    yield from (told.until for told in state.quarantines if told.binds(now))
    away = (node.down_since for node in state.nodes if node.condition is Condition.DOWN)
    yield from (since + policy.health.tolerance_s for since in away if since is not None)


def _told(one: Workload, action: Told, now: float) -> Workload:
    """Return a workload that was told something."""
    match action:
        case Admit(nodes=nodes):
            return life.at_work(one, nodes, now)
        case AdmitSlice(node=node, card=card):
            return life.started(life.admitted(one, (node,), now, card), now)
        case Drain() | Expire() | Move():
            return life.noticed(one, action)
        case Kill() | Lose():
            return replace(one, killed=True)
        case Shrink() | Grow():
            return life.resized(one, action, now)
        case _:
            assert_never(action)


def _served(one: Service, action: GiveGrant | GiveSlice | TakeGrant) -> Service:
    if isinstance(action, TakeGrant):
        return life.without_grants(one, (action.grant,))
    card = action.card if isinstance(action, GiveSlice) else None
    return life.with_grant(one, Grant(name=_unused(one.grants), node=action.node, card=card))


def _unused(grants: Iterable[Grant]) -> str:
    """Return a name that no grant has."""
    known = {grant.name for grant in grants}
    return next(name for number in range(len(known) + 1) if (name := f"grant-{number}") not in known)


def _occupied(one: Service) -> Service:
    """Return a service whose replicas have started in its grants, as many as it wants."""
    return life.occupied(one, one.wanted - sum(grant.occupied for grant in one.grants))
