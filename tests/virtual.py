"""A tiny fleet on virtual time: carries plans out, and lets the world do what it does to a fleet.

Pure: every function takes a fleet and returns the next one. It knows nothing of the rules that it is used to test, but
that the lifecycle's table allows an event. What becomes of each value is `fleet_app.engine.life`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fleet_app.engine import life
from fleet_app.engine.booking import offer
from fleet_app.engine.calendar import Booking, BookingAsk, Offer
from fleet_app.engine.crossings import called_off
from fleet_app.engine.decide import decide
from fleet_app.engine.failures import Cause, Failure, Quarantined
from fleet_app.engine.life import as_it_crosses, stepped
from fleet_app.engine.lifecycle import TERMINAL, Event, Phase
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
    Quarantine,
    Rebook,
    Relabel,
    Release,
    Repartition,
    Shrink,
    TakeGrant,
)
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.telemetry import Usage
from fleet_app.engine.values import Condition, Crossing, Departure, Node, NodeClass
from fleet_app.engine.workload import Grant, Kind, Service, Workload
from fleet_app.twin import cutting


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """That a workload was asked to leave: when, and for whom; with `nodes` only its members there."""

    at: float
    workload: str
    beneficiary: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Facts at `now`, what ended, and the drains so far; `grants_made` numbers grants."""

    policy: Policy
    now: float = 0.0
    nodes: tuple[Node, ...] = ()
    workloads: tuple[Workload, ...] = ()
    services: tuple[Service, ...] = ()
    ended: tuple[Workload, ...] = ()
    drains: tuple[Drained, ...] = ()
    shrinks: tuple[Drained, ...] = ()
    failures: tuple[Failure, ...] = ()
    quarantines: tuple[Quarantined, ...] = ()
    bookings: tuple[Booking, ...] = ()
    growth_gpus: int | None = None
    crossings: tuple[Crossing, ...] = ()
    departures: tuple[Departure, ...] = ()
    usage: tuple[Usage, ...] = ()
    grants_made: int = 0

    @property
    def state(self) -> FleetState:
        """Return what a decision is made of."""
        return FleetState(
            nodes=tuple(
                _as_it_goes(as_it_crosses(node, self.crossings), self.departures) for node in _with_busy_cards(self)
            ),
            workloads=self.workloads,
            services=self.services,
            failures=self.failures,
            quarantines=self.quarantines,
            bookings=self.bookings,
            growth_gpus=self.growth_gpus,
            crossings=self.crossings,
            departures=self.departures,
            usage=self.usage,
        )

    def workload(self, name: str) -> Workload:
        """Return the workload of that name, ended or not."""
        return next(one for one in (*self.workloads, *self.ended) if one.name == name)

    def service(self, name: str) -> Service:
        """Return the service of that name."""
        return next(one for one in self.services if one.name == name)

    def phases(self) -> dict[str, Phase]:
        """Return the phase of every workload."""
        return {one.name: one.phase for one in (*self.workloads, *self.ended)}

    def running(self) -> set[str]:
        """Return the names of workloads that hold nodes."""
        return {one.name for one in self.workloads if one.holding}


def _as_it_goes(node: Node, departures: Iterable[Departure]) -> Node:
    """Return a node, closed to anything new where it goes away."""
    going = node.placeable and any(one.node == node.name for one in departures)
    return replace(node, condition=Condition.CORDONED) if going else node


def going_away(fleet: Fleet, name: str, gone_at: float | None) -> Fleet:
    """Return the fleet with a node that is to be left; one that was to be left stays after all."""
    others = tuple(one for one in fleet.departures if one.node != name)
    if len(others) < len(fleet.departures):
        return replace(fleet, departures=others)
    return replace(fleet, departures=(*others, Departure(node=name, why="it goes", gone_at=gone_at)))


def fleet(policy: Policy, *parts: Node | Workload | Service | Booking, now: float = 0.0) -> Fleet:
    """Return a fleet of these nodes, workloads and services."""
    return Fleet(
        policy=policy,
        now=now,
        nodes=tuple(part for part in parts if isinstance(part, Node)),
        workloads=tuple(part for part in parts if isinstance(part, Workload)),
        services=tuple(part for part in parts if isinstance(part, Service)),
        bookings=tuple(part for part in parts if isinstance(part, Booking)),
    )


