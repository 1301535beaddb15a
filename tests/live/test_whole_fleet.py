"""A fleet as users have it: arbiter, gateway, Serve and jobs together, and what must hold when parts of it die."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import ray

from fleet_app.adapters import actor, local, private, serve_names
from fleet_app.adapters.local_home import FleetHome
from fleet_app.adapters.local_processes import carriers, send
from fleet_app.cli.client import Gateway
from fleet_app.cli.demo import promises
from fleet_app.cli.demo.events import Story, parsed
from fleet_app.policy.fleet import load_fleet
from tests.live.echo_config import echo
from tests.live.waiting import eventually

REPOSITORY = Path(__file__).parents[2]
EXPIRY_S = 10
LIMIT_S = 120.0
KILLS = 10
BLIP_S = 6.0

SERVICE = echo(gpus=1, replicas=4)

JOB = """
import fcntl, sys, time
from pathlib import Path
import ray
ray.init(log_to_driver=False)
from fleet_app.worker.drain import acknowledge, drain_requested, install_signal_handler
from fleet_app.worker.gang import Membership
from fleet_app.worker.heartbeat import heartbeat
install_signal_handler()
member = Membership.from_environment()
folder = member.checkpoint_dir.parent
folder.mkdir(parents=True, exist_ok=True)
lock = (folder / "one-at-a-time").open("w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    (folder / "RAN-TWICE").touch()
point = member.resume_point()
step = point.step if point else 0
print(f"{member.job.attempt} starts at {step}", flush=True)
while drain_requested() is None:
    step += 1
    heartbeat(step)
    time.sleep(0.1)
acknowledge(str(folder), step)
print(f"{member.job.attempt} leaves at {step}", flush=True)
"""


class Fleet:
    """A fleet that is up, asked as a user asks it."""

    def __init__(self, home: Path, addresses: dict[str, Any]) -> None:
        holder = FleetHome(home).holder()
        assert holder is not None
        self.home, self.addresses, self.mark = home, addresses, holder.mark
        self.gateway = Gateway(url=str(addresses["gateway_url"]))

    def workload(self, name: str) -> dict[str, Any]:
        return next((each for each in self.gateway.get("workloads") if each["name"] == name), {})

    def phase(self, name: str) -> str:
        return str(self.workload(name).get("phase", ""))

    def node(self, name: str) -> dict[str, Any]:
        return next(each for each in self.gateway.get("nodes") if each["name"] == name)

    def service(self) -> dict[str, Any]:
        return next(iter(self.gateway.get("services")), {})

    def story(self) -> Story:
        return Story(parsed(self.gateway.get("events", limit=10_000)))

    def submit(self, name: str, script: Path, **spec: object) -> None:
        entrypoint = f"{sys.executable} {script}"
        self.gateway.post("submit", {"name": name, "entrypoint": entrypoint, "runtime_env": {}, **spec})

    def cancel(self, *names: str) -> None:
        for name in names:
            self.gateway.post(f"cancel/{name}")
        for name in names:
            eventually(lambda name=name: self.phase(name) == "stopped", LIMIT_S)  # type: ignore[misc]

    def kill_arbiter(self) -> None:
        for pid in carriers(self.mark):
            with contextlib.suppress(OSError):  # it ended meanwhile
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::FleetArbiter"):
                    send(pid, self.mark, signal.SIGKILL)

    def ray_cli(self, verb: str, *arguments: str, check: bool = True) -> str:
        env = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "FLEET_"))}
        done = subprocess.run(
            [str(Path(sys.executable).parent / "ray"), "job", verb, "--address", self.gateway.url, *arguments],
            env={**env, "RAY_AUTH_MODE": "disabled"},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    home = tmp_path_factory.mktemp("fleet") / "home"
    config = home.parent / "serve.yaml"
    config.write_text(json.dumps(SERVICE))
    wanted = local.Wanted(
        home=home,
        name="whole",
        policy=(REPOSITORY / "clusters" / "small.yaml").read_text(),
        nodes=local.nodes_of(load_fleet(REPOSITORY / "clusters" / "small-nodes.yaml")),
        serve_config=config,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_RUNTIME_ENV_TEMPORARY_REFERENCE_EXPIRATION_S", str(EXPIRY_S))
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        addresses = dict(local.up(wanted, lambda _: None))
    up = Fleet(home, addresses)
    try:
        yield up
    finally:
        local.down(home)
    assert carriers(up.mark) == ()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = tmp_path_factory.mktemp("job") / "job.py"
    script.write_text(textwrap.dedent(JOB))
    return script


@pytest.fixture
def driver(fleet: Fleet) -> Iterator[None]:
    """A foreign driver: connected to the fleet's Ray, without the arbiter knowing."""
    with driving(fleet, "foreign"):
        yield


@pytest.mark.timeout(600)
def test_held_gpus_are_out_of_reach_and_foreign_use_is_named(fleet: Fleet, job: Path, driver: None) -> None:
    eventually(lambda: fleet.service().get("grants") == 3 and fleet.service().get("occupied") == 1, LIMIT_S)
    fleet.submit("filler", job, kind="backfill", team="batch", gpus=5)
    eventually(lambda: fleet.phase("filler") == "running", LIMIT_S)
    assert fleet.node("n2")["gpus_free"] == 0

    @ray.remote(num_gpus=1, num_cpus=0, label_selector={"fleet/node": "n2"})
    def foreign(path: str) -> None:
        while not Path(path).exists():
            time.sleep(0.1)

    stop = fleet.home.parent / "stop-foreign"
    asked = foreign.remote(str(stop))
    held = fleet.service()["grants"]
    began = time.monotonic()
    while time.monotonic() - began < 5.0:
        assert fleet.node("n2")["gpus_foreign"] == 0
        assert fleet.service()["grants"] == held
        time.sleep(0.5)
    fleet.cancel("filler")
    node = eventually(lambda: node if (node := fleet.node("n2"))["foreign_owners"] else None, LIMIT_S)
    assert node["gpus_foreign"] == 1
    assert any("foreign" in owner for owner in node["foreign_owners"])
    assert node["gpus_free"] == 8 - held - 1
    stop.touch()
    ray.get(asked, timeout=LIMIT_S)
    eventually(lambda: fleet.node("n2")["gpus_foreign"] == 0, LIMIT_S)


@pytest.mark.timeout(900)
def test_the_arbiter_may_be_killed_at_any_moment(fleet: Fleet, job: Path) -> None:
    names = ("again-1", "again-2", "again-3")
    for name in names:
        fleet.submit(name, job, kind="backfill", team="batch", gpus=2, grace="10s")
    chance = random.Random(7)
    for kill in range(KILLS):
        # A moment of an admission in the first rounds, of a drain and the admission after it in the others.
        if kill >= 2:
            eventually(lambda: all(fleet.phase(name) == "running" for name in names), LIMIT_S)
            fleet.gateway.post(f"drain/{names[kill % len(names)]}", {})
        time.sleep(chance.uniform(0.0, 1.5))
        starts = fleet.story().count("arbiter")
        fleet.kill_arbiter()
        eventually(lambda starts=starts: fleet.story().count("arbiter") > starts, LIMIT_S)  # type: ignore[misc]
    eventually(lambda: all(fleet.phase(name) == "running" for name in names), LIMIT_S)
    story = fleet.story()
    gpus = {"filler": 5, **dict.fromkeys(names, 2)}
    kept = [
        promises.nothing_twice(story, {"n1": 8, "n2": 8}, gpus, 1),
        promises.survived(story, names, KILLS),
        promises.within_deadline(
            [drain for drain in promises.drains(story) if drain.job in names], name="the arbiter killed"
        ),
    ]
    assert [promise for promise in kept if not promise.kept] == []
    for name in names:
        assert not (fleet.home / "checkpoints" / name / "RAN-TWICE").exists()
        saved = None
        for event in story.of("started", "acknowledged", subject=name):
            if event.kind == "acknowledged":
                saved = event.detail["step"]
            else:
                assert event.detail["resumed_step"] == saved
        assert saved is not None
    fleet.cancel(*names)


@pytest.mark.timeout(900)
def test_the_stock_ray_client_submits_waits_drains_resumes_and_deletes(fleet: Fleet, job: Path) -> None:
    gang = json.dumps({"kind": "gang", "team": "research", "nodes": "1", "gpus": "8", "notice": "signal"})
    options = ("--working-dir", str(job.parent), "--metadata-json", gang, "--no-wait")
    submit = ("submit", *options, "--submission-id")
    fleet.ray_cli(*submit, "first", "--", "python", "job.py")
    eventually(lambda: fleet.phase("first") == "running" or fleet.workload("first").get("ended_at"), LIMIT_S)
    assert fleet.phase("first") == "running", fleet.workload("first")
    fleet.ray_cli(*submit, "second", "--", "python", "job.py")
    queued = eventually(lambda: said if "8 more" in (said := fleet.ray_cli("status", "second")) else "", LIMIT_S)
    assert "PENDING" in queued
    seen: list[str] = []
    follower = threading.Thread(target=lambda: seen.append(fleet.ray_cli("logs", "second", "--follow", check=False)))
    follower.start()
    # Longer in the queue than Ray keeps an upload that no job uses.
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > EXPIRY_S + 2, LIMIT_S)
    fleet.ray_cli("stop", "first")
    eventually(lambda: fleet.phase("second") == "running", LIMIT_S)
    eventually(lambda: (fleet.workload("second").get("step") or 0) > 3, LIMIT_S)
    fleet.gateway.post("drain/second", {})
    eventually(lambda: fleet.workload("second").get("attempt") == 2, LIMIT_S)
    eventually(lambda: fleet.phase("second") == "running", LIMIT_S)
    eventually(lambda: "second.2 starts" in fleet.ray_cli("logs", "second"), LIMIT_S)
    fleet.ray_cli("stop", "second")
    follower.join(LIMIT_S)
    assert "second starts at 0" in seen[0]
    assert "second.2 starts at" in seen[0]
    assert "second.2 starts at 0" not in seen[0]
    listed = fleet.ray_cli("list")
    assert "second" in listed
    assert "second.2" not in listed
    fleet.ray_cli("delete", "first")
    fleet.ray_cli("delete", "second")
    eventually(lambda: "second" not in fleet.ray_cli("list"), LIMIT_S)


