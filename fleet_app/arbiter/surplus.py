"""Which pods a site's pools have too many, and which of them may go now (N1). Pure.

How many nodes a pool is to have is the site's to say; where it does not, there are never too many. Does not know who
takes pods away, nor how the pools came to have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleet_app.arbiter import pods
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.ports import PodView, PoolsView, PoolView
from fleet_app.engine.values import NodeClass
from fleet_app.worker import contract

# How much is lost with a pod; those with the least go first. What is only kept free is a hold, or a stranger's.
_NOBODY, _NOTHING, _WHAT_IS_KEPT, _WHAT_YIELDS, _WHAT_STAYS = range(5)


def surplus(book: Book, facts: Facts, yielding: frozenset[int]) -> tuple[PodView, ...]:
    """Return the pods that are too many: of each pool those with which the least goes, closed machines' first."""
    return tuple(pod for pod, _ in _chosen(book, facts, yielding))


def leavers(book: Book, facts: Facts, yielding: frozenset[int]) -> tuple[str, ...]:
    """Return the pods that are too many and have nothing on them: they may go."""
    return tuple(pod.name for pod, loss in _chosen(book, facts, yielding) if loss <= _NOTHING)


def _chosen(book: Book, facts: Facts, yielding: frozenset[int]) -> Iterator[tuple[PodView, int]]:
    view = facts.pools
    many = {} if view is None else {pool.name: over(view, pool) for pool in view.pools}
    if view is None or not any(many.values()):
        return
    closed = {machine.name for machine in view.machines if machine.cordoned}
    crossing = {one.machine for one in book.crossings if one.under_way}
    losses = dict(_losses(book, facts, view, yielding))
    for pool, most in many.items():
        there = [pod for pod in view.pods if pod.pool == pool and not pod.doomed and pod.ends_at is None]
        free = [pod for pod in there if not pod.machine or pod.machine not in crossing]
        free.sort(key=lambda pod: (losses[pod.name], pod.machine not in closed, pod.name))
        yield from ((pod, losses[pod.name]) for pod in free[:most])


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


def _losses(book: Book, facts: Facts, view: PoolsView, yielding: frozenset[int]) -> Iterator[tuple[str, int]]:
    """Yield of each pod what would go with it; of a node that is away, what is published of it."""
    nodes = {pod.name: name for name, pod in facts.pods.items()}
    held = _held(book, yielding)
    for pod in view.pods:
        name = nodes.get(pod.name)
        if pod.name in view.held_pods:
            yield pod.name, held.get(name or "", _WHAT_STAYS)
        elif name is None:
            yield pod.name, _NOBODY
        else:
            yield pod.name, held.get(name, _NOTHING if facts.empty(name) else _WHAT_IS_KEPT)


def _held(book: Book, yielding: frozenset[int]) -> Mapping[str, int]:
    held = {grant.node: _WHAT_STAYS for grant in book.grants}
    for record in [record for record in book.live() if record.workload.holding]:
        loss = _WHAT_YIELDS if record.workload.priority in yielding else _WHAT_STAYS
        held |= {name: max(loss, held.get(name, loss)) for name in record.workload.nodes}
    return held
