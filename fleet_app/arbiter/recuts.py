"""Layouts that are being changed: intended, asked for once the cards are empty, and seen to have come (rules V7, V8).

Knows the book, the facts and the plan. Asks nobody itself. Whoever changes layouts may take minutes, and the node may
be another one to Ray afterwards; until then its cards that change are out of use.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.cards import on_cards
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.partitions import layouts_of, pieces_in
from fleet_app.arbiter.ports import NodeView
from fleet_app.arbiter.records import NewLayout, Recut
from fleet_app.engine.layouts import Layout
from fleet_app.engine.plan import Plan, Repartition
from fleet_app.engine.state import FleetState

EMPTY_WITHIN_S = 60.0
"""How long cards may not be empty in Ray's own view, before their change is decided anew."""

DONE_WITHIN_S = 1800.0
"""How long a change may take before it is given up: a node that is drained and comes back takes minutes."""

AGAIN_S = 600.0
"""How long after a change was given up the layouts of its node stay as they are."""


def ask(book: Book, state: FleetState, plan: Plan, now: float) -> None:
    """Write the new layouts of a plan into the book, one change a node at a time."""
    wanted: dict[str, list[Repartition]] = defaultdict(list)
    for action in plan.actions:
        if isinstance(action, Repartition):
            wanted[action.node].append(action)
    nodes = {node.name: node for node in state.nodes} if wanted else {}
    for name, actions in wanted.items():
        if name in nodes and name not in book.recuts:
            was = {card.index: card.layout for card in nodes[name].cards}
            cards = tuple(NewLayout(card=one.card, was=was[one.card], layout=one.layout) for one in actions)
            why = "; ".join(dict.fromkeys(one.why for one in actions))
            book.recuts.put(name, Recut(node=name, cards=cards, asked_at=now, why=why))


def follow(book: Book, facts: Facts) -> None:
    """Drop the changes that have come, and give up those that do not come in time."""
    for recut in book.recuts:
        view = facts.nodes.get(recut.node)
        if recut.failed_at is not None:
            if facts.now - recut.failed_at > AGAIN_S:
                book.recuts.drop(recut.node)
        elif recut.sent_at is not None and view is not None and view.alive and _done(recut, view):
            book.recuts.drop(recut.node)
            book.note(facts.now, What.REPARTITIONED, recut.node, cards=_said(recut))
        elif recut.sent_at is None and facts.now - recut.asked_at > EMPTY_WITHIN_S:
            give_up(book, recut, facts.now, "its cards did not come free")
        elif recut.sent_at is not None and facts.now - recut.sent_at > DONE_WITHIN_S:
            give_up(book, recut, facts.now, "it did not come in time")


def give_up(book: Book, recut: Recut, now: float, why: str) -> None:
    """Let cards be as they are, for a while."""
    book.recuts.put(recut.node, replace(recut, failed_at=now))
    book.note(now, What.NOT_REPARTITIONED, recut.node, cards=_said(recut), why=why)


def due(book: Book, facts: Facts) -> list[tuple[Recut, tuple[Layout, ...]]]:
    """Return the changes to ask for now, with the layouts of all cards of the node: those whose cards are empty."""
    found = []
    for recut in book.recuts:
        view = facts.nodes.get(recut.node)
        waits = recut.sent_at is None and recut.failed_at is None
        if waits and view is not None and view.alive and _empty(recut, book, view):
            layouts = list(layouts_of(view))
            for one in recut.cards:
                layouts.remove(one.was)
            found.append((recut, (*layouts, *(one.layout for one in recut.cards))))
    return found


def sent(book: Book, recut: Recut, layouts: tuple[Layout, ...], now: float) -> None:
    """Note that whoever changes layouts was asked for these."""
    book.recuts.put(recut.node, replace(recut, sent_at=now, target=layouts))
    book.note(now, What.REPARTITIONING, recut.node, cards=_said(recut), why=recut.why)


def _empty(recut: Recut, book: Book, view: NodeView) -> bool:
    """Return whether nothing is on the cards that change, by the book and by Ray's own count of the node."""
    on, was = on_cards(book), tuple(one.was for one in recut.cards)
    pieces = pieces_in(was)
    return (
        not any(on.get((recut.node, one.card)) for one in recut.cards)
        and not Counter(was) - Counter(layouts_of(view))
        and view.available.gpus >= sum(not layout for layout in was)
        and all(view.free_slices.get(sort, 0) >= count for sort, count in pieces.items())
    )


def _done(recut: Recut, view: NodeView) -> bool:
    """Return whether a node has what was asked for; which partitions are on one card Ray does not say."""
    has = layouts_of(view)
    return pieces_in(has) == pieces_in(recut.target) and has.count(()) == recut.target.count(())


def _said(recut: Recut) -> list[str]:
    return [f"{one.card}: {'+'.join(one.layout) or 'whole'}" for one in recut.cards]
