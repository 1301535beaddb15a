"""Slices of cards in one decision: cards and quota together, and where an ask would go (rules V3 to V6).

Knows the deck, the dues and one ask at a time. Does not know the order of those who ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleet_app.engine.cards import Slice
from fleet_app.engine.deck import Deck, Place, Seated, grant_name
from fleet_app.engine.dues import Due, Dues
from fleet_app.engine.eligibility import distrusted, eligible, serving_nodes
from fleet_app.engine.layouts import SHARED, board_of
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.policy import Slicing
from fleet_app.engine.seating import Seating
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Node, Shape
from fleet_app.engine.workload import Service, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One slice that somebody wants, on one of these nodes."""

    name: str
    priority: int
    due: Due
    shape: Shape
    nodes: Sequence[Node]

    @property
    def slice(self) -> Slice:
        """Return what is asked of a card."""
        return self.due.slice


@dataclass(slots=True)
class Slices:
    """All that is known of slices while one decision goes on; `unmet` are asks that no card has room for."""

    ledger: Ledger
    slicing: Slicing
    deck: Deck
    dues: Dues
    services: tuple[Service, ...]
    jobs: tuple[Workload, ...]
    booked: frozenset[str]
    unmet: list[Ask] = field(default_factory=list)
    _seatings: dict[object, Seating] = field(default_factory=dict)
    _holding: dict[object, list[Place]] = field(default_factory=dict)
    _accelerators: dict[object, list[str]] = field(default_factory=dict)
    _names: dict[int, frozenset[str]] = field(default_factory=dict)

    def now(self, ask: Ask, crowds: Mapping[str, tuple[int, ...]]) -> Place | None:
        """Return the card for an ask: the fullest on which it fits, of what its team may take (V4).

        `crowds` counts by node what should be spread, over domains first (S8).
        """
        allowed = {one for one in self.accelerators(ask) if self.dues.allows(ask.due, one)}
        if not crowds:
            question = (ask.slice, ask.shape, id(ask.nodes))
            index = self._seatings.get(question)
            if index is None:
                index = self._seatings[question] = Seating(self.deck, ask.slice, ask.shape, self.holding(ask))
            return index.fullest(lambda place: self.accelerator(place) in allowed) if allowed else None
        able = [
            place
            for place in self.holding(ask)
            if self.deck.open_to(place, ask.shape, ask.slice) and self.accelerator(place) in allowed
        ]
        return min(able, key=lambda place: (crowds.get(place.node, ()), self.deck.left(place)), default=None)

    def holding(self, ask: Ask) -> list[Place]:
        """Return the cards that have slices such as are asked for, used or not; the same list throughout a decision."""
        question = (ask.slice.profile, id(ask.nodes))
        found = self._holding.get(question)
        if found is None:
            name = ask.slice.profile or SHARED
            found = [place for place in self.deck.places(ask.nodes) if name in self.deck.cards[place].layout]
            self._holding[question] = found
        return found

    def may_use(self, ask: Ask, place: Place) -> bool:
        """Return whether a card is on one of the nodes that an ask may use."""
        names = self._names.get(id(ask.nodes))
        if names is None:
            names = self._names[id(ask.nodes)] = frozenset([node.name for node in ask.nodes])
        return place.node in names

    def soon(self, ask: Ask, crowds: Mapping[str, tuple[int, ...]]) -> Place | None:
        """Return the least crowded and fullest card on which an ask fits once everybody who is leaving has left."""
        able = [
            place
            for place in self.holding(ask)
            if self.deck.fits_soon(place, ask.slice)
            and ask.shape.fits(self.ledger.soon(place.node))
            and self.allows(ask, place, soon=True)
        ]
        return min(able, key=lambda place: (crowds.get(place.node, ()), self.deck.left(place)), default=None)

    def allows(self, ask: Ask, place: Place, *, soon: bool = False) -> bool:
        """Return whether the quota lets the ask have a slice of that card."""
        return self.dues.allows(ask.due, self.accelerator(place), soon=soon)

    def accelerator(self, place: Place) -> str:
        """Return the accelerator type of a card."""
        return self.ledger.nodes[place.node].accelerator

    def accelerators(self, ask: Ask) -> list[str]:
        """Return the accelerator types on which the ask could be met: as the cards are, or cut anew."""
        question = (ask.slice, id(ask.nodes))
        known = self._accelerators.get(question)
        if known is None:
            able = {
                self.accelerator(place) for place in self.deck.places(ask.nodes) if self.could_hold(place, ask.slice)
            }
            known = self._accelerators[question] = sorted(able)
        return known

    def could_hold(self, place: Place, wanted: Slice) -> bool:
        """Return whether a card has such a slice, used or not, or could be given it."""
        layout = self.deck.cards[place].layout
        if (wanted.profile or wanted.partition) in layout:
            return True
        board = board_of(self.accelerator(place))
        cut = not wanted.profile or (board is not None and board.profile(wanted.profile) is not None)
        return self.slicing.repartition and cut

    def give(self, ask: Ask, place: Place, who: str, lodger: Workload | None = None) -> None:
        """Let an ask have a slice of a card from now on, with the CPUs and memory of its bundle."""
        self.ledger.give(ask.due.team, (place.node,), ask.shape, firm=ask.due.firm)
        self.dues.take(ask.due, self.accelerator(place))
        self.deck.seat(place, Seated(who=who, team=ask.due.team, slice=ask.slice, lodger=lodger))

    def wait_for(self, ask: Ask, place: Place) -> None:
        """Keep what is coming free on a card for a replica."""
        if not ask.shape.is_nothing():
            self.ledger.claim(ask.name, ask.due.team, (place.node,), ask.shape)
        self.dues.wait_for(ask.due, self.accelerator(place))
        self.deck.seat(place, Seated(who=grant_name(ask.name, "soon"), team=ask.due.team, slice=ask.slice))


