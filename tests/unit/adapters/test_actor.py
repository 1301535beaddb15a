"""The arbiter's two threads: one that goes on whatever fails, and one that only vouches for a loop that moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_app.adapters.actor import ALIVE_FILE, STUCK_S, Pulse, Runner
from fleet_app.engine.errors import FaultError
from tests.fakes import FakeBoard, FakeClock, FakeCluster, ports
from tests.unit.arbiter.rig import POLICY
from tests.world import World


class Moves:
    """A loop that moves when told to."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> int:
        return self.made


@pytest.fixture
def world() -> World:
    made = World()
    made.add_node("s1", serving=True)
    return made


@pytest.fixture
def runner(tmp_path: Path, world: World) -> Iterator[Runner]:
    (tmp_path / "policy.yaml").write_text(POLICY)
    made = Runner(tmp_path, ports(world))
    yield made
    made._give_up("")


def test_a_loop_that_moves_is_vouched_for_on_the_board_and_in_the_home(tmp_path: Path, world: World) -> None:
    pulse = Pulse(tmp_path, FakeBoard(world), FakeClock(world), Moves())
    assert pulse.beat(100.0)
    assert world.lease == world.now
    assert (tmp_path / ALIVE_FILE).exists()


def test_a_loop_that_hangs_reads_as_silent_until_it_moves_again(tmp_path: Path, world: World) -> None:
    moves = Moves()
    pulse = Pulse(tmp_path, FakeBoard(world), FakeClock(world), moves)
    assert pulse.beat(100.0)
    assert pulse.beat(100.0 + STUCK_S)
    assert not pulse.beat(100.1 + STUCK_S)
    moves.made += 1
    assert pulse.beat(100.2 + STUCK_S)


def test_a_board_that_fails_ends_no_pulse(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: FakeBoard, at: float) -> None:
        raise FaultError("the GCS is away")

    monkeypatch.setattr(FakeBoard, "renew_lease", fail)
    assert not Pulse(tmp_path, FakeBoard(world), FakeClock(world), Moves()).beat(100.0)


def test_a_cycle_is_counted_and_timed(runner: Runner) -> None:
    assert runner._guarded_cycle() > 0
    status = runner.status()
    assert (status["cycles"], status["last_error"], status["paused"], status["failing"]) == (1, "", False, [])


def test_whatever_a_cycle_raises_the_next_one_starts_from_the_journal(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runner._guarded_cycle() > 0

    def explode(self: FakeCluster) -> object:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(FakeCluster, "observe", explode)
        assert runner._guarded_cycle() > 0
        assert "ZeroDivisionError" in str(runner.status()["last_error"])
        assert runner.moves() == (1, 0)
    assert runner._guarded_cycle() > 0
    assert runner.status()["cycles"] == 2


def test_a_home_without_a_policy_is_reported_and_healed(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").unlink()
    runner._guarded_cycle()
    assert "policy.yaml" in str(runner.status()["last_error"])
    (tmp_path / "policy.yaml").write_text(POLICY)
    runner._guarded_cycle()
    assert runner.status()["cycles"] == 1
