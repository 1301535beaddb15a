"""The arbiter as it really runs: a detached, named Ray actor on the head node, and how it is started and found.

Wires the ports on Ray to the arbiter's loop. One thread runs cycles; a second says that the arbiter is alive, but only
while the first one moves, so a loop that hangs reads as silent. Ray starts the actor again whenever its process ends;
it then goes on from the journal. Decides nothing.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from fleet_app.adapters import kube_cards, private
from fleet_app.adapters.board import RayBoard
from fleet_app.adapters.clock import SystemClock
from fleet_app.adapters.cluster import RayCluster
from fleet_app.adapters.jobs import RayJobs
from fleet_app.adapters.kube_client import Kube, of_environment
from fleet_app.adapters.kube_pools import KubePools
from fleet_app.adapters.ray_scaling import ask_nodes
from fleet_app.arbiter import pools_file
from fleet_app.arbiter.facts import NoPools, Ports
from fleet_app.arbiter.journal import Journal
from fleet_app.arbiter.loop import Loop
from fleet_app.arbiter.ports import Board, Clock
from fleet_app.engine.errors import ConflictError, FaultError, FleetError, NotFoundError
from fleet_app.worker import contract

log = logging.getLogger("fleet.arbiter")

STUCK_S = 5.0
"""A loop that did not move for so long is not vouched for any more."""

GLANCE_S = 0.05
"""How often an idle loop looks whether somebody has put a request into its inbox."""

AGAIN_S = 1.0
START_WITHIN_S = 60.0
LOG_BYTES = 10 * 1024 * 1024
ALIVE_FILE = "arbiter.alive"


class Runner:
    """The loop's thread, and what is known of it. A loop that fails is replaced by a new one from the journal."""

    def __init__(self, home: Path, ports: Ports) -> None:
        """Start nothing yet."""
        self._home = home
        self._ports = ports
        self._wake = threading.Event()
        self._journal: Journal | None = None
        self._loop: Loop | None = None
        self._cycles = 0
        self._last_cycle_s = 0.0
        self._last_error = ""

    def wake(self) -> None:
        """Let the next cycle begin now."""
        self._wake.set()

    def moves(self) -> tuple[int, int]:
        """Return numbers that differ from time to time as long as the loop does its work."""
        loop = self._loop
        well = loop is not None and not loop.blind and not self._last_error
        return self._cycles, loop.moves if loop is not None and well else 0

    def status(self) -> dict[str, object]:
        """Return how the loop does."""
        loop = self._loop
        return {
            "pid": os.getpid(),
            "cycles": self._cycles,
            "last_cycle_s": self._last_cycle_s,
            "paused": loop is not None and loop.paused,
            "last_error": self._last_error,
            "failing": [] if loop is None else list(loop.failing),
        }

    def run(self) -> None:
        """Run cycles for ever."""
        while True:
            self._wake.clear()
            inbox = self._inbox_stamp()
            began = time.monotonic()
            wait_s = self._guarded_cycle()
            self._last_cycle_s = time.monotonic() - began
            # Never busy for more than half of the time, whatever there is to do.
            time.sleep(min(self._last_cycle_s, GLANCE_S))
            self._rest(wait_s, inbox)

    def _rest(self, wait_s: float, inbox: int) -> None:
        """Wait until a cycle is due: it is time, somebody calls, or something new lies in the inbox."""
        until = time.monotonic() + wait_s
        while (left_s := until - time.monotonic()) > 0:
            if self._wake.wait(min(GLANCE_S, left_s)) or self._inbox_stamp() != inbox:
                return

    def _inbox_stamp(self) -> int:
        try:
            return (self._home / "inbox").stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _guarded_cycle(self) -> float:
        try:
            if self._loop is None:
                self._journal = Journal(self._home / "journal.db")
                self._loop = Loop(self._home, self._ports, self._journal)
            wait_s = self._loop.cycle()
        except FleetError as error:
            log.error("the cycle failed: %s", error.sentence())
            self._give_up(error.sentence())
            return AGAIN_S
        except Exception as error:  # the one guard: whatever it was, a new loop starts from what the journal says
            log.exception("the cycle failed")
            self._give_up(repr(error))
            return AGAIN_S
        self._last_error = "Ray cannot be seen" if self._loop.blind else ""
        self._cycles += not self._loop.blind
        return wait_s

    def _give_up(self, why: str) -> None:
        """Drop a loop that is spent."""
        self._last_error = why
        if self._journal is not None:
            self._journal.close()
        self._journal = self._loop = None


class Pulse:
    """The thread that says that the arbiter is alive: on the board for Serve, in the home for the gateway."""

    def __init__(self, home: Path, board: Board, clock: Clock, moves: Callable[[], object]) -> None:
        """Vouch for whatever `moves` watches."""
        self._file = home / ALIVE_FILE
        self._board = board
        self._clock = clock
        self._moves = moves
        self._seen: object = None
        self._seen_at = 0.0

    def run(self) -> None:
        """Renew the sign of life for ever, while there is life."""
        while True:
            self.beat(time.monotonic())
            time.sleep(contract.LEASE_RENEWAL_S)

    def beat(self, monotonic_s: float) -> bool:
        """Renew the sign of life, unless nothing moved for too long; return whether it was renewed."""
        seen = self._moves()
        if seen != self._seen:
            self._seen, self._seen_at = seen, monotonic_s
        if monotonic_s - self._seen_at > STUCK_S:
            return False
        try:
            self._board.renew_lease(self._clock.now())
            self._file.touch()
        except (FaultError, OSError) as error:
            log.warning("the sign of life cannot be renewed: %s", error)
            return False
        return True


