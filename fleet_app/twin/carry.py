"""Carries a plan out on a virtual fleet, action by action, as the arbiter does on Ray. Decides nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from fleet_app.engine import life
from fleet_app.engine.failures import Cause as FailureCause
from fleet_app.engine.failures import Quarantined
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import (
    Action,
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
    OnCards,
    Plan,
    Quarantine,
    Rebook,
    Relabel,
    Release,
    Repartition,
    Shrink,
    TakeGrant,
)
from fleet_app.twin import attempts, cutting, replicas
from fleet_app.twin.clock import What
from fleet_app.twin.record import Booked, Cause, Crossed, Grown, KeptOut, Noticed
from fleet_app.twin.world import World


def carry_out(world: World, plan: Plan) -> None:
    """Do what a plan says, in its order, and keep what it holds."""
    for action in plan.actions:
        _do(world, action)
    if plan.holds != world.holds:
        world.holds = plan.holds
        world.meter.holds(plan.holds)


def _do(world: World, action: Action) -> None:
    match action:
        case Admit(workload=name, nodes=nodes):
            attempts.admitted(world, world.fleet.workloads[name], nodes)
        case GiveGrant(service=name, node=node):
            replicas.granted(world, name, node)
        case TakeGrant(service=name, grant=grant):
            replicas.taken_back(world, name, grant)
        case Drain() | Expire() | Move():
            _notice(world, action)
        case Kill() | Lose():
            _end(world, action)
        case Shrink() | Grow():
            _resize(world, action)
        case Quarantine() | Release() | Relabel() | Rebook():
            _to_node(world, action)
        case AdmitSlice() | GiveSlice() | Repartition():
            _on_card(world, action)
        case _:
            assert_never(action)


def _on_card(world: World, action: OnCards) -> None:
    match action:
        case AdmitSlice(workload=name, node=node, card=card):
            attempts.admitted(world, world.fleet.workloads[name], (node,), card)
        case GiveSlice(service=name, node=node, card=card):
            replicas.granted(world, name, node, card)
        case Repartition(node=name, card=card, layout=layout):
            world.fleet.put_node(cutting.recut(cutting.taken_out(world.fleet.nodes[name], card, layout), world.now))
            world.agenda.put(world.now, What.DUE, "")


def _notice(world: World, action: Drain | Expire | Move) -> None:
    new = life.noticed(world.fleet.workloads[action.workload], action)
    world.fleet.put(new)
    cause = {Drain: Cause.DRAINED, Expire: Cause.EXPIRED, Move: Cause.MOVED}[type(action)]
    whom = "" if isinstance(action, Expire) else action.beneficiary
    deadline_at = None if isinstance(action, Move) else action.deadline_at
    world.tell(
        Noticed(
            at=world.now,
            workload=new.name,
            attempt=new.attempt,
            cause=cause,
            beneficiary=whom,
            deadline_at=deadline_at,
            nodes=(),
            gpus=new.gpus,
            why=action.why,
        )
    )
    world.due(deadline_at, new.name)
    if whom in world.serving:
        world.serving[whom].drained = True
    attempts.asked_to_leave(world, new, cause)


def _end(world: World, action: Kill | Lose) -> None:
    """End a workload at once; one that did not leave in time broke the contract, unless its time was over anyway."""
    one, doing = world.fleet.workloads[action.workload], world.doing[action.workload]
    if isinstance(action, Lose):
        attempts.failed(world, one, FailureCause.NODE, action.node)
        doing.cause, doing.asked_at = Cause.NODE, None
        attempts.killed(world, replace(one, killed=True))
        return
    asked_at = doing.asked_at
    kept = one.expired and one.saved_at is not None and asked_at is not None and one.saved_at >= asked_at
    broken = one.broken_drains + (one.phase is Phase.DRAINING and not kept)
    attempts.killed(world, replace(one, killed=True, broken_drains=broken))


def _resize(world: World, action: Shrink | Grow) -> None:
    old = world.fleet.workloads[action.workload]
    new = life.resized(old, action, world.now)
    world.fleet.put(new)
    doing = world.doing[new.name]
    doing.charge(world.now, old.gpus)
    gpus = new.shape.gpus * len(action.nodes)
    if isinstance(action, Grow):
        world.tell(Grown(at=world.now, workload=new.name, nodes=action.nodes, gpus=gpus))
    else:
        doing.members_asked_at = world.now
        world.tell(
            Noticed(
                at=world.now,
                workload=new.name,
                attempt=new.attempt,
                cause=Cause.DRAINED,
                beneficiary=action.beneficiary,
                deadline_at=action.deadline_at,
                nodes=action.nodes,
                gpus=gpus,
                why=action.why,
            )
        )
    attempts.members_changed(world, new)


def _to_node(world: World, action: Quarantine | Release | Relabel | Rebook) -> None:
    fleet, now = world.fleet, world.now
    match action:
        case Quarantine(node=name, until=until, owner=owner, why=why):
            fleet.quarantines[name] = Quarantined(node=name, reason=why, owner=owner, since=now, until=until)
            world.due(until)
            world.tell(KeptOut(at=now, node=name, until=until, why=why))
        case Release(node=name, why=why):
            fleet.quarantines[name] = replace(fleet.quarantines[name], released_at=now)
            world.tell(KeptOut(at=now, node=name, until=None, why=why))
        case Relabel(node=name, node_class=to):
            fleet.crossings[name] = replace(fleet.crossings[name], moved_at=now)
            world.tell(Crossed(at=now, node=name, to=to, gpus=fleet.crossings[name].gpus))
        case Rebook(booking=name, nodes=nodes, breach=breach, why=why):
            fleet.bookings[name] = replace(fleet.bookings[name], nodes=nodes, breach=breach)
            world.tell(Booked(at=now, booking=name, what="in breach" if breach else "moved", nodes=nodes, why=why))
