"""`arbiter-idle`: what the arbiter's own process takes on 16 nodes, of a processor and of memory.

Idle: nobody asks for anything. Busy: gangs on all nodes report every step, others wait for their end, and in every
second somebody submits one more and another is cancelled. The kernel is asked of the arbiter's process, all its threads
together.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import live
from benchmarks.result import Result, Samples, result

NODES, GANG_NODES = 16, 2
WAITING = 40
WINDOW_S = 10.0
IDLE_WINDOWS, BUSY_WINDOWS = 5, 3
SETTLES_S = 5.0
TICKS_S = os.sysconf("SC_CLK_TCK")
POLICY = """
version: 1
name: bench
topology: {levels: [spine, leaf], gpus_per_node: 8}
organisations: {lab: {teams: {research: {nominal: 128}, serving: {nominal: 0}}}}
defaults: {team: research, kind: gang, nodes: 1, gpus: 1, cpus: 1}
drain: {grace: 10s}
"""
JOB = """
import time
import ray
ray.init(log_to_driver=False)
from fleet_app.worker.drain import acknowledge, drain_requested, install_signal_handler
from fleet_app.worker.heartbeat import heartbeat
install_signal_handler()
step = 0
while drain_requested() is None:
    step += 1
    heartbeat(step)
    time.sleep(0.5)
acknowledge("nowhere", step)
"""


def run() -> Result:
    """Return the share of a processor that an idle arbiter takes; `what` has the busy one's, and the memory."""
    with live.fleet(POLICY, live.nodes(NODES)) as up:
        pid = _pid(up)
        time.sleep(SETTLES_S)
        idle = [share(pid, lambda: time.sleep(WINDOW_S)) for _ in range(IDLE_WINDOWS)]
        empty_mib = resident_mib(_status(pid))
        coming = _fill(up)
        busy = [share(pid, lambda: _stir(up, coming)) for _ in range(BUSY_WINDOWS)]
        full_mib = resident_mib(_status(pid))
    what = (
        f"arbiter on {NODES} idle nodes, of one core; {statistics.median(busy):.1f} % with {NODES // GANG_NODES} gangs"
        f" and {WAITING} waiting, one a second in and out; memory {empty_mib:.0f} MiB, then {full_mib:.0f} MiB"
    )
    return result("arbiter-idle", what, "%", Samples(ours=idle))


def _pid(up: live.Fleet) -> int:
    with live.driver(up):
        import ray  # noqa: PLC0415  # after the environment is set

        from fleet_app.adapters import actor  # noqa: PLC0415  # as above

        return int(ray.get(actor.find_arbiter().pid.remote()))


def _fill(up: live.Fleet) -> Iterator[tuple[str, str]]:
    """Let gangs run on all nodes and others wait; return who comes next and who goes for it."""
    path = up.script(JOB)
    running = [f"gang-{number}" for number in range(NODES // GANG_NODES)]
    waiting = [f"waits-{number}" for number in range(WAITING)]
    for name in (*running, *waiting):
        _submit(up, name, path)
    live.until(lambda: all((up.workloads().get(name) or {}).get("step") for name in running))
    return ((f"comes-{number}", waiting[number]) for number in range(WAITING))


def _stir(up: live.Fleet, coming: Iterator[tuple[str, str]]) -> None:
    """Submit a gang and cancel another in every second of a window."""
    began = time.perf_counter()
    for second in range(int(WINDOW_S)):
        comes, goes = next(coming)
        _submit(up, comes, up.folder / "job.py")
        up.gateway.post(f"cancel/{goes}")
        time.sleep(max(0.0, began + second + 1 - time.perf_counter()))


def _submit(up: live.Fleet, name: str, path: Path) -> None:
    up.submit(name, str(path), kind="gang", team="research", nodes=GANG_NODES, gpus=live.GPUS)


def share(pid: int, meanwhile: Callable[[], None]) -> float:
    """Return how much of one processor a process takes while something else is done, in per cent."""
    began, before = time.perf_counter(), spent_ticks(_stat(pid))
    meanwhile()
    ticks, seconds = spent_ticks(_stat(pid)) - before, time.perf_counter() - began
    return 100.0 * ticks / TICKS_S / seconds


def spent_ticks(stat: str) -> int:
    """Return the processor time in `/proc/PID/stat`, of the program and of the kernel for it, in clock ticks."""
    # The name in parentheses may hold anything, so the fields are counted from behind it.
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def resident_mib(status: str) -> float:
    """Return the resident memory in `/proc/PID/status`, in MiB; what is shared with others counts in full."""
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def _stat(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(errors="replace")


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text(errors="replace")
