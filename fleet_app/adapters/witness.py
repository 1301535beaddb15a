"""`python -m fleet_app.adapters.witness ADDRESS GROUP`: what Ray itself says of a placement group, as JSON.

For proofs: an independent look that does not go through the arbiter. Changes nothing.
"""

from __future__ import annotations

import json
import logging
import sys

import ray
from ray._raylet import PlacementGroupID
from ray.util.placement_group import PlacementGroup, placement_group_table


def main(address: str, group_id: str) -> None:
    """Print strategy, state and the nodes of the bundles by their fleet name."""
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    names = {node["NodeID"]: node["Labels"].get("fleet/node", node["NodeID"]) for node in ray.nodes()}
    table = placement_group_table(PlacementGroup(PlacementGroupID.from_hex(group_id)))
    places = {index: names.get(node_id, node_id) for index, node_id in table["bundles_to_node_id"].items()}
    nodes = [places[index] for index in sorted(places)]
    told = {"strategy": table["strategy"], "state": table["state"], "bundles": len(nodes), "nodes": nodes}
    sys.stdout.write(json.dumps(told) + "\n")
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:3])
