"""Ray's job server: submit, watch, stop, kill and forget the attempts of workloads.

Speaks Ray's Jobs REST; what REST cannot do goes through the GCS (pinning packages, killing supervisors) and through
/proc (whose processes live). Packages are brought back from the spool first, because Ray deletes a package when the
job that used it ends, also when another still needs it. Does not know when a job should start or end.

After `kill` the job server shows FAILED ("Job supervisor actor died ... killed by `ray.kill`") within a few seconds,
its own look-out's period being 1 s; STOPPED only when the job had ended by a stop before.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import ray

from fleet_app.adapters import private, processes
from fleet_app.adapters.local_processes import own_mark
from fleet_app.adapters.probes import Probes
from fleet_app.arbiter.ports import Death, JobRequest, JobView
from fleet_app.engine.errors import ConflictError, FaultError, NotFoundError, RequestError
from fleet_app.worker import contract

REQUEST_TIMEOUT_S = 10.0
UPLOAD_TIMEOUT_S = 120.0
PIN_S = 3600
"""How long a package is kept for a job that was submitted: longer than Ray lets one start (900 s), short enough not
to fill the GCS. Once the job runs, Ray itself keeps its packages."""

SETTLED_S = 5
"""How long after its end a job is left alone: Ray looks at it once more within 1 to 2 s, and would write a job that
it no longer finds back as FAILED."""

LONGEST_WHY = 200
KILLED_CODES = frozenset({-9, 137})
"""How an entrypoint's exit code says SIGKILL: as its own process, or as a shell passes it on."""

SAFE_PACKAGE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
# Ray's own keys in metadata: the first makes Ray take another job's driver for this one's.
RESERVED_METADATA = frozenset({"job_submission_id", "job_name"})
# The job server passes on its agent's refusals as a 500 with this text.
REFUSED_BY_AGENT = re.compile(r"Request failed with status code 4\d\d")


class RayJobs:
    """The job server behind a dashboard; `packages_dir` is the spool of runtime environment packages."""

    def __init__(self, dashboard_url: str, packages_dir: Path) -> None:
        self._http = httpx.Client(base_url=dashboard_url, timeout=REQUEST_TIMEOUT_S, trust_env=False)
        self._packages_dir = packages_dir
        self._watch = processes.Watch(mark=own_mark())
        self._probes = Probes()
        # A handle of a supervisor imports its class: better now than at somebody's deadline.
        importlib.import_module("ray.dashboard.modules.job.job_supervisor")

    def close(self) -> None:
        """Close the connections to the job server."""
        self._http.close()

    def observe(self) -> tuple[JobView, ...]:
        """Return every job that was submitted, by id; drivers that were started by hand are not jobs."""
        rows: list[dict[str, Any]] = self._call("GET", "/api/jobs/").json()
        jobs = [row for row in rows if row.get("type") == "SUBMISSION"]
        views = (
            JobView(job_id=job["submission_id"], status=job["status"], message=job.get("message") or "") for job in jobs
        )
        return tuple(sorted(views, key=lambda view: view.job_id))

    def submit(self, request: JobRequest) -> None:
        """Start a job, its driver on the given node; a job that exists under that id counts as accepted.

        Raises RequestError when it is refused for good, FaultError when it may be tried again.
        """
        for uri in sorted(_packages(request.runtime_env)):
            self._provide(uri)
        try:
            self._call("POST", "/api/jobs/", json=_body(request))
        except (RequestError, FaultError) as error:
            if "already exists" not in error.what:
                raise

    def stop(self, job_id: str) -> None:
        """Ask a job to end: SIGTERM now, SIGKILL when its own stop wait is over; nothing happens when it is gone.

        Ray forgets the request when the job's supervisor is not up yet: ask again while the job is there.
        """
        with contextlib.suppress(NotFoundError):
            self._call("POST", f"/api/jobs/{job_id}/stop")

    def kill(self, job_id: str, attempt: str) -> None:
        """End every process of that attempt at once, on every host; its job server entry stays.

        Then Ray's actors, so that none comes back: the supervisor, and what was detached from the job; and what they
        started meanwhile. A process born even later is caught by the next call; `processes` says whether one is
        needed.
        """
        self._watch.end(attempt)
        _kill_actor(f"_ray_internal_job_actor_{job_id}", "SUPERVISOR_ACTOR_RAY_NAMESPACE")
        for actor in list(private.live_actors()):
            if actor.attempt == attempt and actor.detached:
                _kill_actor(actor.name, actor.namespace)
        self._watch.end(attempt)
        self._probes.keep(_other_hosts(), private.draining())
        self._probes.end(attempt)

    def end_member(self, member: str) -> None:
        """End every process of a member of an elastic attempt, on every host; the rest of the attempt stays."""
        self._watch.end(member)
        self._probes.keep(_other_hosts(), private.draining())
        self._probes.end(member)

    def processes(self, attempts: frozenset[str]) -> Mapping[str, int]:
        """Return how many live processes each attempt still has on all hosts, its Ray supervisor not counted.

        A member of an elastic attempt is asked for by its id. This host is read directly, another one through its
        probe. One that does not answer counts as a process.
        """
        self._probes.keep(_other_hosts(), private.draining())
        here = self._watch.scan(attempts)
        elsewhere = self._probes.count(attempts) if attempts else {}
        return {attempt: len(pids) + elsewhere[attempt] for attempt, pids in here.items()}

    def death(self, job_id: str) -> Death | None:
        """Return the first rank of an ended job that died by no doing of its own; None when none is known.

        A rank is an actor of the job, or its driver, which counts when SIGKILL ended it: nobody does that to himself.
        What ended after the driver had gone was ended with it, and is none.
        """
        try:
            job: dict[str, Any] = self._call("GET", f"/api/jobs/{job_id}").json()
        except NotFoundError:
            return None
        driver, ended_at_ms = job.get("job_id"), job.get("end_time")
        lost = private.lost_actors(driver) if driver else ()
        for death in lost:
            if ended_at_ms is not None and death.at_ms <= ended_at_ms:
                return Death(node_id=death.node_id, why=_how(death))
        if job.get("driver_exit_code") in KILLED_CODES:
            return Death(node_id=str(job.get("driver_node_id") or ""), why="driver: ended by SIGKILL")
        return None

    def delete(self, job_id: str) -> None:
        """Forget an ended job; nothing happens when it is not known.

        Raises ConflictError while it runs, and for `SETTLED_S` after its end.
        """
        try:
            job: dict[str, Any] = self._call("GET", f"/api/jobs/{job_id}").json()
            ended_at_ms = job.get("end_time")
            if ended_at_ms is None or time.time() - ended_at_ms / 1000 < SETTLED_S:
                raise ConflictError("the job has not ended, or only just now", where=job_id, fix="try again later")
            self._call("DELETE", f"/api/jobs/{job_id}")
        except NotFoundError:
            return

    def _provide(self, uri: str) -> None:
        """Make sure that a package is in the GCS and stays there until the job has started."""
        name = uri.removeprefix("gcs://")
        if SAFE_PACKAGE.fullmatch(name) is None:
            raise RequestError(f"{uri!r} is no package", where="runtime_env", fix="submit the directory itself")
        path = f"/api/packages/gcs/{name}"
        try:
            self._call("GET", path)
        except NotFoundError:
            self._call("PUT", path, content=self._spooled(name), timeout=UPLOAD_TIMEOUT_S)
        private.pin_package(uri, PIN_S)

    def _spooled(self, name: str) -> bytes:
        try:
            return (self._packages_dir / name).read_bytes()
        except FileNotFoundError:
            raise RequestError(
                f"the package {name} is neither in Ray nor in the spool",
                where="runtime_env",
                fix="submit again, so that it is uploaded again",
            ) from None
        except OSError as error:
            raise FaultError(f"the spool cannot be read: {error}", where=str(self._packages_dir / name)) from error

    def _call(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, headers=private.auth_headers(), **more)
        except httpx.HTTPError as error:
            raise FaultError(f"the job server does not answer: {error!r}", where=f"{method} {path}") from error
        if response.is_success:
            return response
        raise _refusal(response, f"{method} {path}")


