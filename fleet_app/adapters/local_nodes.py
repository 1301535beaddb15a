"""Ray's own processes of a local fleet: a head without GPUs, and nodes with declared ones, all on loopback.

Starts them as children of this process, and many at a time. Rests on private parts of Ray (`Node`, `RayParams`),
which are what `ray start` itself uses; the live test of `fleet up` is their contract test. Does not know the fleet.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from ray import NodeID
from ray._private.node import Node
from ray._private.parameter import RayParams as TypedRayParams
from ray._private.utils import write_ray_address

from fleet_app.adapters.local_plan import LocalNode
from fleet_app.engine.errors import FaultError

RayParams: Any = TypedRayParams  # its annotations are wrong: ports as bool, CPUs as int

LOOPBACK = "127.0.0.1"
HEAD = "head"
HEAD_CPUS = 4
AT_ONCE = 4
"""How many nodes start at a time: enough to hide what each waits for on two cores."""

RAY_FOLDER = "ray"
SESSION = "session"
LISTEN_WITHIN_S = 240.0
"""How long a node's two agents may take to start: seconds on a quiet machine, minutes on an overloaded one."""

PORTS = range(20_000, 32_000)
"""Below those that Linux gives out: what is chosen here is not taken by accident before Ray listens on it."""

_CHOOSING = threading.Lock()
_CHOSEN: set[int] = set()

_LISTEN_PORT = "dashboard_agent_listen_port"
_AGENT_PORTS = (_LISTEN_PORT, "metrics_agent_port", "metrics_export_port", "runtime_env_agent_port")

OBJECT_STORE_BYTES = 80 * 1024**2
END_WITHIN_S = 5.0
LOOK_AROUND_S = 0.2

# A killed raylet refuses connections, so it is missed within two seconds; a slow one has ten for each answer.
HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 10_000,
    "health_check_failure_threshold": 3,
}


