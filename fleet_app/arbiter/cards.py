"""The cards of the nodes, from one look to the next: their layouts, and what is on them (rules V1, V3 and V7).

Ray counts partitions and fractions of GPUs by node. On which card of it each of ours is, the book says; what others use
may be on any, so it counts on each. Remembers which card was which, and the last looks, which tell somebody's work from
the lag of Ray's view. Does not know what follows from it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.observe import ours
from fleet_app.arbiter.partitions import amount, layouts_of
from fleet_app.arbiter.ports import GroupView, NodeView
from fleet_app.arbiter.sightings import Parts, Sighting, first_seen, have_settled, look_again
from fleet_app.engine.cards import MIG, WHOLE_SHARE, Card, Slice
from fleet_app.engine.layouts import SHARED, Layout
from fleet_app.engine.policy import Slicing
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload

On = Mapping[tuple[str, int], Sequence[Slice]]
"""By node and card: the slices of it that the book gives to somebody."""


class Cards:
    """The cards of all nodes of a fleet that cuts or shares some."""

    def __init__(self, last: FleetState) -> None:
        """Start from the cards of the last state that was journaled."""
        self._last = {node.name: node.cards for node in last.nodes}
        self._sightings: dict[str, Sighting] = {}
        self._since: dict[str, float] | None = None

    def of(self, nodes: tuple[Node, ...], book: Book, facts: Facts, slicing: Slicing | None) -> tuple[Node, ...]:
        """Return the nodes with their cards; as they are where the policy cuts and shares none.

        Whole cards are among them where layouts may change. A grant of which nobody said on which card it is, because
        Serve made its group while no arbiter was there, gets one in the book.
        """
        if slicing is None:
            return nodes
        _seat(book, self._last)
        self._since = first_seen(self._since, facts)
        on, groups = on_cards(book), _ours(book, facts)
        standing, settled = _parts(groups), _parts(have_settled(groups, self._since, facts.now))
        found = []
        for node in nodes:
            view = facts.nodes[node.name]
            low, high = _beyond(view, standing[view.node_id]), _beyond(view, settled[view.node_id])
            seen = look_again(self._sightings.get(node.name), low, high, facts.now)
            self._sightings[node.name] = seen
            recut = book.recuts.get(node.name)
            layouts = layouts_of(view)
            whole = slicing.repartition or recut is not None
            cards = matched(self._last.get(node.name, ()), [one for one in layouts if one or whole])
            cards = tuple(_in_use(_busy(cards, view), node.name, on, seen.foreign, facts.now))
            changes = () if recut is None or recut.failed_at is not None else recut.cards
            becomes = {one.card: one.layout for one in changes}
            cards = tuple(replace(card, becomes=becomes.get(card.index)) for card in cards)
            self._last[node.name] = cards
            found.append(replace(node, cards=cards))
        return tuple(found)


def on_cards(book: Book) -> On:
    """Return what the book gives of each card."""
    found: dict[tuple[str, int], list[Slice]] = defaultdict(list)
    for record in book.live():
        workload = record.workload
        if workload.slice is not None and workload.card is not None and workload.holding:
            found[workload.nodes[0], workload.card].append(workload.slice)
    for grant in book.grants:
        if grant.slice is not None and grant.card is not None:
            found[grant.node, grant.card].append(grant.slice)
    return found


def free_slot(book: Book, node: str, wanted: Slice) -> int | None:
    """Return the first of a node's partitions of a profile that nobody has; None for a share, which is on no one's."""
    if not wanted.profile:
        return None
    taken = {record.slot for record in book.live() if _has(record.workload, node, wanted)}
    taken |= {grant.slot for grant in book.grants if (grant.node, grant.slice) == (node, wanted)}
    return next(number for number in range(len(taken) + 1) if number not in taken)


def _has(workload: Workload, node: str, wanted: Slice) -> bool:
    return workload.holding and workload.slice == wanted and workload.nodes == (node,)


def matched(before: Iterable[Card], layouts: Iterable[Layout]) -> tuple[Card, ...]:
    """Return cards of these layouts, by index: each that has the layout that it had, or is to have, is the same card.

    One that has another than before has been empty for an unknown time.
    """
    left, found = list(layouts), {}
    known = sorted(before, key=lambda card: card.index)
    for card in known:
        if card.layout in left:
            left.remove(card.layout)
            found[card.index] = Card(index=card.index, layout=card.layout, idle_since=card.idle_since)
    for card in known:
        if card.index not in found and card.becomes in left:
            left.remove(card.becomes)
            found[card.index] = Card(index=card.index, layout=card.becomes)
    free = (index for index in range(len(found) + len(left)) if index not in found)
    found |= {index: Card(index=index, layout=layout) for index, layout in zip(free, left, strict=False)}
    return tuple(found[index] for index in sorted(found))


def _busy(cards: Sequence[Card], view: NodeView) -> Iterator[Card]:
    """Yield the cards, as many of the whole ones busy as GPUs are in use: which those are nobody says."""
    used = view.total.gpus - view.available.gpus
    for card in cards:
        yield replace(card, busy=card.whole and used > 0)
        used -= card.whole


def _in_use(cards: Iterable[Card], node: str, on: On, foreign: Parts, now: float) -> Iterator[Card]:
    """Yield the cards with what others use, and since when nothing has been on each that is cut or shared."""
    for card in cards:
        others = tuple(_others(card, foreign))
        used = card.whole or bool(others) or bool(on.get((node, card.index)))
        since = None if used else now if card.idle_since is None else card.idle_since
        yield replace(card, foreign=others, idle_since=since)


def _others(card: Card, foreign: Parts) -> Iterator[Slice]:
    for piece in dict.fromkeys(card.layout):
        if piece == SHARED:
            share = min(WHOLE_SHARE, foreign.get(SHARED, 0))
            yield from [Slice(share=share)] if share else []
        else:
            count = min(card.layout.count(piece), foreign.get(MIG + piece, 0))
            yield from [Slice(profile=piece)] * count


def _beyond(view: NodeView, ours: Parts) -> Parts:
    """Return what is in use on a node beyond what is ours, by its sort, as `NodeView.slices` counts it."""
    return {sort: view.slices[sort] - view.free_slices.get(sort, 0) - ours.get(sort, 0) for sort in view.slices}


def _ours(book: Book, facts: Facts) -> list[GroupView]:
    """Return the fleet's groups, but for those on parts of cards that are on no known card."""
    unseated = {grant.group_id for grant in book.grants if grant.slice is not None and grant.card is None}
    return [group for group in ours(book, facts) if group.group_id not in unseated]


