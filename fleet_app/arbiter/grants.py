"""What became of services: their demands, and the grants that replicas live in, after a look at the world.

A grant is a promise until its group stands, then it is the group: whatever group of that kind stands is a grant, also a
hold that Serve moved a replica into while no arbiter was there, and what Serve made itself then for a replica of a
service that is known here. Does not know how many replicas the traffic needs, or where they go.
"""

from __future__ import annotations

from dataclasses import replace

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.ports import Demand, GroupView
from fleet_app.arbiter.records import GrantRecord
from fleet_app.engine.cards import WHOLE_SHARE, Slice
from fleet_app.engine.layouts import knows
from fleet_app.worker import contract

STALE_S = 60.0
"""A demand older than this is nobody's: the service was deleted, or its Serve is gone."""

READY_WITHIN_S = 10.0
"""How long a promised grant waits for its room to be free in Ray, before it is decided anew."""

MOST_REPLICAS = 100_000


def follow_services(book: Book, facts: Facts) -> None:
    """Bring demands and grants in the book up to date with the board and the groups."""
    _hear(book, facts)
    for grant in book.grants:
        _follow(book, facts, grant)
    known = {grant.group_id for grant in book.grants}
    for group in facts.groups.values():
        if group.group_id not in known:
            _adopt(book, facts, group)
    _forget(book, facts)


def _hear(book: Book, facts: Facts) -> None:
    for demand in facts.board.demands:
        if facts.now - demand.at > STALE_S or not _sane(demand):
            continue
        known = book.demands.get(demand.service)
        if known is not None and replace(known, at=demand.at) == demand:
            continue
        book.demands.put(demand.service, demand)
        was = 0 if known is None else known.wanted
        book.note(facts.now, What.DEMANDED, demand.service, wanted=demand.wanted, was=was, said_at=demand.at)


def _sane(demand: Demand) -> bool:
    """Return whether a demand can be meant: anybody may write on the board."""
    counts = (demand.shape.cpu_milli, demand.shape.memory_mib, demand.wanted, demand.floor)
    asks = demand.shape.gpus >= 1 if demand.slice is None else demand.shape.gpus == 0 and _could_be(demand.slice)
    return asks and min(counts) >= 0 and max(demand.wanted, demand.floor) <= MOST_REPLICAS


def _could_be(wanted: Slice) -> bool:
    return knows(wanted.profile) if wanted.profile else 0 < wanted.share < WHOLE_SHARE


def _forget(book: Book, facts: Facts) -> None:
    """Drop what nobody wants any more: a service that fell silent wants nothing, without grants it is forgotten."""
    fresh = {demand.service for demand in facts.board.demands if facts.now - demand.at <= STALE_S}
    granted = {grant.service for grant in book.grants}
    for demand in book.demands:
        if demand.service in fresh:
            continue
        if demand.service not in granted:
            book.demands.drop(demand.service)
        elif demand.wanted or demand.floor:
            book.demands.put(demand.service, replace(demand, wanted=0, floor=0))
            book.note(facts.now, What.DEMANDED, demand.service, wanted=0, was=demand.wanted, why="it fell silent")


def _follow(book: Book, facts: Facts, grant: GrantRecord) -> None:
    """Follow a grant that the book knows."""
    promised = contract.grant_group(grant.service, grant.name)
    group = facts.ids.get(grant.group_id) if grant.group_id else facts.groups.get(promised)
    if group is not None and facts.in_doubt(group):
        return
    if group is None or not facts.ready(group):
        _give_up(book, facts, grant)
        return
    replica = facts.replica_in(group)
    occupied = bool(replica)
    # The arbiter's own claim is an entry without a replica: nobody can move in any more.
    taken = not occupied and (grant.taken or replica is not None)
    service = (facts.served_in(group) if occupied else None) or grant.service
    now = replace(grant, group_id=group.group_id, occupied=occupied, taken=taken, service=service)
    book.grants.put(grant.name, now)
    detail = {"grant": grant.name, "node": grant.node}
    if grant.group_id is None:
        book.note(facts.now, What.GRANT_READY, service, **detail)
    if occupied and not grant.occupied:
        book.note(facts.now, What.GRANT_OCCUPIED, service, replica=replica, **detail)
    if grant.occupied and not occupied:
        book.note(facts.now, What.GRANT_IDLE, service, **detail)


def _give_up(book: Book, facts: Facts, grant: GrantRecord) -> None:
    """Drop a grant whose group is gone or broken, or never came to be in time."""
    broken = grant.group_id is not None
    if broken or facts.now - grant.made_at > READY_WITHIN_S:
        book.grants.drop(grant.name)
        why = "its group is gone" if broken else "its room did not come free in time"
        book.note(facts.now, What.GRANT_GONE, grant.service, grant=grant.name, node=grant.node, why=why)


def _adopt(book: Book, facts: Facts, group: GroupView) -> None:
    """Take a group that stands without the book knowing it for what it is.

    An arbiter that died may have made it; and while no arbiter is there to ask, Serve moves replicas into our holds and
    makes groups of its own, also for deployments that are none of the fleet's: those are left alone.
    """
    if not facts.ready(group) or len(group.bundles) != 1:
        return
    service = facts.served_in(group) or service_of(group.name)
    if service is None or (group.name.startswith(contract.HOLD_GROUP) and not facts.replica_in(group)):
        return
    if group.replica and service not in book.demands:
        return
    grant = GrantRecord(
        name=group.group_id,
        service=service,
        node=facts.places(group)[0],
        shape=group.bundles[0].shape,
        slice=group.bundles[0].slice,
        made_at=facts.now,
        group_id=group.group_id,
    )
    book.note(facts.now, What.GRANTED, service, grant=grant.name, node=grant.node, why="its group stood already")
    book.grants.put(grant.name, grant)
    _follow(book, facts, grant)


def service_of(group_name: str) -> str | None:
    """Return the service in the name of a grant's group; None when it is no grant's."""
    if not group_name.startswith(contract.GRANT_GROUP):
        return None
    return group_name.removeprefix(contract.GRANT_GROUP).rpartition("/")[0] or None
