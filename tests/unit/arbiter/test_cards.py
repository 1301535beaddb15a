"""The cards of nodes from look to look: which is which, who is on them, since when nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.cards import Cards, matched, on_cards
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.ports import BundleView, GroupView, NodeView
from fleet_app.arbiter.records import GrantRecord, Job, NewLayout, Record, Recut
from fleet_app.engine.cards import Card, Slice
from fleet_app.engine.layouts import Layout
from fleet_app.engine.policy import Slicing
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import NOTHING, Node, Shape
from tests.builders import cards, node, part, sliced

SEVENTHS: Layout = ("1g.10gb",) * 7
HALVES: Layout = ("3g.40gb", "3g.40gb")
SHARED: Layout = ("shared",)
RULES = Slicing()
CUT = {"mig-1g.10gb": 14}


def view(slices: dict[str, int], free: dict[str, int] | None = None, *, gpus: int = 0, label: str = "") -> NodeView:
    labels = {"ray.io/accelerator-type": "H100"} | ({"fleet/partition": label} if label else {})
    return NodeView(
        node_id="id1",
        labels=labels,
        alive=True,
        draining=False,
        total=Shape(gpus=gpus),
        available=Shape(gpus=gpus),
        slices=slices,
        free_slices=slices if free is None else free,
    )


def look(seen: NodeView, *groups: GroupView, now: float = 100.0) -> Facts:
    return Facts(now=now, nodes={"n1": seen}, groups={group.name: group for group in groups}, names={"id1": "n1"})


def group(name: str, wanted: Slice) -> GroupView:
    bundle = BundleView(node_id="id1", shape=NOTHING, slice=wanted)
    return GroupView(group_id=f"id of {name}", name=name, state="CREATED", bundles=(bundle,))


def cards_of(watch: Cards, facts: Facts, book: Book | None = None, rules: Slicing = RULES) -> tuple[Card, ...]:
    (found,) = watch.of((node("n1", gpus=0),), book or Book(), facts, rules)
    return found.cards


def test_cards_are_known_only_where_some_are_cut_or_shared() -> None:
    nodes: tuple[Node, ...] = (node("n1"),)
    assert Cards(FleetState()).of(nodes, Book(), look(view(CUT)), None) is nodes
    whole = view({"shared": 20_000}, gpus=2)
    assert cards_of(Cards(FleetState()), look(whole)) == ()
    assert [card.layout for card in cards_of(Cards(FleetState()), look(whole), rules=Slicing(repartition=True))] == [
        (),
        (),
    ]


def test_a_card_is_idle_since_it_was_first_seen_so_and_a_restart_does_not_forget_it() -> None:
    watch = Cards(FleetState())
    assert [card.idle_since for card in cards_of(watch, look(view(CUT)))] == [100.0, 100.0]
    last = node("n1", cards=cards_of(watch, look(view(CUT), now=130.0)))
    again = Cards(FleetState(nodes=(last,)))
    assert [card.idle_since for card in cards_of(again, look(view(CUT), now=160.0))] == [100.0, 100.0]


def test_a_card_is_not_idle_while_a_job_or_a_grant_is_on_it() -> None:
    book = Book()
    job = sliced("job", profile="1g.10gb", on=("n1", 1))
    book.put(Record(workload=job, job=Job(entrypoint="true")))
    assert [card.idle_since for card in cards_of(Cards(FleetState()), look(view(CUT)), book)] == [100.0, None]
    grant = GrantRecord(name="g", service="chat", node="n1", shape=NOTHING, made_at=0.0, slice=part(share=0.5), card=0)
    book.grants.put("g", grant)
    assert [card.idle_since for card in cards_of(Cards(FleetState()), look(view(CUT)), book)] == [None, None]
    assert on_cards(book) == {("n1", 0): [part(share=0.5)], ("n1", 1): [part(profile="1g.10gb")]}


def test_what_others_use_may_be_on_any_card_once_it_has_stayed() -> None:
    """V3: which partition it is nobody says, so nobody is promised it."""
    watch = Cards(FleetState())
    cards_of(watch, look(view(CUT)))
    used = view(CUT, {"mig-1g.10gb": 12})
    assert [card.foreign for card in cards_of(watch, look(used, now=100.2))] == [(), ()]
    two = (part(profile="1g.10gb"),) * 2
    assert [card.foreign for card in cards_of(watch, look(used, now=100.9))] == [two, two]
    assert [card.foreign for card in cards_of(watch, look(view(CUT), now=101.0))] == [(), ()]


def test_a_share_that_others_have_is_missing_on_every_shared_card() -> None:
    seen = view({"shared": 20_000}, {"shared": 17_000}, gpus=2, label="shared")
    assert [card.foreign for card in cards_of(Cards(FleetState()), look(seen))] == [(part(share=0.3),)] * 2


def test_what_is_ours_is_not_what_others_use() -> None:
    seen, ours = view(CUT, {"mig-1g.10gb": 13}), group("fleet/w/job", part(profile="1g.10gb"))
    assert [card.foreign for card in cards_of(Cards(FleetState()), look(seen, ours))] == [(), ()]


def test_what_serve_made_for_nobody_that_is_known_is_what_others_use() -> None:
    seen, one = view(CUT, {"mig-1g.10gb": 13}), part(profile="1g.10gb")
    theirs = replace(group("serve:SERVE_REPLICA::a#B#1", one), replica="SERVE_REPLICA::a#B#1", service="a.B")
    assert [card.foreign for card in cards_of(Cards(FleetState()), look(seen, theirs))] == [(one,), (one,)]


def test_as_many_whole_cards_are_busy_as_gpus_are_used() -> None:
    seen = replace(view({"shared": 30_000}, gpus=3), available=Shape(gpus=1))
    found = cards_of(Cards(FleetState()), look(seen), rules=Slicing(repartition=True))
    assert [card.busy for card in found] == [True, True, False]


def test_a_card_that_is_about_to_change_is_said_to_be_until_that_was_given_up() -> None:
    book, seen = Book(), view({"shared": 20_000}, gpus=2)
    recut = Recut(node="n1", cards=(NewLayout(card=1, was=(), layout=SEVENTHS),), asked_at=0.0, why="")
    book.recuts.put("n1", recut)
    assert [card.becomes for card in cards_of(Cards(FleetState()), look(seen), book)] == [None, SEVENTHS]
    book.recuts.put("n1", replace(recut, failed_at=1.0))
    assert [card.becomes for card in cards_of(Cards(FleetState()), look(seen), book)] == [None, None]


def test_a_grant_that_serve_made_alone_gets_the_fullest_card_on_which_it_fits() -> None:
    """V4; until then what it has may be anybody's."""
    book, seen = Book(), view({"shared": 20_000}, {"shared": 10_000}, gpus=2, label="shared")
    known = GrantRecord(name="a", service="chat", node="n1", shape=NOTHING, made_at=0.0, slice=part(share=0.5), card=1)
    book.grants.put("a", known)
    book.grants.put("b", replace(known, name="b", card=None, group_id="id of fleet/g/chat/b"))
    facts = look(seen, group("fleet/g/chat/a", part(share=0.5)), group("fleet/g/chat/b", part(share=0.5)))
    watch = Cards(FleetState())
    first, last = cards_of(watch, facts, book), cards_of(watch, facts, book)
    grant = book.grants.get("b")
    assert grant is not None
    assert grant.card == 1
    assert [card.foreign for card in first] == [(part(share=0.5),)] * 2
    assert [card.foreign for card in last] == [(), ()]