def plan_of(fleet: Fleet) -> Plan:
    """Return what is decided now."""
    return decide(fleet.state, fleet.policy, fleet.now)


def cycle(fleet: Fleet) -> Fleet:
    """Decide, and carry the plan out."""
    return carried_out(fleet, plan_of(fleet))


def carried_out(fleet: Fleet, plan: Plan) -> Fleet:
    """Do what the plan says. Nothing that takes time has happened yet: nobody started, nobody left."""
    for action in plan.actions:
        match action:
            case Admit():
                one = fleet.workload(action.workload)
                fleet = _put(fleet, life.admitted(one, action.nodes, fleet.now))
            case Drain() | Expire() | Move():
                fleet = _noticed(fleet, action)
            case Kill() | Lose():
                one = fleet.workload(action.workload)
                known = _failed(fleet, one, Cause.NODE, action.node) if isinstance(action, Lose) else fleet
                fleet = _put(known, replace(one, killed=True))
            case Quarantine() | Release() | Relabel() | Rebook():
                fleet = _done_to_node(fleet, action)
            case AdmitSlice():
                one = fleet.workload(action.workload)
                fleet = _put(fleet, life.admitted(one, (action.node,), fleet.now, action.card))
            case GiveGrant() | GiveSlice():
                fleet = _granted(fleet, action)
            case Repartition() | Shrink() | Grow():
                fleet = _recut(fleet, action) if isinstance(action, Repartition) else _resized(fleet, action)
            case TakeGrant():
                one = fleet.service(action.service)
                left = life.without_grants(one, (action.grant,))
                assert len(left.grants) == len(one.grants) - 1, f"{action.service} has no grant {action.grant}"
                fleet = _served(fleet, left)
    return _idled(fleet)


def _granted(fleet: Fleet, action: GiveGrant | GiveSlice) -> Fleet:
    number = fleet.grants_made + 1
    card = action.card if isinstance(action, GiveSlice) else None
    given = Grant(name=f"grant-{number:04}", node=action.node, card=card)
    one = fleet.service(action.service)
    fleet = _served(fleet, life.with_grant(one, given))
    return replace(fleet, grants_made=number)


def _recut(fleet: Fleet, action: Repartition) -> Fleet:
    """Take a card out of use, to have another layout."""
    node = next(one for one in fleet.nodes if one.name == action.node)
    return with_node(fleet, cutting.taken_out(node, action.card, action.layout))


def recut(fleet: Fleet) -> Fleet:
    """Let every card that is being changed have its new layout."""
    return replace(fleet, nodes=tuple(cutting.recut(node, fleet.now) for node in fleet.nodes))


def _done_to_node(fleet: Fleet, action: Quarantine | Release | Relabel | Rebook) -> Fleet:
    match action:
        case Rebook():
            return _rebooked(fleet, action)
        case Quarantine(node=node, until=until, owner=owner, why=why):
            return quarantined(fleet, Quarantined(node=node, reason=why, owner=owner, since=fleet.now, until=until))
        case Release(node=node):
            return released(fleet, node)
    done = (replace(one, moved_at=fleet.now) if one.node == action.node else one for one in fleet.crossings)
    return replace(fleet, crossings=tuple(done))


def _idled(fleet: Fleet) -> Fleet:
    """Note since when nothing has been on the cards that are cut or shared."""
    if not any(node.cards for node in fleet.nodes):
        return fleet
    return replace(fleet, nodes=tuple(cutting.idled(fleet.nodes, fleet.workloads, fleet.services, fleet.now)))


def _with_busy_cards(fleet: Fleet) -> tuple[Node, ...]:
    """Return the nodes with as many of their whole cards busy as whole work has GPUs there, the first ones first."""
    if not any(node.cards for node in fleet.nodes):
        return fleet.nodes
    return tuple(cutting.busy(fleet.nodes, fleet.workloads, fleet.services))


def _noticed(fleet: Fleet, action: Drain | Expire | Move) -> Fleet:
    one = fleet.workload(action.workload)
    fleet = _put(fleet, life.noticed(one, action))
    if not isinstance(action, Drain):
        return fleet
    note = Drained(at=fleet.now, workload=one.name, beneficiary=action.beneficiary)
    return replace(fleet, drains=(*fleet.drains, note))