class FleetArbiter:
    """The actor. Its methods answer at once, whatever the loop is doing."""

    def __init__(self, home: str, dashboard_url: str) -> None:
        """Start the threads; what goes wrong is in `status`, so that Ray never gives the actor up."""
        path = Path(home)
        _log_to(path / "logs")
        clock = SystemClock()
        board = RayBoard(clock)
        pools = pools_of(path, clock)
        ports = Ports(
            cluster=RayCluster(),
            jobs=RayJobs(dashboard_url, path / "packages"),
            board=board,
            clock=clock,
            cards=kube_cards.of_environment(),
            pools=pools or NoPools(),
        )
        self._home = home
        self._runner = Runner(path, ports)
        pulse = Pulse(path, board, clock, self._runner.moves)
        for problem in private.check_contract():
            log.error("this Ray is not the one that we know: %s: %s", problem.thing, problem.error)
        threads = [("fleet-loop", self._runner.run), ("fleet-pulse", pulse.run)]
        if pools is not None:
            threads.append(("fleet-pools", pools.run))
        for name, run in threads:
            threading.Thread(target=run, name=name, daemon=True).start()

    def wake(self) -> None:
        """Let the next cycle begin now."""
        self._runner.wake()

    def pid(self) -> int:
        """Return the process id."""
        return os.getpid()

    def home(self) -> str:
        """Return the home of the fleet that this is the arbiter of."""
        return self._home

    def status(self) -> dict[str, object]:
        """Return cycles so far, how long the last one took, whether it is paused, and what fails."""
        return self._runner.status()


def pools_of(home: Path, clock: Clock) -> KubePools | None:
    """Return the pools that the fleet's nodes come from; None outside of Kubernetes."""
    found = of_environment()
    if found is None:
        return None
    pools = KubePools(Kube.of_pod, *found, clock)
    pools.ask_nodes = ask_nodes
    pools.tell = partial(pools_file.write, home)
    return pools


def start_arbiter(home: Path, dashboard_url: str, within_s: float = START_WITHIN_S) -> Any:
    """Start the arbiter of a home, and return its handle once it has run a cycle; one that runs already is that one.

    Needs a driver in Ray namespace `fleet`: groups are found by name within a namespace. Raises ConflictError when the
    cluster has the arbiter of another home, FaultError when it does not come up.
    """
    if ray.get_runtime_context().namespace != contract.RAY_NAMESPACE:
        raise FaultError("the arbiter must be started from Ray namespace fleet", where="ray.init", fix="Set namespace")
    for name in ("logs", "inbox", "packages", "checkpoints"):
        (home / name).mkdir(parents=True, exist_ok=True)
    arbiter = (
        ray.remote(FleetArbiter)
        .options(
            name=contract.ARBITER_ACTOR,
            namespace=contract.RAY_NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_task_retries=-1,
            num_cpus=0,
            resources={private.HEAD_RESOURCE: 0.001},
        )
        .remote(str(home.resolve()), dashboard_url)
    )
    _await_cycle(arbiter, str(home.resolve()), within_s)
    return arbiter


def _await_cycle(arbiter: Any, home: str, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    status: dict[str, object] = {}
    while time.monotonic() < deadline:
        try:
            other = ray.get(arbiter.home.remote(), timeout=within_s)
            status = ray.get(arbiter.status.remote(), timeout=within_s)
        except RayError as error:
            raise FaultError(f"the arbiter does not start: {error}", where=contract.ARBITER_ACTOR) from error
        if other != home:
            raise ConflictError(f"this Ray has the arbiter of {other}", where=home, fix="Stop that fleet first")
        if status["cycles"]:
            return
        time.sleep(0.05)
    raise FaultError(
        f"the arbiter runs no cycle: {status.get('last_error') or 'it hangs'}", where=home, fix="See logs/arbiter.log"
    )


def find_arbiter() -> Any:
    """Return the handle of the cluster's arbiter. Raises NotFoundError when there is none."""
    try:
        return ray.get_actor(contract.ARBITER_ACTOR, namespace=contract.RAY_NAMESPACE)
    except ValueError:
        raise NotFoundError("no arbiter runs in this Ray", where=contract.ARBITER_ACTOR, fix="Run `fleet up`") from None


def stop_arbiter() -> None:
    """End the arbiter for good; what it started goes on. Nothing happens when there is none."""
    try:
        ray.kill(find_arbiter(), no_restart=True)
    except NotFoundError:
        return


def _log_to(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    handler = RotatingFileHandler(folder / "arbiter.log", maxBytes=LOG_BYTES, backupCount=2)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.getLogger("fleet").addHandler(handler)
    logging.getLogger("fleet").setLevel(logging.INFO)
