"""Changes of layouts: asked for on empty cards only, followed until they have come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.arbiter import recuts
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.ports import NodeView
from fleet_app.arbiter.records import GrantRecord, NewLayout, Recut
from fleet_app.engine.layouts import Layout
from fleet_app.engine.plan import Plan, Repartition
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import NOTHING, Shape
from tests.builders import cards, node, part

SEVENTHS: Layout = ("1g.10gb",) * 7
HALVES: Layout = ("3g.40gb", "3g.40gb")


def view(*, gpus: int = 0, free: int | None = None, label: str = "", **cut: int) -> NodeView:
    labels = {"ray.io/accelerator-type": "H100"} | ({"fleet/partition": label} if label else {})
    slices = {f"mig-{name[1:]}.{'10gb' if name == '_1g' else '40gb'}": count for name, count in cut.items()}
    slices |= {"shared": 10_000 * gpus} if gpus else {}
    return NodeView(
        node_id="id1",
        labels=labels,
        alive=True,
        draining=False,
        total=Shape(gpus=gpus),
        available=Shape(gpus=gpus if free is None else free),
        slices=slices,
        free_slices=slices,
    )


def facts(seen: NodeView, now: float = 10.0) -> Facts:
    return Facts(now=now, nodes={"n1": seen}, names={"id1": "n1"})


def booked(*changes: tuple[Layout, Layout], **more: float) -> Book:
    """Return a book with a change of the cards of n1, each from a layout to another."""
    book = Book()
    new = tuple(NewLayout(card=index, was=was, layout=to) for index, (was, to) in enumerate(changes))
    recut = Recut(node="n1", cards=new, asked_at=5.0, why="job waits for it")
    book.recuts.put("n1", replace(recut, **more))  # type: ignore[arg-type]  # moments
    return book


def test_what_a_plan_says_of_a_node_is_one_change() -> None:
    told = [Repartition(node="n1", card=index, layout=SEVENTHS, why="job waits for it") for index in range(2)]
    book, state = Book(), FleetState(nodes=(node("n1", cards=cards((), HALVES, ())),))
    recuts.ask(book, state, Plan(actions=tuple(told)), 5.0)
    recuts.ask(book, state, Plan(actions=(replace(told[0], card=2),)), 6.0)
    assert [recut.cards for recut in book.recuts] == [
        (NewLayout(card=0, was=(), layout=SEVENTHS), NewLayout(card=1, was=HALVES, layout=SEVENTHS))
    ]


EMPTY = {
    "whole cards that are free": (((), SEVENTHS), view(gpus=2), ((), SEVENTHS)),
    "a card that is in use": (((), SEVENTHS), view(gpus=1, free=0), None),
    "a cut one that is free": ((HALVES, SEVENTHS), view(_3g=2), (SEVENTHS,)),
    "a cut one of which Ray shows a part in use": (
        (HALVES, SEVENTHS),
        replace(view(_3g=2), free_slices={"mig-3g.40gb": 1}),
        None,
    ),
    "shared ones": ((("shared",), ()), view(gpus=1, label="shared"), ((),)),
    "a shared one with a user": (
        (("shared",), ()),
        replace(view(gpus=1, label="shared"), free_slices={"shared": 7_500}),
        None,
    ),
    "one that is not what it was": ((HALVES, SEVENTHS), view(_1g=7), None),
    "one of a node that is gone": (((), SEVENTHS), replace(view(gpus=2), alive=False), None),
}


@pytest.mark.parametrize(("change", "seen", "want"), EMPTY.values(), ids=EMPTY)
def test_due(change: tuple[Layout, Layout], seen: NodeView, want: tuple[Layout, ...] | None) -> None:
    assert [layouts for _, layouts in recuts.due(booked(change), facts(seen))] == ([] if want is None else [want])


def test_a_card_that_was_given_to_somebody_meanwhile_is_not_empty() -> None:
    book = booked((HALVES, SEVENTHS))
    wanted = part(profile="3g.40gb")
    grant = GrantRecord(name="g", service="chat", node="n1", shape=NOTHING, made_at=9.0, slice=wanted, card=0)
    book.grants.put("g", grant)
    assert recuts.due(book, facts(view(_3g=2))) == []


def test_what_was_asked_for_or_given_up_is_not_due() -> None:
    assert recuts.due(booked(((), SEVENTHS), sent_at=6.0), facts(view(gpus=1))) == []
    assert recuts.due(booked(((), SEVENTHS), failed_at=6.0), facts(view(gpus=1))) == []


def test_a_change_ends_when_the_node_has_what_was_asked_for() -> None:
    book = booked(((), SEVENTHS), ((), SEVENTHS))
    (recut,) = book.recuts
    recuts.sent(book, recut, (SEVENTHS, SEVENTHS), 6.0)
    recuts.follow(book, facts(view(gpus=2)))
    recuts.follow(book, facts(view(_1g=7)))
    assert "n1" in book.recuts
    recuts.follow(book, facts(view(_1g=14)))
    assert "n1" not in book.recuts
    assert [note.kind for note in book.notes] == [What.REPARTITIONING, What.REPARTITIONED]


def test_one_that_does_not_come_in_time_is_given_up_and_then_forgotten() -> None:
    book, seen = booked(((), SEVENTHS)), view(gpus=1, free=0)
    recuts.follow(book, facts(seen, now=65.0))
    assert [recut.failed_at for recut in book.recuts] == [None]
    recuts.follow(book, facts(seen, now=66.0))
    assert [recut.failed_at for recut in book.recuts] == [66.0]
    recuts.follow(book, facts(seen, now=667.0))
    assert list(book.recuts) == []
