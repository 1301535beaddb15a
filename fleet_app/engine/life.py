"""What becomes of one workload, service or node when something happens to it: value in, value out. Pure.

What the arbiter does to Ray, and sees come back from it, is done here to values. Knows the lifecycle's table, and
nothing of rules, fleets or clocks: every moment is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, assert_never

from fleet_app.engine.lifecycle import Event, Phase, after
from fleet_app.engine.plan import Drain, Expire, Grow, Move, Shrink
from fleet_app.engine.values import Condition, Crossing, Node
from fleet_app.engine.workload import Grant, Service, Workload


def stepped(one: Workload, event: Event, **changes: Any) -> Workload:
    """Return the workload after an event that the lifecycle's table allows, with what else it changes."""
    return replace(one, phase=after(one.phase, event), **changes)


def admitted(one: Workload, nodes: tuple[str, ...], now: float, card: int | None = None) -> Workload:
    """Return a queued workload that was given nodes, or a slice of a card of one."""
    return stepped(one, Event.ADMIT, nodes=nodes, admitted_at=now, card=card)


def started(one: Workload, now: float) -> Workload:
    """Return an admitted workload whose ranks run from now on: what it did before is safe."""
    return stepped(one, Event.START, started_at=now, saved_at=now)


def at_work(one: Workload, nodes: tuple[str, ...], now: float) -> Workload:
    """Return a queued workload that was given nodes and runs there at once."""
    running = after(after(one.phase, Event.ADMIT), Event.START)
    return replace(one, phase=running, nodes=nodes, admitted_at=now, started_at=now, saved_at=now)


def noticed(one: Workload, action: Drain | Expire | Move) -> Workload:
    """Return a workload that was asked to leave, for good, or at its next checkpoint."""
    match action:
        case Drain(beneficiary=whom, deadline_at=deadline_at):
            return stepped(one, Event.DRAIN, deadline_at=deadline_at, drained_for=whom)
        case Expire(deadline_at=deadline_at):
            return stepped(one, Event.DRAIN, deadline_at=deadline_at, expired=True)
        case Move(beneficiary=whom):
            return stepped(one, Event.DRAIN, deadline_at=None, drained_for=whom)
        case _:
            assert_never(action)


def resized(one: Workload, action: Shrink | Grow, now: float) -> Workload:
    """Return an elastic workload of which some members were asked to leave, or that was given more."""
    if isinstance(action, Grow):
        return replace(one, nodes=(*one.nodes, *action.nodes), grown_at=now)
    going = (*one.going, *action.nodes)
    return replace(one, going=going, going_by=action.deadline_at, going_for=action.beneficiary)


def without_members(one: Workload) -> Workload:
    """Return an elastic workload once the members that were asked to leave have left."""
    stay = tuple(node for node in one.nodes if node not in one.going)
    return replace(one, nodes=stay, going=(), going_by=None, going_for=None)


def gone(one: Workload) -> Workload:
    """Return a workload that was told to end, once its last process is gone: requeued, or ended for good."""
    stopping = stepped(one, Event.CANCEL) if one.expired and one.phase is Phase.DRAINING else one
    return requeued(stopping, Event.GONE if stopping.phase is Phase.STOPPING else Event.REQUEUE)


def requeued(one: Workload, event: Event = Event.REQUEUE) -> Workload:
    """Return a workload that lost its nodes; an attempt that never ran is not counted."""
    ran = one.started_at is not None
    return replace(one.without_nodes(after(one.phase, event)), requeued=True, attempt=one.attempt + ran)


# --- services -------------------------------------------------------------------------------------------------------


def with_grant(service: Service, grant: Grant) -> Service:
    """Return a service with one grant more."""
    return replace(service, grants=(*service.grants, grant))


def without_grants(service: Service, names: Iterable[str]) -> Service:
    """Return a service without the grants of these names."""
    gone_ones = set(names)
    return replace(service, grants=tuple(grant for grant in service.grants if grant.name not in gone_ones))


def occupied(service: Service, replicas: int) -> Service:
    """Return a service in whose idle grants so many replicas have started, as far as there are any, in order."""
    grants = []
    for grant in service.grants:
        take = replicas > 0 and not grant.occupied
        replicas -= take
        grants.append(replace(grant, occupied=True) if take else grant)
    return replace(service, grants=tuple(grants))


def vacated(service: Service, replicas: int) -> Service:
    """Return a service of which so many replicas have ended: their grants stay, without anybody in them."""
    grants = []
    for grant in service.grants:
        leave = grant.occupied and replicas > 0
        replicas -= leave
        grants.append(replace(grant, occupied=False) if leave else grant)
    return replace(service, grants=tuple(grants))


# --- nodes ----------------------------------------------------------------------------------------------------------


def as_it_crosses(node: Node, crossings: Iterable[Crossing]) -> Node:
    """Return a node as its crossing makes it: closed while it lasts, of the other class afterwards."""
    for one in crossings:
        if one.node == node.name and one.moved_at is not None:
            return replace(node, node_class=one.to)
        if one.node == node.name:
            closed = Condition.CORDONED if node.condition is Condition.READY else node.condition
            return replace(node, node_class=one.was, condition=closed)
    return node
