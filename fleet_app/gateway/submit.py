"""Takes a submission in, from Ray's client or the fleet's own: checked against the policy in force, then spooled.

What is refused changed nothing; what is accepted is on disk before the caller hears of it, whether or not an arbiter
runs. Knows specs, names and packages. Does not know quota or nodes: what passes here may wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import string
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fleet_app.arbiter import inbox
from fleet_app.engine.errors import ConflictError, FaultError, RequestError
from fleet_app.gateway.dashboard import Dashboard, DashboardError
from fleet_app.gateway.known import Workloads
from fleet_app.gateway.packages import Spool, packages_of
from fleet_app.policy.load import load_policy
from fleet_app.policy.problems import from_pydantic, refuse
from fleet_app.policy.schema import PolicyFile
from fleet_app.policy.specs import (
    SPEC_KEYS,
    JobPart,
    WorkloadSpec,
    spec_from_metadata,
    submission_from_mapping,
)

MAX_WAITING = 10_000
"""How many requests may wait for an arbiter that does not take them."""

RAY_MAY_TAKE_S = 1.0
"""How long a submission waits for a Ray that is not there."""

# Ray's dashboard hangs a driver on whatever job these name.
_RESERVED_METADATA = frozenset({"job_submission_id", "job_name"})

# The letters of Ray's own generated ids: none that is mistaken for another.
_ID_LETTERS = "".join(sorted(set(string.ascii_letters + string.digits) - set("IlOo0")))


class TooManyError(RequestError):
    """More waits than the fleet keeps: HTTP 429."""

    http_status = 429


class RaySubmission(BaseModel):
    """The body that Ray's client posts. What it asks for the entrypoint is read, and never passed on to Ray."""

    model_config = ConfigDict(extra="forbid", strict=True)

    entrypoint: str
    submission_id: str | None = None
    job_id: str | None = None
    runtime_env: dict[str, Any] | None = None
    metadata: dict[str, str] | None = None
    entrypoint_num_cpus: float | None = Field(default=None, ge=0)
    entrypoint_num_gpus: float | None = Field(default=None, ge=0)
    entrypoint_memory: int | None = Field(default=None, ge=0)
    entrypoint_resources: dict[str, float] | None = None
    entrypoint_label_selector: dict[str, str] | None = None