GANG = """
import time
import ray
from fleet_app.worker.drain import acknowledge
from fleet_app.worker.gang import Membership

@ray.remote
class MortalRank:
    def __init__(self, rank):
        pass
    def work(self):
        time.sleep(3600)

ray.init(log_to_driver=False)
member = Membership.from_environment()
point = member.resume_point()
ranks = member.start_ranks(MortalRank)
acknowledge(str(member.checkpoint_dir), (point.step if point else 0) + 7)
ray.get([rank.work.remote() for rank in ranks])
"""


@pytest.mark.timeout(600)
def test_a_rank_that_is_killed_takes_its_node_out_and_its_gang_starts_again_from_its_checkpoint(
    fleet: Fleet, tmp_path: Path
) -> None:
    script = tmp_path / "gang.py"
    script.write_text(textwrap.dedent(GANG))
    fleet.submit("mortal", script, kind="gang", team="research", gpus=2)
    eventually(lambda: (fleet.workload("mortal").get("checkpoint") or {}).get("step") == 7, LIMIT_S)
    [rank] = eventually(lambda: processes_of(fleet, "ray::MortalRank"), LIMIT_S)
    send(rank, fleet.mark, signal.SIGKILL)
    eventually(lambda: fleet.node("n1")["condition"] == "quarantined", LIMIT_S)
    told = fleet.node("n1")["quarantine"]
    assert told["reason"].startswith("a rank of mortal died on it: MortalRank (pid ")
    assert (told["owner"], told["until"] - told["since"]) == ("fleet", 86_400.0)
    assert fleet.phase("mortal") == "queued"
    assert "quarantined there: n1" in fleet.gateway.get("explain/mortal")["sentence"]
    fleet.gateway.post("release/n1", {"who": "ada"})
    eventually(lambda: (fleet.workload("mortal").get("checkpoint") or {}).get("step") == 14, LIMIT_S)
    assert (fleet.workload("mortal")["attempt"], fleet.node("n1")["condition"]) == (2, "ready")
    fleet.cancel("mortal")


