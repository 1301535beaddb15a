"""Jobs start where they are told, end when they are told, and leave no process behind."""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
import pytest
import ray

from fleet_app.adapters import private
from fleet_app.adapters.cluster import RayCluster
from fleet_app.adapters.jobs import RayJobs
from fleet_app.adapters.probes import Probes
from fleet_app.arbiter.ports import JobRequest, JobView
from fleet_app.engine.errors import ConflictError, RequestError
from fleet_app.engine.values import Shape
from fleet_app.worker.environment import JobEnvironment
from tests.live.raybox import RayBox
from tests.live.waiting import eventually

pytestmark = pytest.mark.live

ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
LIMIT_S = 90.0
PACKAGE = "_ray_pkg_0123456789abcde0.zip"


@pytest.fixture
def jobs(connected: RayBox, tmp_path: Path) -> Iterator[RayJobs]:
    jobs = RayJobs(connected.dashboard_url, tmp_path / "packages")
    yield jobs
    for job in jobs.observe():
        if job.status not in ENDED:
            jobs.kill(job.job_id, job.job_id)
    jobs.close()


@pytest.fixture
def group(connected: RayBox) -> Iterator[str]:
    """A group of one bundle with a GPU on node n1."""
    cluster = RayCluster()
    group_id = cluster.create_group("fleet/w/jobs", ((connected.node_ids["n1"], Shape(gpus=1, cpu_milli=1000)),), 20.0)
    assert group_id is not None
    yield group_id
    cluster.remove_group(group_id)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Return an entrypoint that runs a Python text."""

    def write(text: str) -> str:
        path = tmp_path / "job.py"
        path.write_text(text)
        return f"python {path}"

    return write


def request(box: RayBox, job_id: str, entrypoint: str, **changes: object) -> JobRequest:
    group_id = str(changes.pop("group_id", "00"))
    environment = JobEnvironment(
        attempt=job_id,
        workload=job_id,
        group_id=group_id,
        bundles=1,
        gpus_per_bundle=1,
        cpu_milli_per_bundle=1000,
        nodes=("n1",),
        checkpoint_dir=str(box.home),
        grace_s=30,
    )
    values: dict[str, object] = {
        "runtime_env": {},
        "metadata": {},
        "driver_node_id": box.node_ids["n1"],
        "environment": environment.to_env(),
        **changes,
    }
    return JobRequest(job_id=job_id, entrypoint=entrypoint, **values)  # type: ignore[arg-type]


def job(jobs: RayJobs, job_id: str) -> JobView:
    return next(job for job in jobs.observe() if job.job_id == job_id)


def ended(jobs: RayJobs, job_id: str) -> JobView:
    eventually(lambda: job(jobs, job_id).status in ENDED, LIMIT_S)
    return job(jobs, job_id)


def details(box: RayBox, job_id: str) -> Mapping[str, object]:
    answer: Mapping[str, object] = httpx.get(f"{box.dashboard_url}/api/jobs/{job_id}").json()
    return answer


def test_a_job_runs_on_its_node_with_its_environment_and_only_once(
    jobs: RayJobs, box: RayBox, script: Callable[[str], str], tmp_path: Path
) -> None:
    said = tmp_path / "said"
    entrypoint = script(f"import json, os; open({str(said)!r}, 'a').write(json.dumps(dict(os.environ)) + chr(10))")
    asked = request(
        box,
        "once",
        entrypoint,
        runtime_env={"env_vars": {"OWN": "kept", "FLEET_ATTEMPT": "forged"}},
        metadata={"team": "a", "job_submission_id": "other", "job_name": "other"},
    )
    jobs.submit(asked)
    jobs.submit(asked)
    assert ended(jobs, "once").status == "SUCCEEDED"
    jobs.submit(asked)
    (seen,) = [json.loads(line) for line in said.read_text().splitlines()]
    assert {name: seen[name] for name in asked.environment} == asked.environment
    assert seen["OWN"] == "kept"
    shown = details(box, "once")
    assert (shown["driver_node_id"], shown["metadata"]) == (box.node_ids["n1"], {"team": "a"})


def test_a_stopped_job_has_its_own_grace_and_no_less(
    jobs: RayJobs, box: RayBox, script: Callable[[str], str], tmp_path: Path
) -> None:
    up, saved = tmp_path / "up", tmp_path / "saved"
    entrypoint = script(
        "import pathlib, signal, sys, time\n"
        "def save(*_):\n"
        "    time.sleep(5)\n"  # longer than the 3 s that Ray gives by itself
        f"    pathlib.Path({str(saved)!r}).touch()\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        f"pathlib.Path({str(up)!r}).touch()\n"
        "time.sleep(600)\n"
    )
    jobs.submit(request(box, "graceful", f"exec {entrypoint}"))
    eventually(up.exists, LIMIT_S)
    jobs.stop("graceful")
    jobs.stop("graceful")
    assert ended(jobs, "graceful").status == "STOPPED"
    assert saved.exists()
    assert jobs.processes(frozenset({"graceful"})) == {"graceful": 0}


STUBBORN = """
import os, pathlib, signal, subprocess, sys, time
import ray
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(log_to_driver=False)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
group = PlacementGroup(ray.PlacementGroupID.from_hex(os.environ["FLEET_GROUP_ID"]))

