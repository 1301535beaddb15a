"""The example jobs keep the drain contract as real Ray jobs: they leave when asked, and go on where they were."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import pytest
from ray.job_submission import JobStatus, JobSubmissionClient
from ray.util import placement_group_table
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from fleet_app.adapters import processes
from fleet_app.worker import board
from fleet_app.worker.contract import (
    Ack,
    Beat,
    Notice,
    ack_key,
    beat_key,
    decode,
    encode,
    notice_key,
    workload_group,
)
from fleet_app.worker.environment import JobEnvironment
from fleet_app.worker.gang import ResumePoint
from tests.live.raybox import REPOSITORY, RayBox
from tests.live.waiting import eventually

pytestmark = pytest.mark.live

LIMIT_S = 240.0
GRACE_S = 60.0
GPUS = 4

E = TypeVar("E", Ack, Beat)


class Workload:
    """What the arbiter does for one workload, by hand: a group, one attempt after the other, a notice."""

    def __init__(self, box: RayBox, client: JobSubmissionClient, name: str, nodes: tuple[str, ...]) -> None:
        self._client = client
        self._name = name
        self._nodes = nodes
        self.folder = box.home / "checkpoints" / name
        self.attempts: list[str] = []
        self.group: PlacementGroup = placement_group(
            [{"GPU": GPUS, "CPU": 1}] * len(nodes),
            strategy="STRICT_SPREAD",
            bundle_label_selector=[{"fleet/node": node} for node in nodes],
            name=workload_group(name),
            lifetime="detached",
        )
        assert self.group.wait(LIMIT_S)

    @property
    def attempt(self) -> str:
        return self.attempts[-1]

    def start(self, entrypoint: str, resume: ResumePoint | None = None) -> None:
        """Submit the next attempt as the arbiter does."""
        number = len(self.attempts) + 1
        self.attempts.append(self._name if number == 1 else f"{self._name}.{number}")
        environment = JobEnvironment(
            attempt=self.attempt,
            workload=self._name,
            group_id=self.group.id.hex(),
            bundles=len(self._nodes),
            gpus_per_bundle=GPUS,
            cpu_milli_per_bundle=1000,
            nodes=self._nodes,
            checkpoint_dir=str(self.folder),
            grace_s=GRACE_S,
            resume_uri=resume.uri if resume else None,
            resume_step=resume.step if resume else None,
        )
        self._client.submit_job(
            entrypoint=entrypoint,
            submission_id=self.attempt,
            runtime_env={"working_dir": str(REPOSITORY / "jobs"), "env_vars": environment.to_env()},
        )

    def notify(self) -> None:
        """Post a drain notice on the board."""
        posted = Notice(deadline_at=time.time() + GRACE_S, why="a replica needs the GPUs")
        board.write(notice_key(self.attempt), encode(posted))

    def stop(self) -> None:
        """Let Ray send SIGTERM."""
        self._client.stop_job(self.attempt)

    def stepped(self, steps: int) -> bool:
        """Return whether a heartbeat says that so many steps are done."""
        beat = self._entry(Beat, beat_key(self.attempt))
        return beat is not None and beat.step >= steps

    def acknowledged(self) -> Ack | None:
        return self._entry(Ack, ack_key(self.attempt))

    def await_end(self) -> JobStatus:
        """Return the job's last status once no process of the attempt is left."""
        eventually(lambda: self._client.get_job_status(self.attempt).is_terminal(), LIMIT_S)
        eventually(lambda: not self.pids(), LIMIT_S)
        return self._client.get_job_status(self.attempt)

    def pids(self) -> tuple[int, ...]:
        return processes.scan(frozenset({self.attempt}))[self.attempt]

    def log(self) -> str:
        return str(self._client.get_job_logs(self.attempt))

    def close(self) -> None:
        for attempt in self.attempts:
            processes.end(attempt)
        remove_placement_group(self.group)

    @staticmethod
    def _entry(kind: type[E], key: str) -> E | None:
        raw = board.read(key)
        return None if raw is None else decode(kind, raw)


@pytest.fixture
def client(connected: RayBox) -> JobSubmissionClient:
    return JobSubmissionClient(connected.dashboard_url)