def begin(ledger: Ledger, state: FleetState) -> Slices | None:
    """Return what is known of slices at the start of a decision; None where the policy knows none (V1).

    Jobs that wait for a slice leave the ledger's queue: they are not for whole GPUs.
    """
    slicing = ledger.policy.slicing
    if slicing is None:
        return None
    jobs = tuple(one for one in ledger.waiting if one.slice is not None)
    ledger.waiting = [one for one in ledger.waiting if one.slice is None]
    slices = Slices(
        ledger=ledger,
        slicing=slicing,
        deck=Deck(ledger, state, slicing),
        dues=Dues(ledger, ledger.policy.quotas),
        services=tuple(one for one in state.services if one.slice is not None),
        jobs=jobs,
        booked=frozenset(name for one in state.bookings if not one.over(ledger.now) for name in one.nodes),
    )
    _charge_all(slices)
    return slices


def of_service(slices: Slices, service: Service, off: frozenset[str] = frozenset()) -> Ask:
    """Return what one more replica asks for: on serving's nodes but for some (S8), inside its team's nominal."""
    assert service.slice is not None
    return Ask(
        name=service.name,
        priority=service.priority,
        due=Due(team=service.team, slice=service.slice, firm=True),
        shape=replace(service.shape, gpus=0),
        nodes=_but(slices.ledger, serving_nodes(slices.ledger), off),
    )


def _but(ledger: Ledger, nodes: list[Node], off: frozenset[str]) -> list[Node]:
    """Return the nodes without some; the same list for the same answer."""
    if not off:
        return nodes
    key = (id(nodes), "but", off)
    if key not in ledger.memo.eligible:
        ledger.memo.eligible[key] = [node for node in nodes if node.name not in off]
    return ledger.memo.eligible[key]


def of_job(slices: Slices, job: Workload) -> Ask:
    """Return what a job asks for: where its class lets it run, and nothing is booked (C1)."""
    assert job.slice is not None
    return Ask(
        name=job.name,
        priority=job.priority,
        due=due_of(slices.ledger, job, job.slice),
        shape=replace(job.shape, gpus=0),
        nodes=[node for node in eligible(slices.ledger, job) if node.name not in slices.booked],
    )


def due_of(ledger: Ledger, job: Workload, wanted: Slice) -> Due:
    """Return for whom a job's slice is charged."""
    rules = ledger.class_of(job)
    borrows = rules.borrows and not distrusted(ledger, job)
    return Due(team=job.team, slice=wanted, firm=not rules.yields, borrows=borrows)


def _charge_all(slices: Slices) -> None:
    """Charge every slice that somebody has, by the accelerator of its node."""
    ledger = slices.ledger
    for job in ledger.holding:
        if job.slice is not None:
            due, accelerator = due_of(ledger, job, job.slice), _accelerator(ledger, job.nodes[0])
            slices.dues.take(due, accelerator)
            if job.leaving:
                slices.dues.leave(due, accelerator)
    for service in sorted(slices.services, key=lambda one: one.name):
        assert service.slice is not None
        for grant in sorted(service.grants, key=lambda one: one.name):
            due = Due(team=service.team, slice=service.slice, firm=True)
            slices.dues.take(due, _accelerator(ledger, grant.node))


def _accelerator(ledger: Ledger, node: str) -> str:
    known = ledger.nodes.get(node)
    return "unknown" if known is None else known.accelerator
