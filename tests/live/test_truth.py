"""One small day on real Ray and on the twin: who is admitted and drained when, and where everybody goes on."""

from __future__ import annotations

import json
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleet_app.adapters import local
from fleet_app.adapters.local_home import FleetHome
from fleet_app.adapters.local_processes import carriers
from fleet_app.cli.client import Gateway
from fleet_app.policy.fleet import load_fleet
from tests.live.echo_config import echo
from tests.live.waiting import eventually
from tests.truth import apart, lived, simulated

pytestmark = pytest.mark.live

REPOSITORY = Path(__file__).parents[2]
LIMIT_S = 180.0
STEP_S = 10.0
SHARE, CONSTANT_S = 0.05, 2.0
"""How far apart moments may be: a part of the time since the beginning, and what Ray takes to tell what happened."""

POLICY = """
version: 1
name: truth
topology: {levels: [spine, leaf], gpus_per_node: 8}
organisations:
  lab:
    teams:
      serving: {nominal: 8, borrowing_limit: 0}
      research: {nominal: 16}
      batch: {nominal: 0}
drain: {grace: 30s, longest_grace: 60s}
defaults: {team: batch}
"""
NODES = """
version: 1
name: truth
nodes:
  - {name: n1, gpus: 8, cpus: 8, memory: 8GiB, labels: {class: training, spine: s1, leaf: l1}}
  - {name: n2, gpus: 8, cpus: 8, memory: 8GiB, labels: {class: training, spine: s1, leaf: l1}}
  - {name: n3, gpus: 8, cpus: 8, memory: 8GiB, labels: {class: serving, spine: s1, leaf: l2}}
"""
REPLICAS = 4
SERVICE = echo(gpus=2, replicas=REPLICAS)
JOB = f"""
import sys, time
began = time.time()
import ray
from fleet_app.worker.drain import acknowledge, drain_requested
from fleet_app.worker.gang import Membership
from fleet_app.worker.heartbeat import heartbeat

ray.init(log_to_driver=False)
member = Membership.from_environment()
point = member.resume_point()
first, last = point.step if point else 0, int(sys.argv[1])
step = first
while step < last and drain_requested() is None:
    step = min(last, first + int((time.time() - began) / {STEP_S}))
    heartbeat(step)
    time.sleep(0.1)
acknowledge(str(member.checkpoint_dir), step)
"""


class Fleet:
    """A fleet that is up, asked as a user asks it."""

    def __init__(self, home: Path, addresses: dict[str, Any]) -> None:
        self.home, self.url = home, f"{addresses['serve_url']}/"
        self.gateway = Gateway(url=str(addresses["gateway_url"]))

    def workload(self, name: str) -> dict[str, Any]:
        return next((each for each in self.gateway.get("workloads") if each["name"] == name), {})

    def phase(self, name: str) -> str:
        return str(self.workload(name).get("phase", ""))

    def step(self, name: str) -> int:
        return int(self.workload(name).get("step") or 0)

    def service(self) -> dict[str, Any]:
        return next(iter(self.gateway.get("services")), {})

    def submit(self, name: str, script: Path, steps: int, **spec: object) -> None:
        given = {"name": name, "entrypoint": f"{sys.executable} {script} {steps}", "runtime_env": {}, **spec}
        self.gateway.post("submit", {**given, "notice": "library"})


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    home = tmp_path / "home"
    for name, text in {"policy.yaml": POLICY, "nodes.yaml": NODES, "serve.yaml": json.dumps(SERVICE)}.items():
        (tmp_path / name).write_text(text)
    wanted = local.Wanted(
        home=home,
        name="truth",
        policy=POLICY,
        nodes=local.nodes_of(load_fleet(tmp_path / "nodes.yaml")),
        serve_config=tmp_path / "serve.yaml",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        addresses = dict(local.up(wanted, lambda _: None))
    holder = FleetHome(home).holder()
    assert holder is not None
    try:
        yield Fleet(home, addresses)
    finally:
        local.down(home)
    assert carriers(holder.mark) == ()


@contextmanager
def requests(url: str, at_once: int) -> Iterator[None]:
    """Keep a service busy with so many requests at once."""
    over = threading.Event()

    def client(_: int) -> None:
        with httpx.Client(timeout=120.0, trust_env=False) as calls:
            while not over.is_set():
                calls.get(url, params={"seconds": 0.5})

    with ThreadPoolExecutor(at_once) as clients:
        running = [clients.submit(client, number) for number in range(at_once)]
        try:
            yield
        finally:
            over.set()
    for one in running:
        one.result()


def lives(fleet: Fleet, script: Path) -> None:
    """Let the day happen: each thing once the one before it can be seen, however long that takes here."""
    running, succeeded = "running", "succeeded"
    eventually(lambda: fleet.service().get("occupied") == 1, LIMIT_S)
    fleet.submit("first", script, 6, kind="gang", team="research", nodes=2, gpus=8)
    eventually(lambda: fleet.phase("first") == running, LIMIT_S)
    fleet.submit("second", script, 1, kind="gang", team="research", nodes=2, gpus=8)
    fleet.submit("lent-1", script, 6, kind="backfill", team="batch", gpus=3)
    eventually(lambda: fleet.phase("lent-1") == running, LIMIT_S)
    fleet.submit("lent-2", script, 6, kind="backfill", team="batch", gpus=3)
    eventually(lambda: fleet.phase("lent-2") == running, LIMIT_S)
    eventually(lambda: fleet.step("lent-2") >= 1, LIMIT_S)
    with requests(fleet.url, 2 * REPLICAS):
        eventually(lambda: fleet.service().get("occupied") == REPLICAS, LIMIT_S)
        eventually(lambda: fleet.phase("second") in {running, succeeded}, LIMIT_S)
    for name in ("first", "second", "lent-1", "lent-2"):
        eventually(lambda name=name: fleet.phase(name) == succeeded, LIMIT_S)  # type: ignore[misc]


@pytest.mark.timeout(900)
def test_a_day_on_ray_and_on_the_twin_is_the_same(fleet: Fleet, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(JOB))
    lives(fleet, script)
    was, twin = lived(fleet.home), simulated(fleet.home, STEP_S)
    assert [set.union(*was.drained_sets)] == [{("lent-1", 1), ("lent-2", 1)}]
    assert was.resumed.keys() == {("lent-1", 2), ("lent-2", 2)}
    assert min(was.resumed.values()) >= 1
    assert twin.order == was.order
    assert twin.drained_sets == was.drained_sets
    assert twin.resumed == was.resumed
    assert apart(was, twin, SHARE, CONSTANT_S) == {}