@pytest.fixture
def backfill(connected: RayBox, client: JobSubmissionClient, request: pytest.FixtureRequest) -> Iterator[Workload]:
    """A workload of one bundle on node n1."""
    workload = Workload(connected, client, f"backfill-{len(request.node.name)}", ("n1",))
    yield workload
    workload.close()


@pytest.fixture
def gang(connected: RayBox, client: JobSubmissionClient) -> Iterator[Workload]:
    """A workload of two bundles; its rank order is not the order of node names."""
    workload = Workload(connected, client, "gang", ("n3", "n2"))
    yield workload
    workload.close()


def lines(results: Path) -> list[int]:
    return [json.loads(line)["item"] for line in results.read_text().splitlines()]


BATCH = "python batch_inference.py --item-time 0.05 --checkpoint-every 1000"


@pytest.mark.parametrize("by_signal", [True, False], ids=["by SIGTERM", "by the board"])
def test_a_backfill_job_leaves_when_asked_and_does_every_item_once(backfill: Workload, by_signal: bool) -> None:
    backfill.start(BATCH)
    eventually(lambda: backfill.stepped(3), LIMIT_S)
    (backfill.stop if by_signal else backfill.notify)()
    status = backfill.await_end()
    ack = backfill.acknowledged()
    assert ack is not None
    # Ray calls every job that it was told to stop STOPPED; that this one left in order is what it acknowledged.
    assert (status == JobStatus.STOPPED) == by_signal
    assert f"leaves at item {ack.step} of" in backfill.log()
    assert lines(backfill.folder / "results.jsonl") == list(range(ack.step))
    backfill.start(f"{BATCH} --items {ack.step + 5}", ResumePoint(uri=ack.uri, step=ack.step))
    assert backfill.await_end() == JobStatus.SUCCEEDED
    assert f"starts at item {ack.step}" in backfill.log()
    assert lines(backfill.folder / "results.jsonl") == list(range(ack.step + 5))


def test_a_job_that_ignores_its_notice_is_still_there(backfill: Workload) -> None:
    backfill.start("python ignores_notice.py")
    eventually(lambda: backfill.stepped(1), LIMIT_S)
    driver_and_actor = set(backfill.pids())
    backfill.notify()
    backfill.stop()
    heard = decode(Beat, board.read(beat_key(backfill.attempt)) or b"").step
    eventually(lambda: backfill.stepped(heard + 3), LIMIT_S)
    # The shell took the SIGTERM; driver and actor did not.
    assert len(driver_and_actor & set(backfill.pids())) >= 2
    assert backfill.acknowledged() is None


WITHOUT_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="`make torch` installs PyTorch and runs it")


@pytest.mark.timeout(900)  # two starts of Ray Train, half a minute each on two free cores
@pytest.mark.parametrize("program", ["pretrain.py", pytest.param("pretrain_torch.py", marks=WITHOUT_TORCH)])
def test_a_gang_trains_in_its_group_leaves_at_one_step_and_resumes_there(gang: Workload, program: str) -> None:
    gang.start(f"python {program} --steps 100000 --checkpoint-every 10 --print-every 1")
    eventually(lambda: gang.acknowledged() is not None and gang.stepped(25), LIMIT_S)
    gang.notify()
    assert gang.await_end() == JobStatus.SUCCEEDED
    ack = gang.acknowledged()
    assert ack is not None
    said = losses(gang.log())
    assert f"leaving at step {ack.step}:" in gang.log()
    assert said[ack.step] < said[1] - 1
    assert max(said) == ack.step
    assert placement_group_table(gang.group)["state"] == "CREATED"
    gang.start(f"python {program} --steps {ack.step + 3} --print-every 1", ResumePoint(uri=ack.uri, step=ack.step))
    assert gang.await_end() == JobStatus.SUCCEEDED
    resumed = losses(gang.log())
    assert list(resumed) == [ack.step + 1, ack.step + 2, ack.step + 3]
    # It goes on from what was learnt; an untrained model loses 4.5 and more.
    assert abs(resumed[ack.step + 1] - said[ack.step]) < 0.5


def losses(log: str) -> dict[int, float]:
    """Return the losses that rank 0 printed, by step."""
    words = [line.split() for line in log.splitlines() if " loss " in line and " checkpoint " not in line]
    return {int(line[line.index("step") + 1]): float(line[line.index("loss") + 1]) for line in words}
