"""Ray's own job server, as the gateway asks it: jobs, logs, log tails, version.

Sends Ray's token, never the caller's headers. Turns other people's exceptions into ours. Does not know the fleet.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Self, cast
from urllib.parse import quote

import aiohttp

from fleet_app.engine.errors import FaultError

INFO_TIMEOUT_S = 5.0
LOGS_TIMEOUT_S = 60.0
_TAIL_HEARTBEAT_S = 30.0

Details = dict[str, object]


class DashboardError(FaultError):
    """Ray's job server is not there, or does not answer in time: HTTP 503."""

    http_status = 503


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What Ray's job server said, for passing on as it is."""

    status: int
    content_type: str
    body: bytes


class Dashboard:
    """A client of the job server at `url`; use as an asynchronous context manager."""

    def __init__(self, url: str, token: str | None) -> None:
        """Talk to `url` with Ray's `token`, None when Ray has none."""
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._open: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the connection pool."""
        # No limit on connections: each held tail is one, and must not keep a status request waiting.
        self._open = aiohttp.ClientSession(headers=self._headers, connector=aiohttp.TCPConnector(limit=0))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection pool."""
        await self._session.close()

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._open is None:
            raise FaultError("the dashboard client is not open", where=self._url)
        return self._open

    async def version(self) -> Details:
        """Return Ray's answer to /api/version. Raises DashboardError."""
        return _details(await self.ask("GET", "/api/version"))

    async def job(self, job_id: str, *, timeout_s: float = INFO_TIMEOUT_S) -> Details | None:
        """Return what Ray says of a job, None when it knows none of that id. Raises DashboardError."""
        answer = await self.ask("GET", f"/api/jobs/{quote(job_id, safe='')}", timeout_s=timeout_s)
        return None if answer.status == 404 else _details(answer)

    async def jobs(self) -> list[Details]:
        """Return what Ray says of all jobs. Raises DashboardError."""
        answer = await self.ask("GET", "/api/jobs/")
        found = _value(answer)
        return [cast("Details", job) for job in found if isinstance(job, dict)] if isinstance(found, list) else []

    async def logs(self, job_id: str) -> str | None:
        """Return a job's log so far, None when Ray knows no such job. Raises DashboardError."""
        answer = await self.ask("GET", f"/api/jobs/{quote(job_id, safe='')}/logs", timeout_s=LOGS_TIMEOUT_S)
        return None if answer.status == 404 else str(_details(answer).get("logs", ""))

    async def tail(self, job_id: str) -> AsyncGenerator[str, None]:
        """Yield a job's log from its first line, as it grows, until Ray closes it. Raises DashboardError."""
        url = f"{self._url}/api/jobs/{quote(job_id, safe='')}/logs/tail"
        with self._translated():
            async with self._session.ws_connect(url, heartbeat=_TAIL_HEARTBEAT_S, max_msg_size=0) as socket:
                async for message in socket:
                    if message.type is aiohttp.WSMsgType.TEXT:
                        yield message.data

    async def ask(
        self, method: str, path: str, *, body: bytes | None = None, timeout_s: float = INFO_TIMEOUT_S
    ) -> Answer:
        """Send a request, its body being JSON, and return the whole answer, whatever it is. Raises DashboardError."""
        timeout = aiohttp.ClientTimeout(total=timeout_s, connect=min(timeout_s, 2.0))
        headers = None if body is None else {"Content-Type": "application/json"}
        with self._translated():
            async with self._session.request(
                method, self._url + path, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                said = await response.read()
                return Answer(status=response.status, content_type=response.content_type, body=said)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise DashboardError(
                f"Ray's job server does not answer ({type(error).__name__})",
                where=self._url,
                fix="Try again when the head is up; what was accepted is kept",
            ) from error


def _value(answer: Answer) -> object:
    """Return the JSON of a good answer."""
    text = answer.body.decode("utf-8", errors="replace")
    if answer.status != 200:
        raise DashboardError(f"Ray's job server answered {answer.status}: {text[:500]}", fix="See the dashboard's log")
    try:
        return json.loads(text)
    except ValueError:
        raise DashboardError("Ray's job server did not answer in JSON", fix="Check --dashboard-url") from None


def _details(answer: Answer) -> Details:
    value = _value(answer)
    if not isinstance(value, dict):
        raise DashboardError("Ray's job server answered with something else", fix="Check --dashboard-url")
    return value
