"""Where a replica takes no place from larger ones (rule S9).

Knows how many GPUs replicas have, and what each node has once all who yield have left. Does not know who would have to
leave, or what is free now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet_app.engine.apart import barred
from fleet_app.engine.eligibility import serving_nodes
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.needs import Need, Spare


def choices(ledger: Ledger, needs: Sequence[Need], need: Need, others: Sequence[Spare]) -> Iterator[frozenset[str]]:
    """Yield the nodes that one more replica must keep off, the best choice first: fewer each time, at last those of S8.

    That is the only choice where no service has larger replicas, and for what is to be spread. `others` are the idle
    grants that it may have in place of their services.
    """
    off, gpus = barred(need), need.service.shape.gpus
    larger = sorted({one.service.shape.gpus for one in needs if one.service.shape.gpus > gpus}, reverse=True)
    if larger and gpus and not (need.service.spread or need.spread_depth):
        room = _rooms(ledger, need, others)
        lost = {left: places_lost(left, gpus, larger) for left in set(room.values())}
        spared = {grant.node for _, grant in others}
        steps = {lost[left] for name, left in room.items() if left >= gpus or name in spared}
        for most in sorted(steps)[:-1]:
            yield off | {name for name, left in room.items() if lost[left] > most}
    yield off


def places_lost(room: int, gpus: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return how many places of each size a node with so much room loses to a replica; none where it has no room."""
    return tuple([room // size - (room - gpus) // size if room >= gpus else 0 for size in sizes])


def _rooms(ledger: Ledger, need: Need, others: Sequence[Spare]) -> dict[str, int]:
    """Return the GPUs on each node once all who yield have left, and the larger of others' idle grants are taken."""
    room = {node.name: ledger.most_gpus[node.name] for node in serving_nodes(ledger, need.service)}
    for other, grant in others:
        if other.service.shape.gpus > need.service.shape.gpus and grant.node in room:
            room[grant.node] += other.service.shape.gpus
    return room
