"""The stock `ray job` client against the gateway, before a real Ray whose head forgets unused packages after 10 s.

`Arbiter` is what the fleet's own does to a workload's Ray jobs, told when: the fleet's arbiter can take its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from fleet_app.arbiter import inbox
from fleet_app.engine.lifecycle import Event, Phase
from tests.live.raybox import NodeSpec, RayBox, boot
from tests.surface.hand import Hand

pytestmark = [pytest.mark.live, pytest.mark.timeout(420)]

EXPIRY_S = 10
POLICY = Path(__file__).parents[2] / "clusters" / "small.yaml"
GANG = json.dumps({"kind": "gang", "team": "research", "gpus": "4", "nodes": "1"})
CODE = """
import os, signal, sys, time, helper
def leave(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("hello from", helper.NAME, os.environ.get("FLEET_ATTEMPT"), flush=True)
for step in range(int(sys.argv[1])):
    print("step", step, flush=True)
    time.sleep(0.1)
print("done", flush=True)
"""
FOREVER = "100000"


def until(holds: Callable[[], bool], what: str, within_s: float = 90.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what}")
        time.sleep(0.05)


class Arbiter:
    """Takes the inbox in, and carries out by Ray's Jobs API what the test decides for the fleet."""

    def __init__(self, home: Path, dashboard_url: str) -> None:
        self._packages = home / "packages"
        self._ray = httpx.Client(base_url=dashboard_url, timeout=30, trust_env=False)
        self._one = ThreadPoolExecutor(1)  # the journal belongs to one thread
        self._hand = self._one.submit(Hand, home).result()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        if not self._over.is_set():
            self._over.set()
            self._thread.join()
            self._one.submit(self._hand.die).result()
            self._one.shutdown()
            self._ray.close()

    def admit(self, name: str) -> None:
        """Start a workload's current attempt as a Ray job."""
        until(lambda: name in self._hand.book.records, f"{name} is queued")
        self._one.submit(self._admit, name).result()

    def _admit(self, name: str) -> None:
        record = self._hand.step(name, Event.ADMIT)
        self._provide(str(record.job.runtime_env.get("working_dir", "")))
        environment = {**record.job.runtime_env, "env_vars": {"FLEET_ATTEMPT": record.job_id}}
        body = {"submission_id": record.job_id, "entrypoint": record.job.entrypoint, "runtime_env": environment}
        self._ray.post("/api/jobs/", json=body).raise_for_status()
        self._hand.launch(name)

    def drain(self, name: str) -> None:
        """Ask the current attempt to leave, and queue the workload again once it has."""
        record = self._one.submit(self._hand.step, name, Event.DRAIN).result()
        self._ray.post(f"/api/jobs/{record.job_id}/stop").raise_for_status()
        until(lambda: self.phase(name) is Phase.QUEUED, f"{name} is drained")

    def phase(self, name: str) -> Phase | None:
        record = self._hand.book.records.get(name)
        return None if record is None else record.workload.phase

    def _provide(self, uri: str) -> None:
        """Bring a package back to Ray, which forgets them."""
        path = f"/api/packages/gcs/{uri.removeprefix('gcs://')}"
        if uri and self._ray.get(path).status_code == httpx.codes.NOT_FOUND:
            content = (self._packages / uri.removeprefix("gcs://")).read_bytes()
            self._ray.put(path, content=content).raise_for_status()

    def _run(self) -> None:
        while not self._over.wait(0.05):
            self._one.submit(self._cycle).result()

    def _cycle(self) -> None:
        self._hand.live()
        for request in self._hand.ingest():
            if isinstance(request, inbox.Forget):
                self._ray.delete(f"/api/jobs/{request.name}")
        for record in self._hand.book.live():
            self._look(record.name)

    def _look(self, name: str) -> None:
        """Move a workload by what Ray says of its current attempt."""
        record = self._hand.get(name)
        if not (record.workload.holding and record.job_submitted):
            return
        job = self._ray.get(f"/api/jobs/{record.job_id}").json()
        phase, status = record.workload.phase, job["status"]
        if status == "RUNNING" and phase is Phase.ADMITTED:
            self._hand.step(name, Event.START)
        elif status in {"STOPPED", "SUCCEEDED", "FAILED"}:
            self._hand.step(name, self._end(phase, status), message=job["message"])
        elif phase is Phase.STOPPING:
            self._ray.post(f"/api/jobs/{record.job_id}/stop")

    @staticmethod
    def _end(phase: Phase, status: str) -> Event:
        if phase is Phase.STOPPING:
            return Event.GONE
        if phase is Phase.DRAINING:
            return Event.REQUEUE
        return Event.SUCCEED if status == "SUCCEEDED" else Event.FAIL


@dataclass
class Fleet:
    """A gateway before a Ray, and the arbiter behind both."""

    url: str
    home: Path
    code: Path
    dashboard_url: str
    arbiter: Arbiter
    clients: list[subprocess.Popen[str]] = field(default_factory=list)

    def ray_job(self, *arguments: str) -> subprocess.Popen[str]:
        """Run Ray's own client."""
        client = Path(sys.executable).parent / "ray"
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "FLEET_"))}
        running = subprocess.Popen(
            [str(client), "job", arguments[0], "--address", self.url, *arguments[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**environment, "RAY_AUTH_MODE": "disabled", "PYTHONUNBUFFERED": "1"},
        )
        self.clients.append(running)
        return running

    def ray_job_says(self, *arguments: str, want: int = 0) -> str:
        """Run Ray's own client to its end; return what it printed."""
        client = self.ray_job(*arguments)
        text, _ = client.communicate(timeout=120)
        assert client.returncode == want, text
        return text

    def log(self, name: str) -> str:
        """Return a job's log as the gateway gives it."""
        return str(httpx.get(f"{self.url}/api/jobs/{name}/logs", timeout=30, trust_env=False).json()["logs"])

    def submit(self, name: str, steps: str) -> str:
        return self.ray_job_says(
            *("submit", "--submission-id", name, "--metadata-json", GANG, "--working-dir", str(self.code), "--no-wait"),
            *("--", "python", "job.py", steps),
        )


@contextlib.contextmanager
def gateway(home: Path, dashboard_url: str) -> Iterator[str]:
    url_file = home / "gateway.url"
    command = [sys.executable, "-m", "fleet_app.gateway", "--home", str(home), "--dashboard-url", dashboard_url]
    with (home / "gateway.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--url-file", str(url_file)], stdout=log, stderr=log, cwd=Path(__file__).parents[2]
        )
    try:
        until(url_file.exists, "the gateway listens")
        yield url_file.read_text()
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def ray_box() -> Iterator[RayBox]:
    # The head's dashboard reads how long it keeps a package; a node cache would hide that one is lost.
    environment = {
        "RAY_RUNTIME_ENV_TEMPORARY_REFERENCE_EXPIRATION_S": str(EXPIRY_S),
        "RAY_RUNTIME_ENV_WORKING_DIR_CACHE_SIZE_GB": "0",
    }
    with boot([NodeSpec(name="n1")], environment=environment) as box:
        yield box


