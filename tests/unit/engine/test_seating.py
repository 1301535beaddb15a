"""V4: the fullest card that has room, while cards fill up."""

from __future__ import annotations

from fleet_app.engine.deck import Deck, Place, Seated
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.policy import Slicing
from fleet_app.engine.seating import Seating
from tests.builders import cards, node, part, policy, shape, sliced, state

QUARTER = part(share=0.25)


def deck_of(*old: tuple[str, int, float]) -> Deck:
    """Return three shared cards of one node, with these shares on them."""
    jobs = [sliced(name, share=share, on=("n1", card)) for name, card, share in old]
    facts = state(node("n1", gpus=0, cpus=8, cards=cards(["shared"], ["shared"], ["shared"])), *jobs)
    return Deck(Ledger(facts, policy(), 0.0), facts, Slicing())


def seating(deck: Deck, cpus: int = 0) -> Seating:
    return Seating(deck, QUARTER, shape(cpus=cpus), list(deck.cards))


def put(deck: Deck, card: int, share: float) -> None:
    deck.seat(Place("n1", card), Seated(who=f"new-{len(deck.changed)}", team="research", slice=part(share=share)))


def test_the_fullest_with_room_is_first_and_of_equals_the_first() -> None:
    assert seating(deck_of(("a", 1, 0.5), ("b", 2, 0.9))).fullest(lambda _: True) == Place("n1", 1)
    assert seating(deck_of()).fullest(lambda _: True) == Place("n1", 0)


def test_what_was_put_on_a_card_since_counts() -> None:
    deck = deck_of(("a", 1, 0.5))
    found = seating(deck)
    put(deck, 2, 0.7)
    assert found.fullest(lambda _: True) == Place("n1", 2)
    put(deck, 2, 0.25)
    assert found.fullest(lambda _: True) == Place("n1", 1)


def test_a_card_that_one_may_not_use_is_there_for_the_next() -> None:
    found = seating(deck_of(("a", 1, 0.5)))
    assert found.fullest(lambda place: place.card != 1) == Place("n1", 0)
    assert found.fullest(lambda _: True) == Place("n1", 1)
    assert found.fullest(lambda _: False) is None
    assert found.fullest(lambda _: True) == Place("n1", 1)


def test_no_card_of_a_node_without_cpus_has_room() -> None:
    assert seating(deck_of(), cpus=9).fullest(lambda _: True) is None