class RayNodes:
    """The head and the nodes that this process has started.

    The kernel kills a raylet when the *thread* that started it ends, so the threads are kept until the end.
    """

    def __init__(self, temp_dir: Path) -> None:
        """Start nothing yet. Ray opens its own folder, below `temp_dir`, to everybody: `temp_dir` should not be."""
        self._temp_dir = temp_dir / RAY_FOLDER
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ray-node")
        self._head: Any = None
        self._workers: list[Any] = []

    @property
    def address(self) -> str:
        """Return the address of the cluster, host:port."""
        return str(self._head.gcs_address)

    @property
    def dashboard_url(self) -> str:
        """Return the URL of Ray's dashboard, which is also that of its job server."""
        return f"http://{self._head.webui_url}"

    def start_head(self) -> None:
        """Start the head with its dashboard. Raises FaultError."""
        parameters = RayParams(
            session_name=SESSION,
            num_cpus=HEAD_CPUS,
            num_gpus=0,
            labels={"fleet/node": HEAD},
            node_name=HEAD,
            gcs_server_port=0,
            include_dashboard=True,
            dashboard_host=LOOPBACK,
            dashboard_port=free_ports(1)[0],
            no_monitor=True,
            include_log_monitor=True,  # one is enough: all nodes write their logs into one folder
            _system_config=HEALTH_CHECKS,
            **self._common(),
        )
        self._head = _start(parameters, HEAD)
        # Ray's job supervisors look here for their own cluster; without it they take any that runs on this machine.
        write_ray_address(self.address, str(self._temp_dir))

    def start_nodes(self, nodes: Sequence[LocalNode], started: Callable[[int], None]) -> None:
        """Start all nodes, calling `started` with the number of those that are up. Raises FaultError."""
        pending: set[Future[Any]] = {
            self._threads.submit(self._start_node, place, node) for place, node in enumerate(nodes)
        }
        while pending:
            # Looks around now and then: a signal is only handled between two waits.
            done, pending = wait(pending, timeout=LOOK_AROUND_S, return_when=FIRST_COMPLETED)
            self._workers += [future.result() for future in done]
            if done:
                started(len(self._workers))

    def reap(self) -> tuple[str, ...]:
        """Collect processes that have ended; return the kinds of the head's that are gone, such as gcs_server."""
        for node in self._workers:
            node.dead_processes()
        return tuple(sorted(kind for kind, _ in self._head.dead_processes())) if self._head is not None else ()

    def stop(self) -> None:
        """End Ray's own processes, raylets first, each with a few seconds to clean up behind it."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        nodes = [node for node in (*self._workers, self._head) if node is not None]
        _end([process for node in nodes for process in _processes(node, "raylet")])
        _end([process for node in nodes for process in _processes(node)])

    def _common(self) -> dict[str, Any]:
        ports = dict(zip(_AGENT_PORTS, free_ports(len(_AGENT_PORTS)), strict=True))
        node_id = secrets.token_hex(NodeID.size())
        # A raylet waits 15 s for its agent to write its port into this file, and dies when a busy machine makes the
        # agent slower. The port is known already, so the file can be.
        session = self._temp_dir / SESSION
        session.mkdir(parents=True, exist_ok=True)
        (session / f"{_LISTEN_PORT}_{node_id}").write_text(str(ports[_LISTEN_PORT]), encoding="utf-8")
        return {
            "node_ip_address": LOOPBACK,
            "temp_dir": str(self._temp_dir),
            "object_store_memory": OBJECT_STORE_BYTES,
            "min_worker_port": 0,
            "max_worker_port": 0,
            "env_vars": {"RAY_OVERRIDE_NODE_ID_FOR_TESTING": node_id},
            **ports,
        }

    def _start_node(self, place: int, node: LocalNode) -> Any:
        sockets = Path(self._head.get_sockets_dir_path())
        parameters = RayParams(
            gcs_address=self.address,
            num_cpus=node.cpus,
            num_gpus=node.gpus,
            memory=node.memory_mib * 1024**2,
            labels=dict(node.labels),
            resources=dict(node.resources),
            node_name=node.name,
            include_log_monitor=False,
            # Of its own: a node that unpacks a package removes first what lies there, under the jobs of the others.
            runtime_env_dir_name=f"runtime_resources_{place}",
            # Ray would look for free names itself, and two threads would find the same.
            raylet_socket_name=str(sockets / f"r{place}"),
            plasma_store_socket_name=str(sockets / f"p{place}"),
            **self._common(),
        )
        return _start(parameters, node.name)


def free_ports(count: int) -> list[int]:
    """Return free ports of loopback, none that the kernel gives out by itself, and none that was returned before.

    Whoever gets one listens there only later, so that nobody is listening does not say that it is nobody's.
    """
    ports: list[int] = []
    with _CHOOSING, contextlib.ExitStack() as listeners:
        while len(ports) < count:
            port = secrets.choice(PORTS)
            listener = listeners.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                listener.bind((LOOPBACK, port))
                if port not in _CHOSEN:
                    _CHOSEN.add(port)
                    ports.append(port)
    return ports


def _start(parameters: Any, name: str) -> Any:
    """Start a node and wait until it can run something. Raises FaultError."""
    node = _registered(parameters, name)
    _await_agents(node, (parameters.dashboard_agent_listen_port, parameters.runtime_env_agent_port), name)
    return node


def _registered(parameters: TypedRayParams, name: str) -> Any:
    try:
        # No exit hooks of Ray's own: they belong to the main thread, and the supervisor has better ones.
        # `spawn_reaper` is what makes Ray ask the kernel to end the processes with this one.
        return Node(parameters, head=name == HEAD, shutdown_at_exit=False, spawn_reaper=True)
    except Exception as error:  # Ray raises bare Exception when a node does not come up
        raise _failed(name, str(error)) from error


def _await_agents(node: Any, ports: Sequence[int], name: str) -> None:
    deadline = time.monotonic() + LISTEN_WITHIN_S
    for port in ports:
        while not _listens(port):
            if any(True for _ in node.dead_processes()):
                raise _failed(name, "a process of it ended")
            if time.monotonic() > deadline:
                raise _failed(name, f"its agents did not within {LISTEN_WITHIN_S:.0f} s")
            time.sleep(LOOK_AROUND_S)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _failed(name: str, why: str) -> FaultError:
    return FaultError(f"the Ray node did not start ({why})", where=f"node {name}", fix="See logs/ray in the home")


def _processes(node: Any, kind: str | None = None) -> Iterator[subprocess.Popen[bytes]]:
    for known, infos in list(node.all_processes.items()):
        if kind is None or known == kind:
            yield from (info.process for info in infos)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask all to end at once, then wait for each; whoever does not is left to the one who sweeps."""
    for process in processes:
        with contextlib.suppress(OSError):
            process.terminate()
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_WITHIN_S)
