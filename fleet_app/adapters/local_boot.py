"""`python -m fleet_app.adapters.local_boot`: the one process that holds a fleet, started by `fleet up`.

Reads a plan on standard input, starts Ray (or finds the one it is to attach to), the arbiter, the gateway and
Serve's applications, says how far it is on a pipe, and stays until SIGTERM. Everything it starts is its child and dies
with it; if whoever asked for the fleet is gone before it is up, all of it is undone. Decides nothing about the fleet.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

import ray

from fleet_app.adapters import actor, local_serve
from fleet_app.adapters.gateway_process import Gateway
from fleet_app.adapters.local_home import FleetHome, Holder, already_up
from fleet_app.adapters.local_nodes import LOOPBACK, RayNodes, free_ports
from fleet_app.adapters.local_plan import Plan
from fleet_app.engine.errors import ConflictError, FaultError, FleetError
from fleet_app.worker.contract import RAY_NAMESPACE

log = logging.getLogger("fleet.local")

START_WITHIN_S = 240.0
"""How long the arbiter may take to start: seconds on a quiet machine."""

CONNECT_WITHIN_S = 5.0
WATCH_EVERY_S = 0.5


class Report:
    """The pipe to whoever asked for the fleet: one JSON object a line, the last one `ready` or `error`."""

    def __init__(self, fd: int) -> None:
        """Write to an inherited descriptor."""
        self._file = os.fdopen(fd, "w", encoding="utf-8")

    def stage(self, name: str, done: int = 0, of: int = 1) -> None:
        """Say what is being started, and how far it is. Raises OSError when nobody listens any more."""
        log.info("%s %d/%d", name, done, of)
        self._say({"name": name, "done": done, "of": of})

    def ready(self, fleet: Mapping[str, object]) -> None:
        """Say that the fleet is up. Raises OSError when nobody listens any more."""
        self._say({"ready": fleet})
        self._file.close()

    def failed(self, error: FleetError) -> None:
        """Say why the fleet is not up."""
        said = {"what": error.what, "where": error.where, "fix": error.fix, "exit_code": error.exit_code}
        with contextlib.suppress(OSError, ValueError):
            self._say({"error": said})

    def _say(self, what: Mapping[str, object]) -> None:
        self._file.write(json.dumps(what) + "\n")
        self._file.flush()


class Supervisor:
    """A fleet from its plan to its end."""

    def __init__(self, plan: Plan, report: Report) -> None:
        """Start nothing yet."""
        self._plan = plan
        self._report = report
        self._home = FleetHome(Path(plan.home))
        self._nodes: RayNodes | None = None
        self._gateway: Gateway | None = None
        self._address = plan.attach or ""
        self._arbiter_is_ours = False

    def boot(self) -> None:
        """Start everything. Raises FleetError; OSError when whoever asked is gone."""
        dashboard_url = self._find_ray() if self._plan.attach else self._start_ray()
        self._report.stage("gateway")
        log_file = self._home.logs / "gateway.log"
        self._gateway = Gateway(self._home, dashboard_url, host=LOOPBACK, log_file=log_file)
        self._gateway.start()
        self._report.stage("arbiter")
        self._start_arbiter(dashboard_url)
        fleet = {
            "name": self._plan.name,
            "ray_address": self._address,
            "dashboard_url": dashboard_url,
            "gateway_url": self._gateway.url(),
            "serve_url": self._deploy(dashboard_url),
            "namespace": RAY_NAMESPACE,
            "ray_version": ray.__version__,
        }
        self._home.write_fleet(fleet)
        self._report.ready(fleet)

    def watch(self) -> NoReturn:
        """Keep the gateway alive and collect what has ended, until a signal.

        Raises FaultError when Ray's head has ended, or the home is gone: nobody could end the fleet any more.
        """
        while True:
            if self._home.holder() is None:
                raise FaultError("the home is gone", where=str(self._home.path))
            if self._nodes is not None and "gcs_server" in self._nodes.reap():
                raise FaultError("Ray's head ended", where=self._address, fix="See logs/ray in the home")
            if self._gateway is not None:
                self._gateway.keep()
            time.sleep(WATCH_EVERY_S)

    def stop(self) -> None:
        """End everything that was started, in the order in which it hurts least."""
        if self._gateway is not None:
            self._gateway.stop()
        if self._nodes is not None:
            self._nodes.stop()
        elif self._arbiter_is_ours:
            with contextlib.suppress(FaultError), _driver(self._address):
                actor.stop_arbiter()

    def _start_ray(self) -> str:
        self._report.stage("head")
        self._nodes = RayNodes(Path(self._plan.temp_dir))
        self._nodes.start_head()
        self._address = self._nodes.address
        count = len(self._plan.nodes)
        self._report.stage("nodes", 0, count)
        self._nodes.start_nodes(self._plan.nodes, lambda started: self._report.stage("nodes", started, count))
        return self._nodes.dashboard_url

    def _find_ray(self) -> str:
        self._report.stage("ray")
        with _driver(self._address) as context:
            self._address = context.address_info["gcs_address"]
            if not context.dashboard_url:
                raise FaultError("this Ray runs without a dashboard", where=self._address, fix="Start it with one")
            return f"http://{context.dashboard_url}"

    def _start_arbiter(self, dashboard_url: str) -> None:
        with _driver(self._address):
            self._arbiter_is_ours = True
            try:
                actor.start_arbiter(self._home.path, dashboard_url, START_WITHIN_S)
            except ConflictError:
                self._arbiter_is_ours = False
                raise

    def _deploy(self, dashboard_url: str) -> str | None:
        if self._plan.serve_config is None:
            return None
        self._report.stage("serve")
        return local_serve.deploy(dashboard_url, Path(self._plan.serve_config), free_ports(1)[0])


@contextlib.contextmanager
def _driver(address: str) -> Iterator[Any]:
    """Be connected to Ray for a while. Raises FaultError."""
    _check_listens(address)
    try:
        context = ray.init(address=address, namespace=RAY_NAMESPACE, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise FaultError(f"cannot connect to Ray ({error})", where=address) from error
    try:
        yield context
    finally:
        ray.shutdown()
        _end_on_signals()  # Ray has put its own handler in their place


def _check_listens(address: str) -> None:
    """Raise FaultError when nothing listens at an address: Ray would try for many minutes."""
    host, colon, port = address.rpartition(":")
    if not colon:  # `auto`: Ray looks for one that runs
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_WITHIN_S).close()
    except (OSError, ValueError) as error:
        raise FaultError(f"no Ray answers ({error})", where=address, fix="Name the address of its GCS") from error


def _end_on_signals() -> None:
    def told(_number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, told)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _hold(plan: Plan, report: Report, home: FleetHome, holder: Holder) -> int:
    """Run the fleet until its end; return the exit code."""
    supervisor = Supervisor(plan, report)
    try:
        supervisor.boot()
        supervisor.watch()
    except FleetError as error:
        log.error("%s", error)
        report.failed(error)
        return error.exit_code
    except SystemExit:
        log.info("told to end")
        return 0
    except OSError as error:
        log.error("nobody waits for this fleet any more (%s)", error)
        return 1
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        supervisor.stop()
        home.clear(holder)


def main(arguments: list[str] | None = None) -> int:
    """Hold a fleet; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fleet_app.adapters.local_boot", description=__doc__)
    parser.add_argument("--report-fd", type=int, required=True)
    asked = parser.parse_args(arguments)
    _end_on_signals()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    plan = Plan.loaded(sys.stdin.read())
    report = Report(asked.report_fd)
    home = FleetHome(Path(plan.home))
    holder = Holder(pid=os.getpid(), home_id=plan.home_id, temp_dir=plan.temp_dir)
    lock: IO[str] | None = home.take(holder)
    if lock is None:
        report.failed(already_up(home))
        return ConflictError.exit_code
    with lock:
        return _hold(plan, report, home, holder)


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    # Threads that still start a node would keep a plain exit waiting.
    os._exit(code)
