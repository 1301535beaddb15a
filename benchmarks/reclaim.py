"""`reclaim-live`: what the arbiter adds to a reclaim, from the signal to the grant, in milliseconds.

Backfill has all of serving's nodes. A demand for one replica is put on the board as Serve's side puts it there. The
arbiter's are two spans: from the demand to the notice, and from the end of the victim's last process, as the kernel
tells it, to the grant on the board, where Serve looks. Between them is the job's own time, which here saves nothing.

In the second span is what Ray needs itself. It is measured by hand in every turn: an actor is ended, its group removed,
and when Ray shows the GPUs another one is made. The share of a turn is both spans less that.
"""

from __future__ import annotations

import os
import select
import statistics
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks import live
from benchmarks.result import Result, Samples, result
from fleet_app.arbiter.records import attempt_id
from fleet_app.worker.contract import Demand

if TYPE_CHECKING:
    from fleet_app.adapters.serve_board import ServeBoard

NODES = 4
RUNS = 9
SERVICE = "bench.chat"
JOBS = tuple(f"lent-{number}" for number in range(NODES))
POLL_S = 0.001
BUNDLE = {"GPU": live.GPUS, "CPU": 1}
OUTSIDE = "outside"
"""The class of the node on which it is done by hand: none of the fleet's."""

POLICY = """
version: 1
name: bench
topology: {levels: [spine, leaf], gpus_per_node: 8}
organisations: {lab: {teams: {serving: {nominal: 32, borrowing_limit: 0}, batch: {nominal: 0}}}}
defaults: {team: batch, kind: backfill, nodes: 1, gpus: 8, cpus: 1}
drain: {grace: 30s}
headroom: {immediate: 0}
"""
JOB = """
import pathlib, sys, time
import ray
ray.init(log_to_driver=False)
from fleet_app.worker.drain import acknowledge, drain_requested, install_signal_handler
from fleet_app.worker.gang import Membership
@ray.remote
class Rank:
    def __init__(self, rank): pass
    def ready(self): return True
install_signal_handler()
member = Membership.from_environment()
ranks = member.start_ranks(Rank)
ray.get([rank.ready.remote() for rank in ranks])
(pathlib.Path(sys.argv[1]) / f"ready-{member.job.attempt}").touch()
while drain_requested() is None:
    time.sleep(0.02)
acknowledge("nowhere", 1)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reclaim: its moments in seconds since the epoch, and what Ray needed by hand between the last two."""

    asked_at: float
    noticed_at: float
    gone_at: float
    granted_at: float
    by_hand_s: float

    @property
    def notice_ms(self) -> float:
        """Return how long it took from the demand to the notice."""
        return 1000.0 * (self.noticed_at - self.asked_at)

    @property
    def grant_ms(self) -> float:
        """Return how long it took from the end of the last process to the grant."""
        return 1000.0 * (self.granted_at - self.gone_at)

    @property
    def share_ms(self) -> float:
        """Return how much of both is the arbiter's: all but what Ray needs itself."""
        return self.notice_ms + self.grant_ms - 1000.0 * self.by_hand_s


def run() -> Result:
    """Return the arbiter's share of a reclaim; `other` is what Ray itself needs for a new group."""
    with live.fleet(POLICY, (*live.nodes(NODES, "serving"), *live.nodes(1, OUTSIDE))) as up, live.driver(up):
        from fleet_app.adapters.serve_board import ServeBoard  # noqa: PLC0415  # imports Ray

        path, board = up.script(JOB), ServeBoard()
        for name in JOBS:
            up.submit(name, f"{path} {up.folder}", kind="backfill", team="batch", gpus=live.GPUS)
        turns = [_turn(up, board) for _ in range(RUNS + 1)][1:]  # the first turn warms up
    notice = statistics.median(turn.notice_ms for turn in turns)
    grant = statistics.median(turn.grant_ms for turn in turns)
    what = f"arbiter's share of a reclaim: demand to notice {notice:.0f}, gone to granted {grant:.0f}, less Ray's own"
    own_ms = [1000.0 * turn.by_hand_s for turn in turns]
    samples = Samples(ours=[turn.share_ms for turn in turns], other=own_ms, other_name="Ray's own, by hand")
    return result("reclaim-live", what, "ms", samples)


