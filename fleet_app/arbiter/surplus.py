"""How many pods a site's pools have too many, and what is on each pod: the engine says which go (N5). Pure.

How many nodes a pool is to have is the site's to say; where it does not, there are never too many. Does not know who
takes pods away, nor how the pools came to have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleet_app.arbiter import pods
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.ports import PodView, PoolsView, PoolView
from fleet_app.engine.fewer import Candidate, Loss, first_to_go
from fleet_app.engine.values import NodeClass
from fleet_app.worker import contract


def surplus(book: Book, facts: Facts, yielding: frozenset[int]) -> tuple[str, ...]:
    """Return the pods that are too many, by name: of each pool those that the engine lets go first."""
    return tuple(one.pod for one in _chosen(book, facts, yielding))


def leavers(book: Book, facts: Facts, yielding: frozenset[int]) -> tuple[str, ...]:
    """Return the pods that are too many and have nothing on them: they may go."""
    return tuple(one.pod for one in _chosen(book, facts, yielding) if one.empty)


def _chosen(book: Book, facts: Facts, yielding: frozenset[int]) -> Iterator[Candidate]:
    view = facts.pools
    many = {} if view is None else {pool.name: over(view, pool) for pool in view.pools}
    if view is None or not any(many.values()):
        return
    closed = {machine.name for machine in view.machines if machine.cordoned}
    crossing = {one.machine for one in book.crossings if one.under_way and one.machine}
    losses = dict(_losses(book, facts, view, yielding))
    for pool, count in many.items():
        there = [pod for pod in view.pods if pod.pool == pool and _stays(pod) and pod.machine not in crossing]
        able = [Candidate(pod=pod.name, loss=losses[pod.name], closed=pod.machine in closed) for pod in there]
        yield from first_to_go(able, count)


def _stays(pod: PodView) -> bool:
    return not pod.doomed and pod.ends_at is None


def over(view: PoolsView, pool: PoolView) -> int:
    """Return how many nodes a pool has too many.

    Both pools of a pair count together: a node that crossed is none too many where its old pool lacks it.
    """
    if pool.wanted is None or pool.nodes <= pool.wanted:
        return 0
    to = NodeClass.SERVING if pool.labels.get(contract.CLASS_LABEL) == NodeClass.TRAINING else NodeClass.TRAINING
    other = pods.counterpart(view.pools, pool, to)
    beyond = pool.nodes - pool.wanted
    both = beyond + (0 if other is None or other.wanted is None else other.nodes - other.wanted)
    return max(0, min(both, beyond, pool.nodes - pool.least))


def _losses(book: Book, facts: Facts, view: PoolsView, yielding: frozenset[int]) -> Iterator[tuple[str, Loss]]:
    """Yield of each pod what would go with it; of a node that is away, what is published of it."""
    nodes = {pod.name: name for name, pod in facts.pods.items()}
    held = _held(book, yielding)
    for pod in view.pods:
        name = nodes.get(pod.name)
        if pod.name in view.held_pods:
            yield pod.name, held.get(name or "", Loss.WHAT_STAYS)
        elif name is None:
            yield pod.name, Loss.NO_NODE
        else:
            yield pod.name, held.get(name, Loss.NOTHING if facts.empty(name) else Loss.WHAT_IS_KEPT)


def _held(book: Book, yielding: frozenset[int]) -> Mapping[str, Loss]:
    held = {grant.node: Loss.WHAT_STAYS for grant in book.grants}
    for record in [record for record in book.live() if record.workload.holding]:
        loss = Loss.WHAT_YIELDS if record.workload.priority in yielding else Loss.WHAT_STAYS
        held |= {name: max(loss, held.get(name, loss)) for name in record.workload.nodes}
    return held