@pytest.mark.timeout(600)
def test_a_node_that_stands_still_for_a_moment_changes_nothing_and_one_that_dies_is_kept_out(
    fleet: Fleet, tmp_path: Path
) -> None:
    """Of the tests that need a training node the last: the fleet loses it."""
    script = tmp_path / "gang.py"
    script.write_text(textwrap.dedent(GANG))
    fleet.submit("calm", script, kind="gang", team="research", gpus=2)
    eventually(lambda: (fleet.workload("calm").get("checkpoint") or {}).get("step") == 7, LIMIT_S)
    [raylet] = processes_of(fleet, "--node-name=n1", program="/raylet")
    send(raylet, fleet.mark, signal.SIGSTOP)
    time.sleep(BLIP_S)
    send(raylet, fleet.mark, signal.SIGCONT)
    time.sleep(BLIP_S)
    assert (fleet.phase("calm"), fleet.workload("calm")["attempt"]) == ("running", 1)
    assert (fleet.node("n1")["condition"], fleet.node("n1")["quarantine"]) == ("ready", None)
    send(raylet, fleet.mark, signal.SIGKILL)
    eventually(lambda: fleet.phase("calm") == "queued", LIMIT_S)
    told = eventually(lambda: fleet.node("n1")["quarantine"], LIMIT_S)
    assert (fleet.node("n1")["condition"], told["reason"]) == ("down", "it was lost with calm on it")
    fleet.cancel("calm")


