"""The fullest card on which a slice fits now: an index that costs what changed since it was last asked (rule V4).

While a decision goes on, cards and nodes only fill up: a card that has no room for an ask will not have any later.
Knows the deck. Does not know quota, nor who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from fleet_app.engine.cards import Slice
from fleet_app.engine.deck import Deck, Place
from fleet_app.engine.values import Shape

Entry = tuple[int, int]
"""How much of a card is left, in parts of a GPU; and its number in the order of the fabric."""


class Seating:
    """The cards of some nodes that have slices of one sort, the fullest first, for bundles of one shape."""

    def __init__(self, deck: Deck, wanted: Slice, shape: Shape, places: Sequence[Place]) -> None:
        """Look at every card once."""
        self._deck = deck
        self._wanted = wanted
        self._shape = shape
        self._places = places
        self._numbers = {place: number for number, place in enumerate(places)}
        self._heap: list[Entry] = [(deck.left(place), number) for number, place in enumerate(places)]
        self._read = len(deck.changed)
        heapify(self._heap)

    def fullest(self, may: Callable[[Place], bool]) -> Place | None:
        """Return the fullest card with room, of those that may be used; of equally full ones the first."""
        self._catch_up()
        aside: list[Entry] = []
        found: Place | None = None
        while self._heap and found is None:
            entry = heappop(self._heap)
            place = self._places[entry[1]]
            if entry[0] != self._deck.left(place) or not self._deck.open_to(place, self._shape, self._wanted):
                continue  # it has filled up since: if it still has room it is in here once more
            aside.append(entry)
            found = place if may(place) else None
        for entry in aside:
            heappush(self._heap, entry)
        return found

    def _catch_up(self) -> None:
        changed = self._deck.changed
        for place in dict.fromkeys(changed[self._read :]):
            if place in self._numbers:
                heappush(self._heap, (self._deck.left(place), self._numbers[place]))
        self._read = len(changed)
