"""The autoscaling policy that makes a Serve deployment a service of the fleet.

A deployment names it in its autoscaling config and says which team it belongs to:

    policy:
      policy_function: fleet_app.adapters.serve_policy:FleetPolicy
      policy_kwargs: {team: search, floor: 1}

Serve pickles this module by value into its own checkpoint, where it outlives an upgrade of this package. So it holds
the entry point only, over two functions of modules that are imported by reference. Does not know how a decision is
made: `serve_demand` does; nor how a replica gets its GPUs: `serve_groups` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet_app.adapters import serve_demand, serve_groups

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext


class FleetPolicy:
    """Tell the arbiter what a deployment wants, and Serve how much of it is granted.

    Keywords: `team` (required), whose quota pays; `floor` (replicas; the deployment's `min_replicas` unless given),
    below which the service is never trimmed; `spread` (a topology level), `per_node` and `apart_from` (services such as
    `app.Deployment`), where its replicas are to be beside one another and beside others, with what the policy says;
    `gpus`, `cpus` and `memory` (bytes), the shape of a replica, needed only with a Ray whose deployments cannot be
    read. Wrong keywords are logged and leave Serve's own policy in charge.
    """

    def __init__(self, **keywords: object) -> None:
        """Take any keywords: an error here would stop Serve's control loop for every application."""
        self._keywords = keywords
        serve_groups.install()

    def __call__(self, context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
        """Return how many replicas there should be; Serve applies its own delays and bounds to it."""
        return serve_demand.decide(context, self._keywords), {}