def _body(request: JobRequest) -> dict[str, object]:
    runtime_env = dict(request.runtime_env)
    variables = runtime_env.get("env_vars")
    users = variables if isinstance(variables, dict) else {}
    return {
        "submission_id": request.job_id,
        "entrypoint": request.entrypoint,
        "runtime_env": {**runtime_env, "env_vars": {**users, **request.environment}},
        "metadata": {key: value for key, value in request.metadata.items() if key not in RESERVED_METADATA},
        "entrypoint_label_selector": {contract.NODE_ID_LABEL: request.driver_node_id},
    }


def _packages(runtime_env: Mapping[str, object]) -> Iterator[str]:
    modules = runtime_env.get("py_modules")
    for uri in [runtime_env.get("working_dir"), *(modules if isinstance(modules, list | tuple) else ())]:
        if isinstance(uri, str) and uri.startswith("gcs://"):
            yield uri


def _how(death: private.DeathFact) -> str:
    """Return how an actor died, from the first sentence of what Ray says about its worker."""
    detail = death.why.partition("Worker exit detail:")[2].strip() or death.why
    return f"{death.class_name} (pid {death.pid}): {detail.split('. ')[0][:LONGEST_WHY]}"


def _refusal(response: httpx.Response, where: str) -> RequestError | FaultError:
    what = f"HTTP {response.status_code}: {response.text[-2000:]}"
    if response.status_code == httpx.codes.NOT_FOUND:
        return NotFoundError(what, where=where)
    if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return FaultError(what, where=where, fix="give the arbiter Ray's token")
    if response.is_client_error or REFUSED_BY_AGENT.search(response.text):
        return RequestError(what, where=where)
    return FaultError(what, where=where)


@private.faulty
def _kill_actor(name: str, namespace: str) -> None:
    with contextlib.suppress(ValueError):  # there is none of that name
        ray.kill(ray.get_actor(name, namespace=namespace))


def _other_hosts() -> frozenset[str]:
    nodes = private.nodes()
    own = ray.get_runtime_context().get_node_id()
    addresses = {node.address for node in nodes if node.node_id == own}
    return frozenset(node.node_id for node in nodes if node.alive and node.address not in addresses)
