"""An elastic job on real Ray: a member leaves when it is asked, one joins, one that does not listen is ended (R8)."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet_app.adapters import local
from fleet_app.adapters.local_home import FleetHome
from fleet_app.adapters.local_processes import carriers
from fleet_app.cli.client import Gateway
from fleet_app.cli.demo.events import Story, parsed
from fleet_app.policy.fleet import load_fleet
from tests.live.waiting import eventually

pytestmark = pytest.mark.live

REPOSITORY = Path(__file__).parents[2]
LIMIT_S = 120.0

POLICY = """
version: 1
name: elastic
topology: {levels: [spine, leaf], gpus_per_node: 4}
organisations: {lab: {teams: {research: {nominal: 12}, batch: {nominal: 0}}}}
drain: {grace: 5s, longest_grace: 60s}
defaults: {team: batch}
"""
NODES = """
version: 1
name: elastic
nodes:
  - {name: n1, gpus: 4, cpus: 8, memory: 8GiB, labels: {class: training, spine: s1, leaf: l1}}
  - {name: n2, gpus: 4, cpus: 8, memory: 8GiB, labels: {class: training, spine: s1, leaf: l1}}
  - {name: n3, gpus: 4, cpus: 8, memory: 8GiB, labels: {class: training, spine: s1, leaf: l1}}
"""

ELASTIC = """
import itertools, os, sys, time
from pathlib import Path
import ray
from fleet_app.worker.drain import acknowledge, drain_requested
from fleet_app.worker.gang import Membership
from fleet_app.worker.members import leave, members

@ray.remote
class Rank:
    def __init__(self, rank, folder):
        (Path(folder) / f"rank-{rank}").write_text(str(os.getpid()))
        self.listens = rank < 3

    def work(self):
        while not (self.listens and drain_requested()):
            time.sleep(0.1)
        leave()

ray.init(log_to_driver=False)
member = Membership.from_environment()
folder = member.checkpoint_dir
folder.mkdir(parents=True)
ranks, working, numbers = {}, {}, itertools.count()
while drain_requested() is None:
    now = {each.group_id: each for each in members()}
    for group_id in now.keys() - ranks.keys():
        if not now[group_id].leaving:
            ranks[group_id] = member.start_rank(now[group_id], next(numbers), Rank, str(folder))
            working[ranks[group_id].work.remote()] = group_id
    for done in ray.wait(list(working), timeout=0.2)[0]:
        group_id = working.pop(done)
        known = {each.group_id: each for each in members()}.get(group_id)
        if known is not None and not known.leaving:
            ray.get(done)
            sys.exit("a rank left that nobody had asked")
        del ranks[group_id]
acknowledge(str(folder), 1)
"""
SLEEPS = "import time; time.sleep(1000)"


class Fleet:
    """A fleet of three nodes that is up, asked as a user asks it."""

    def __init__(self, home: Path, gateway_url: str) -> None:
        holder = FleetHome(home).holder()
        assert holder is not None
        self.home, self.mark, self.gateway = home, holder.mark, Gateway(url=gateway_url)

    def workload(self, name: str) -> dict[str, Any]:
        return next((each for each in self.gateway.get("workloads") if each["name"] == name), {})

    def nodes(self, name: str) -> tuple[str, ...]:
        return tuple(self.workload(name).get("nodes") or ())

    def story(self) -> Story:
        return Story(parsed(self.gateway.get("events", limit=10_000)))

    def details(self, kind: str, subject: str) -> list[dict[str, Any]]:
        return [dict(event.detail) for event in self.story().of(kind, subject=subject)]

    def submit(self, name: str, script: Path, **spec: object) -> None:
        entrypoint = f"{sys.executable} {script}"
        self.gateway.post("submit", {"name": name, "entrypoint": entrypoint, "runtime_env": {}, **spec})

    def cancel(self, name: str) -> None:
        self.gateway.post(f"cancel/{name}")
        eventually(lambda: self.workload(name)["phase"] == "stopped", LIMIT_S)

    def rank(self, attempt: str, rank: int) -> int:
        """Return the pid of a rank, once it is there."""
        told = self.home / "checkpoints" / "rl" / attempt / f"rank-{rank}"
        return int(eventually(lambda: told.exists() and told.read_text(), LIMIT_S))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    home = tmp_path_factory.mktemp("fleet") / "home"
    (home.parent / "nodes.yaml").write_text(NODES)
    nodes = local.nodes_of(load_fleet(home.parent / "nodes.yaml"))
    wanted = local.Wanted(home=home, name="elastic", policy=POLICY, nodes=nodes, serve_config=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        addresses = dict(local.up(wanted, lambda _: None))
    up = Fleet(home, str(addresses["gateway_url"]))
    try:
        yield up
    finally:
        local.down(home)
    assert carriers(up.mark) == ()


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


@pytest.mark.timeout(600)
def test_members_leave_and_join_and_one_that_does_not_listen_is_ended(fleet: Fleet, tmp_path: Path) -> None:
    sleeps = script(tmp_path, "sleeps.py", SLEEPS)
    spec = {"kind": "gang", "priority": "training-backfill", "nodes": 3, "min_nodes": 1, "gpus": 4}
    fleet.submit("rl", script(tmp_path, "elastic.py", ELASTIC), **spec)
    first = [fleet.rank("rl", rank) for rank in range(3)]
    assert len(fleet.nodes("rl")) == 3

    fleet.submit("llm", sleeps, kind="gang", team="research", gpus=4)
    eventually(lambda: fleet.workload("llm").get("phase") == "running", LIMIT_S)
    (left,) = fleet.details("shrunk", "rl")
    assert (left["killed"], len(fleet.nodes("rl"))) == ([], 2)
    gone = [pid for pid in first if not Path(f"/proc/{pid}").exists()]
    assert len(gone) == 1
    fleet.cancel("llm")

    deaf = fleet.rank("rl", 3)
    assert len(fleet.nodes("rl")) == 3
    fleet.submit("llm2", sleeps, kind="gang", team="research", gpus=4)
    eventually(lambda: fleet.workload("llm2").get("phase") == "running", LIMIT_S)
    late = fleet.details("shrunk", "rl")[-1]
    assert late["killed"] == late["nodes"] == left["nodes"]
    assert not Path(f"/proc/{deaf}").exists()
    assert (fleet.workload("rl")["phase"], fleet.workload("rl")["attempt"]) == ("running", 1)
    fleet.cancel("llm2")

    fleet.rank("rl", 4)
    (staying, _) = [pid for pid in first if Path(f"/proc/{pid}").exists()]
    os.kill(staying, signal.SIGKILL)
    eventually(lambda: fleet.workload("rl").get("attempt") == 2, LIMIT_S)
    (again,) = fleet.details("requeued", "rl")
    assert f"(pid {staying})" in again["why"], "and not the one that was ended at its deadline"
    fleet.rank("rl.2", 1)
    assert len(fleet.nodes("rl")) == 2, "the node on which a rank died is quarantined; it starts with what there is"
    fleet.cancel("rl")