def _turn(up: live.Fleet, board: ServeBoard) -> Turn:
    """Let one replica's GPUs be taken back, and lent again."""
    attempts = _running(up)
    by_hand_s = _by_hand()
    handles = _handles(attempts, up.mark)
    asked_at = time.time()
    _want(board, 1)
    gone_at, granted_at = _watched(board, handles)
    (notice,) = _notices(up, asked_at)
    _want(board, 0)
    live.until(lambda: _fences(board) == 0)
    return Turn(
        asked_at=asked_at,
        noticed_at=notice["at"],
        gone_at=gone_at[attempt_id(notice["subject"], notice["detail"]["attempt"])],
        granted_at=granted_at,
        by_hand_s=by_hand_s,
    )


def _running(up: live.Fleet) -> list[str]:
    """Wait until every job is at work, and return their attempts."""
    found: list[str] = []

    def at_work() -> bool:
        known = up.workloads()
        found[:] = [attempt_id(name, known[name]["attempt"]) for name in JOBS if name in known]
        return len(found) == len(JOBS) and all((up.folder / f"ready-{attempt}").exists() for attempt in found)

    live.until(at_work)
    return found


def _handles(attempts: list[str], mark: str) -> Mapping[int, str]:
    """Return a handle of every process of some attempts."""
    from fleet_app.adapters import processes  # noqa: PLC0415  # only where there are jobs

    found = processes.scan(frozenset(attempts), mark=mark)
    return {os.pidfd_open(pid): attempt for attempt in attempts for pid in found[attempt]}


def _want(board: ServeBoard, replicas: int) -> None:
    """Say what the service wants, as Serve's side does."""
    demand = Demand(
        service=SERVICE,
        team="serving",
        gpus=live.GPUS,
        cpu_milli=1000,
        memory_mib=0,
        wanted=replicas,
        floor=0,
        at=time.time(),
    )
    board.publish(demand)
    board.wake()


def _watched(board: ServeBoard, handles: Mapping[int, str]) -> tuple[Mapping[str, float], float]:
    """Return when the last process of each attempt ended that did, and when the grant was there.

    A grant that came before the end would show: both are waited for.
    """
    ends = select.poll()
    for handle in handles:
        ends.register(handle, select.POLLIN)
    left = Counter(handles.values())
    gone_at: dict[str, float] = {}
    granted_at: list[float] = []

    def both() -> bool:
        for handle, _ in ends.poll(0):
            ends.unregister(handle)
            left[handles[handle]] -= 1
            gone_at[handles[handle]] = time.time()
        if not granted_at and _fences(board) == 1:
            granted_at.append(time.time())
        return bool(granted_at) and any(left[attempt] == 0 for attempt in gone_at)

    live.until(both, every_s=POLL_S)
    for handle in handles:
        os.close(handle)
    return gone_at, granted_at[0]


def _notices(up: live.Fleet, since: float) -> list[Mapping[str, Any]]:
    """Return the journal's entries of notices that were posted since a moment."""
    events: list[Mapping[str, Any]] = up.gateway.get("events", limit=10_000)
    return [event for event in events if event["kind"] == "notified" and event["at"] >= since]


def _fences(board: ServeBoard) -> int:
    grants = board.outlook(SERVICE, max_age_s=0.0).grants.get(SERVICE)
    return 0 if grants is None else len(grants.fences)


def _by_hand() -> float:
    """Return how long Ray itself needs from the end of a process to another group on the same GPUs."""
    import ray  # noqa: PLC0415  # after the environment is set
    from ray.util import placement_group, remove_placement_group  # noqa: PLC0415  # as above
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy  # noqa: PLC0415  # as above

    node = next(one["NodeID"] for one in ray.nodes() if one["Labels"].get("fleet/node") == f"{OUTSIDE}-00")

    def group() -> Any:
        made = placement_group([BUNDLE], lifetime="detached", bundle_label_selector=[{"ray.io/node-id": node}])
        made.wait(30)
        return made

    first = group()
    inside = PlacementGroupSchedulingStrategy(placement_group=first)
    holder = ray.remote(_Holder).options(num_gpus=live.GPUS, num_cpus=1, scheduling_strategy=inside).remote()
    handle = os.pidfd_open(ray.get(holder.pid.remote()))
    ray.kill(holder)
    select.select([handle], [], [])
    began = time.perf_counter()
    os.close(handle)
    remove_placement_group(first)
    free = ray._private.state.available_resources_per_node  # noqa: SLF001  # as anybody has to who waits for GPUs
    live.until(lambda: free().get(node, {}).get("GPU", 0.0) >= live.GPUS, every_s=POLL_S)
    second = group()
    taken_s = time.perf_counter() - began
    remove_placement_group(second)
    return taken_s


class _Holder:
    """An actor that holds GPUs until it is ended."""

    def pid(self) -> int:
        return os.getpid()
