"""What is sent to the job server, and how its refusals are read."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest

from fleet_app.adapters import jobs
from fleet_app.arbiter.ports import JobRequest
from fleet_app.engine.errors import FaultError, NotFoundError, RequestError


def asked(runtime_env: dict[str, object], metadata: dict[str, str] | None = None) -> JobRequest:
    return JobRequest(
        job_id="llm.2",
        entrypoint="python train.py",
        runtime_env=runtime_env,
        metadata=metadata or {},
        driver_node_id="ab12",
        environment={"FLEET_ATTEMPT": "llm.2"},
    )


VARIABLES: dict[str, tuple[dict[str, object], dict[str, str]]] = {
    "none of the user's": ({}, {"FLEET_ATTEMPT": "llm.2"}),
    "a null as the client sends it": ({"env_vars": None}, {"FLEET_ATTEMPT": "llm.2"}),
    "the user's are kept": ({"env_vars": {"A": "1"}}, {"A": "1", "FLEET_ATTEMPT": "llm.2"}),
    "ours win": ({"env_vars": {"FLEET_ATTEMPT": "other"}}, {"FLEET_ATTEMPT": "llm.2"}),
}


@pytest.mark.parametrize(("runtime_env", "want"), VARIABLES.values(), ids=VARIABLES)
def test_environment_variables_of_a_job(runtime_env: dict[str, object], want: dict[str, str]) -> None:
    assert jobs._body(asked(runtime_env))["runtime_env"] == {"env_vars": want}


def test_the_rest_of_a_runtime_environment_is_passed_on_and_not_changed_in_place() -> None:
    mine: dict[str, object] = {"pip": ["einops"], "env_vars": {"A": "1"}}
    assert jobs._body(asked(mine))["runtime_env"] == {
        "pip": ["einops"],
        "env_vars": {"A": "1", "FLEET_ATTEMPT": "llm.2"},
    }
    assert mine == {"pip": ["einops"], "env_vars": {"A": "1"}}


def test_metadata_that_would_take_another_jobs_driver_is_left_out() -> None:
    metadata = {"team": "a", "job_submission_id": "other", "job_name": "other"}
    assert jobs._body(asked({}, metadata))["metadata"] == {"team": "a"}


def test_only_the_node_of_the_driver_is_asked_of_ray() -> None:
    body = jobs._body(asked({}))
    entrypoint = {key: value for key, value in body.items() if key.startswith("entrypoint_")}
    assert entrypoint == {"entrypoint_label_selector": {"ray.io/node-id": "ab12"}}


PACKAGES: dict[str, tuple[dict[str, object], set[str]]] = {
    "none": ({}, set()),
    "a directory and modules": (
        {"working_dir": "gcs://_ray_pkg_a.zip", "py_modules": ["gcs://_ray_pkg_b.zip", "gcs://x-1.0-py3-none-any.whl"]},
        {"gcs://_ray_pkg_a.zip", "gcs://_ray_pkg_b.zip", "gcs://x-1.0-py3-none-any.whl"},
    ),
    "what is elsewhere is not ours": ({"working_dir": "s3://bucket/a.zip", "py_modules": None}, set()),
}


@pytest.mark.parametrize(("runtime_env", "want"), PACKAGES.values(), ids=PACKAGES)
def test_packages(runtime_env: dict[str, object], want: set[str]) -> None:
    assert set(jobs._packages(runtime_env)) == want


REFUSALS = {
    "a request that is wrong": (400, "bad", RequestError),
    "nothing there": (404, "no such job", NotFoundError),
    "too large": (413, "Maximum request body size exceeded", RequestError),
    "our token is missing": (401, "Unauthorized", FaultError),
    "our token is wrong": (403, "Forbidden", FaultError),
    "the agent says it is wrong": (500, "Request failed with status code 400: TypeError", RequestError),
    "the agent is not up yet": (500, "No available agent to submit job", FaultError),
    "the dashboard is not up yet": (503, "", FaultError),
}


@pytest.mark.parametrize(("status", "text", "want"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(status: int, text: str, want: type[Exception]) -> None:
    assert type(jobs._refusal(httpx.Response(status, text=text), "POST /api/jobs/")) is want


def test_a_job_server_that_is_not_there_may_be_there_later(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        server = jobs.RayJobs(f"http://127.0.0.1:{taken.getsockname()[1]}", tmp_path)
        with pytest.raises(FaultError, match="does not answer"):
            server.observe()
        server.close()
