"""`fleet up` and `fleet down` for real: what they start, beside what, and that nothing of it stays.

Also the contract test of the private parts of Ray that `adapters/local_nodes.py` stands on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import ray
from ray.job_submission import JobSubmissionClient
from ray.util.state import list_actors

from fleet_app.adapters.local_home import FleetHome, Holder
from fleet_app.adapters.local_processes import carriers
from tests.live import raybox
from tests.live.waiting import eventually

REPOSITORY = Path(__file__).parents[2]
POLICY = REPOSITORY / "clusters" / "small.yaml"
NODES = REPOSITORY / "clusters" / "small-nodes.yaml"
BUSY_S = 120.0
"""How long a busy machine may take."""

ONE_NODE = "version: 1\nname: other\nnodes: [{name: n9, labels: {class: training, spine: s1, leaf: l1}}]\n"


def command(home: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start `fleet` as a person does, for a home."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "FLEET_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "fleet_app.cli.main", *arguments, "--home", str(home)],
        env={**env, "PYTHONPATH": str(REPOSITORY)},
        cwd=home.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that run in the background ignore it, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


def fleet(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `fleet` to its end."""
    process = command(home, *arguments)
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)


@dataclass(frozen=True)
class Up:
    """A fleet that is up."""

    home: Path
    addresses: Mapping[str, Any]
    holder: Holder


def up(home: Path, nodes: Path) -> Up:
    done = fleet(home, "up", "--fleet", str(nodes), "--policy", str(POLICY), "--json")
    assert done.returncode == 0, done.stderr
    holder = FleetHome(home).holder()
    assert holder is not None
    return Up(home=home, addresses=json.loads(done.stdout), holder=holder)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A head and two nodes."""
    home = tmp_path_factory.mktemp("here") / "home"
    started = up(home, NODES)
    yield started
    done = fleet(home, "down")
    assert done.returncode == 0, done.stderr
    assert_nothing_left(started.home, started.holder)


@pytest.fixture(scope="module")
def there(here: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A head and one node, at the same time."""
    folder = tmp_path_factory.mktemp("there")
    nodes = folder / "nodes.yaml"
    nodes.write_text(ONE_NODE)
    started = up(folder / "home", nodes)
    yield started
    fleet(started.home, "down")
    assert_nothing_left(started.home, started.holder)


@contextlib.contextmanager
def ended(home: Path) -> Iterator[None]:
    """End what was started in a home, also when the test fails."""
    try:
        yield
    finally:
        fleet(home, "down")


def assert_nothing_left(home: Path, holder: Holder) -> None:
    assert carriers(holder.mark) == ()
    assert not Path(holder.temp_dir).exists()
    assert {path.name for path in home.iterdir()}.isdisjoint({"fleet.json", "supervisor.json", "gateway.url"})


def labels(up: Up) -> dict[str, dict[str, str]]:
    """Return the fleet's labels of the nodes that Ray has, by name."""
    with ray.init(address=up.addresses["ray_address"], log_to_driver=False, logging_level="ERROR"):
        found = [
            {key: value for key, value in node["Labels"].items() if key.startswith("fleet/")}
            for node in ray.nodes()
            if node["Alive"]
        ]
    return {each["fleet/node"]: each for each in found}


def test_the_nodes_are_as_the_fleet_file_says(here: Up) -> None:
    assert labels(here) == {
        "head": {"fleet/node": "head"},
        "n1": {"fleet/node": "n1", "fleet/class": "training", "fleet/spine": "s1", "fleet/leaf": "l1"},
        "n2": {"fleet/node": "n2", "fleet/class": "serving", "fleet/spine": "s1", "fleet/leaf": "l2"},
    }


def test_everybody_finds_the_addresses_in_the_home(here: Up) -> None:
    known = json.loads((here.home / "fleet.json").read_text())
    assert known == here.addresses
    assert known["namespace"] == "fleet"
    assert known["serve_url"] is None
    assert all(known[key].startswith("http://127.0.0.1:") for key in ("gateway_url", "dashboard_url"))
    assert httpx.get(known["gateway_url"] + "/healthz").is_success


def test_every_process_of_it_is_known_those_included_that_write_over_their_environment(here: Up) -> None:
    titles = [cmdline(pid) for pid in carriers(here.holder.mark)]
    for title, count in {"ray::DashboardAgent": 3, "ray::RuntimeEnvAgent": 3, "ray::FleetArbiter": 1}.items():
        assert sum(each.startswith(title) for each in titles) == count
    assert any(each.startswith("ray-dashboard-JobHead") for each in titles)


def test_a_home_has_one_fleet(here: Up) -> None:
    done = fleet(here.home, "up", "--fleet", str(NODES), "--policy", str(POLICY))
    assert (done.returncode, done.stdout) == (2, "")
    assert "a fleet is up here already" in done.stderr
    assert httpx.get(here.addresses["gateway_url"] + "/healthz").is_success


