"""`gang-start`: from submission to all ranks running, through the arbiter and by hand with bare Ray, turn by turn.

By hand means what a careful user does: a STRICT_SPREAD group pinned to nodes, then a job that starts its ranks in it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.result import Result, Samples, result
from fleet_app.adapters import local
from fleet_app.adapters.local_plan import LocalNode
from fleet_app.cli.client import Gateway
from fleet_app.worker.environment import JobEnvironment

NODES = 4
GPUS = 8
RUNS = 5
LIMIT_S = 120.0
POLICY = """
version: 1
name: bench
topology: {levels: [spine, leaf], gpus_per_node: 8}
organisations: {lab: {teams: {research: {nominal: 32}, serving: {nominal: 0}}}}
defaults: {team: research, kind: gang, nodes: 1, gpus: 1, cpus: 1}
"""
JOB = """
import sys
import ray
ray.init(log_to_driver=False)
from fleet_app.worker.gang import Membership
@ray.remote
class Rank:
    def __init__(self, rank): pass
    def ready(self): return True
member = Membership.from_environment()
ranks = member.start_ranks(Rank)
ray.get([rank.ready.remote() for rank in ranks])
open(sys.argv[1], "w").close()
"""


def run() -> Result:
    """Return seconds from submission to all ranks running; `ratio` is the arbiter's over bare Ray's."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-", dir="/tmp") as folder, _fleet(Path(folder)) as addresses:
        ours, other = [], []
        for turn in range(RUNS + 1):  # the first turn warms up
            through = _through_arbiter(addresses, Path(folder), turn)
            by_hand = _by_hand(addresses, Path(folder), turn)
            if turn:
                ours.append(through)
                other.append(by_hand)
    samples = Samples(ours=ours, other=other, other_name="bare Ray by hand")
    return result("gang-start", f"gang of {NODES} nodes, submit to all ranks running", "s", samples)


@contextlib.contextmanager
def _fleet(folder: Path) -> Iterator[dict[str, Any]]:
    (folder / "job.py").write_text(JOB, encoding="utf-8")
    nodes = [
        LocalNode(
            name=f"n{i}",
            gpus=GPUS,
            cpus=16,
            memory_mib=32 * 1024,
            labels={"fleet/class": "training", "fleet/node": f"n{i}", "fleet/spine": "s1", "fleet/leaf": "l1"},
        )
        for i in range(NODES)
    ]
    home = folder / "home"
    os.environ.update(local.RAY_ENVIRONMENT)  # for the driver that stands for the careful user
    addresses = dict(local.up(local.Wanted(home=home, name="bench", policy=POLICY, nodes=tuple(nodes)), lambda _: None))
    try:
        yield addresses
    finally:
        local.down(home)


def _through_arbiter(addresses: dict[str, Any], folder: Path, turn: int) -> float:
    gateway = Gateway(url=str(addresses["gateway_url"]))
    name, ready = f"gang-{turn}", folder / f"ready-{turn}"
    spec = {"name": name, "kind": "gang", "team": "research", "nodes": NODES, "gpus": GPUS, "runtime_env": {}}
    began = time.perf_counter()
    gateway.post("submit", {**spec, "entrypoint": f"{sys.executable} {folder}/job.py {ready}"})
    taken_s = _until(ready.exists) - began
    _until(lambda: any(one["name"] == name and one["ended_at"] for one in gateway.get("workloads")))
    return taken_s


def _by_hand(addresses: dict[str, Any], folder: Path, turn: int) -> float:
    import ray  # noqa: PLC0415  # after the environment is set
    from ray.job_submission import JobSubmissionClient  # noqa: PLC0415
    from ray.util import placement_group, remove_placement_group  # noqa: PLC0415

    ready, name = folder / f"ready-by-hand-{turn}", f"by-hand-{turn}"
    ray.init(address=addresses["ray_address"], log_to_driver=False, logging_level=40)
    client = JobSubmissionClient(str(addresses["dashboard_url"]))
    nodes = [node["NodeID"] for node in ray.nodes() if node["Resources"].get("GPU")]
    began = time.perf_counter()
    group = placement_group(
        [{"GPU": GPUS, "CPU": 1}] * NODES,
        strategy="STRICT_SPREAD",
        lifetime="detached",
        bundle_label_selector=[{"ray.io/node-id": node} for node in nodes],
    )
    group.wait(30)
    environment = JobEnvironment(
        attempt=name,
        workload=name,
        group_id=group.id.hex(),
        bundles=NODES,
        gpus_per_bundle=GPUS,
        cpu_milli_per_bundle=1000,
        nodes=tuple(nodes),
        checkpoint_dir=str(folder),
        grace_s=10.0,
    )
    client.submit_job(
        entrypoint=f"{sys.executable} {folder}/job.py {ready}",
        submission_id=name,
        runtime_env={"env_vars": environment.to_env()},
        entrypoint_label_selector={"ray.io/node-id": nodes[0]},
    )
    taken_s = _until(ready.exists) - began
    _until(lambda: client.get_job_status(name).is_terminal())
    remove_placement_group(group)
    ray.shutdown()
    return taken_s


def _until(holds: Any) -> float:
    deadline = time.perf_counter() + LIMIT_S
    while not holds():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"not within {LIMIT_S:.0f} s")
        time.sleep(0.01)
    return time.perf_counter()
