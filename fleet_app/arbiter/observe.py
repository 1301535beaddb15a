"""The world and the book to the one value that is decided on: nodes, workloads, services. Pure.

Knows what counts as foreign: what a node has in use that no workload, grant or hold accounts for. Does not know
what will be decided.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleet_app.arbiter import calendar
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts, node_class
from fleet_app.arbiter.partitions import amount, whole_part
from fleet_app.arbiter.ports import Demand, GroupView, NodeView
from fleet_app.arbiter.records import GrantRecord
from fleet_app.engine.crossings import as_seen
from fleet_app.engine.failures import Cause
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import NOTHING, Condition, Node, NodeClass, Shape
from fleet_app.engine.workload import Grant, Service
from fleet_app.worker import contract


def fleet_state(book: Book, seen: Iterable[Node], priority: int, last: FleetState, now: float) -> FleetState:
    """Return the state to decide on: `seen` are the living nodes, `priority` is every service's.

    A node that vanished with work on it, or that is kept out or booked, is taken from `last`, the state before.
    """
    workloads = tuple(record.workload for record in book.live())
    services = tuple(_service(demand, book, priority) for demand in book.demands)
    crossings = tuple(book.crossings)
    crossing = {one.node: one for one in crossings}
    nodes = {node.name: as_seen(node, crossing.get(node.name)) for node in seen}
    needed = {name for workload in workloads for name in workload.nodes}
    needed |= {grant.node for service in services for grant in service.grants}
    bookings = tuple(calendar.binding(book))
    needed |= {name for booking in bookings for name in booking.nodes}
    failures, quarantines = tuple(book.failures), tuple(book.quarantines)
    needed |= {failed.node for failed in failures if failed.node is not None and failed.cause is Cause.NODE}
    needed |= {told.node for told in quarantines if told.released_at is None}
    before = {node.name: node for node in last.nodes}
    lost = tuple(_lost(name, before.get(name), now) for name in sorted(needed) if name not in nodes)
    return FleetState(
        nodes=(*nodes.values(), *lost),
        workloads=workloads,
        services=services,
        failures=failures,
        quarantines=quarantines,
        bookings=bookings,
        crossings=crossings,
    )


def _lost(name: str, known: Node | None, now: float) -> Node:
    """Return a node that vanished: as it was, but down since then."""
    if known is None:
        return Node(
            name=name,
            node_class=NodeClass.TRAINING,
            domains=(),
            capacity=NOTHING,
            condition=Condition.DOWN,
            down_since=now,
        )
    return Node(
        name=name,
        node_class=known.node_class,
        domains=known.domains,
        capacity=known.capacity,
        accelerator=known.accelerator,
        driver=known.driver,
        condition=Condition.DOWN,
        down_since=now if known.down_since is None else known.down_since,
        cards=known.cards,
    )


def _service(demand: Demand, book: Book, priority: int) -> Service:
    return Service(
        name=demand.service,
        team=demand.team,
        priority=priority,
        shape=demand.shape,
        affinity=demand.affinity,
        wanted=demand.wanted,
        floor=demand.floor,
        grants=tuple(
            Grant(name=grant.name, node=grant.node, occupied=grant.occupied, card=grant.card)
            for grant in book.grants
            if grant.service == demand.service and not is_odd(grant, book)
        ),
        slice=demand.slice,
    )


# What is not ours.


def accounted(book: Book, facts: Facts) -> list[GroupView]:
    """Return the groups that the state accounts for; what is in others is foreign.

    A grant of another shape than its service's (after a redeployment) is not among them.
    """
    odd = {grant.group_id for grant in book.grants if is_odd(grant, book)}
    return [group for group in ours(book, facts) if group.group_id not in odd]


def ours(book: Book, facts: Facts) -> list[GroupView]:
    """Return the groups that the fleet made, and of those that Serve made the ones that are grants."""
    grants = {grant.group_id for grant in book.grants}
    return [group for group in facts.groups.values() if not group.replica or group.group_id in grants]


def is_odd(grant: GrantRecord, book: Book) -> bool:
    """Return whether a grant has another shape or slice than its service, or a service that nobody knows."""
    demand = book.demands.get(grant.service)
    return demand is None or (demand.shape, demand.slice) != (grant.shape, grant.slice)


def nodes_seen(
    facts: Facts, policy: Policy, foreign: Mapping[str, Shape], owners: Mapping[str, tuple[str, ...]]
) -> tuple[Node, ...]:
    """Return the living nodes of the fleet as the engine knows them; `foreign` and `owners` are by name."""
    found = (
        _node(name, node, policy, foreign.get(name, NOTHING), owners.get(name, ()))
        for name, node in facts.nodes.items()
        if node.alive
    )
    cached = facts.cached
    return tuple(replace(node, cached=cached[node.name]) if node.name in cached else node for node in found)


def _node(name: str, node: NodeView, policy: Policy, foreign: Shape, owners: tuple[str, ...]) -> Node:
    domains = tuple(node.labels.get(contract.LEVEL_LABEL_PREFIX + level, "") for level in policy.levels)
    return Node(
        name=name,
        node_class=node_class(node) or NodeClass.TRAINING,
        domains=domains,
        capacity=whole_part(node, node.total),
        accelerator=node.labels.get(contract.ACCELERATOR_LABEL, "unknown"),
        driver=node.labels.get(contract.DRIVER_LABEL, ""),
        condition=Condition.DRAINING if node.draining else Condition.READY,
        foreign=whole_part(node, foreign),
        foreign_owners=owners if foreign.gpus > 0 else (),
    )


def rooms(facts: Facts, removed: Iterable[GroupView] = ()) -> dict[str, Shape]:
    """Return by node id the room for a new group: what Ray shows as free, and no group stands on.

    Both must say so: what Ray shows lags behind groups that were just made, and behind ones that were just removed.
    Groups that were `removed` since the facts count as gone in both: their room shows in a moment.
    """
    gone = {group.group_id for group in removed}
    taken = _standing(group for group in facts.groups.values() if group.group_id not in gone)
    coming = _standing(group for group in facts.groups.values() if group.group_id in gone)
    return {
        node.node_id: _less(node.available + coming[node.node_id], node.total - taken[node.node_id])
        for node in facts.nodes.values()
        if node.alive
    }


def slice_rooms(facts: Facts, removed: Iterable[GroupView] = ()) -> dict[str, Counter[str]]:
    """Return by node id what of cut and shared cards is free for a new group, as `rooms` does for whole ones."""
    gone = {group.group_id for group in removed}
    taken = _slices_standing(group for group in facts.groups.values() if group.group_id not in gone)
    coming = _slices_standing(group for group in facts.groups.values() if group.group_id in gone)
    found = {}
    for node in facts.nodes.values():
        if node.alive and node.slices:
            here, to_come, free = taken[node.node_id], coming[node.node_id], node.free_slices
            found[node.node_id] = Counter(
                {
                    sort: min(free.get(sort, 0) + to_come[sort], count - here[sort])
                    for sort, count in node.slices.items()
                }
            )
    return found


def _slices_standing(groups: Iterable[GroupView]) -> dict[str, Counter[str]]:
    total: dict[str, Counter[str]] = defaultdict(Counter)
    for group in groups:
        for bundle in group.bundles:
            if bundle.slice is not None:
                total[bundle.node_id or ""][bundle.slice.partition] += amount(bundle.slice)
    return total


def _standing(groups: Iterable[GroupView]) -> dict[str, Shape]:
    total: dict[str, Shape] = defaultdict(lambda: NOTHING)
    for group in groups:
        for bundle in group.bundles:
            total[bundle.node_id or ""] += bundle.shape
    return total


def _less(one: Shape, other: Shape) -> Shape:
    return Shape(
        gpus=min(one.gpus, other.gpus),
        cpu_milli=min(one.cpu_milli, other.cpu_milli),
        memory_mib=min(one.memory_mib, other.memory_mib),
    )
