"""The configuration of the smallest service is what Serve and the fleet take."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

CONFIG = Path(__file__).resolve().parents[3] / "serve_configs" / "hello.yaml"


# Ray says that environment variables replace the setting; in Ray 2.60 nothing reads them.
@pytest.mark.filterwarnings("ignore:The `metrics_interval_s` field:DeprecationWarning")
def test_serve_takes_the_file_and_the_fleet_governs_it() -> None:
    document = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    ServeDeploySchema.model_validate(document)
    (deployment,) = document["applications"][0]["deployments"]
    (bundle,) = deployment["placement_group_bundles"]
    actor = deployment["ray_actor_options"]
    assert (actor["num_gpus"], actor["num_cpus"]) == (bundle["GPU"], bundle["CPU"])
    policy = deployment["autoscaling_config"]["policy"]["policy_function"]
    assert policy == "fleet_app.adapters.serve_policy:FleetPolicy"
