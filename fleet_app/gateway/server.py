"""Puts the gateway together and serves it: one process, one port, until it is told to stop.

Knows where its parts are. Does not know what they answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from fleet_app.engine.errors import FaultError
from fleet_app.gateway.auth import guard
from fleet_app.gateway.body import MAX_BODY_BYTES
from fleet_app.gateway.bookings import BookingsApi
from fleet_app.gateway.control import ControlApi
from fleet_app.gateway.dashboard import Dashboard
from fleet_app.gateway.jobs import JobsApi
from fleet_app.gateway.known import Workloads
from fleet_app.gateway.metrics import MetricsApi
from fleet_app.gateway.packages import Spool
from fleet_app.gateway.replies import say_errors
from fleet_app.gateway.serve import ServeApi
from fleet_app.gateway.submit import Submissions
from fleet_app.gateway.uploads import UploadsApi

log = logging.getLogger(__name__)

SHUTDOWN_S = 2.0
PRUNE_EVERY_S = 600.0
KEEP_UNWANTED_S = 24 * 3600.0
"""How long a package stays that no workload needs: a client may be about to submit with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a gateway stands before: a fleet's home and Ray's job server, with the tokens of both (None: open)."""

    home: Path
    dashboard_url: str
    token: str | None = None
    ray_token: str | None = None


def build(settings: Settings) -> web.Application:
    """Return the application; its parts live from its start-up to its clean-up."""
    spool = Spool(settings.home / "packages")
    workloads = Workloads(settings.home)
    dashboard = Dashboard(settings.dashboard_url, settings.ray_token)
    submissions = Submissions(settings.home, workloads, spool, dashboard)
    jobs = JobsApi(settings.home, workloads, dashboard, submissions)
    app = web.Application(middlewares=[guard(settings.token), say_errors], client_max_size=MAX_BODY_BYTES)
    app.add_routes(UploadsApi(spool).routes())
    app.add_routes(jobs.routes())
    app.add_routes(ControlApi(settings.home, workloads, submissions).routes())
    app.add_routes(BookingsApi(settings.home, workloads, submissions).routes())
    app.add_routes(MetricsApi(workloads).routes())
    app.add_routes(ServeApi(dashboard).routes())

    async def parts(_: web.Application) -> AsyncIterator[None]:
        async with dashboard:
            tasks = [asyncio.create_task(workloads.watch()), asyncio.create_task(_prune(spool, workloads))]
            yield
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    app.cleanup_ctx.append(parts)
    app.on_shutdown.append(jobs.drop_tails)
    return app


async def _prune(spool: Spool, workloads: Workloads) -> None:
    """Forget, now and then, the packages that no live workload needs."""
    while True:
        try:
            gone = spool.prune(workloads.packages_needed(), time.time() - KEEP_UNWANTED_S)
        except (FaultError, OSError) as error:
            log.warning("the packages are not tidied up: %s", error)
        else:
            log.info("forgot packages that no workload needs: %s", ", ".join(gone) or "none")
        await asyncio.sleep(PRUNE_EVERY_S)


async def serve(settings: Settings, host: str, port: int, url_file: Path | None) -> None:
    """Serve until SIGTERM or SIGINT; port 0 takes a free one. The URL goes to `url_file` and to stdout.

    Raises FaultError when the address cannot be had.
    """
    runner = web.AppRunner(build(settings), shutdown_timeout=SHUTDOWN_S, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise FaultError(
                f"cannot listen ({error.strerror})", where=f"{host}:{port}", fix="Choose another --port"
            ) from error
        url = _url(runner)
        if url_file is not None:
            write_whole(url_file, url)
        sys.stdout.write(url + "\n")
        sys.stdout.flush()
        await _told_to_stop()
    finally:
        await runner.cleanup()
        if url_file is not None:
            _remove(url_file)


def _url(runner: web.AppRunner) -> str:
    host, port, *_ = runner.addresses[0]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees all of it or none."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _told_to_stop() -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await told.wait()


def known_dashboard(home: Path) -> str | None:
    """Return the dashboard's URL that `home`/fleet.json names, None when it names none."""
    with contextlib.suppress(OSError, ValueError):
        known = json.loads((home / "fleet.json").read_text(encoding="utf-8"))
        return str(known["dashboard_url"]) if isinstance(known, dict) and known.get("dashboard_url") else None
    return None
