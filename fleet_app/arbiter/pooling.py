"""What the pools say of the fleet's nodes, and what the pools should come to (N1 to N5). Pure.

What was seen last stands for as long as nobody answers: nothing follows from silence, least of all that a node is gone;
that Ray alone says. Does not know Kubernetes, nor who carries the wishes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fleet_app.arbiter import pods
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts, node_class
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.ports import PodView, PoolChange, PoolsView, PoolsWish, PoolView
from fleet_app.arbiter.records import Record
from fleet_app.arbiter.surplus import leavers
from fleet_app.engine.errors import ConflictError
from fleet_app.engine.scaling import NodesAsk
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Condition, Crossing, Departure, Node, NodeClass
from fleet_app.policy.node_labels import domain
from fleet_app.policy.schema import PolicyFile
from fleet_app.worker import contract

# What the pools say.


def placed(
    nodes: Iterable[Node], facts: Facts, rules: PolicyFile, last: FleetState, away: Iterable[Departure]
) -> tuple[Node, ...]:
    """Return the nodes with their pods and machines, and where those are; what goes away takes nothing new (N1, N2)."""
    labels = {machine.name: machine.labels for machine in facts.pools.machines} if facts.pools else {}
    before = {node.name: node for node in last.nodes}
    going = {one.node for one in away}
    found = []
    for node in nodes:
        pod = facts.pods.get(node.name)
        known = before.get(node.name)
        seen = {} if pod is None else labels.get(pod.machine, {})
        closed = node.name in going and node.placeable
        found.append(
            replace(
                node,
                domains=_domains(node, seen, rules, known),
                condition=Condition.CORDONED if closed else node.condition,
                machine=(pod.machine if pod else "") or (known.machine if known else ""),
                pod=pod.name if pod else "",
            )
        )
    return tuple(found)


def _domains(node: Node, labels: Mapping[str, str], rules: PolicyFile, known: Node | None) -> tuple[str, ...]:
    """Return where a node is: what its machine says goes where the policy chose a label, else what Ray's node says."""
    chosen = rules.node_pools.topology
    before = known.domains if known and len(known.domains) == len(node.domains) else node.domains
    return tuple(
        (domain(labels, level, chosen) if level in chosen else own) or domain(labels, level, chosen) or own or earlier
        for level, own, earlier in zip(rules.topology.levels, node.domains, before, strict=False)
    )


def departures(facts: Facts, surplus: Iterable[str] = ()) -> tuple[Departure, ...]:
    """Return the nodes whose machine is closed, whose pod is too many, or is or is to be deleted (N1, N2)."""
    if facts.pools is None:
        return ()
    many = set(surplus)
    closed = {machine.name for machine in facts.pools.machines if machine.cordoned}
    found = []
    for name, pod in sorted(facts.pods.items()):
        if pod.ends_at is not None:
            found.append(Departure(node=name, why=f"its pod {pod.name} is being deleted", gone_at=pod.ends_at))
        elif pod.doomed:
            found.append(Departure(node=name, why=f"its pod {pod.name} is to be deleted"))
        elif pod.machine in closed:
            found.append(Departure(node=name, why=f"its Kubernetes node {pod.machine} is cordoned"))
        elif pod.name in many:
            found.append(Departure(node=name, why=f"its pool {pod.pool} is to have fewer nodes"))
    return tuple(found)


# Nodes that cross.


def site(facts: Facts, name: str) -> tuple[str, str]:
    """Return the machine and the pool of a node that is to cross, empty without pools. Raises ConflictError (N3)."""
    if facts.pools is None:
        return "", ""
    pod = facts.pods.get(name)
    if pod is None or not pod.machine:
        raise ConflictError("Kubernetes has not shown its pod yet", where=name, fix="See `fleet status`, and try again")
    others = [other.name for other in facts.pools.pods if other.machine == pod.machine and other.name != pod.name]
    if others:
        raise ConflictError(f"{others[0]} shares its machine", where=name, fix="A machine crosses with one pod on it")
    return pod.machine, pod.pool


def check_room(facts: Facts, crossings: Sequence[Crossing]) -> None:
    """Raise ConflictError unless the pools can make all of these crossings, those under way among them (N3)."""
    if facts.pools is None:
        return
    pools = {pool.name: pool for pool in facts.pools.pools}
    ways = Counter((one.pool, one.to) for one in crossings if one.machine and one.under_way)
    names = {(one.pool, one.to): one.node for one in crossings}
    for (pool, to), count in sorted(ways.items()):
        _check_pools(names[pool, to], pools.get(pool), (facts.pools, to), count)