class Submissions:
    """The one way in, for every API."""

    def __init__(self, home: Path, workloads: Workloads, spool: Spool, dashboard: Dashboard) -> None:
        """Spool into the inbox of `home`."""
        self._home = home
        self._workloads = workloads
        self._spool = spool
        self._dashboard = dashboard
        # One at a time from the check for the name to the file, or two could have one name.
        self._turn = asyncio.Lock()
        self._policy: tuple[tuple[int, ...], PolicyFile] | None = None

    def policy(self) -> PolicyFile:
        """Return the policy in force. Raises FaultError when the home's own file is broken."""
        path = self._home / "policy.yaml"
        try:
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if self._policy is None or self._policy[0] != stamp:
                self._policy = (stamp, load_policy(path))
        except OSError as error:
            raise FaultError(
                f"the policy cannot be read ({error.strerror})", where=str(path), fix="Restore it"
            ) from error
        except RequestError as error:
            raise FaultError(error.what, where=error.where, fix=error.fix) from error
        return self._policy[1]

    async def from_ray_client(self, body: Mapping[str, object]) -> str:
        """Take in what `ray job submit` posts; return the workload's name. Raises RequestError, FaultError."""
        asked = _validated(body)
        _refuse_bundles(asked.entrypoint_resources or {})
        metadata = {key: value for key, value in (asked.metadata or {}).items() if key not in _RESERVED_METADATA}
        name = asked.submission_id or asked.job_id or metadata.get("name") or f"raysubmit_{_random_letters()}"
        spec = spec_from_metadata(name, _with_gpus(metadata, asked.entrypoint_num_gpus), self.policy(), self._gpus())
        job = {"entrypoint": asked.entrypoint, "runtime_env": asked.runtime_env or {}, "metadata": metadata}
        return await self._spool_job(spec, _job_part(job))

    async def from_mapping(self, body: Mapping[str, object]) -> str:
        """Take in a spec with its job, in natural types; return the name. Raises RequestError, FaultError."""
        spec, job = submission_from_mapping(body, self.policy(), self._gpus())
        return await self._spool_job(spec, job)

    def _gpus(self) -> int | None:
        return self._workloads.fleet_gpus()

    async def _spool_job(self, spec: WorkloadSpec, job: JobPart) -> str:
        metadata = {key: value for key, value in job.metadata.items() if key not in _RESERVED_METADATA}
        _check_environment(job.runtime_env)
        for package in packages_of(job.runtime_env):
            self._check_package(package)
        if await self._ray_has(spec.name):
            raise _taken(spec.name)
        async with self._turn:
            self._check_free(spec.name)
            request = inbox.Submit(
                spec=spec.model_dump(mode="json", exclude_none=True),
                entrypoint=job.entrypoint,
                runtime_env=job.runtime_env,
                metadata=metadata,
                at=time.time(),
            )
            await asyncio.to_thread(inbox.post, self._home, request)  # a disk may take its time
        return spec.name

    def _check_package(self, package: str) -> None:
        """A job whose code is not here would wait for hours and then fail."""
        try:
            self._spool.find("gcs", package)
        except RequestError as error:
            raise RequestError(
                f"package gcs://{package} is not here ({error.what})",
                where="runtime_env",
                fix="Submit with Ray's client, which uploads it first",
            ) from None

    def _check_free(self, name: str) -> None:
        if self._workloads.find_any(name) is not None:
            raise _taken(name)
        if self._workloads.waiting() >= MAX_WAITING:
            raise TooManyError(
                f"{MAX_WAITING} requests wait already", where="inbox", fix="Start the arbiter, then submit again"
            )

    async def _ray_has(self, name: str) -> bool:
        """A job of that id that is not the fleet's would be taken for the first attempt."""
        with contextlib.suppress(DashboardError):
            return await self._dashboard.job(name, timeout_s=RAY_MAY_TAKE_S) is not None
        return False


def _taken(name: str) -> ConflictError:
    # Ray's own words: clients look for them.
    return ConflictError(f"Job with submission_id {name} already exists", fix="Please use a different submission_id.")


def _validated(body: Mapping[str, object]) -> RaySubmission:
    # Newer clients may send options that are unset; Ray drops those too.
    given = {key: value for key, value in body.items() if value is not None}
    try:
        return RaySubmission.model_validate(given)
    except ValidationError as error:
        refuse(from_pydantic(error, RaySubmission), "job")
        raise  # not reached: pydantic never reports an error without details


def _job_part(job: Mapping[str, object]) -> JobPart:
    try:
        return JobPart.model_validate(job)
    except ValidationError as error:
        refuse(from_pydantic(error, JobPart), "job")
        raise  # not reached, as above


def _with_gpus(metadata: dict[str, str], gpus: float | None) -> dict[str, str]:
    """Take what was asked for the entrypoint as the shape, when the fleet's own words are missing."""
    if not gpus or SPEC_KEYS & metadata.keys():
        return metadata
    if gpus < 1:
        return {**metadata, "share": f"{gpus:.4f}"}
    if gpus != int(gpus):
        fix = "Ask for whole GPUs, or for less than one"
        raise RequestError(f"{gpus:g} is no whole number of GPUs", where="entrypoint_num_gpus", fix=fix)
    return {**metadata, "gpus": str(int(gpus))}


def _refuse_bundles(resources: Mapping[str, float]) -> None:
    """Ray's own names for what a placement group holds: to take one from outside aborts the node's raylet."""
    for key in resources:
        if "_group_" in key:
            raise RequestError(
                f"{key!r} is a part of a placement group", where="entrypoint_resources", fix="Leave it out"
            )


def _check_environment(runtime_env: Mapping[str, object]) -> None:
    """Ray would refuse it at admission, after the wait."""
    variables = runtime_env.get("env_vars", {})
    if not isinstance(variables, dict) or not all(isinstance(value, str) for value in variables.values()):
        raise RequestError("every value must be text", where="runtime_env.env_vars", fix='Write {"NAME": "value"}')


def _random_letters() -> str:
    return "".join(secrets.choice(_ID_LETTERS) for _ in range(16))