@pytest.fixture
def fleet(ray_box: RayBox, tmp_path: Path) -> Iterator[Fleet]:
    home, code = tmp_path / "home", tmp_path / "code"
    home.mkdir()
    code.mkdir()
    shutil.copy(POLICY, home / "policy.yaml")
    (code / "job.py").write_text(CODE)
    (code / "helper.py").write_text(f"NAME = {tmp_path.name!r}\n")
    with gateway(home, ray_box.dashboard_url) as url:
        fleet = Fleet(
            url=url,
            home=home,
            code=code,
            dashboard_url=ray_box.dashboard_url,
            arbiter=Arbiter(home, ray_box.dashboard_url),
        )
        try:
            yield fleet
        finally:
            fleet.arbiter.close()
            for client in fleet.clients:
                client.kill()
                client.communicate()


def ray_has(fleet: Fleet) -> bool:
    """Say whether Ray itself still has the only package of the spool; asking would keep it there."""
    with httpx.Client(base_url=fleet.dashboard_url, trust_env=False) as ray:
        [package] = (fleet.home / "packages").iterdir()
        return ray.get(f"/api/packages/gcs/{package.name}").status_code == httpx.codes.OK


def test_submitted_waited_run_listed_and_deleted(fleet: Fleet) -> None:
    arguments = ("--submission-id", "one", "--metadata-json", GANG, "--working-dir", str(fleet.code))
    client = fleet.ray_job("submit", *arguments, "--", "python", "job.py", "3")
    until(lambda: fleet.arbiter.phase("one") is Phase.QUEUED, "it is queued")
    status = fleet.ray_job_says("status", "one")
    assert "Status for job 'one': PENDING" in status
    assert "Status message: queued" in status
    assert "already exists" in fleet.ray_job_says("submit", "--submission-id", "one", "--no-wait", "--", "true", want=1)
    fleet.arbiter.admit("one")
    text, _ = client.communicate(timeout=120)
    assert client.returncode == 0, text
    assert "[fleet] PENDING: " in text
    assert text.index("hello from") < text.index("step 2\n") < text.index("done\n") < text.index("Job 'one' succeeded")
    assert "submission_id='one'" in fleet.ray_job_says("list")
    assert "hello from" in fleet.ray_job_says("logs", "one")
    assert "Job 'one' deleted successfully" in fleet.ray_job_says("delete", "one")
    assert "does not exist" in fleet.ray_job_says("status", "one", want=1)