def _rebooked(fleet: Fleet, action: Rebook) -> Fleet:
    return replace(
        fleet,
        bookings=tuple(
            replace(one, nodes=action.nodes, breach=action.breach) if one.name == action.booking else one
            for one in fleet.bookings
        ),
    )


def booked(fleet: Fleet, ask: BookingAsk) -> Fleet:
    """Take what is offered; unchanged where it is declined."""
    answer = offer(fleet.state, fleet.policy, fleet.now, ask)
    if not isinstance(answer, Offer):
        return fleet
    others = tuple(one for one in fleet.bookings if one.name not in {ask.name, ask.replaces})
    return replace(fleet, bookings=(*others, answer.booking))


def unbooked(fleet: Fleet, name: str) -> Fleet:
    """Cancel a booking."""
    return replace(fleet, bookings=tuple(one for one in fleet.bookings if one.name != name))


def _resized(fleet: Fleet, action: Shrink | Grow) -> Fleet:
    one = fleet.workload(action.workload)
    fleet = _put(fleet, life.resized(one, action, fleet.now))
    if isinstance(action, Grow):
        return fleet
    told = Drained(at=fleet.now, workload=one.name, beneficiary=action.beneficiary, nodes=action.nodes)
    return replace(fleet, shrinks=(*fleet.shrinks, told))


def later(fleet: Fleet, seconds: float) -> Fleet:
    """Let time pass."""
    return replace(fleet, now=fleet.now + seconds)


def submitted(fleet: Fleet, *workloads: Workload) -> Fleet:
    """Add workloads, submitted now."""
    return replace(fleet, workloads=(*fleet.workloads, *(replace(one, submitted_at=fleet.now) for one in workloads)))


def started(fleet: Fleet, *names: str) -> Fleet:
    """Let admitted workloads run; without names, all of them."""
    for one in fleet.workloads:
        if one.phase is Phase.ADMITTED and not one.killed and (not names or one.name in names):
            fleet = _put(fleet, life.started(one, fleet.now))
    return fleet


def saved(fleet: Fleet, name: str) -> Fleet:
    """Let a workload acknowledge a checkpoint."""
    return _put(fleet, replace(fleet.workload(name), saved_at=fleet.now))


def told_to_drain(fleet: Fleet, name: str, grace_s: float) -> Fleet:
    """Let a person ask a workload to leave."""
    return _put(fleet, stepped(fleet.workload(name), Event.DRAIN, deadline_at=fleet.now + grace_s))


def asked_to_move(fleet: Fleet, name: str, beneficiary: str = "whoever asked") -> Fleet:
    """Ask a workload to leave at its next checkpoint, whenever that is."""
    one = fleet.workload(name)
    return _put(fleet, stepped(one, Event.DRAIN, deadline_at=None, drained_for=beneficiary))


def cancelled(fleet: Fleet, name: str) -> Fleet:
    """Let a person end a workload for good."""
    one = fleet.workload(name)
    return _put(fleet, stepped(one, Event.CANCEL, deadline_at=fleet.now + one.grace_s if one.holding else None))


def left(fleet: Fleet, *names: str) -> Fleet:
    """Let the last process of workloads that were told to end be gone; without names, of all of them."""
    for one in fleet.workloads:
        if (one.leaving or one.moving) and (not names or one.name in names):
            fleet = _put(fleet, life.gone(one))
        elif one.going and (not names or one.name in names):
            fleet = _put(fleet, life.without_members(one))
    return fleet


def completed(fleet: Fleet, name: str) -> Fleet:
    """Let a workload come to its own end."""
    return _put(fleet, stepped(fleet.workload(name), Event.SUCCEED))


def failed(fleet: Fleet, name: str) -> Fleet:
    """Let a workload fail, nobody knows why."""
    one = fleet.workload(name)
    return _put(_failed(fleet, one, Cause.JOB), stepped(one, Event.FAIL))


def rank_died(fleet: Fleet, name: str) -> Fleet:
    """Let the first rank of a workload die, and so all of it; it goes back to the queue."""
    one = fleet.workload(name)
    return _put(_failed(fleet, one, Cause.RANK, one.nodes[0]), life.requeued(one))


def measured(fleet: Fleet, usage: Usage) -> Fleet:
    """Let somebody measure what a workload or service uses."""
    others = tuple(one for one in fleet.usage if one.subject != usage.subject)
    return replace(fleet, usage=(*others, usage))


