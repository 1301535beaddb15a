"""Ray's Jobs API as its own clients speak it, over workloads that may still wait, and whose attempts Ray runs.

Knows paths and shapes of answers. Does not decide anything: what changes a workload goes to the arbiter's inbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import logging
import re
from pathlib import Path

from aiohttp import web

from fleet_app.arbiter import inbox
from fleet_app.engine.errors import ConflictError, FleetError, NotFoundError
from fleet_app.gateway.body import read_object
from fleet_app.gateway.dashboard import Answer, Dashboard, DashboardError, Details
from fleet_app.gateway.known import TERMINAL, Known, Workloads
from fleet_app.gateway.submit import Submissions
from fleet_app.gateway.tail import Tail, note

log = logging.getLogger(__name__)

API_VERSION = "4"
"""Of Ray's Jobs API, which this speaks."""

STOP_SHOWN_S = 2.0
"""How long a stop waits for the arbiter to have taken it, so that the client's next look shows it."""

HEARTBEAT_S = 30.0

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_ATTEMPT = re.compile(r"(?P<name>.+)\.[0-9]+")

# What Ray alone knows of an attempt. Its agent's address stays out: a client must not go around the gateway.
_FROM_RAY = ("job_id", "driver_info", "driver_node_id", "driver_exit_code", "error_type")


