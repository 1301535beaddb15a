"""Nodes on demand: how many there should be, told to Ray's autoscaler.

It makes pods where there are too few, and removes idle ones beyond that, within the bounds of each worker group. Only
its version 2 is told of which class they should be. Does not know why there should be so many.
"""

from __future__ import annotations

import ray
from ray.autoscaler.sdk import request_resources
from ray.autoscaler.v2.utils import is_autoscaler_v2

from fleet_app.adapters import private
from fleet_app.engine.errors import FaultError
from fleet_app.engine.scaling import NodesAsk
from fleet_app.worker import contract


@private.faulty
def ask_nodes(asks: tuple[NodesAsk, ...]) -> None:
    """Ask for so many nodes in all; what was asked for before is forgotten. Raises FaultError.

    Version 1 would drop the class without a word, and make nodes of any.
    """
    if ray.is_initialized() and not is_autoscaler_v2():
        raise FaultError(
            "Ray's autoscaler is not of version 2, and would not know of which class",
            where="nodes on demand",
            fix="On KubeRay: autoscalerOptions: {version: v2}; or let `node_pools.scales` be false",
        )
    each = [ask for ask in asks for _ in range(ask.nodes)]
    request_resources(
        bundles=[{"GPU": ask.gpus} for ask in each],
        bundle_label_selectors=[{contract.CLASS_LABEL: ask.node_class.value} for ask in each],
    )
