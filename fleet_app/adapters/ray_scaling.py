"""Nodes on demand: how many there should be, told to Ray's autoscaler.

It makes pods where there are too few, and removes idle ones beyond that, within the bounds of each worker group. Does
not know why there should be so many.
"""

from __future__ import annotations

from ray.autoscaler.sdk import request_resources

from fleet_app.adapters import private
from fleet_app.engine.scaling import NodesAsk
from fleet_app.worker import contract


@private.faulty
def ask_nodes(asks: tuple[NodesAsk, ...]) -> None:
    """Ask for so many nodes in all; what was asked for before is forgotten. Raises FaultError."""
    each = [ask for ask in asks for _ in range(ask.nodes)]
    request_resources(
        bundles=[{"GPU": ask.gpus} for ask in each],
        bundle_label_selectors=[{contract.CLASS_LABEL: ask.node_class.value} for ask in each],
    )
