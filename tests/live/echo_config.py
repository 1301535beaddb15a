"""What Serve is told of the HTTP application of the live tests: a service that follows its requests at once."""

from __future__ import annotations

from typing import Any


def echo(*, gpus: int, replicas: int) -> dict[str, Any]:
    """Return Serve's configuration: replicas of so many GPUs each, one to so many of them."""
    deployment = {
        "name": "EchoHttp",
        "placement_group_bundles": [{"GPU": gpus, "CPU": 1}],
        "max_ongoing_requests": 2,
        "graceful_shutdown_timeout_s": 2,
        "ray_actor_options": {"num_cpus": 1, "num_gpus": gpus},
        "autoscaling_config": {
            "policy": {
                "policy_function": "fleet_app.adapters.serve_policy:FleetPolicy",
                "policy_kwargs": {"team": "serving"},
            },
            "min_replicas": 1,
            "max_replicas": replicas,
            "target_ongoing_requests": 1,
            "upscale_delay_s": 0,
            "downscale_delay_s": 3,
            "metrics_interval_s": 0.1,
            "look_back_period_s": 0.5,
        },
    }
    application = {"name": "echo", "route_prefix": "/", "import_path": "tests.live.echo_http:app"}
    return {"applications": [{**application, "deployments": [deployment]}]}
