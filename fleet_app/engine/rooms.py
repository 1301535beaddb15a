"""On which nodes a shape fits: now, once what is leaving has left, and once everybody there who yields has left.

An index that costs what changed since it was last asked, not what there is. Knows the ledger's room and lodgers. Does
not know who may be asked to leave for whom: that every lodger goes is the most that any asker could hope for.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping, Sequence

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.values import Node, Shape

Least = tuple[int, float]
"""Of any set of lodgers that would have to leave a node: the least priority, and the least GPU-seconds lost."""

NOBODY: Least = (-1, 0.0)


class Rooms:
    """The nodes of one list on which one shape fits, each answer in the order of that list.

    An answer stands until the next question. Whom lodgers would make room for is looked into only once it is asked.
    """

    def __init__(self, ledger: Ledger, shape: Shape, nodes: Sequence[Node]) -> None:
        """Look at every node once."""
        self._ledger = ledger
        self._shape = shape
        self._nodes = nodes
        self._places = _places(ledger, nodes)
        gpus, free = shape.gpus, ledger.free
        self._now = _Some(
            nodes,
            [at for name, at in self._places.items() if gpus <= (room := free[name]).gpus and shape.fits(room)],
        )
        self._later: _Later | None = None
        self._read = len(ledger.changed)

    def now(self) -> Sequence[Node]:
        """Return the nodes with room that is free."""
        self._catch_up()
        return self._now.nodes

    def soon(self) -> Sequence[Node]:
        """Return the nodes with room once everything that is leaving has left."""
        return self._caught_up().soon.nodes

    def ever(self) -> Sequence[Node]:
        """Return the nodes with room once every lodger has left too."""
        return self._caught_up().ever.nodes

    def cheapest(self) -> Iterator[tuple[Least, Node]]:
        """Yield the nodes with room once every lodger has left, those first where least could have to be lost."""
        return ((least, self._nodes[place]) for least, place in self._caught_up().cheapest)

    def listed(self, names: Collection[str]) -> list[Node]:
        """Return the nodes of the list that have one of the names, full or not."""
        return [self._nodes[place] for place in sorted(self._places[name] for name in names if name in self._places)]

    def least(self) -> Mapping[str, Least]:
        """Return the least that could have to be lost on each node on which the shape fits ever, by its name."""
        return self._caught_up().least

    def _caught_up(self) -> _Later:
        self._catch_up()
        if self._later is None:
            self._later = _Later(self._ledger, self._shape, self._nodes)
        return self._later

    def _catch_up(self) -> None:
        changed = self._ledger.changed
        if self._read == len(changed):
            return
        for name in dict.fromkeys(changed[self._read :]):
            place = self._places.get(name)
            if place is not None:
                self._now.put(place, there=self._shape.fits(self._ledger.free[name]))
                if self._later is not None:
                    self._later.look(name, place)
        self._read = len(changed)


def _places(ledger: Ledger, nodes: Sequence[Node]) -> Mapping[str, int]:
    """Return where each node is in a list that is kept, by name; found out once a list."""
    known = ledger.memo.places.get(id(nodes))
    if known is None:
        known = ledger.memo.places[id(nodes)] = (nodes, {node.name: place for place, node in enumerate(nodes)})
    return known[1]


class _Some:
    """Some nodes of a list, in its order."""

    def __init__(self, nodes: Sequence[Node], places: list[int]) -> None:
        """Begin with these places, which are in order."""
        self._all = nodes
        self._places = places
        self.nodes = [nodes[place] for place in places]

    def put(self, place: int, *, there: bool) -> None:
        """Let a node be among them, or not."""
        at = bisect_left(self._places, place)
        known = at < len(self._places) and self._places[at] == place
        if there and not known:
            self._places.insert(at, place)
            self.nodes.insert(at, self._all[place])
        elif known and not there:
            del self._places[at], self.nodes[at]


class _Later:
    """Where the shape fits once something has left, and what could have to be lost for that."""

    def __init__(self, ledger: Ledger, shape: Shape, nodes: Sequence[Node]) -> None:
        self._ledger = ledger
        self._shape = shape
        self.least: dict[str, Least] = {}
        """By name; a node that is not in it would not do with every lodger gone."""
        soon: list[int] = []
        ever: list[int] = []
        self.cheapest: list[tuple[Least, int]] = []
        for place, node in enumerate(nodes):
            least = self._least_on(node.name)
            if least is not None:
                self.least[node.name] = least
                self.cheapest.append((least, place))
                ever.append(place)
                if least == NOBODY:
                    soon.append(place)
        self.cheapest.sort()
        self.soon, self.ever = _Some(nodes, soon), _Some(nodes, ever)

    def look(self, name: str, place: int) -> None:
        """Look again at a node on which something changed."""
        before, after = self.least.pop(name, None), self._least_on(name)
        if after is not None:
            self.least[name] = after
        if before == after:
            return
        if before is not None:
            del self.cheapest[bisect_left(self.cheapest, (before, place))]
        if after is not None:
            insort(self.cheapest, (after, place))
        if before is None or after is None:
            self.ever.put(place, there=after is not None)
        if NOBODY in {before, after}:
            self.soon.put(place, there=after == NOBODY)

    def _least_on(self, name: str) -> Least | None:
        """Return the least that could have to be lost on a node for the shape to fit; None when it never would."""
        ledger, shape = self._ledger, self._shape
        if shape.gpus > ledger.most_gpus[name]:
            return None
        room = ledger.soon(name)
        if shape.fits(room):
            return NOBODY
        lodgers = ledger.lodgers_of(name)
        return lodgers.at_least(max(0, shape.gpus - room.gpus)) if shape.fits_beside(room, lodgers.room) else None


def rooms_of(ledger: Ledger, shape: Shape, nodes: Sequence[Node]) -> Rooms:
    """Return the index of a shape on a list of nodes that the ledger keeps, such as `eligible` returns."""
    key = (shape, id(nodes))
    known = ledger.memo.indexes.get(key)
    if not isinstance(known, Rooms):
        known = ledger.memo.indexes[key] = Rooms(ledger, shape, nodes)
    return known
