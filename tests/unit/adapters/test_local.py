"""A local fleet's home, mark and environment, without a Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fleet_app.adapters import local_processes
from fleet_app.adapters.local import environment, nodes_of
from fleet_app.adapters.local_home import FleetHome, Holder
from fleet_app.adapters.local_plan import LocalNode, Plan
from fleet_app.adapters.local_processes import Mark
from fleet_app.engine.errors import RequestError
from fleet_app.policy.fleet import parse_fleet

IDLE = "import signal, sys; print('up', flush=True); signal.pause()"
HERE = Plan(name="a", home="/h", home_id="mark", temp_dir="/tmp/f")
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {IDLE}"


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Mark]:
    found = Mark(home_id=uuid.uuid4().hex, temp_dir=str(tmp_path / "ray"))
    yield found
    local_processes.end_all(found, 10)


def other_mark() -> Mark:
    return Mark(home_id=uuid.uuid4().hex, temp_dir="/nonexistent")


def marked(mark: Mark, code: str = IDLE) -> subprocess.Popen[str]:
    """Start a process of a fleet."""
    env = {**os.environ, local_processes.MARK: mark.home_id}
    process = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == "up\n"
    return process


def test_every_process_with_the_mark_is_found_and_no_other(mark: Mark) -> None:
    one, other = marked(mark), marked(other_mark())
    try:
        assert local_processes.carriers(mark) == (one.pid,)
    finally:
        other.kill()
        other.wait()
        one.kill()
        one.wait()


def test_what_ignores_a_signal_is_ended_all_the_same(mark: Mark) -> None:
    process = marked(mark, DEAF)
    assert local_processes.send(process.pid, mark, signal.SIGTERM)
    assert not local_processes.gone_within(process.pid, mark, 0.0)
    assert local_processes.end_all(mark, 10) == ()
    assert process.wait() == -signal.SIGKILL
    assert local_processes.gone_within(process.pid, mark, 0.0)


def test_a_signal_never_reaches_a_process_of_somebody_else(mark: Mark) -> None:
    process = marked(other_mark())
    assert not local_processes.send(process.pid, mark, signal.SIGKILL)
    assert process.poll() is None
    process.kill()
    process.wait()


def test_a_home_has_one_holder(tmp_path: Path, mark: Mark) -> None:
    home, process = FleetHome(tmp_path), marked(mark)
    holder = Holder(pid=process.pid, home_id=mark.home_id, temp_dir=str(tmp_path / "ray"))
    lock = home.take(holder)
    assert lock is not None
    with lock:
        assert home.take(Holder(pid=1, home_id="other", temp_dir="")) is None
        assert (home.holder(), home.held()) == (holder, True)
    process.kill()
    process.wait()
    assert not home.held()


def test_clearing_ends_what_is_left_and_keeps_what_a_next_fleet_needs(tmp_path: Path, mark: Mark) -> None:
    home, process = FleetHome(tmp_path / "home"), marked(mark)
    home.prepare()
    ray_logs = tmp_path / "ray" / "ray" / "session" / "logs"
    ray_logs.mkdir(parents=True)
    (ray_logs / "raylet.out").write_text("why")
    holder = Holder(pid=process.pid, home_id=mark.home_id, temp_dir=str(tmp_path / "ray"))
    lock = home.take(holder)
    assert lock is not None
    home.write_fleet({"name": "demo"})
    home.policy.write_text("version: 1")
    (home.path / "journal.db").write_text("journal")
    with lock:
        home.clear(holder)
    assert process.wait() == -signal.SIGKILL
    assert {path.name for path in home.path.iterdir()} == {"policy.yaml", "journal.db", "logs"}
    assert (home.logs / "ray" / "raylet.out").read_text() == "why"
    assert not (tmp_path / "ray").exists()


def test_clearing_after_one_fleet_leaves_another_s_addresses(tmp_path: Path, mark: Mark) -> None:
    home = FleetHome(tmp_path)
    lock = home.take(Holder(pid=1, home_id="the other", temp_dir="/nonexistent"))
    assert lock is not None
    home.write_fleet({"name": "demo"})
    with lock:
        home.clear(Holder(pid=2, home_id=mark.home_id, temp_dir="/nonexistent"))
    assert home.fleet.exists()


def test_a_plan_survives_its_way_to_the_supervisor() -> None:
    node = LocalNode(name="n1", gpus=8, cpus=0.5, memory_mib=1024, labels={"fleet/spine": "s1"})
    plan = Plan(name="a", home="/h", home_id="x", temp_dir="/t", nodes=(node,), serve_config="/c.yaml")
    assert Plan.loaded(plan.dumped()) == plan


def test_a_fleet_file_becomes_ray_nodes() -> None:
    text = "version: 1\nname: a\nnodes: [{name: n1, gpus: 4, cpus: 2.5, memory: 1GiB, labels: {class: serving}}]"
    labels = {"fleet/node": "n1", "fleet/class": "serving"}
    assert nodes_of(parse_fleet(text)) == (LocalNode(name="n1", gpus=4, cpus=2.5, memory_mib=1024, labels=labels),)


def test_a_fleet_s_processes_find_this_python_and_no_other_cluster() -> None:
    outer = {
        "PATH": "/usr/bin",
        "RAY_ADDRESS": "10.0.0.1:6379",
        "FLEET_HOME": "/other",
        "LANG": "C",
        "PYTHONPATH": "/p",
    }
    inner = environment(outer, HERE)
    assert inner["PATH"].split(":") == [str(Path(sys.executable).parent), "/usr/bin"]
    assert inner.keys().isdisjoint({"RAY_ADDRESS", "FLEET_HOME"})
    assert (inner["LANG"], inner[local_processes.MARK], inner["RAY_AUTH_MODE"]) == ("C", "mark", "disabled")
    assert inner["PYTHONPATH"].endswith("/p")


def test_an_operator_s_ray_settings_are_kept_unless_the_fleet_needs_its_own() -> None:
    outer = {"RAY_task_retry_delay_ms": "1", "RAY_AUTH_MODE": "token"}
    inner = environment(outer, HERE)
    assert (inner["RAY_task_retry_delay_ms"], inner["RAY_AUTH_MODE"]) == ("1", "disabled")


def test_on_an_existing_ray_the_caller_s_settings_of_it_stay() -> None:
    outer = {"RAY_AUTH_MODE": "token", "RAY_ADDRESS": "10.0.0.1:6379", "FLEET_HOME": "/o"}
    inner = environment(outer, replace(HERE, attach="auto"))
    assert {key: inner[key] for key in inner if key.startswith(("RAY_", "FLEET_"))} == {
        "RAY_AUTH_MODE": "token",
        "RAY_ADDRESS": "10.0.0.1:6379",
        local_processes.MARK: "mark",
    }


def test_a_home_without_a_policy_needs_one(tmp_path: Path) -> None:
    from fleet_app.adapters.local import Wanted, up

    with pytest.raises(RequestError, match="--policy"):
        up(Wanted(home=tmp_path / "home", name="a"), lambda _: None)


def test_a_broken_holder_file_is_nobody(tmp_path: Path) -> None:
    home = FleetHome(tmp_path)
    for text in ("", "{", json.dumps({"pid": 1})):
        home.lock.write_text(text)
        assert home.holder() is None
