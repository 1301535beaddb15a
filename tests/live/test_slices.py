"""Parts of cards for real: on a fleet whose nodes say what they are cut into, jobs get a partition and a share."""

from __future__ import annotations

import json
import signal
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet_app.adapters import local
from fleet_app.adapters.local_home import FleetHome
from fleet_app.adapters.local_processes import carriers, send
from fleet_app.cli.client import Gateway
from fleet_app.policy.fleet import parse_fleet
from tests.live.waiting import eventually

pytestmark = pytest.mark.live

REPOSITORY = Path(__file__).parents[2]
LIMIT_S = 90.0

NODES = """
version: 1
name: slices
nodes:
  - {name: cut, gpus: 0, cpus: 8, accelerator: H100, partitions: {1g.10gb: 7}, labels: {class: training, leaf: l1}}
  - {name: shared, gpus: 2, cpus: 8, accelerator: L4, labels: {class: training, leaf: l1, partition: shared}}
"""

POLICY = """
version: 1
name: slices
topology: {levels: [leaf], gpus_per_node: 2}
organisations:
  lab:
    teams:
      batch: {nominal: 4, quota: {h100-mig-1g.10gb: {nominal: 2, borrowing_limit: 0}}}
slicing: {}
defaults: {team: batch, cpus: 0.5}
"""

JOB = """
import json, os, sys, time
from pathlib import Path
import ray
ray.init(log_to_driver=False)
from fleet_app.worker.drain import drain_requested, install_signal_handler
from fleet_app.worker.gang import Membership
install_signal_handler()
member = Membership.from_environment()

@ray.remote
class Rank:
    def __init__(self, rank):
        self.rank = rank

    def told(self):
        context = ray.get_runtime_context()
        return {
            "node": context.get_node_labels()["fleet/node"],
            "devices": ray.get_gpu_ids(),
            "has": context.get_assigned_resources(),
            "flavor": os.environ["FLEET_FLAVOR"],
            "card": os.environ["FLEET_CARD"],
        }

(rank,) = member.start_ranks(Rank)
folder = Path(sys.argv[1])
told = folder / f"{member.job.attempt}.json"
told.with_suffix(".new").write_text(json.dumps(ray.get(rank.told.remote())))
told.with_suffix(".new").rename(told)
while drain_requested() is None and not (folder / "end").exists():
    time.sleep(0.1)
"""


class Fleet:
    """A fleet that is up, asked as a user asks it."""

    def __init__(self, home: Path, addresses: dict[str, Any], folder: Path) -> None:
        holder = FleetHome(home).holder()
        assert holder is not None
        self.mark, self.folder = holder.mark, folder
        self.gateway = Gateway(url=str(addresses["gateway_url"]))
        (folder / "job.py").write_text(textwrap.dedent(JOB))

    def submit(self, name: str, **spec: object) -> None:
        entrypoint = f"{sys.executable} {self.folder / 'job.py'} {self.folder}"
        self.gateway.post("submit", {"name": name, "kind": "backfill", "entrypoint": entrypoint, **spec})

    def phase(self, name: str) -> str:
        return next((str(each["phase"]) for each in self.gateway.get("workloads") if each["name"] == name), "")

    def told(self, name: str) -> dict[str, Any]:
        told = self.folder / f"{name}.json"
        eventually(told.exists, LIMIT_S)
        found: dict[str, Any] = json.loads(told.read_text())
        return found

    def users(self) -> dict[tuple[str, int], list[str]]:
        cards = {(node["name"], card["index"]): card for node in self.gateway.get("nodes") for card in node["cards"]}
        found = {where: sorted(user["what"] for user in card["users"]) for where, card in cards.items()}
        return {where: names for where, names in found.items() if names}

    def kill_arbiter(self) -> None:
        for pid in carriers(self.mark):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::FleetArbiter"):
                send(pid, self.mark, signal.SIGKILL)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    home = tmp_path / "home"
    wanted = local.Wanted(home=home, name="slices", policy=POLICY, nodes=local.nodes_of(parse_fleet(NODES)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        addresses = dict(local.up(wanted, lambda _: None))
    up = Fleet(home, addresses, tmp_path)
    try:
        yield up
    finally:
        local.down(home)
    assert carriers(up.mark) == ()


def test_a_partition_and_shares_of_one_card_are_got_kept_and_given_back(fleet: Fleet) -> None:
    for number in range(3):
        fleet.submit(f"seventh-{number}", partition="1g.10gb")
    for number, share in enumerate((0.5, 0.25, 0.5)):
        fleet.submit(f"share-{number}", share=share)
    first = fleet.told("seventh-0")
    assert (first["node"], first["has"].get("mig-1g.10gb"), first["flavor"]) == ("cut", 1.0, "h100-mig-1g.10gb")
    shares = [fleet.told(f"share-{number}") for number in range(3)]
    assert [one["has"]["GPU"] for one in shares] == [0.5, 0.25, 0.5]
    assert {one["flavor"] for one in shares} == {"l4-shared"}
    # Each is on one device, and Ray chose as the books did: by card, those are together that are by device.
    assert [len(one["devices"]) for one in shares] == [1, 1, 1]
    by_device = {
        str(one["devices"][0]): {each["card"] for each in shares if each["devices"] == one["devices"]} for one in shares
    }
    assert len(by_device) == 2
    assert all(len(on) == 1 for on in by_device.values())
    # The third is above what its team has of that flavor, though five partitions are free.
    eventually(lambda: fleet.phase("seventh-1") == "running", LIMIT_S)
    assert fleet.phase("seventh-2") == "queued"
    why = fleet.gateway.get("explain/seventh-2")["sentence"]
    assert why == "needs a partition 1g.10gb, which counts as 1 in its quota; team batch has 0 left there"
    before = fleet.users()
    assert before[("cut", 0)] == ["seventh-0", "seventh-1"]
    fleet.kill_arbiter()
    fleet.submit("share-3", share=0.25)
    eventually(lambda: fleet.phase("share-3") == "running", LIMIT_S)
    after = fleet.users()
    assert {where: [name for name in names if name != "share-3"] for where, names in after.items()} == before
    (fleet.folder / "end").touch()
    eventually(lambda: fleet.phase("seventh-2") == "succeeded" and fleet.users() == {}, LIMIT_S)
    assert {fleet.phase(f"share-{number}") for number in range(4)} == {"succeeded"}
