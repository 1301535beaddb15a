"""The private parts of Serve that the fleet reads: a request to schedule a replica, a deployment's config, a context.

The one module that spells them, and `check_contract`, which says whether this Ray has them. Ray is pinned to a minor
release for their sake. Does not know what the fleet makes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import ray
from ray.serve._private import deployment_scheduler, deployment_state
from ray.serve._private.constants import SERVE_CONTROLLER_NAME, SERVE_NAMESPACE

from fleet_app.engine.errors import RequestError

POLICY = "fleet_app.adapters.serve_policy.FleetPolicy"

_COUNTED = ("_pending_replicas", "_launching_replicas", "_recovering_replicas", "_running_replicas")
_REQUEST_FIELDS = {
    "replica_id",
    "actor_resources",
    "actor_options",
    "on_scheduled",
    "placement_group_bundles",
    "placement_group_bundle_label_selector",
    "max_replicas_per_node",
    "gang_placement_group",
    "gang_pg_index",
    "target_node_id",
}


def check_contract() -> tuple[str, ...]:
    """Return what this Ray lacks of the private parts that the fleet stands on, nothing when all is there."""
    scheduler, wrapper = deployment_scheduler.DeploymentScheduler, deployment_state.ActorReplicaWrapper
    request = {field.name for field in fields(deployment_scheduler.ReplicaSchedulingRequest)}
    placing = ("gang_placement_group", "gang_pg_index", "_pending_replicas", "on_scheduled")
    facts = {
        "a scheduler that places a replica into a given group": _names(scheduler, "_schedule_replica", *placing),
        "a scheduler that counts its replicas": _names(scheduler, "__init__", *_COUNTED),
        "requests with the known fields": request >= _REQUEST_FIELDS,
        "a replica that is called back by its request": _names(wrapper, "start", "on_scheduled"),
        "a replica that has its deployment's config": hasattr(wrapper, "deployment_config"),
        "a stopped replica that gives its group to ray.util": _names(
            wrapper, "check_stopped", "util", "remove_placement_group", "_gang_context"
        ),
        "a recovered replica that asks ray.util for its group": _names(
            wrapper, "recover", "util", "get_placement_group"
        ),
    }
    return tuple(fact for fact, holds in facts.items() if not holds)


def in_controller() -> bool:
    """Return whether this process is Serve's controller."""
    # Not by namespace as well: an actor's process is in that of the job that made it, which may be the dashboard's.
    return ray.is_initialized() and ray.get_runtime_context().get_actor_name() == SERVE_CONTROLLER_NAME


def is_service(request: Any) -> bool:
    """Return whether a replica is one of a service: of a deployment with our policy, placed by nobody else yet."""
    scaling = _config(request).autoscaling_config
    return (
        scaling is not None
        and scaling.policy.policy_function.replace(":", ".") == POLICY
        and request.gang_placement_group is None
        and request.target_node_id is None
        and not request.max_replicas_per_node
    )


def policy_of(request: Any) -> tuple[Mapping[str, object], int]:
    """Return the keywords of a replica's policy, and the least number of replicas of its deployment."""
    scaling = _config(request).autoscaling_config
    return scaling.policy.policy_kwargs, scaling.min_replicas


def bundle_of(request: Any) -> Mapping[str, float]:
    """Return what a replica asks for: its bundle, or its actor's resources without one. Raises RequestError."""
    return _only(request.placement_group_bundles, request.actor_resources)


def deployed_bundle(context: Any) -> Mapping[str, float] | None:
    """Return what a replica of a context's deployment asks for, None where this Ray hides it. Raises RequestError.

    The context carries no resources, but one of its callables is a method of the state that does.
    """
    state = getattr(getattr(context, "_total_num_requests_value", None), "__self__", None)
    info = getattr(state, "_deployment_info", None)
    if info is None:
        return None
    if info.deployment_config.gang_scheduling_config is not None:
        raise RequestError(
            "its replicas come in gangs",
            where="gang_scheduling_config",
            fix="Leave it out: one bundle is a replica",
        )
    return _only(info.replica_config.placement_group_bundles, info.replica_config.resource_dict)


def replicas(scheduler: Any, deployment_id: Any) -> int:
    """Return how many replicas of a deployment run, start, or wait."""
    return sum(len(getattr(scheduler, kind)[deployment_id]) for kind in _COUNTED)


def add_label(request: Any, label: str, value: str) -> None:
    """Keep a replica on nodes with a label, unless its deployment says something else about that label."""
    if request.placement_group_bundles:
        selectors = request.placement_group_bundle_label_selector or [{} for _ in request.placement_group_bundles]
        request.placement_group_bundle_label_selector = [{label: value, **selector} for selector in selectors]
    else:
        selector = {label: value, **(request.actor_options.get("label_selector") or {})}
        request.actor_options = {**request.actor_options, "label_selector": selector}


def give_group(request: Any) -> None:
    """Have a placement group made for a replica, as Serve makes one of bundles that a deployment states."""
    if not request.placement_group_bundles:
        request.placement_group_bundles = [{name: amount for name, amount in request.actor_resources.items() if amount}]
        request.placement_group_bundle_label_selector = [dict(request.actor_options.get("label_selector") or {})]


def replica_lives(name: str) -> bool:
    """Return whether the actor of a replica exists."""
    try:
        ray.get_actor(name, namespace=SERVE_NAMESPACE)
    except ValueError:
        return False
    return True


def _config(request: Any) -> Any:
    """Return the deployment's config, which a request has only through the replica that it calls back."""
    return request.on_scheduled.__self__.deployment_config


def _only(bundles: list[dict[str, float]] | None, actor: Mapping[str, float]) -> Mapping[str, float]:
    if bundles is not None and len(bundles) > 1:
        raise RequestError(
            f"a replica has {len(bundles)} bundles", where="placement_group_bundles", fix="Give it one bundle"
        )
    return bundles[0] if bundles else actor


def _names(owner: type, method: str, *names: str) -> bool:
    """Return whether the code of a method names all of `names`."""
    code = getattr(vars(owner).get(method), "__code__", None)
    return code is not None and set(names) <= set(code.co_names)
