"""Nodes that somebody asks to cross to another class, or to stay after all: checked, put into the book (B3, B5, B6).

Knows the book, the nodes as they are, and the policy's boundary. Does not know whether it is wise, nor what is on them.
"""

from __future__ import annotations

from dataclasses import replace

from fleet_app.arbiter import pooling
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts, node_class
from fleet_app.arbiter.inbox import MoveBoundary, StayBoundary
from fleet_app.arbiter.notes import What
from fleet_app.engine.boundary import crossed_within_a_week
from fleet_app.engine.crossings import called_off
from fleet_app.engine.errors import ConflictError, NotFoundError, RequestError
from fleet_app.engine.plan import Relabel
from fleet_app.engine.policy import Boundary
from fleet_app.engine.values import Crossing

LONGEST_NAME = 100


def ask(book: Book, request: MoveBoundary, facts: Facts, rules: Boundary | None) -> None:
    """Let the nodes begin to cross, all or none. Raises RequestError when one may not."""
    if rules is None:
        raise RequestError("the policy says nothing of it", where="boundary", fix="Add the section `boundary`")
    recent = {one.node: one for one in crossed_within_a_week(book.crossings, facts.now)}
    if len(recent) + len(set(request.nodes)) > rules.most_nodes_a_week:
        raise ConflictError(
            f"{len(recent)} nodes crossed within a week, and {rules.most_nodes_a_week} may",
            where="boundary",
            fix="Wait, or raise most_nodes_a_week",
        )
    begun = [_begun(book, request, name, facts, recent) for name in sorted(set(request.nodes))]
    pooling.check_room(facts, [*book.crossings, *begun])
    for crossing in begun:
        book.crossings.put(crossing.node, crossing)
        detail = {"was": crossing.was, "to": crossing.to, "gpus": crossing.gpus, "who": crossing.who}
        book.note(facts.now, What.CROSSING, crossing.node, **detail)


def call_off(book: Book, request: StayBoundary, now: float) -> None:
    """Let nodes be what they were, all or none. Raises RequestError when one does not cross, or has by now (B6)."""
    found = []
    for name in sorted(set(request.nodes)):
        crossing = book.crossings.get(name)
        if crossing is None:
            raise NotFoundError("no node of that name crosses", where=name[:LONGEST_NAME], fix="See `fleet boundary`")
        if crossing.moved_at is not None:
            fix = "It may cross back a week after it was asked to"
            raise ConflictError(f"it is {crossing.to}'s already", where=name, fix=fix)
        found.append(crossing)
    for crossing in found:
        before = called_off(crossing)
        if before is None:
            book.crossings.drop(crossing.node)
        else:
            book.crossings.put(crossing.node, before)
        detail = {"stays": crossing.was, "to": crossing.to, "who": request.who}
        book.note(now, What.CROSSING_CALLED_OFF, crossing.node, **detail)


def done(book: Book, action: Relabel, now: float) -> None:
    """Let a node have the class that it crosses to; nothing happens when it does not cross any more."""
    crossing = book.crossings.get(action.node)
    if crossing is not None and crossing.moved_at is None:
        book.crossings.put(action.node, replace(crossing, moved_at=now))
        detail = {"was": crossing.was, "to": crossing.to, "gpus": crossing.gpus, "why": action.why}
        book.note(now, What.RELABELLED, action.node, **detail)


def _begun(book: Book, request: MoveBoundary, name: str, facts: Facts, recent: dict[str, Crossing]) -> Crossing:
    node, before = facts.nodes.get(name), book.crossings.get(name)
    label = None if node is None else node_class(node)
    if node is None or label is None or not node.alive:
        raise NotFoundError("no node of that name", where=name[:LONGEST_NAME], fix="See `fleet nodes`")
    if name in recent:
        raise ConflictError("it crossed within a week, or crosses now", where=name, fix="See `fleet boundary`")
    was = label if before is None else before.now
    if was is request.to:
        raise ConflictError(f"it is {request.to}'s already", where=name, fix="See `fleet nodes`")
    machine, pool = pooling.site(facts, name)
    return Crossing(
        node=name,
        home=label if before is None else before.home,
        was=was,
        to=request.to,
        gpus=node.total.gpus,
        asked_at=facts.now,
        who=request.who,
        machine=machine,
        pool=pool,
    )
