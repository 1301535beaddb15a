"""A small private Ray cluster on this machine's loopback, for tests that need a real one.

A head and labelled nodes with pretended GPUs, held by a process of its own, beside any other Ray cluster here:
own temporary folder, free ports, loopback only. Every process that ever starts in the box inherits a mark in its
environment; that is how the end of the box finds all of them, also after a test failed or was killed.
Does not know pytest, nor what the tests do in the box.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MARK = "RAYBOX_MARK"
BOOT_LIMIT_S = 240
HEAD = "head"
REPOSITORY = Path(__file__).resolve().parents[2]

# What a cluster on loopback needs, for its own processes and for drivers that connect to it.
ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # keeps 127.0.0.1 from being rewritten to an outer address
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_gcs_server_port_wait_time_s": "120",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """A node of the box; its name becomes the label `fleet/node`."""

    name: str
    gpus: int = 8
    cpus: int = 8
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RayBox:
    """A cluster that is up; `node_ids` and `raylet_pids` by node name, the head's among them."""

    address: str
    dashboard_url: str
    home: Path
    node_ids: Mapping[str, str]
    raylet_pids: Mapping[str, int]


@contextlib.contextmanager
def boot(
    nodes: Sequence[NodeSpec],
    *,
    environment: Mapping[str, str] | None = None,
    system_config: Mapping[str, object] | None = None,
) -> Iterator[RayBox]:
    """Boot a head without GPUs and these nodes; end every process of it on the way out."""
    mark = uuid.uuid4().hex
    home = Path(tempfile.mkdtemp(prefix="rb", dir="/tmp"))  # short: sockets below it have 107 characters at most
    plan = {
        "nodes": [asdict(node) for node in nodes],
        "home": str(home),
        "mark": mark,
        "system_config": dict(system_config or {}),
    }
    try:
        with contextlib.ExitStack() as held:
            held.callback(end, mark)
            yield _boot(plan, _environment(home, mark, environment or {}), held)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _boot(plan: Mapping[str, object], env: Mapping[str, str], held: contextlib.ExitStack) -> RayBox:
    """Boot, and once more when Ray gave up: on a busy machine a raylet may miss Ray's own limit of 30 s."""
    home = Path(str(plan["home"]))
    for _ in range(2):
        holder = _start(plan, env)
        held.callback(end_session, holder.pid)
        held.enter_context(holder)
        held.callback(holder.kill)
        box = _await_ready(holder, home)
        if box is not None:
            return box
        end(str(plan["mark"]))
    raise RuntimeError(f"the Ray cluster did not boot:\n{(home / 'box.log').read_text()[-4000:]}")


def _environment(home: Path, mark: str, extra: Mapping[str, str]) -> dict[str, str]:
    outer = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "FLEET_"))}
    paths = [str(REPOSITORY), *filter(None, [outer.get("PYTHONPATH")])]
    return {
        **outer,
        **ENVIRONMENT,
        MARK: mark,
        "RAY_TMPDIR": str(home),
        "PYTHONPATH": os.pathsep.join(paths),
        # An entrypoint's `python` is the one of the head's PATH.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), outer.get("PATH", "")]),
        **extra,
    }


def _start(plan: Mapping[str, object], env: Mapping[str, str]) -> subprocess.Popen[str]:
    with Path(str(plan["home"]), "box.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, __file__, json.dumps(plan)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )


def _await_ready(holder: subprocess.Popen[str], home: Path) -> RayBox | None:
    assert holder.stdout is not None
    ready = next((line for line in holder.stdout if line.startswith("{")), None)
    return None if ready is None else RayBox(home=home, **json.loads(ready))


def end(mark: str) -> None:
    """Kill every process that carries the mark, until two looks in a row find none.

    One look is not enough: a process that is just being started shows no environment for a moment.
    """
    quiet = 0
    while quiet < 2:
        pids = marked(mark)
        quiet = 0 if pids else quiet + 1
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def end_session(leader: int) -> None:
    """Kill what is left of a session: Ray's agents name themselves over their own environment, and with it the mark."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getsid(int(entry.name)) == leader:
                    os.kill(int(entry.name), signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """Return the live processes that carry the mark, this one excepted."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # it ended, or is not ours
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def free_port() -> int:
    """Return a port of loopback that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def hold(plan: Mapping[str, Any]) -> None:
    """Boot the cluster, say where it is on standard output, and hold it until standard input ends."""
    # Only the holder needs Ray, in its own environment.
    from ray._private.utils import write_ray_address
    from ray.cluster_utils import Cluster

    signal.alarm(BOOT_LIMIT_S)
    cluster = Cluster()
    head = cluster.add_node(wait=False, **_head(plan["system_config"]))
    # Else Ray's job supervisors take any cluster that runs on this machine for their own.
    write_ray_address(cluster.address, head._ray_params.temp_dir)
    held = {HEAD: head} | {node["name"]: cluster.add_node(wait=False, **_worker(node)) for node in plan["nodes"]}
    cluster.wait_for_nodes(timeout=BOOT_LIMIT_S)
    signal.alarm(0)
    ready = {
        "address": cluster.address,
        "dashboard_url": f"http://{cluster.webui_url}",
        "node_ids": {name: node.node_id for name, node in held.items()},
        "raylet_pids": {name: node.all_processes["raylet"][0].process.pid for name, node in held.items()},
    }
    print(json.dumps(ready), flush=True)
    sys.stdin.read()


def _head(system_config: object) -> dict[str, object]:
    return {
        **_node(cpus=4, gpus=0, labels={"fleet/node": HEAD}),
        "include_dashboard": True,
        "dashboard_host": "127.0.0.1",
        "dashboard_port": free_port(),
        "_system_config": system_config,
    }


def _worker(node: Mapping[str, Any]) -> dict[str, object]:
    return {
        **_node(cpus=node["cpus"], gpus=node["gpus"], labels={"fleet/node": node["name"], **node["labels"]}),
        # Of its own: a node that unpacks a package removes first what lies there, under the jobs of the others.
        "runtime_env_dir_name": f"runtime_resources_{node['name']}",
    }


def _node(*, cpus: object, gpus: object, labels: Mapping[str, object]) -> dict[str, object]:
    return {
        "num_cpus": cpus,
        "num_gpus": gpus,
        "labels": labels,
        "node_ip_address": "127.0.0.1",
        "object_store_memory": 80 * 1024**2,
        "memory": 16 * 1024**3,
        "dashboard_agent_listen_port": None,  # any free one; the default is taken when another cluster runs here
    }


if __name__ == "__main__":
    _plan = json.loads(sys.argv[1])
    try:
        hold(_plan)
    finally:
        end(_plan["mark"])
    shutil.rmtree(_plan["home"], ignore_errors=True)  # after a failed boot it stays: its owner reads the log
