"""On which nodes a shape fits: now, once what is leaving has left, and once everybody there who yields has left.

An index that costs what changed since it was last asked, not what there is. Knows the ledger's room and lodgers. Does
not know who may be asked to leave for whom: that every lodger goes is the most that any asker could hope for.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.values import Node, Shape

Least = tuple[int, float]
"""Of any set of lodgers that would have to leave a node: the least priority, and the least GPU-seconds lost."""

NOBODY: Least = (-1, 0.0)


class Rooms:
    """The nodes of one list on which one shape fits, each answer in the order of that list."""

    def __init__(self, ledger: Ledger, shape: Shape, nodes: Sequence[Node]) -> None:
        """Look at every node once."""
        self._ledger = ledger
        self._shape = shape
        self._nodes = nodes
        self._places = {node.name: place for place, node in enumerate(nodes)}
        self._now: set[int] = set()
        self._soon: set[int] = set()
        self._ever: set[int] = set()
        self._least: dict[int, Least] = {}
        self._read = len(ledger.changed)
        for name in self._places:
            self._look(name)
        self._cheapest = sorted((self._least[place], place) for place in self._ever)

    def now(self) -> list[Node]:
        """Return the nodes with room that is free."""
        return self._listed(self._now)

    def soon(self) -> list[Node]:
        """Return the nodes with room once everything that is leaving has left."""
        return self._listed(self._soon)

    def ever(self) -> list[Node]:
        """Return the nodes with room once every lodger has left too."""
        return self._listed(self._ever)

    def cheapest(self) -> Iterator[tuple[Least, Node]]:
        """Yield the nodes with room once every lodger has left, those first where least could have to be lost."""
        self._catch_up()
        return ((least, self._nodes[place]) for least, place in self._cheapest)

    def least(self, node: Node) -> Least:
        """Return the least that could have to be lost on a node of the list on which the shape fits ever."""
        self._catch_up()
        return self._least[self._places[node.name]]

    def _listed(self, places: set[int]) -> list[Node]:
        self._catch_up()
        return [self._nodes[place] for place in sorted(places)]

    def _catch_up(self) -> None:
        changed = self._ledger.changed
        if self._read == len(changed):
            return
        for name in sorted(set(changed[self._read :]) & self._places.keys()):
            place = self._places[name]
            if place in self._ever:
                del self._cheapest[bisect_left(self._cheapest, (self._least[place], place))]
            self._look(name)
            if place in self._ever:
                insort(self._cheapest, (self._least[place], place))
        self._read = len(changed)

    def _look(self, name: str) -> None:
        ledger, shape, place = self._ledger, self._shape, self._places[name]
        room = ledger.soon(name)
        lodgers = ledger.lodgers.get(name, ())
        fits_soon = shape.fits(room)
        _keep(self._now, place, shape.fits(ledger.free[name]))
        _keep(self._soon, place, fits_soon)
        _keep(self._ever, place, fits_soon or shape.fits(sum([lodger.shape for lodger in lodgers], room)))
        if fits_soon:
            self._least[place] = NOBODY
        elif place in self._ever:
            least = ledger.least_lost(name)
            short = max(0, shape.gpus - room.gpus)
            self._least[place] = (least.priority, max(least.lost, short * least.lost_per_gpu))


def _keep(places: set[int], place: int, fits: bool) -> None:  # noqa: FBT001
    if fits:
        places.add(place)
    else:
        places.discard(place)


def rooms_of(ledger: Ledger, shape: Shape, nodes: Sequence[Node]) -> Rooms:
    """Return the index of a shape on a list of nodes that the ledger keeps, such as `eligible` returns."""
    key = (shape, id(nodes))
    known = ledger.indexes.get(key)
    if not isinstance(known, Rooms):
        known = ledger.indexes[key] = Rooms(ledger, shape, nodes)
    return known
