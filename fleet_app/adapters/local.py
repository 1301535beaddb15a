"""`fleet up` and `fleet down` for whoever calls them: starts the supervisor of a fleet, and ends it.

Whatever goes wrong in between, Ctrl-C included, leaves nothing behind. Does not import Ray: that is the supervisor's,
in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import site
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleet_app.adapters.local_home import FleetHome, Holder, already_up
from fleet_app.adapters.local_plan import LocalNode, Plan
from fleet_app.adapters.local_processes import MARK, carriers, gone_within, send
from fleet_app.engine.errors import FaultError, FleetError, NotFoundError, RequestError
from fleet_app.policy.fleet import FleetFile

END_WITHIN_S = 30.0
_LOG_LINES = 15

# Without it drivers replace 127.0.0.1 by an outer address, and hang.
_LOOPBACK_STAYS = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}

RAY_ENVIRONMENT = {
    **_LOOPBACK_STAYS,
    "RAY_enable_worker_prestart": "0",  # or every node starts a worker for each of its declared CPUs
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_niceness": "0",  # or the arbiter and Serve yield to every job's driver on the same machine
    "RAY_agent_register_timeout_ms": "180000",  # many agents on few cores need more than the default of 30 s
    "RAY_AUTH_MODE": "disabled",  # or Ray takes a token file of the user's into account
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_SERVE_CONTROLLER_CALLBACK_IMPORT_PATH": "fleet_app.adapters.serve_groups:install",
}

# What would lead the fleet's own processes to another cluster or into another one's files, or make them slow.
_NOT_INHERITED = frozenset(
    {
        *("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_REDIS_ADDRESS", "RAY_NAMESPACE", "RAY_AUTH_TOKEN"),
        *("RAY_OVERRIDE_LABELS", "RAY_OVERRIDE_RESOURCES", "RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_TMPDIR"),
        "PYTHONDONTWRITEBYTECODE",  # dozens of interpreters would compile all of Ray, every time
    }
)

_children: dict[str, subprocess.Popen[str]] = {}
"""The supervisors that this process started, by mark: it also has to collect them when they end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What `fleet up` is asked for.

    `nodes` are started here, or `attach` is the address of a Ray that runs; `policy` is text that was checked, None
    for the one that the home has already. `detached` is whether it outlives the terminal: one that does not is in the
    caller's session, where niceness counts; Linux shares the processors between sessions first (sched(7), autogroup).
    """

    home: Path
    name: str
    policy: str | None = None
    nodes: tuple[LocalNode, ...] = ()
    attach: str | None = None
    serve_config: Path | None = None
    detached: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """How far a fleet is that is being started: the part under way, and how much of it is done."""

    name: str
    done: int
    of: int


def nodes_of(fleet: FleetFile) -> tuple[LocalNode, ...]:
    """Return the Ray nodes that a fleet file describes."""
    return tuple(
        LocalNode(
            name=node.name,
            gpus=node.gpus,
            cpus=node.cpus / 1000,
            memory_mib=node.memory,
            labels=node.ray_labels(),
            resources=node.ray_resources(),
        )
        for node in fleet.nodes
    )


def up(wanted: Wanted, on_stage: Callable[[Stage], None]) -> Mapping[str, object]:
    """Start a fleet, calling `on_stage` as it goes; return what is then in its fleet.json.

    Raises ConflictError when one is up there, RequestError and FaultError as the parts do; nothing then runs.
    """
    home = FleetHome(wanted.home.resolve())
    home.prepare()
    if home.held():
        raise already_up(home)
    if (former := home.holder()) is not None:  # its supervisor was killed
        home.clear(former)
    _put_policy(home, wanted.policy)
    plan = Plan(
        name=wanted.name,
        home=str(home.path),
        home_id=uuid.uuid4().hex,
        # Short, wherever the home is: paths of sockets below it have 107 characters at most.
        temp_dir=tempfile.mkdtemp(prefix="fleet-", dir="/tmp"),
        nodes=wanted.nodes,
        attach=wanted.attach,
        serve_config=str(wanted.serve_config.resolve()) if wanted.serve_config else None,
    )
    return _started(home, plan, on_stage, detached=wanted.detached)


def down(home_path: Path) -> int:
    """End the fleet of a home and every process of it; return how many there were.

    Raises NotFoundError when none is up there, FaultError when a process does not end.
    """
    home = FleetHome(home_path.resolve())
    holder = home.holder()
    if holder is None:
        raise NotFoundError("no fleet is up here", where=str(home.path), fix="Name its --home")
    count = len(carriers(holder.mark))
    with _uninterrupted():
        _end(home, holder)
    return count


def _put_policy(home: FleetHome, text: str | None) -> None:
    if text is not None:
        home.policy.write_text(text, encoding="utf-8")
    elif not home.policy.exists():
        raise RequestError("this home has no policy yet", where=str(home.path), fix="Name one with --policy")


def _started(home: FleetHome, plan: Plan, on_stage: Callable[[Stage], None], *, detached: bool) -> Mapping[str, object]:
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as report:
        try:
            supervisor = _spawn(home, plan, writing, detached=detached)
        finally:
            os.close(writing)
        try:
            assert supervisor.stdin is not None
            with supervisor.stdin:
                supervisor.stdin.write(plan.dumped())
            return _await_ready(report, home, on_stage)
        except BaseException:  # Ctrl-C too: nothing half started stays
            with _uninterrupted():
                _end(home, Holder(pid=supervisor.pid, home_id=plan.home_id, temp_dir=plan.temp_dir))
            raise


def _spawn(home: FleetHome, plan: Plan, report_fd: int, *, detached: bool) -> subprocess.Popen[str]:
    with _log(home).open("w", encoding="utf-8") as output:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "fleet_app.adapters.local_boot", "--report-fd", str(report_fd)],
            env=environment(os.environ, plan),
            cwd="/",  # not the home, which somebody may remove
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=(report_fd,),
            # Either way a Ctrl-C in the terminal is for `fleet up` alone.
            start_new_session=detached,
            process_group=None if detached else 0,
            text=True,
        )
    _children[plan.home_id] = supervisor
    return supervisor


def _await_ready(report: Iterable[str], home: FleetHome, on_stage: Callable[[Stage], None]) -> Mapping[str, object]:
    for line in report:
        said = json.loads(line)
        if "ready" in said:
            return dict(said["ready"])
        if "error" in said:
            raise _error(said["error"])
        on_stage(Stage(**said))
    raise FaultError(f"the fleet did not start:\n{_tail(_log(home))}", where=str(_log(home)))


def _error(said: Mapping[str, object]) -> FleetError:
    kind = RequestError if said["exit_code"] == RequestError.exit_code else FaultError
    return kind(str(said["what"]), where=str(said["where"]), fix=str(said["fix"]))


def _end(home: FleetHome, holder: Holder) -> None:
    """End a supervisor and, should it not manage to, everything that it held."""
    send(holder.pid, holder.mark, signal.SIGTERM)
    if not gone_within(holder.pid, holder.mark, END_WITHIN_S):
        send(holder.pid, holder.mark, signal.SIGKILL)
    home.clear(holder)
    if (child := _children.pop(holder.home_id, None)) is not None:
        child.wait()


def environment(outer: Mapping[str, str], plan: Plan) -> dict[str, str]:
    """Return the environment of every process of a fleet, given the caller's.

    On an existing Ray the caller's settings of Ray stay as they are: its authentication, its address.
    """
    package_root = str(Path(__file__).parents[2])
    installed = package_root in (*site.getsitepackages(), site.getusersitepackages())
    paths = [*([] if installed else [package_root]), *filter(None, [outer.get("PYTHONPATH")])]
    inner = {
        **{key: value for key, value in outer.items() if not key.startswith("FLEET_")},
        MARK: plan.home_id,
        # An entrypoint's `python` is the first on the PATH of the node that runs it.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), outer.get("PATH", os.defpath)]),
        **({"PYTHONPATH": os.pathsep.join(paths)} if paths else {}),
    }
    if plan.attach is not None:
        return {**_LOOPBACK_STAYS, **inner} if plan.attach.startswith("127.") else inner
    kept = {key: value for key, value in inner.items() if key not in _NOT_INHERITED}
    return {**kept, **RAY_ENVIRONMENT, "RAY_TMPDIR": plan.temp_dir}


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let no further Ctrl-C come between a fleet and its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def _log(home: FleetHome) -> Path:
    return home.logs / "supervisor.log"


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:])