def _parts(groups: Iterable[GroupView]) -> defaultdict[str, Counter[str]]:
    """Return by node id which parts of cards groups have."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for group in groups:
        for bundle in group.bundles:
            if bundle.slice is not None:
                found[bundle.node_id or ""][bundle.slice.partition] += amount(bundle.slice)
    return found


def _seat(book: Book, cards: Mapping[str, Sequence[Card]]) -> None:
    """Say on which card each grant is of which nobody has: the fullest on which it fits (V4)."""
    for grant in book.grants:
        if grant.slice is None or grant.card is not None:
            continue
        on = on_cards(book)
        able = [
            card for card in cards.get(grant.node, ()) if _fits(card, on.get((grant.node, card.index), ()), grant.slice)
        ]
        if able:
            fullest = max(able, key=lambda card: (_taken(on.get((grant.node, card.index), ())), -card.index))
            book.grants.put(grant.name, replace(grant, card=fullest.index))


def _fits(card: Card, taken: Sequence[Slice], wanted: Slice) -> bool:
    if wanted.profile:
        return card.layout.count(wanted.profile) > sum(one.profile == wanted.profile for one in taken)
    return card.layout == (SHARED,) and sum(one.share for one in taken) + wanted.share <= WHOLE_SHARE


def _taken(slices: Sequence[Slice]) -> int:
    return sum(amount(one) for one in slices)