def test_a_grant_that_fits_nowhere_has_no_card() -> None:
    book, watch = Book(), Cards(FleetState())
    grant = GrantRecord(name="b", service="chat", node="n1", shape=NOTHING, made_at=0.0, slice=part(share=0.5))
    book.grants.put("b", grant)
    cards_of(watch, look(view(CUT)), book)
    cards_of(watch, look(view(CUT)), book)
    assert book.grants.get("b") == grant


MATCHED = {
    "what is as it was is the same card": (cards(SEVENTHS, (), idle_since=5.0), [(), SEVENTHS], [SEVENTHS, ()]),
    "what has become what it was to become is too": (
        [Card(index=0), replace(Card(index=1), becomes=SEVENTHS)],
        [SEVENTHS, ()],
        [(), SEVENTHS],
    ),
    "a card of another layout takes the place of one that is gone": (cards(SEVENTHS, ()), [(), SHARED], [SHARED, ()]),
    "one that is gone leaves a gap": (cards(SEVENTHS, HALVES), [HALVES], [HALVES]),
    "new ones come after": (cards(SEVENTHS), [SEVENTHS, HALVES], [SEVENTHS, HALVES]),
    "of a node that was never seen they are in order": ([], [SEVENTHS, ()], [SEVENTHS, ()]),
}


@pytest.mark.parametrize(("before", "layouts", "want"), MATCHED.values(), ids=MATCHED)
def test_matched(before: list[Card], layouts: list[Layout], want: list[Layout]) -> None:
    found = matched(before, layouts)
    assert [card.layout for card in found] == want
    assert len({card.index for card in found}) == len(found)
    kept = {card.index: card.layout for card in before}
    assert all(card.idle_since is None or kept[card.index] == card.layout for card in found)