class Rank:
    def pid(self):
        return os.getpid()

inside = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
rank = ray.remote(Rank).options(num_gpus=1, num_cpus=0, scheduling_strategy=inside).remote()
keeper = ray.remote(Rank).options(num_cpus=0, name="keeper", lifetime="detached", max_restarts=-1).remote()
hidden = subprocess.Popen(["sleep", "600"], start_new_session=True)
pids = [os.getpid(), hidden.pid, *ray.get([rank.pid.remote(), keeper.pid.remote()])]
path = pathlib.Path(sys.argv[1])
path.with_suffix(".new").write_text(" ".join(map(str, pids)))
path.with_suffix(".new").rename(path)
time.sleep(600)
"""


def test_a_kill_ends_what_ignores_sigterm_hides_in_a_session_or_would_come_back(
    jobs: RayJobs, box: RayBox, group: str, script: Callable[[str], str], tmp_path: Path
) -> None:
    up = tmp_path / "pids"
    jobs.submit(request(box, "stubborn", f"{script(STUBBORN)} {up}", group_id=group))
    eventually(up.exists, LIMIT_S)
    pids = {int(pid) for pid in up.read_text().split()}
    # The driver, its shell, the hidden child, both actors.
    assert len(pids) == 4
    assert jobs.processes(frozenset({"stubborn", "nobody"})) == {"nobody": 0, "stubborn": 5}

    def gone() -> bool:
        jobs.kill("stubborn", "stubborn")
        return jobs.processes(frozenset({"stubborn"})) == {"stubborn": 0}

    eventually(gone, LIMIT_S)
    assert not {pid for pid in pids if Path("/proc", str(pid), "cmdline").exists() and alive(pid)}
    last = ended(jobs, "stubborn")
    assert last.status in ("FAILED", "STOPPED")
    assert [actor.name for actor in private.live_actors() if actor.attempt == "stubborn"] == []
    # A worker that Ray had begun to start for an actor that is not any more ends by itself.
    eventually(lambda: jobs.processes(frozenset({"stubborn"})) == {"stubborn": 0}, LIMIT_S)


def alive(pid: int) -> bool:
    return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"


def test_a_kill_ends_a_job_that_never_started(jobs: RayJobs, box: RayBox) -> None:
    jobs.submit(request(box, "nowhere", "true", driver_node_id="f" * 56))
    assert job(jobs, "nowhere").status == "PENDING"
    jobs.kill("nowhere", "nowhere")
    assert ended(jobs, "nowhere").status == "FAILED"


def test_a_package_that_ray_has_deleted_is_brought_back_for_the_next_attempt(
    jobs: RayJobs, box: RayBox, tmp_path: Path
) -> None:
    (tmp_path / "packages").mkdir()
    with zipfile.ZipFile(tmp_path / "packages" / PACKAGE, "w") as package:
        package.writestr("hello.txt", "hello from the package")
    working_dir = {"working_dir": f"gcs://{PACKAGE}"}
    entrypoint = "grep -q hello hello.txt"
    for attempt in ("packed", "packed.2"):
        jobs.submit(request(box, attempt, entrypoint, runtime_env=working_dir))
        assert ended(jobs, attempt).status == "SUCCEEDED"
        assert in_ray(box)
        forget_package()
        assert not in_ray(box)


def in_ray(box: RayBox) -> bool:
    return httpx.get(f"{box.dashboard_url}/api/packages/gcs/{PACKAGE}").is_success


def forget_package() -> None:
    """Do what Ray does when a job that used the package ends and nobody has pinned it."""
    from ray.experimental.internal_kv import _internal_kv_del

    _internal_kv_del(f"gcs://{PACKAGE}")


@pytest.mark.parametrize(
    ("runtime_env", "metadata", "want"),
    [
        ({"working_dir": f"gcs://{PACKAGE}"}, {}, "neither in Ray nor in the spool"),
        ({"py_modules": ["gcs://../../etc/passwd.zip"]}, {}, "is no package"),
        ({}, {"epochs": 3}, "metadata values must be strings"),
    ],
    ids=["a package that nobody has", "a package with a path", "metadata that is no text"],
)
def test_what_can_never_run_is_the_askers_to_mend(
    jobs: RayJobs, box: RayBox, runtime_env: dict[str, object], metadata: dict[str, str], want: str
) -> None:
    forget_package()
    with pytest.raises(RequestError, match=want):
        jobs.submit(request(box, "refused", "true", runtime_env=runtime_env, metadata=metadata))
    assert "refused" not in names(jobs)


def test_only_a_job_that_has_ended_and_settled_is_forgotten_and_stays_so(jobs: RayJobs, box: RayBox) -> None:
    jobs.submit(request(box, "kept", "sleep 600"))
    eventually(lambda: job(jobs, "kept").status == "RUNNING", LIMIT_S)
    with pytest.raises(ConflictError):
        jobs.delete("kept")
    jobs.stop("kept")
    ended(jobs, "kept")
    with pytest.raises(ConflictError):
        jobs.delete("kept")
    eventually(lambda: deleted(jobs, "kept"))
    jobs.delete("kept")
    assert "kept" not in names(jobs)


def deleted(jobs: RayJobs, job_id: str) -> bool:
    with contextlib.suppress(ConflictError):
        jobs.delete(job_id)
    return job_id not in names(jobs)


def names(jobs: RayJobs) -> list[str]:
    return [job.job_id for job in jobs.observe()]


def test_a_job_that_is_not_known_is_stopped_and_killed_already(jobs: RayJobs) -> None:
    jobs.stop("unknown")
    jobs.kill("unknown", "unknown")
    assert jobs.processes(frozenset({"unknown"})) == {"unknown": 0}


class Sleeper:
    """An actor of an attempt."""

    def pid(self) -> int:
        return os.getpid()


def test_a_probe_counts_and_ends_processes_where_it_is(connected: RayBox) -> None:
    of_attempt = {"env_vars": {"FLEET_ATTEMPT": "elsewhere"}}
    sleeper = ray.remote(Sleeper).options(num_cpus=0, runtime_env=of_attempt).remote()
    pid = ray.get(sleeper.pid.remote())
    probes = Probes()
    probes.keep(frozenset({connected.node_ids["n2"]}), frozenset())
    asked = frozenset({"elsewhere", "nobody"})
    assert eventually(lambda: probes.count(asked) == {"elsewhere": 1, "nobody": 0}, LIMIT_S)
    probes.end("elsewhere")
    assert eventually(lambda: probes.count(asked) == {"elsewhere": 0, "nobody": 0}, LIMIT_S)
    assert not (Path("/proc", str(pid)).exists() and alive(pid))


def test_a_node_whose_probe_does_not_answer_counts_as_a_process(connected: RayBox) -> None:
    nowhere, nothing = frozenset({"f" * 56}), frozenset[str]()
    probes = Probes()
    probes.keep(nowhere, nothing)
    for _ in range(2):
        assert probes.count(frozenset({"llm"})) == {"llm": 1}
    probes.keep(nothing, nothing)
    assert probes.count(frozenset({"llm"})) == {"llm": 0}


def test_a_node_that_drains_gets_no_probe(connected: RayBox) -> None:
    nowhere = frozenset({"f" * 56})
    probes = Probes()
    probes.keep(nowhere, nowhere)
    assert probes.count(frozenset({"llm"})) == {"llm": 0}


RANKS = """
import os, signal, sys, ray
from fleet_app.worker.gang import Membership