def test_a_gateway_that_dies_is_started_again_in_the_same_place(here: Up) -> None:
    (gateway,) = [pid for pid in carriers(here.holder.mark) if "fleet_app.gateway" in cmdline(pid)]
    os.kill(gateway, signal.SIGKILL)
    eventually(lambda: gateway not in carriers(here.holder.mark), BUSY_S)
    eventually(lambda: answers(here.addresses["gateway_url"] + "/healthz"), BUSY_S)


def test_two_fleets_on_one_machine_have_nothing_to_do_with_each_other(here: Up, there: Up) -> None:
    assert labels(there).keys() == {"head", "n9"}
    assert labels(here).keys() == {"head", "n1", "n2"}
    shared = {key for key, value in here.addresses.items() if value and there.addresses[key] == value}
    assert shared <= {"namespace", "ray_version"}


def test_a_job_has_our_python_and_its_own_fleet(here: Up, there: Up, tmp_path: Path) -> None:
    code = "import sys, fleet_app, ray; ray.init(); print(sys.executable, ray.get_runtime_context().gcs_address)"
    for each in (here, there):
        client = JobSubmissionClient(each.addresses["dashboard_url"])
        job = client.submit_job(entrypoint=f"python -c '{code}'", runtime_env={"working_dir": str(tmp_path)})
        eventually(lambda client=client, job=job: client.get_job_status(job).is_terminal(), BUSY_S)
        assert client.get_job_logs(job).splitlines()[-1].split() == [sys.executable, each.addresses["ray_address"]]


def test_with_its_supervisor_a_fleet_dies_and_another_one_does_not(here: Up, there: Up) -> None:
    os.kill(there.holder.pid, signal.SIGKILL)
    # Ray's agents first try for a minute to tell the head that their raylet is gone.
    eventually(lambda: all("Agent" in cmdline(pid) for pid in carriers(there.holder.mark)), BUSY_S)
    assert httpx.get(here.addresses["gateway_url"] + "/healthz").is_success
    done = fleet(there.home, "down")
    assert done.returncode == 0, done.stderr
    assert_nothing_left(there.home, there.holder)


def test_ctrl_c_while_a_fleet_starts_leaves_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with ended(home):
        starting = command(home, "up", "--fleet", str(NODES), "--policy", str(POLICY))
        assert starting.stderr is not None
        for line in starting.stderr:
            if "nodes" in line:
                break
        holder = FleetHome(home).holder()
        assert holder is not None
        os.killpg(starting.pid, signal.SIGINT)
        _, rest = starting.communicate()
        assert starting.returncode == 130
        assert "Traceback" not in rest
        assert_nothing_left(home, holder)


def test_on_an_existing_ray_only_the_arbiter_and_the_gateway_start_and_end(tmp_path: Path) -> None:
    home = tmp_path / "home"
    attach = ("up", "--policy", str(POLICY), "--json", "--attach")
    with raybox.boot(()) as box, ended(home):
        first = fleet(home, *attach, box.address)
        assert first.returncode == 0, first.stderr
        addresses, holder = json.loads(first.stdout), FleetHome(home).holder()
        assert holder is not None
        assert (addresses["ray_address"], addresses["dashboard_url"]) == (box.address, box.dashboard_url)
        assert arbiters(box.dashboard_url) == ["ALIVE"]
        assert json.loads(fleet(home, "status", "--json").stdout)["arbiter"]["alive"]

        second = fleet(tmp_path / "other", *attach, box.address)
        assert (second.returncode, second.stdout) == (2, "")
        assert str(home) in second.stderr
        assert arbiters(box.dashboard_url) == ["ALIVE"]

        assert fleet(home, "down").returncode == 0
        assert_nothing_left(home, holder)
        assert arbiters(box.dashboard_url) == []


def test_a_fleet_whose_home_is_gone_ends(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with raybox.boot(()) as box, ended(home):
        done = fleet(home, "up", "--attach", box.address, "--policy", str(POLICY))
        assert done.returncode == 0, done.stderr
        holder = FleetHome(home).holder()
        assert holder is not None
        shutil.rmtree(home)
        eventually(lambda: carriers(holder.mark) == (), BUSY_S)
        eventually(lambda: arbiters(box.dashboard_url) == [], BUSY_S)
        assert not Path(holder.temp_dir).exists()


def test_a_fleet_on_a_ray_that_is_gone_can_still_be_ended(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with ended(home):
        with raybox.boot(()) as box:
            done = fleet(home, "up", "--attach", box.address, "--policy", str(POLICY))
            assert done.returncode == 0, done.stderr
        holder = FleetHome(home).holder()
        assert holder is not None
        assert fleet(home, "down").returncode == 0
        assert_nothing_left(home, holder)
        nowhere = fleet(home, "up", "--attach", box.address, "--policy", str(POLICY))
        assert (nowhere.returncode, "no Ray answers" in nowhere.stderr) == (1, True)


def arbiters(dashboard_url: str) -> list[str]:
    """Return the states of the arbiters that have not ended, in the Ray there."""
    filters = [("class_name", "=", "FleetArbiter"), ("state", "!=", "DEAD")]
    return [each.state for each in list_actors(dashboard_url, filters=filters)]


def cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False
