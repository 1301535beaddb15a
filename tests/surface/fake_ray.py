"""A stand-in for Ray's job server: a real HTTP server whose jobs the test moves by hand."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from aiohttp import web

TERMINAL = ("STOPPED", "SUCCEEDED", "FAILED")


@dataclass
class FakeJob:
    """One job: its status, its log, and whether its tails are cut off at the next step."""

    status: str = "RUNNING"
    log: str = ""
    entrypoint: str = "python train.py"
    cuts: int = 0


@dataclass
class FakeRay:
    """Jobs by submission id, and what was asked of the server."""

    jobs: dict[str, FakeJob] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    tails: int = 0
    serve: list[tuple[str, str, str]] = field(default_factory=list)

    def write(self, job_id: str, text: str) -> None:
        """Add to a job's log."""
        self.jobs[job_id].log += text
        self._wake()

    def end(self, job_id: str, status: str) -> None:
        """End a job."""
        self.jobs[job_id].status = status
        self._wake()

    def cut(self, job_id: str) -> None:
        """Close the job's tails though it runs, as a dashboard that goes down does."""
        self.jobs[job_id].cuts += 1
        self._wake()

    def _wake(self) -> None:
        moved, self.moved = self.moved, asyncio.Event()
        moved.set()

    def app(self) -> web.Application:
        """Return the server."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/api/version", self._version),
                web.get("/api/jobs/", self._list),
                web.get("/api/jobs/{id}", self._info),
                web.get("/api/jobs/{id}/logs", self._logs),
                web.get("/api/jobs/{id}/logs/tail", self._tail),
                web.post("/api/jobs/{id}/stop", self._stop),
                web.delete("/api/jobs/{id}", self._delete),
                web.route("*", "/api/serve/applications/", self._serve),
                web.get("/api/ray/version", self._version),
            ]
        )
        return app

    def _job(self, request: web.Request) -> FakeJob:
        self.asked.append((request.method, request.path))
        self.headers.append(dict(request.headers))
        job_id = request.match_info["id"]
        # Ray also finds a job by the id of its driver.
        by_driver = next((each for each in self.jobs if self._driver(each) == job_id), job_id)
        if by_driver not in self.jobs:
            raise web.HTTPNotFound(text=f"Job {job_id} does not exist")
        return self.jobs[by_driver]

    @staticmethod
    def _driver(job_id: str) -> str:
        return f"driver-{job_id}"

    def _details(self, job_id: str) -> dict[str, object]:
        job = self.jobs[job_id]
        return {
            "type": "SUBMISSION",
            "submission_id": job_id,
            "job_id": self._driver(job_id),
            "status": job.status,
            "entrypoint": job.entrypoint,
            "message": f"Ray says {job.status}",
            "driver_agent_http_address": "http://10.0.0.1:52365",
            "driver_node_id": "ab" * 28,
            "driver_info": {"id": self._driver(job_id), "node_ip_address": "10.0.0.1", "pid": "7"},
        }

    async def _version(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        return web.json_response({"version": "4", "ray_version": "2.60.0", "ray_commit": "c", "session_name": "s"})

    async def _list(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        driver = {"type": "DRIVER", "job_id": "01000000", "status": "RUNNING", "entrypoint": "python notebook.py"}
        return web.json_response([*(self._details(job_id) for job_id in self.jobs), driver])

    async def _info(self, request: web.Request) -> web.Response:
        job = self._job(request)
        return web.json_response(next(self._details(each) for each in self.jobs if self.jobs[each] is job))

    async def _logs(self, request: web.Request) -> web.Response:
        return web.json_response({"logs": self._job(request).log})

    async def _tail(self, request: web.Request) -> web.StreamResponse:
        job = self._job(request)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.tails += 1
        sent, cuts = 0, job.cuts
        while True:
            moved = self.moved
            if len(job.log) > sent:
                await socket.send_str(job.log[sent:])
                sent = len(job.log)
            if job.status in TERMINAL or job.cuts > cuts:
                return socket
            await moved.wait()

    async def _serve(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        self.serve.append((request.method, request.query_string, await request.text()))
        return web.json_response({"applications": {}}, status=400 if "refuse" in self.serve[-1][2] else 200)

    async def _stop(self, request: web.Request) -> web.Response:
        self._job(request).status = "STOPPED"
        self._wake()
        return web.json_response({"stopped": True})

    async def _delete(self, request: web.Request) -> web.Response:
        self._job(request)
        del self.jobs[request.match_info["id"]]
        return web.json_response({"deleted": True})
