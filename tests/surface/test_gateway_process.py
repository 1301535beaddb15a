"""The gateway as a process: it says where it listens, and goes when it is told to, whoever still holds a socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.surface.bench import POLICY, eventually

NOWHERE = "http://127.0.0.1:9"
BOUND_S = 15.0


@contextlib.contextmanager
def process(home: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Run a gateway for `home` before a dashboard that is not there."""
    shutil.copy(POLICY, home / "policy.yaml")
    command = [sys.executable, "-m", "fleet_app.gateway", "--home", str(home), *more]
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "FLEET_"))},
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


@pytest.mark.anyio
async def test_it_says_where_it_listens_and_leaves_in_bounded_time_breaking_tails_off(tmp_path: Path) -> None:
    url_file = tmp_path / "gateway.url"
    with process(tmp_path, "--dashboard-url", NOWHERE, "--url-file", str(url_file)) as running:
        await eventually(url_file.exists, 60)
        url = url_file.read_text()
        async with aiohttp.ClientSession() as session:
            body = {"entrypoint": "sleep 1", "submission_id": "llm"}
            async with session.post(f"{url}/api/jobs/", json=body) as answer:
                assert answer.status == 200
            socket = await session.ws_connect(f"{url}/api/jobs/llm/logs/tail")
            assert "spooled" in (await socket.receive()).data
            running.send_signal(signal.SIGTERM)
            # A clean close would tell Ray's client that the job has ended.
            async with asyncio.timeout(BOUND_S):
                while (await socket.receive()).type is aiohttp.WSMsgType.TEXT:
                    pass
            assert socket.close_code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE
        assert await asyncio.to_thread(running.wait, BOUND_S) == 0
        assert running.stdout is not None
        assert running.stdout.read().strip() == url
        assert not url_file.exists()


@pytest.mark.anyio
async def test_the_dashboard_may_be_the_one_in_fleet_json(tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text(json.dumps({"dashboard_url": NOWHERE, "ray_version": "2.60.1"}))
    url_file = tmp_path / "gateway.url"
    with process(tmp_path, "--url-file", str(url_file)):
        await eventually(url_file.exists, 60)
        async with aiohttp.ClientSession() as session, session.get(f"{url_file.read_text()}/api/version") as answer:
            assert (await answer.json())["ray_version"] == "2.60.1"


WRONG = {
    "no fleet there": (["--home", "/nonexistent/fleet"], "there is no fleet"),
    "no dashboard known": ([], "no dashboard is known"),
}


@pytest.mark.parametrize(("more", "says"), WRONG.values(), ids=WRONG)
def test_it_does_not_start_on_what_is_not_there(tmp_path: Path, more: list[str], says: str) -> None:
    with process(tmp_path, *more) as running:
        _, err = running.communicate(timeout=60)
        assert running.returncode == 2
        assert says in err