def quarantined(fleet: Fleet, told: Quarantined) -> Fleet:
    """Keep a node out."""
    others = tuple(one for one in fleet.quarantines if one.node != told.node)
    return replace(fleet, quarantines=(*others, told))


def released(fleet: Fleet, name: str) -> Fleet:
    """Let a node in again."""
    told = next(one for one in fleet.quarantines if one.node == name)
    return quarantined(fleet, replace(told, released_at=fleet.now))


def asked_to_cross(fleet: Fleet, name: str) -> Fleet:
    """Let a person ask for a node to go over to the other class."""
    node = next(one for one in fleet.state.nodes if one.name == name)
    before = next((one for one in fleet.crossings if one.node == name), None)
    to = NodeClass.TRAINING if node.node_class is NodeClass.SERVING else NodeClass.SERVING
    crossing = Crossing(
        node=name,
        home=node.node_class if before is None else before.home,
        was=node.node_class,
        to=to,
        gpus=node.capacity.gpus,
        asked_at=fleet.now,
        who="ada",
    )
    others = tuple(one for one in fleet.crossings if one.node != name)
    return replace(fleet, crossings=(*others, crossing))


def stays(fleet: Fleet, name: str) -> Fleet:
    """Let a person call off the crossing of a node."""
    begun = next(one for one in fleet.crossings if one.node == name)
    left = called_off(begun)
    others = tuple(one for one in fleet.crossings if one.node != name)
    return replace(fleet, crossings=others if left is None else (*others, left))


def demanded(fleet: Fleet, name: str, wanted: int) -> Fleet:
    """Let a service want that many replicas."""
    return _served(fleet, replace(fleet.service(name), wanted=wanted))


def occupied(fleet: Fleet, name: str) -> Fleet:
    """Let replicas start in the grants of a service, up to what it wants."""
    one = fleet.service(name)
    free = max(0, one.wanted - sum(grant.occupied for grant in one.grants))
    return _served(fleet, life.occupied(one, free))


def vacated(fleet: Fleet, name: str, replicas: int = 1) -> Fleet:
    """Let replicas of a service end: their grants stay, without anybody in them."""
    return _served(fleet, life.vacated(fleet.service(name), replicas))


def with_node(fleet: Fleet, node: Node) -> Fleet:
    """Let a node be as given."""
    return replace(fleet, nodes=tuple(node if one.name == node.name else one for one in fleet.nodes))


def with_policy(fleet: Fleet, policy: Policy) -> Fleet:
    """Apply another policy."""
    return replace(fleet, policy=policy)


def at_rest(fleet: Fleet, cycles: int = 40) -> Fleet:
    """Carry plans out at once, everybody leaving and starting when told, until there is nothing left to do.

    Fails when that takes more than so many cycles.
    """
    for _ in range(cycles):
        plan = plan_of(fleet)
        before = fleet
        fleet = replicas_started(started(left(recut(carried_out(fleet, plan)))))
        if fleet == before:
            return fleet
    raise AssertionError(f"still acting after {cycles} cycles: {plan_of(fleet).actions}")


def replicas_started(fleet: Fleet) -> Fleet:
    """Let replicas start in the grants of every service, up to what each wants."""
    for service in fleet.services:
        fleet = occupied(fleet, service.name)
    return fleet


def _put(fleet: Fleet, changed: Workload) -> Fleet:
    live = [changed if one.name == changed.name else one for one in fleet.workloads]
    if changed.phase not in TERMINAL:
        return replace(fleet, workloads=tuple(live))
    rest = tuple(one for one in live if one.name != changed.name)
    return replace(fleet, workloads=rest, ended=(*fleet.ended, changed))


def _failed(fleet: Fleet, one: Workload, cause: Cause, node: str | None = None) -> Fleet:
    told = Failure(workload=one.name, nodes=one.nodes, at=fleet.now, cause=cause, node=node, why="it happened")
    gangs_or_lost = one.kind is Kind.GANG or cause is Cause.NODE
    return replace(fleet, failures=(*fleet.failures, told)) if gangs_or_lost else fleet


def _served(fleet: Fleet, changed: Service) -> Fleet:
    services: Iterable[Service] = (changed if one.name == changed.name else one for one in fleet.services)
    return replace(fleet, services=tuple(services))
