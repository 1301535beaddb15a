"""`decide-256` and its growth curve: one decision on a full, fragmented fleet, indexes built inside the timing.

`memory-256` and its curve: the most that the same decision has in memory beyond its input, plan included.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from functools import partial

from benchmarks import fleets
from benchmarks.result import Result, Samples, result
from fleet_app.engine.decide import decide

SIZES = ((256, 1_000), (512, 2_000), (1024, 4_000), (2048, 6_000), (4096, 10_000))
RUNS = 7
NOW = 100_000.0


def run(nodes: int, pending: int) -> Result:
    """Return the median of one decision in milliseconds."""
    state, policy = fleets.fleet(nodes, pending), fleets.policy(nodes)
    taken_ms = []
    gc.disable()
    for _ in range(RUNS):
        began = time.perf_counter()
        decide(state, policy, NOW)
        taken_ms.append((time.perf_counter() - began) * 1000)
    gc.enable()
    what = f"one decision, {nodes} nodes, {pending} pending of {fleets.distinct(state)} kinds"
    return result(f"decide-{nodes}", what, "ms", Samples(ours=taken_ms))


def memory(nodes: int, pending: int) -> Result:
    """Return the most memory that one decision takes, in MiB."""
    state, policy = fleets.fleet(nodes, pending), fleets.policy(nodes)
    gc.collect()
    tracemalloc.start()
    decide(state, policy, NOW)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    what = f"memory of one decision, {nodes} nodes, {pending} pending"
    return result(f"memory-{nodes}", what, "MiB", Samples(ours=[peak / 2**20]))


BENCHMARKS = {
    **{f"decide-{nodes}": partial(run, nodes, pending) for nodes, pending in SIZES},
    **{f"memory-{nodes}": partial(memory, nodes, pending) for nodes, pending in SIZES},
}