@pytest.mark.timeout(600)
def test_serving_goes_on_without_an_arbiter_and_one_that_is_back_knows_what_was_started(fleet: Fleet) -> None:
    """I11. The last test of this fleet: its arbiter is another one afterwards."""
    eventually(lambda: fleet.service().get("grants", 0) - fleet.service().get("occupied", 0) >= 2, LIMIT_S)
    replicas: set[int] = set()
    failed: list[str] = []
    enough = threading.Event()
    until = time.monotonic() + 3 * LIMIT_S

    def load(_: int) -> None:
        with httpx.Client(timeout=60.0, trust_env=False) as client:
            while time.monotonic() < until and not enough.is_set():
                answer = client.get(f"{fleet.addresses['serve_url']}/", params={"seconds": 0.5})
                if answer.status_code == 200:
                    replicas.add(int(answer.json()["pid"]))
                else:
                    failed.append(answer.text)

    with driving(fleet, "fleet"), ThreadPoolExecutor(6) as clients:
        actor.stop_arbiter()
        loads = [clients.submit(load, number) for number in range(6)]
        try:
            # One runs, two have their fences; the fourth starts on what Serve finds by itself in the silence.
            eventually(lambda: len(replicas) >= 4, LIMIT_S)
            own = groups_of_serve()
            actor.start_arbiter(fleet.home, str(fleet.addresses["dashboard_url"]))
            service, node = fleet.service(), fleet.node("n2")
            assert (len(own), service["occupied"], service["grants"] >= 4) == (1, 4, True)
            assert (node["gpus_foreign"], node["gpus_free"]) == (0, 8 - service["grants"])
        finally:
            enough.set()
        for each in loads:
            each.result(LIMIT_S)
        eventually(lambda: fleet.service()["occupied"] == 1, LIMIT_S)
        eventually(lambda: fleet.node("n2")["gpus_free"] == 8 - fleet.service()["grants"], LIMIT_S)
        assert fleet.node("n2")["gpus_foreign"] == 0
    assert failed == []


def groups_of_serve() -> list[str]:
    """Return the names of the placement groups that Serve made itself for replicas."""
    return [group.name for group in private.groups() if serve_names.replica_of(group.name)]


@contextlib.contextmanager
def driving(fleet: Fleet, namespace: str) -> Iterator[None]:
    """Be connected to the fleet's Ray meanwhile."""
    ray.init(address=fleet.addresses["ray_address"], namespace=namespace, log_to_driver=False, logging_level=40)
    try:
        yield
    finally:
        ray.shutdown()


def processes_of(fleet: Fleet, word: str, *, program: str = "") -> list[int]:
    """Return the fleet's processes with a word in their command line, and whose program's path ends so."""
    found = []
    for pid in carriers(fleet.mark):
        with contextlib.suppress(OSError):  # it ended meanwhile
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if word.encode() in words and words.split(b"\0")[0].endswith(program.encode()):
                found.append(pid)
    return found
