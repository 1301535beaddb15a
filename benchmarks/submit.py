"""`submit`: submissions a second through the gateway and to Ray's own Jobs API, by Ray's own client, turn by turn.

Both sides get the same jobs from the same clients, and both begin to run them as they come: what that takes of the
machine is in both figures. A submission counts when its answer is there: with the gateway it is on disk by then.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from benchmarks import live
from benchmarks.result import Result, Samples, result

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

NODES = 2
JOBS = 8
CLIENTS = 2
RUNS = 5
POLICY = """
version: 1
name: bench
topology: {levels: [spine, leaf], gpus_per_node: 8}
organisations: {lab: {teams: {research: {nominal: 16}, serving: {nominal: 0}}}}
defaults: {team: research, kind: gang, nodes: 1, gpus: 1, cpus: 1}
"""
ASKS = {"kind": "gang", "team": "research", "gpus": "1"}


def run() -> Result:
    """Return submissions a second; `ratio` is the gateway's over Ray's own."""
    from ray.job_submission import JobSubmissionClient  # noqa: PLC0415  # a heavy import, of no use to the others

    with live.fleet(POLICY, live.nodes(NODES)) as up:
        ours = [JobSubmissionClient(up.gateway.url) for _ in range(CLIENTS)]
        other = [JobSubmissionClient(up.dashboard_url) for _ in range(CLIENTS)]
        rates: dict[str, list[float]] = {"gateway": [], "ray": []}
        for turn in range(RUNS + 1):  # the first turn warms up
            for side, clients in (("gateway", ours), ("ray", other)):
                rate = _rate(clients, [f"{side}-{turn}-{number}" for number in range(JOBS)])
                rates[side] += [rate] if turn else []
    samples = Samples(ours=rates["gateway"], other=rates["ray"], other_name="Ray's Jobs API")
    return result("submit", f"submissions a second, {JOBS} jobs by {CLIENTS} clients at once", "1/s", samples)


def _rate(clients: list[JobSubmissionClient], names: list[str]) -> float:
    """Submit jobs by several clients at once, and wait until all have ended; return how many it were a second."""
    with ThreadPoolExecutor(len(clients)) as pool:
        began = time.perf_counter()
        for done in [pool.submit(_submit, one, names[at :: len(clients)]) for at, one in enumerate(clients)]:
            done.result()
        taken_s = time.perf_counter() - began
    live.until(lambda: _all_ended(clients[0], names), every_s=0.5)
    return len(names) / taken_s


def _submit(client: JobSubmissionClient, names: list[str]) -> None:
    for name in names:
        client.submit_job(entrypoint="true", submission_id=name, metadata=ASKS)


def _all_ended(client: JobSubmissionClient, names: list[str]) -> bool:
    return {one.submission_id for one in client.list_jobs() if one.status.is_terminal()} >= set(names)
