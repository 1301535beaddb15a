"""Which cards get another layout: cut for what waits, and made whole again when nothing asks (rules V7 and V8).

Knows the slices, what nobody has room for, and for whom whole GPUs are kept. Does not know how a layout is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet_app.engine.cards import Card
from fleet_app.engine.deck import Place
from fleet_app.engine.fullness import made_useless
from fleet_app.engine.layouts import SHARED, Layout, filled
from fleet_app.engine.plan import Reason, Repartition, Wait
from fleet_app.engine.slices import Ask, Slices
from fleet_app.engine.values import Shape

Answer = Iterator[Repartition | Wait]


def step(slices: Slices) -> Answer:
    """Yield a new layout for each card that is to have one, each card once, and the wait of those that it is for."""
    if not slices.slicing.repartition:
        return
    unmet = list({one.name: one for one in slices.unmet}.values())
    under_way = _under_way(slices, unmet)
    yield from map(_waits, under_way)
    unmet = [one for one in unmet if one not in under_way]
    free = [place for place in slices.deck.cards if _free_to_change(slices, place)] if unmet else []
    while unmet:
        ask = unmet[0]
        place = _card_for(slices, ask, free)
        same = [one for one in unmet if place is not None and _could_go(slices, one, place)]
        if place is None:  # and none for those that ask for the same: cards only get fewer
            unmet = [one for one in unmet if not _alike(one, ask)]
            continue
        layout = _layout(slices, place, same)
        changing = _changing(slices, place, layout)
        met: list[Ask] = []
        for _ in changing:
            met += _met(layout, [one for one in same if one not in met], slices.slicing.shares)
        unmet = [one for one in unmet if one not in met]
        yield from _recut(slices, changing, layout, f"{_names(met)} {'wait' if len(met) > 1 else 'waits'} for it")
        yield from map(_waits, met)
    yield from _made_whole(slices)


def _under_way(slices: Slices, unmet: Sequence[Ask]) -> list[Ask]:
    """Return the asks that find their slice on cards that are being changed already."""
    met: list[Ask] = []
    for place, card in slices.deck.cards.items():
        left = [one for one in unmet if one not in met and slices.may_use(one, place)]
        if card.becomes and left:
            met += _met(card.becomes, left, slices.slicing.shares)
    return met


def _alike(one: Ask, other: Ask) -> bool:
    return (one.due, one.shape, id(one.nodes)) == (other.due, other.shape, id(other.nodes))


def _waits(ask: Ask) -> Wait:
    return Wait(workload=ask.name, reason=Reason.REPARTITION_UNDER_WAY, asked=1, available=0)


def _card_for(slices: Slices, ask: Ask, free: Sequence[Place]) -> Place | None:
    """Return the empty card to cut for an ask: a cut one first, then one of the node with the fewest GPUs left (V7).

    Before that, where the policy says how many CPUs a free GPU needs, one of a node that keeps those (P13).
    """
    able = [place for place in free if _could_go(slices, ask, place)]
    ledger, with_card = slices.ledger, ask.shape + Shape(gpus=1)

    def worth(place: Place) -> tuple[bool, int, int]:
        whole = slices.deck.cards[place].whole
        useless = made_useless(ledger, ledger.nodes[place.node], with_card if whole else ask.shape)
        return (whole, useless, ledger.free[place.node].gpus)

    return min(able, key=worth, default=None)


def _could_go(slices: Slices, ask: Ask, place: Place) -> bool:
    """Return whether an ask could be met on a card if that were cut for it."""
    return (
        _free_to_change(slices, place)
        and slices.may_use(ask, place)
        and bool(_layout(slices, place, [ask]))
        and ask.shape.fits(slices.ledger.free[place.node])
        and slices.allows(ask, place, soon=True)
    )


def _free_to_change(slices: Slices, place: Place) -> bool:
    """Return whether a card is empty, and nobody's: a whole one no more than free, a cut one idle for long enough.

    Where the cards of a node change together, whether all of them are.
    """
    if not slices.ledger.nodes[place.node].placeable:
        return False
    together = slices.deck.of_node[place.node] if slices.slicing.whole_nodes else [place]
    return all(_empty(slices, one) for one in together) and _whole_free(slices, together)


def _empty(slices: Slices, place: Place) -> bool:
    card = slices.deck.cards[place]
    return slices.deck.empty(place) and (card.whole or _settled(slices, card))


def _whole_free(slices: Slices, places: Sequence[Place]) -> bool:
    """Return whether the whole ones of some cards of a node are free as GPUs too, and kept for nobody."""
    whole, node = sum(slices.deck.cards[place].whole for place in places), places[0].node
    kept = node in slices.ledger.reserved or node in slices.booked
    return not whole or (not kept and slices.ledger.free[node].gpus >= whole)


def _settled(slices: Slices, card: Card) -> bool:
    idle_since = card.idle_since
    return idle_since is not None and slices.ledger.now - idle_since >= slices.slicing.settle_s


def _layout(slices: Slices, place: Place, asks: Sequence[Ask]) -> Layout:
    """Return the layout for what is asked, the first ask first; empty when a card cannot have it.

    Where the cards of a node change together, they are cut into partitions of the first ask's profile only.
    """
    first = asks[0].slice
    if first.share:
        return (SHARED,)
    profiles = tuple(one.slice.profile for one in asks if one.slice.profile)
    asked = (first.profile,) if slices.slicing.whole_nodes else profiles
    return filled(slices.accelerator(place).lower(), asked)


def _changing(slices: Slices, place: Place, layout: Layout) -> list[Place]:
    """Return the cards that get a layout: the one that was found, or all of its node that have another."""
    if not slices.slicing.whole_nodes:
        return [place]
    return [one for one in slices.deck.of_node[place.node] if slices.deck.cards[one].layout != layout]


def _met(layout: Layout, asks: Sequence[Ask], shares: int) -> list[Ask]:
    """Return the asks that find their slice in a new layout, in their order."""
    left, met, used = list(layout), [], 0
    for one in asks:
        if one.slice.profile in left:
            left.remove(one.slice.profile)
            met.append(one)
        elif one.slice.share and layout == (SHARED,) and used + one.slice.share <= 10_000 and len(met) < shares:
            used += one.slice.share
            met.append(one)
    return met


def _recut(slices: Slices, places: Sequence[Place], layout: Layout, why: str) -> Iterator[Repartition]:
    """Take cards of one node out of use for the rest of the decision."""
    for place in places:
        slices.deck.given.add(place)
        if slices.deck.cards[place].whole:
            slices.ledger.withhold(place.node, 1)
        yield Repartition(node=place.node, card=place.card, layout=layout, why=why)


def _made_whole(slices: Slices) -> Iterator[Repartition]:
    """Yield the cut cards that nothing has been on for long enough, to be whole again (V8)."""
    for place, card in slices.deck.cards.items():
        if not card.whole and _free_to_change(slices, place):
            why = f"nothing has been on it for {slices.slicing.settle_s:.0f} s"
            yield from _recut(slices, _changing(slices, place, ()), (), why)


def _names(asks: Sequence[Ask]) -> str:
    names = list(dict.fromkeys(one.name for one in asks))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