@ray.remote
class Rank:
    def __init__(self, number): self.number = number
    def pid(self): return os.getpid()
    def die(self): {dies}

ray.init()
[rank] = Membership.from_environment().start_ranks(Rank)
ray.get(rank.pid.remote())
{ends}
"""

DEATHS = {
    "a rank that a signal ended": ("os.kill(os.getpid(), signal.SIGKILL)", "ray.get(rank.die.remote())", "Rank"),
    "a rank whose program raised": ("raise ValueError('mine')", "ray.get(rank.die.remote())", None),
    "a rank whose program exited": ("sys.exit(3)", "ray.get(rank.die.remote())", None),
    "a driver that failed by itself": ("pass", "sys.exit(1)", None),
    "a driver that a signal ended": ("pass", "os.kill(os.getpid(), signal.SIGKILL)", "driver:"),
}


@pytest.mark.parametrize("what", DEATHS)
def test_only_what_died_by_no_doing_of_its_own_is_a_death(
    jobs: RayJobs, box: RayBox, group: str, script: Callable[[str], str], what: str
) -> None:
    dies, ends, want = DEATHS[what]
    name = f"death-{list(DEATHS).index(what)}"
    jobs.submit(request(box, name, script(RANKS.format(dies=dies, ends=ends)), group_id=group))
    assert ended(jobs, name).status == "FAILED"
    death = jobs.death(name)
    assert (None if death is None else death.why.split(" ")[0]) == want, death
    assert death is None or death.node_id == box.node_ids["n1"]
