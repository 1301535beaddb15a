"""`gang-start`: from submission to all ranks running, through the arbiter and by hand with bare Ray, turn by turn.

By hand means what a careful user does: a STRICT_SPREAD group pinned to nodes, then a job that starts its ranks in it.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from benchmarks import live
from benchmarks.result import Result, Samples, result
from fleet_app.worker.environment import JobEnvironment

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

NODES = 4
RUNS = 5
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
    with live.fleet(POLICY, live.nodes(NODES)) as up:
        up.script(JOB)
        ours, other = [], []
        for turn in range(RUNS + 1):  # the first turn warms up
            through = _through_arbiter(up, turn)
            by_hand = _by_hand(up, turn)
            if turn:
                ours.append(through)
                other.append(by_hand)
    samples = Samples(ours=ours, other=other, other_name="bare Ray by hand")
    return result("gang-start", f"gang of {NODES} nodes, submit to all ranks running", "s", samples)


def _through_arbiter(up: live.Fleet, turn: int) -> float:
    name, ready = f"gang-{turn}", up.folder / f"ready-{turn}"
    began = time.perf_counter()
    up.submit(name, f"{up.folder}/job.py {ready}", kind="gang", team="research", nodes=NODES, gpus=live.GPUS)
    taken_s = live.until(ready.exists) - began
    live.until(lambda: up.ended([name]))
    return taken_s


def _by_hand(up: live.Fleet, turn: int) -> float:
    from ray.job_submission import JobSubmissionClient  # noqa: PLC0415  # after the environment is set

    with live.driver(up):
        return _started_by_hand(up, JobSubmissionClient(up.dashboard_url), turn)


def _started_by_hand(up: live.Fleet, client: JobSubmissionClient, turn: int) -> float:
    import ray  # noqa: PLC0415  # after the environment is set
    from ray.util import placement_group, remove_placement_group  # noqa: PLC0415

    ready, name = up.folder / f"ready-by-hand-{turn}", f"by-hand-{turn}"
    nodes = [node["NodeID"] for node in ray.nodes() if node["Resources"].get("GPU")]
    began = time.perf_counter()
    group = placement_group(
        [{"GPU": live.GPUS, "CPU": 1}] * NODES,
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
        gpus_per_bundle=live.GPUS,
        cpu_milli_per_bundle=1000,
        nodes=tuple(nodes),
        checkpoint_dir=str(up.folder),
        grace_s=10.0,
    )
    client.submit_job(
        entrypoint=f"{sys.executable} {up.folder}/job.py {ready}",
        submission_id=name,
        runtime_env={"env_vars": environment.to_env()},
        entrypoint_label_selector={"ray.io/node-id": nodes[0]},
    )
    taken_s = live.until(ready.exists) - began
    live.until(lambda: client.get_job_status(name).is_terminal())
    remove_placement_group(group)
    return taken_s