def _check_pools(name: str, pool: PoolView | None, whither: tuple[PoolsView, NodeClass], count: int) -> None:
    view, to = whither
    other = None if pool is None else pods.counterpart(view.pools, pool, to)
    if pool is None or other is None:
        raise ConflictError(
            f"its pool has no counterpart for {to}", where=name, fix="Add one that differs in class alone"
        )
    if pool.nodes - count < pool.least:
        raise ConflictError(f"its pool {pool.name} has its {pool.least} least", where=name, fix="Lower minReplicas")
    if other.nodes + count > other.most:
        raise ConflictError(f"the pool {other.name} has its {other.most} most", where=name, fix="Raise maxReplicas")


def settle(book: Book, facts: Facts) -> None:
    """Note of each machine that changed pools that it has come up in the other one: its node takes work again (N3)."""
    for crossing in book.crossings:
        if crossing.moved_at is not None and crossing.under_way and _came_up(crossing, facts):
            book.crossings.put(crossing.node, replace(crossing, settled_at=facts.now))
            detail = {"machine": crossing.machine, "to": crossing.to, "left": crossing.pool}
            book.note(facts.now, What.REPOOLED, crossing.node, **detail)


def _came_up(crossing: Crossing, facts: Facts) -> bool:
    return any(
        pod.machine == crossing.machine and node_class(facts.nodes[name]) is crossing.to
        for name, pod in facts.pods.items()
    )


# What the pools should come to.


def wish(book: Book, facts: Facts, yielding: frozenset[int], asks: tuple[NodesAsk, ...] | None = None) -> PoolsWish:
    """Return what the pools should come to; `yielding` are the priorities of work that does not hold a machine.

    Backfill holds its pod until it has left, but not the machine's class: that may change under it.
    While the arbiter is paused no pool gets smaller.
    """
    held_pods: dict[str, str] = {}
    held_machines: dict[str, str] = {}
    for record in [record for record in book.live() if record.workload.holding]:
        for pod in _pods_of(record, facts):
            held_pods.setdefault(pod.name, record.name)
            if pod.machine and record.workload.priority not in yielding:
                held_machines.setdefault(pod.machine, record.name)
    return PoolsWish(
        held_pods=held_pods,
        held_machines=held_machines,
        changes=tuple(_changes(book, facts)),
        leavers=() if book.paused else leavers(book, facts, yielding),
        asks=None if asks is None else tuple(_within(ask, facts) for ask in asks),
    )


def _pods_of(record: Record, facts: Facts) -> Iterator[PodView]:
    """Yield the pods that a workload holds; of a node that is not to be seen now, what is published of it stays."""
    found = [facts.pods.get(name) for name in record.workload.nodes]
    yield from (pod for pod in found if pod is not None)
    if facts.pools is not None and None in found:
        known = {pod.name: pod for pod in facts.pools.pods}
        for name, whose in sorted(facts.pools.held_pods.items()):
            if whose == record.name:
                yield known.get(name) or PodView(name=name, pool="")


def _changes(book: Book, facts: Facts) -> Iterator[PoolChange]:
    """Yield the machines that are to change pools and have nothing on them (N3)."""
    held = {name for record in book.live() if record.workload.holding for name in record.workload.nodes}
    held |= {grant.node for grant in book.grants}
    seen = () if facts.pools is None else facts.pools.pods
    for crossing in book.crossings:
        if crossing.moved_at is None or not crossing.under_way:
            continue
        there = [pod.name for pod in seen if (pod.machine, pod.pool) == (crossing.machine, crossing.pool)]
        nodes = [name for name, own in facts.pods.items() if own.machine == crossing.machine]
        if all(name not in held and facts.empty(name) for name in {crossing.node, *nodes}):
            pod = there[0] if there else ""
            yield PoolChange(machine=crossing.machine, pool=crossing.pool, to=crossing.to, pod=pod)


def _within(ask: NodesAsk, facts: Facts) -> NodesAsk:
    """Return an ask for no more nodes than the pools of its class may have (N4)."""
    pools = () if facts.pools is None else facts.pools.pools
    most = [pool.most for pool in pools if pool.labels.get(contract.CLASS_LABEL) == ask.node_class.value]
    return replace(ask, nodes=min(ask.nodes, sum(most))) if most else ask
