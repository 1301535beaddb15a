"""What happens to nodes: they are lost and come back; and to bookings: somebody asks, they begin and are over.

Decides nothing: what is lost with a node, and which nodes are kept out, is in the plan.
"""

from __future__ import annotations

from dataclasses import replace

from fleet_app.engine.booking import offer
from fleet_app.engine.calendar import Offer
from fleet_app.engine.values import Condition
from fleet_app.twin import replicas
from fleet_app.twin.clock import What
from fleet_app.twin.record import Booked, NodeBack, NodeLost
from fleet_app.twin.world import World


def may_break(world: World, name: str) -> None:
    """Put down when a node is lost next, if nodes are lost at all."""
    mean_s = world.scenario.faults.node_mean_s
    if mean_s is not None:
        count = world.lost.get(name, 0)
        world.agenda.put(world.now + world.chance.until(mean_s, "node", name, count), What.NODE_LOST, name)


def lost(world: World, name: str) -> None:
    """Let a node go away; it is back once it is repaired."""
    node, count = world.fleet.nodes[name], world.lost.get(name, 0)
    world.lost[name] = count + 1
    back_at = world.now + world.chance.seconds(world.scenario.faults.repair, "repair", name, count)
    world.fleet.put_node(replace(node, condition=Condition.DOWN, down_since=world.now))
    replicas.node_lost(world, name)
    world.agenda.put(back_at, What.NODE_BACK, name)
    world.due(world.now + world.policy.health.tolerance_s)
    world.tell(NodeLost(at=world.now, node=name, gpus=node.capacity.gpus, back_at=back_at))


def back(world: World, name: str) -> None:
    """Let a node be there again, with nothing on it."""
    node = world.fleet.nodes[name]
    world.fleet.put_node(replace(node, condition=Condition.READY, down_since=None, cached=()))
    world.tell(NodeBack(at=world.now, node=name))
    may_break(world, name)


def booking_asked(world: World, number: int) -> None:
    """Let somebody ask for a booking, and take what is offered."""
    ask = world.scenario.bookings[number].ask
    answer = offer(world.fleet.state(), world.policy, world.now, ask)
    if not isinstance(answer, Offer):
        world.tell(Booked(at=world.now, booking=ask.name, what="declined", nodes=(), why=answer.why))
        return
    booking = answer.booking
    if ask.replaces is not None:
        world.fleet.bookings.pop(ask.replaces, None)
    world.fleet.bookings[booking.name] = booking
    rules = world.policy.calendar
    leads = {0.0, rules.reclaim_lead_s, rules.move_lead_s, world.policy.drain.longest_grace_s, -rules.hold_s}
    for lead_s in sorted(leads):
        world.due(booking.start_at - lead_s)
    world.due(booking.end_at)
    world.tell(Booked(at=world.now, booking=booking.name, what="taken", nodes=booking.nodes, why=""))


def forget_bookings(world: World) -> None:
    """Drop bookings that are over and of whose team nothing has their nodes any more (C7)."""
    for name, booking in list(world.fleet.bookings.items()):
        if not booking.over(world.now):
            continue
        holders = (one for one in world.fleet.workloads.values() if one.team == booking.team and one.holding)
        if not any(set(one.nodes) & set(booking.nodes) for one in holders):
            del world.fleet.bookings[name]
            world.tell(Booked(at=world.now, booking=name, what="over", nodes=booking.nodes, why=""))
