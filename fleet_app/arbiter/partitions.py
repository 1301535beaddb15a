"""A node's label `fleet/partition` to its cards: what whole work may not have there (rule V1). Pure.

A node has one partition: all of its cards are whole, all are shared, or all are cut into the same profile. What Ray
counts as a GPU there is a card, or one partition of a card. Does not know who uses them.
"""

from __future__ import annotations

from dataclasses import replace

from fleet_app.arbiter.ports import NodeView
from fleet_app.engine.cards import MIG, Card
from fleet_app.engine.layouts import SHARED, Layout, filled
from fleet_app.engine.values import Shape
from fleet_app.worker import contract

WHOLE = "whole"


def cards_of(node: NodeView) -> tuple[Card, ...]:
    """Return the cards of a node that are not whole, by its label; none for a node of whole GPUs."""
    partition = node.labels.get(contract.PARTITION_LABEL, WHOLE)
    layout = _layout(partition, node.labels.get(contract.ACCELERATOR_LABEL, ""))
    count = node.total.gpus // len(layout) if layout else 0
    return tuple(Card(index=index, layout=layout) for index in range(count))


def whole_part(node: NodeView, shape: Shape) -> Shape:
    """Return the part of a node's room that is for whole work: no GPUs where its label says anything but whole."""
    return shape if node.labels.get(contract.PARTITION_LABEL, WHOLE) == WHOLE else replace(shape, gpus=0)


def _layout(partition: str, accelerator: str) -> Layout:
    if partition == SHARED:
        return (SHARED,)
    profile = partition.removeprefix(MIG)
    if profile == partition:
        return ()
    return filled(accelerator.lower(), (profile,)) or (profile,)
