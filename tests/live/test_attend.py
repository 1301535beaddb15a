"""The attendant on a real Ray: what it starts, what it starts again, and that it ends when it is told to."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live import raybox
from tests.live.waiting import eventually

REPOSITORY = Path(__file__).parents[2]
POLICY = (REPOSITORY / "clusters" / "small.yaml").read_text(encoding="utf-8")
SERVE = """
proxy_location: HeadOnly
http_options: {host: 127.0.0.1, port: PORT}
applications: [{name: echo, route_prefix: /, import_path: "tests.live.echo_http:app"}]
"""
BUSY_S = 120.0


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


class Attended:
    """An attendant's process, and its fleet as its gateway shows it."""

    def __init__(self, box: raybox.RayBox, folder: Path) -> None:
        self.port, self.serve_port = free_port(), free_port()
        self.policy, self.serve, token = folder / "fleet.yaml", folder / "serve.yaml", folder / "token"
        self.policy.write_text(POLICY)
        self.serve.write_text(SERVE.replace("PORT", str(self.serve_port)))
        token.write_text("secret")
        self.home = folder / "home"
        command = [
            *(sys.executable, "-m", "fleet_app.adapters.attend", "--home", str(self.home)),
            *("--policy", str(self.policy), "--serve", str(self.serve), "--token", str(token)),
            *("--dashboard-url", box.dashboard_url, "--host", "127.0.0.1", "--port", str(self.port)),
        ]
        env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        self.process = subprocess.Popen(command, env=env, cwd=folder, start_new_session=True)
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers={"Authorization": "Bearer secret"}, timeout=30
        )

    def ask(self, path: str) -> Any:
        with contextlib.suppress(httpx.HTTPError, ValueError):
            return self._client.get("/api/fleet/" + path).raise_for_status().json()
        return None

    def lives(self) -> bool:
        status = self.ask("status")
        return bool(status) and bool(status["arbiter"]["alive"])

    def close(self) -> None:
        self._client.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@pytest.fixture
def attended(box: raybox.RayBox, tmp_path: Path) -> Iterator[Attended]:
    made = Attended(box, tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.usefixtures("connected")
def test_the_fleet_is_there_stays_there_and_follows_its_files(attended: Attended) -> None:
    import ray
    from ray import serve

    from fleet_app.adapters import actor

    try:
        eventually(attended.lives, BUSY_S)
        echo = f"http://127.0.0.1:{attended.serve_port}/"
        assert eventually(lambda: answers(echo), BUSY_S)

        # The arbiter is gone for good, and the gateway was killed.
        first = ray.get(actor.find_arbiter().pid.remote())
        actor.stop_arbiter()
        gateway = gateway_of(attended.process.pid)
        os.kill(gateway, signal.SIGKILL)
        eventually(lambda: found_arbiter() not in {None, first}, BUSY_S)
        eventually(attended.lives, BUSY_S)
        assert gateway_of(attended.process.pid) != gateway

        # The chart was upgraded with another policy.
        attended.policy.write_text(POLICY.replace("longest_grace: 60s", "longest_grace: 61s"))
        eventually(lambda: "helm" in str(attended.ask("events?limit=1000")), BUSY_S)
        eventually(lambda: "61s" in (attended.home / "policy.yaml").read_text(), BUSY_S)

        # It leaves no jobs behind, ends when it is told to, and what it started goes on.
        eventually(lambda: not [job for job in jobs(attended) if job["type"] == "SUBMISSION"], BUSY_S)
        assert attended.end() == 0
        assert answers(echo)
        assert found_arbiter() is not None
    finally:
        actor.stop_arbiter()
        serve.shutdown()


def answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url).is_success
    return False


def found_arbiter() -> int | None:
    import ray

    from fleet_app.adapters import actor
    from fleet_app.engine.errors import NotFoundError

    with contextlib.suppress(NotFoundError, ray.exceptions.RayError):
        return int(ray.get(actor.find_arbiter().pid.remote(), timeout=10))
    return None


def gateway_of(attendant: int) -> int:
    """Return the process id of the gateway that an attendant holds."""
    import psutil

    (child,) = psutil.Process(attendant).children()
    return int(child.pid)


def jobs(attended: Attended) -> list[Any]:
    answer = httpx.get(f"http://127.0.0.1:{attended.port}/api/jobs/", headers={"Authorization": "Bearer secret"})
    return list(answer.raise_for_status().json())
