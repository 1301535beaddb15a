"""The configuration of the chat service is what Serve and the fleet take, and requests are checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("jax", reason="the service needs the extra `demo`")

from pydantic import ValidationError
from ray.serve.schema import ServeDeploySchema

from serve_configs.chat_app import Ask, Options

CONFIG = Path(__file__).resolve().parents[3] / "serve_configs" / "chat.yaml"


@pytest.fixture
def application() -> dict[str, Any]:
    (application,) = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["applications"]
    return application


# Ray says that environment variables replace the setting; in Ray 2.60 nothing reads them.
@pytest.mark.filterwarnings("ignore:The `metrics_interval_s` field:DeprecationWarning")
def test_serve_takes_the_file() -> None:
    ServeDeploySchema.model_validate(yaml.safe_load(CONFIG.read_text(encoding="utf-8")))


def test_the_application_takes_its_arguments(application: dict[str, Any]) -> None:
    assert Options.model_validate(application["args"]).character_time_s == 0.05


def test_a_replica_fits_its_one_bundle_and_is_governed_by_the_fleet(application: dict[str, Any]) -> None:
    (deployment,) = application["deployments"]
    (bundle,) = deployment["placement_group_bundles"]
    actor = deployment["ray_actor_options"]
    assert (actor["num_gpus"], actor["num_cpus"]) == (bundle["GPU"], bundle["CPU"])
    policy = deployment["autoscaling_config"]["policy"]["policy_function"]
    assert policy == "fleet_app.adapters.serve_policy:FleetPolicy"


REFUSED = {
    "no prompt": "{}",
    "a long prompt": '{"prompt": "' + "x" * 201 + '"}',
    "no tokens": '{"prompt": "x", "tokens": 0}',
    "more tokens than anybody reads": '{"prompt": "x", "tokens": 257}',
    "an unknown key": '{"prompt": "x", "temperature": 1}',
    "no JSON": "prompt=x",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_a_bad_request_is_refused(body: str) -> None:
    with pytest.raises(ValidationError):
        Ask.model_validate_json(body)