def test_a_refusal_says_what_to_do(fleet: Fleet) -> None:
    text = fleet.ray_job_says("submit", "--metadata-json", '{"team": "reserch", "kind": "gang"}', "--", "true", want=1)
    assert "status code 400" in text
    assert "team 'reserch' is unknown" in text
    assert "Did you mean 'research'?" in text
    assert fleet.arbiter.phase("true") is None


def test_a_job_that_waited_longer_than_ray_keeps_packages_still_finds_its_code(fleet: Fleet) -> None:
    fleet.submit("patient", "1")
    since = time.monotonic()
    until(lambda: time.monotonic() - since > EXPIRY_S + 2, "Ray's expiry is over")
    assert not ray_has(fleet)
    assert "PENDING" in fleet.ray_job_says("status", "patient")
    fleet.arbiter.admit("patient")
    assert "Job 'patient' succeeded" in fleet.ray_job_says("logs", "--follow", "patient")


def test_a_drained_job_is_followed_into_its_second_attempt_and_finds_its_code_again(fleet: Fleet) -> None:
    fleet.submit("moved", FOREVER)
    fleet.arbiter.admit("moved")
    client = fleet.ray_job("logs", "--follow", "moved")
    until(lambda: "step 0" in fleet.log("moved"), "the first attempt runs")
    fleet.arbiter.drain("moved")
    assert "PENDING" in fleet.ray_job_says("status", "moved")
    assert client.poll() is None
    fleet.arbiter.admit("moved")
    until(lambda: fleet.log("moved").count("step 0\n") == 2, "the second attempt runs")
    assert "moved.2" not in fleet.ray_job_says("list")
    assert "Job 'moved' was stopped" in fleet.ray_job_says("stop", "moved")
    text, _ = client.communicate(timeout=60)
    assert client.returncode == 0, text
    parts = ["moved\nstep 0\n", "saved\n", "[fleet] attempt moved.2 starts\n", "moved.2\nstep 0\n", "was stopped"]
    assert [text.find(part) for part in parts] == sorted(text.find(part) for part in parts)
    assert all(part in text for part in parts), text


def test_a_job_that_fails_makes_its_client_fail(fleet: Fleet) -> None:
    client = fleet.ray_job("submit", "--submission-id", "bad", "--metadata-json", GANG, "--", "false")
    fleet.arbiter.admit("bad")
    text, _ = client.communicate(timeout=120)
    assert client.returncode == 1, text
    assert "Job 'bad' failed" in text


def test_stopping_a_job_that_waits_ends_its_followers_at_once(fleet: Fleet) -> None:
    client = fleet.ray_job("submit", "--submission-id", "idle", "--metadata-json", GANG, "--", "true")
    until(lambda: fleet.arbiter.phase("idle") is Phase.QUEUED, "it is queued")
    assert "Job 'idle' was stopped" in fleet.ray_job_says("stop", "idle")
    text, _ = client.communicate(timeout=60)
    assert "Job 'idle' was stopped" in text


def test_with_the_arbiter_dead_a_submission_is_spooled_and_runs_once_there_is_one(fleet: Fleet) -> None:
    fleet.arbiter.close()
    fleet.submit("later", "1")
    assert "the arbiter is not running; spooled" in fleet.ray_job_says("status", "later")
    fleet.arbiter = Arbiter(fleet.home, fleet.dashboard_url)
    fleet.arbiter.admit("later")
    assert "Job 'later' succeeded" in fleet.ray_job_says("logs", "--follow", "later")
