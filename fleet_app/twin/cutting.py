"""Cards that are cut or shared, in a virtual fleet: what is on each, since when nothing is, and new layouts. Pure.

Knows nodes' cards and who is on them. Does not know who decides about layouts, or why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from fleet_app.engine.layouts import Layout
from fleet_app.engine.values import Node, Shape
from fleet_app.engine.workload import Service, Workload


def taken_out(node: Node, index: int, layout: Layout) -> Node:
    """Return a node one card of which is out of use, to have another layout."""
    old = next(card for card in node.cards if card.index == index)
    new = replace(old, becomes=layout)
    changed = tuple(new if card.index == index else card for card in node.cards)
    return replace(node, cards=changed, capacity=node.capacity - Shape(gpus=int(old.whole)))


def recut(node: Node, now: float) -> Node:
    """Return a node whose cards have the layouts they were to have; one that is whole again is one of its GPUs."""
    cards, gpus = [], 0
    for card in node.cards:
        done = card.becomes is not None
        gpus += done and card.becomes == ()
        new = card.layout if card.becomes is None else card.becomes
        cards.append(replace(card, layout=new, becomes=None, idle_since=now) if done else card)
    return replace(node, cards=tuple(cards), capacity=node.capacity + Shape(gpus=gpus))


def idled(nodes: Iterable[Node], workloads: Iterable[Workload], services: Iterable[Service], now: float) -> list[Node]:
    """Return the nodes, with since when nothing has been on each card that is cut or shared."""
    used: set[tuple[str, int | None]] = {(grant.node, grant.card) for one in services for grant in one.grants}
    used |= {(one.nodes[0], one.card) for one in workloads if one.card is not None and one.nodes}
    found = []
    for node in nodes:
        cards = []
        for card in node.cards:
            since = now if card.idle_since is None else card.idle_since
            cards.append(replace(card, idle_since=None if card.whole or (node.name, card.index) in used else since))
        found.append(replace(node, cards=tuple(cards)))
    return found


def busy(nodes: Iterable[Node], workloads: Iterable[Workload], services: Iterable[Service]) -> list[Node]:
    """Return the nodes with as many of their whole cards busy as whole work has GPUs there, the first ones first."""
    gpus = Counter({node.name: node.foreign.gpus for node in nodes})
    for one in workloads:
        for name in one.nodes if one.holding else ():
            gpus[name] += one.shape.gpus
    for service in services:
        for grant in service.grants:
            gpus[grant.node] += service.shape.gpus
    found = []
    for node in nodes:
        whole = [card.index for card in sorted(node.cards, key=lambda card: card.index) if card.whole]
        used = set(whole[: gpus[node.name]])
        found.append(replace(node, cards=tuple(replace(card, busy=card.index in used) for card in node.cards)))
    return found
