"""A Ray node to the layouts of its cards, and parts of cards as Ray counts them (rules V1 and V3). Pure.

Ray's resource `mig-PROFILE` counts the partitions of a node, wherever their cards are. Its GPUs are whole cards, but
where the label `fleet/partition` is `shared`: there each is a card that fractions of a GPU share. Does not know who
uses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fleet_app.arbiter.ports import NodeView
from fleet_app.engine.cards import MIG, WHOLE_SHARE, Slice
from fleet_app.engine.layouts import SHARED, Layout, spread
from fleet_app.engine.values import Shape
from fleet_app.worker import contract

WHOLE = "whole"


def layouts_of(node: NodeView) -> tuple[Layout, ...]:
    """Return the layouts of a node's cards, those that are cut first.

    Which partitions are together on a card Ray does not say: the cards are taken to be alike where they can be.
    """
    partition = node.labels.get(contract.PARTITION_LABEL, WHOLE)
    counts = {name: count for name, count in node.slices.items() if name != SHARED}
    pieces = tuple(name.removeprefix(MIG) for name in sorted(counts) for _ in range(counts[name]))
    cut = spread(node.labels.get(contract.ACCELERATOR_LABEL, "").lower(), pieces)
    others: Mapping[str, Layout] = {SHARED: (SHARED,), WHOLE: ()}
    return (*cut, *((others[partition],) * node.total.gpus if partition in others else ()))


def whole_part(node: NodeView, shape: Shape) -> Shape:
    """Return the part of a node's room that is for whole work: no GPUs where its label says anything but whole."""
    return shape if node.labels.get(contract.PARTITION_LABEL, WHOLE) == WHOLE else replace(shape, gpus=0)


def amount(wanted: Slice) -> int:
    """Return a slice as `NodeView.slices` counts those of its sort: one partition, or ten-thousandths of a GPU."""
    return wanted.share or 1


def pieces_in(layouts: tuple[Layout, ...]) -> dict[str, int]:
    """Return what cards of these layouts have, as `NodeView.slices` counts it; whole cards have nothing of that."""
    found: dict[str, int] = {}
    for layout in layouts:
        for piece in layout:
            name, more = (SHARED, WHOLE_SHARE) if piece == SHARED else (MIG + piece, 1)
            found[name] = found.get(name, 0) + more
    return found
