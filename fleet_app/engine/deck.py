"""The cards of one decision: who is on which, what still fits on each, and what is coming free (rules V1, V3 and V4).

Beside the ledger, which has the nodes' whole GPUs, CPUs and memory; lives as long as that. Knows cards and slices. Does
not know quota, nor who is to have what.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fleet_app.engine.cards import WHOLE_SHARE, Slice
from fleet_app.engine.flavors import PARTS, parts
from fleet_app.engine.layouts import SHARED
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.policy import Slicing
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Node, Shape
from fleet_app.engine.workload import Workload


class Place(NamedTuple):
    """A card of the fleet: the name of its node, and its index there."""

    node: str
    card: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seated:
    """Who has a slice of a card; `lodger` is the workload that may be asked to leave it, if any may."""

    who: str
    team: str
    slice: Slice
    lodger: Workload | None = None


class Deck:
    """Cards as the decision so far leaves them.

    A slice that is on its way out takes room until it has gone; one that waits for that room takes it from now on, so
    that nothing is given twice.
    """

    def __init__(self, ledger: Ledger, state: FleetState, slicing: Slicing) -> None:
        """Seat everybody who has a slice; the order of the facts means nothing."""
        self.ledger = ledger
        self.slicing = slicing
        self.cards = {
            Place(name, card.index): card
            for name, node in ledger.nodes.items()
            for card in sorted(node.cards, key=lambda one: one.index)
        }
        self.of_node: dict[str, list[Place]] = defaultdict(list)
        for place in self.cards:
            self.of_node[place.node].append(place)
        self.seats: dict[Place, list[Seated]] = defaultdict(list)
        self.returned: set[str] = set()
        self.changed: list[Place] = []
        """Cards that somebody was put on, in the order of that: whoever keeps an index reads on in it."""
        self._left: dict[Place, int] = {}
        self.given: set[Place] = set()
        """Cards on which something was placed by this decision, or is claimed."""
        for workload in ledger.holding:
            if workload.slice is not None and workload.card is not None:
                lodger = workload if ledger.class_of(workload).yields else None
                seated = Seated(who=workload.name, team=workload.team, slice=workload.slice, lodger=lodger)
                self.seats[Place(workload.nodes[0], workload.card)].append(seated)
        for service in sorted(state.services, key=lambda one: one.name):
            for grant in sorted(service.grants, key=lambda one: one.name):
                if service.slice is not None and grant.card is not None:
                    seated = Seated(who=grant_name(service.name, grant.name), team=service.team, slice=service.slice)
                    self.seats[Place(grant.node, grant.card)].append(seated)
        self._keep_cut_cards_from_whole_work()

    def fits(self, place: Place, wanted: Slice, without: Collection[str] = ()) -> bool:
        """Return whether a slice fits on a card beside all that is on it but for those in `without` (V3).

        A partition fits where the layout has one more of its profile than are taken. A share fits on one card, up to
        all of it, and never on several together.
        """
        card = self.cards[place]
        if card.changing or card.busy:
            return False
        taken = [seated.slice for seated in self.seats[place] if seated.who not in without]
        taken += card.foreign
        if wanted.profile:
            same = sum(slice_.profile == wanted.profile for slice_ in taken)
            return card.layout.count(wanted.profile) > same
        full = len(taken) >= self.slicing.shares
        return card.layout == (SHARED,) and not full and _shares(taken) + wanted.share <= WHOLE_SHARE

    def fits_soon(self, place: Place, wanted: Slice) -> bool:
        """Return whether a slice fits on a card once everybody who is leaving has left it."""
        return self.fits(place, wanted, self.leaving(place))

    def leaving(self, place: Place) -> set[str]:
        """Return who is on its way out of a card."""
        going = self.ledger.leaving
        return {one.who for one in self.seats[place] if one.who in going or one.who in self.returned}

    def lodgers(self, place: Place) -> list[Workload]:
        """Return who on a card may be asked to leave it and was not yet, by name."""
        going = self.leaving(place)
        found = [one.lodger for one in self.seats[place] if one.lodger is not None and one.who not in going]
        return sorted(found, key=lambda lodger: lodger.name)

    def places(self, nodes: Sequence[Node]) -> Iterator[Place]:
        """Yield the cards of some nodes, in their order."""
        for node in nodes:
            yield from self.of_node.get(node.name, ())

    def open_to(self, place: Place, shape: Shape, wanted: Slice) -> bool:
        """Return whether a slice, with the CPUs and memory of its bundle, fits on a card now."""
        return self.fits(place, wanted) and shape.fits(self.ledger.free[place.node])

    def left(self, place: Place) -> int:
        """Return how much of a card is not taken, in PARTS; the fullest card is used up first (V4)."""
        left = self._left.get(place)
        if left is None:
            accelerator = self.ledger.nodes[place.node].accelerator
            taken = [seated.slice for seated in self.seats[place]]
            used = sum(parts(accelerator, slice_) for slice_ in (*taken, *self.cards[place].foreign))
            left = self._left[place] = PARTS - used
        return left

    def seat(self, place: Place, seated: Seated) -> None:
        """Put somebody on a card, or let somebody wait for what is coming free there."""
        self.seats[place].append(seated)
        self.given.add(place)
        self.changed.append(place)
        self._left.pop(place, None)

    def empty(self, place: Place) -> bool:
        """Return whether nothing at all is on a card or meant for it; only then its layout may change (V7)."""
        card = self.cards[place]
        unused = not card.busy and not card.changing and not card.foreign
        return unused and not self.seats[place] and place not in self.given

    def _keep_cut_cards_from_whole_work(self) -> None:
        """Let whole work have whole cards only, whatever a node is said to have: no card is in two flavors (V1)."""
        ledger = self.ledger
        for name in self.of_node:
            node = ledger.nodes[name]
            whole = sum(card.whole and not card.changing for card in node.cards)
            over = node.capacity.gpus - whole
            if over > 0:
                ledger.nodes[name] = replace(node, capacity=node.capacity - Shape(gpus=over))
                ledger.withhold(name, over)


def grant_name(service: str, grant: str) -> str:
    """Return what a grant is called among those on a card: no workload has such a name."""
    return f"{service}/{grant}"


def _shares(taken: Sequence[Slice]) -> int:
    return sum(slice_.share for slice_ in taken)