class JobsApi:
    """Ray's Jobs API before Ray's own."""

    def __init__(self, home: Path, workloads: Workloads, dashboard: Dashboard, submissions: Submissions) -> None:
        """Answer for the fleet at `home`."""
        self._home = home
        self._workloads = workloads
        self._dashboard = dashboard
        self._submissions = submissions
        self._version: Details | None = None
        self._tails: set[asyncio.Transport] = set()

    def routes(self) -> list[web.RouteDef]:
        """Return what this serves."""
        return [
            web.get("/api/version", self._get_version),
            web.post("/api/jobs/", self._submit),
            web.get("/api/jobs/", self._list),
            web.get("/api/jobs/{id}", self._info),
            web.get("/api/jobs/{id}/logs", self._logs),
            web.get("/api/jobs/{id}/logs/tail", self._tail),
            web.post("/api/jobs/{id}/stop", self._stop),
            web.delete("/api/jobs/{id}", self._delete),
        ]

    async def drop_tails(self, _: web.Application) -> None:
        """Break the tails off without a closing frame: Ray's client takes a clean close for the end of the job."""
        for transport in self._tails:
            transport.abort()

    async def _get_version(self, _: web.Request) -> web.Response:
        with contextlib.suppress(DashboardError):
            self._version = await self._dashboard.version()
        return web.json_response(self._version or _known_version(self._home))

    async def _submit(self, request: web.Request) -> web.Response:
        name = await self._submissions.from_ray_client(await read_object(request))
        return web.json_response({"job_id": name, "submission_id": name})

    async def _list(self, _: web.Request) -> web.Response:
        of_ray: list[Details] = []
        with contextlib.suppress(DashboardError):
            of_ray = await self._dashboard.jobs()
        by_id = {str(job["submission_id"]): job for job in of_ray if job.get("submission_id") is not None}
        known = await asyncio.to_thread(self._workloads.all)  # some ten thousand that have ended take a second
        ours = [details(each, by_id.get(each.shown or "")) for each in known.values() if not each.deleted]
        theirs = [job for id_, job in by_id.items() if known.keys().isdisjoint(names_of(id_))]
        drivers = [job for job in of_ray if job.get("submission_id") is None]
        return web.json_response([*ours, *theirs, *drivers])

    async def _info(self, request: web.Request) -> web.Response:
        known = await self._find(request)
        if known is None:
            return await self._pass_on(request)
        job = None
        if known.shown:
            with contextlib.suppress(DashboardError):
                job = await self._dashboard.job(known.shown)
        return web.json_response(details(known, job))

    async def _logs(self, request: web.Request) -> web.Response:
        known = await self._find(request)
        if known is None:
            return await self._pass_on(request)
        parts = []
        for attempt in known.attempts:
            text = await self._dashboard.logs(attempt)
            if text is not None:
                parts += [note(f"attempt {attempt} starts")] if attempt != known.name else []
                parts.append(text if text.endswith("\n") or not text else text + "\n")
        if known.archived:
            parts.append(note("it is archived, and its log is gone: the policy's history says how long Ray keeps it"))
        if known.message and (known.status == "PENDING" or not known.attempts):
            parts.append(note(f"{known.status}: {known.message}"))
        return web.json_response({"logs": "".join(parts)})

    async def _tail(self, request: web.Request) -> web.StreamResponse:
        known = await self._find(request)
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S)
        await socket.prepare(request)
        if (transport := request.transport) is None:
            return socket
        self._tails.add(transport)
        try:
            follow = self._forward(request, socket) if known is None else self._follow(known.name, socket)
            await _while_read(socket, asyncio.ensure_future(follow))
        except FleetError as error:
            log.warning("a tail of %s broke off: %s", request.path, error)
            transport.abort()
        finally:
            self._tails.discard(transport)
        return socket

    async def _follow(self, name: str, socket: web.WebSocketResponse) -> None:
        await Tail(name, self._workloads, self._dashboard, socket.send_str).run()

    async def _forward(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        """Pass on the tail of a job that the fleet has nothing to do with."""
        async with contextlib.aclosing(self._dashboard.tail(request.match_info["id"])) as texts:
            async for text in texts:
                await socket.send_str(text)

    async def _stop(self, request: web.Request) -> web.Response:
        known = await self._find(request)
        if known is None:
            return await self._pass_on(request)
        if known.status in TERMINAL:
            return web.json_response({"stopped": False})
        if not known.cancelled:
            inbox.post(self._home, inbox.Cancel(name=known.name))
        await self._workloads.until(lambda: self._taken(known), timeout_s=STOP_SHOWN_S)
        return web.json_response({"stopped": True})

    def _taken(self, before: Known) -> bool:
        """Say whether a stop shows."""
        now = self._workloads.find(before.name)
        return now is None or now.status in TERMINAL or now.stopping

    async def _delete(self, request: web.Request) -> web.Response:
        known = await self._find(request)
        if known is None:
            return await self._pass_on(request)
        if known.status not in TERMINAL:
            raise ConflictError(
                f"Attempted to delete job '{known.name}', but it is in a non-terminal state {known.status}",
                fix=f"Stop it first: ray job stop {known.name}",
            )
        inbox.post(self._home, inbox.Forget(name=known.name))
        return web.json_response({"deleted": True})

    async def _find(self, request: web.Request) -> Known | None:
        """Return the workload that a path names, by its name, an attempt's id or its driver's id.

        None is for a job that Ray knows and the fleet does not. Raises NotFoundError, DashboardError.
        """
        asked = request.match_info["id"]
        if not _ID.fullmatch(asked):
            raise NotFoundError(f"Job {asked!r} does not exist")
        known = self._known(asked)
        if known is None:
            job = await self._dashboard.job(asked)
            if job is None:
                raise NotFoundError(f"Job {asked} does not exist")
            known = self._known(str(job.get("submission_id")))
        if known is not None and known.deleted:
            raise NotFoundError(f"Job {asked} does not exist")
        return known

    def _known(self, job_id: str) -> Known | None:
        found = (self._workloads.find_any(name) for name in names_of(job_id))
        return next((known for known in found if known is not None), None)

    async def _pass_on(self, request: web.Request) -> web.Response:
        answer: Answer = await self._dashboard.ask(request.method, request.path)
        return web.Response(status=answer.status, body=answer.body, content_type=answer.content_type)


def names_of(job_id: str) -> tuple[str, ...]:
    """Return the names of the workloads that a Ray job may be an attempt of."""
    attempt = _ATTEMPT.fullmatch(job_id)
    return (job_id, attempt["name"]) if attempt else (job_id,)


def details(known: Known, job: Details | None) -> Details:
    """Return a workload as Ray's client reads a job; `job` is what Ray says of the attempt that is shown."""
    said = job or {}
    return {
        "type": "SUBMISSION",
        "submission_id": known.name,
        "status": known.status,
        "entrypoint": known.entrypoint,
        "message": known.message or said.get("message") or "",
        "start_time": _milliseconds(known.submitted_at),
        "end_time": _milliseconds(known.ended_at),
        "metadata": known.metadata,
        "runtime_env": known.runtime_env,
        "driver_agent_http_address": None,
        **{key: said.get(key) for key in _FROM_RAY},
    }


def _milliseconds(at: float | None) -> int | None:
    return None if at is None else int(at * 1000)


def _known_version(home: Path) -> Details:
    """Return the version of the Ray that the fleet was started on, for when its dashboard is away."""
    version = None
    with contextlib.suppress(OSError, ValueError, AttributeError):
        version = json.loads((home / "fleet.json").read_text(encoding="utf-8")).get("ray_version")
    version = version or importlib.metadata.version("ray")
    return {"version": API_VERSION, "ray_version": version, "ray_commit": "unknown", "session_name": "unknown"}


async def _while_read(socket: web.WebSocketResponse, follow: asyncio.Future[None]) -> None:
    """Wait for `follow`, and give it up when the client leaves, which only a read can tell."""

    async def left() -> None:
        async for _ in socket:
            pass

    reading = asyncio.ensure_future(left())
    try:
        await asyncio.wait({follow, reading}, return_when=asyncio.FIRST_COMPLETED)
        if follow.done():
            with contextlib.suppress(ConnectionError):  # the client left in the middle of a line
                follow.result()
    finally:
        follow.cancel()
        reading.cancel()
        await asyncio.gather(follow, reading, return_exceptions=True)
