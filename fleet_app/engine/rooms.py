"""On which nodes a shape fits: now, once what is leaving has left, and once everybody there who yields has left.

An index that costs what changed since it was last asked, not what there is. Knows the ledger's room and lodgers. Does
not know who may be asked to leave for whom: that every lodger goes is the most that any asker could hope for.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Sequence

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
        self._least: dict[int, Least] = {}
        """By place; a node that is not in it would not do with every lodger gone."""
        self._lists: dict[str, list[Node]] = {}
        self._read = len(ledger.changed)
        for name, place in self._places.items():
            if shape.gpus <= ledger.most_gpus[name]:
                self._look(name, place)
        self._cheapest = sorted([(least, place) for place, least in self._least.items()])

    def now(self) -> Sequence[Node]:
        """Return the nodes with room that is free."""
        return self._listed("now", self._now)

    def soon(self) -> Sequence[Node]:
        """Return the nodes with room once everything that is leaving has left."""
        return self._listed("soon", self._soon)

    def ever(self) -> Sequence[Node]:
        """Return the nodes with room once every lodger has left too."""
        return self._listed("ever", self._least)

    def cheapest(self) -> Iterator[tuple[Least, Node]]:
        """Yield the nodes with room once every lodger has left, those first where least could have to be lost."""
        self._catch_up()
        return ((least, self._nodes[place]) for least, place in self._cheapest)

    def listed(self, names: Collection[str]) -> list[Node]:
        """Return the nodes of the list that have one of the names, full or not."""
        return [self._nodes[place] for place in sorted(self._places[name] for name in names if name in self._places)]

    def least(self, node: Node) -> Least:
        """Return the least that could have to be lost on a node of the list on which the shape fits ever."""
        self._catch_up()
        return self._least[self._places[node.name]]

    def _listed(self, what: str, places: Collection[int]) -> Sequence[Node]:
        """Return an answer, which stays the same until something on a node of the list changes."""
        self._catch_up()
        known = self._lists.get(what)
        if known is None:
            nodes = self._nodes
            known = self._lists[what] = [nodes[place] for place in sorted(places)]
        return known

    def _catch_up(self) -> None:
        changed = self._ledger.changed
        if self._read == len(changed):
            return
        for name in sorted(set(changed[self._read :]) & self._places.keys()):
            self._lists.clear()
            place = self._places[name]
            before = self._least.pop(place, None)
            self._now.discard(place)
            self._soon.discard(place)
            if self._shape.gpus <= self._ledger.most_gpus[name]:
                self._look(name, place)
            self._move(place, before, self._least.get(place))
        self._read = len(changed)

    def _move(self, place: int, before: Least | None, after: Least | None) -> None:
        if before != after:
            if before is not None:
                del self._cheapest[bisect_left(self._cheapest, (before, place))]
            if after is not None:
                insort(self._cheapest, (after, place))

    def _look(self, name: str, place: int) -> None:
        ledger, shape = self._ledger, self._shape
        free, coming = ledger.free[name], ledger.coming.get(name)
        if shape.fits(free):
            self._now.add(place)
        if shape.fits(free) if coming is None else shape.fits_beside(free, coming):
            self._soon.add(place)
            self._least[place] = NOBODY
            return
        lodgers = ledger.lodgers_of(name)
        room = free if coming is None else free + coming
        if shape.fits_beside(room, lodgers.room):
            self._least[place] = lodgers.at_least(max(0, shape.gpus - room.gpus))


def rooms_of(ledger: Ledger, shape: Shape, nodes: Sequence[Node]) -> Rooms:
    """Return the index of a shape on a list of nodes that the ledger keeps, such as `eligible` returns."""
    key = (shape, id(nodes))
    known = ledger.memo.indexes.get(key)
    if not isinstance(known, Rooms):
        known = ledger.memo.indexes[key] = Rooms(ledger, shape, nodes)
    return known
