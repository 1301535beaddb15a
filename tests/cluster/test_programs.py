"""Nothing of a bed outlives its user, however the user ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cluster.bed.programs import BedError, Programs

REPOSITORY = Path(__file__).parents[2]
# A user that starts a program, says its process id, and then only waits.
USER = """
import sys
from pathlib import Path
from tests.cluster.bed.programs import Programs
programs = Programs(Path(sys.argv[1]))
print(programs.start("sleeper", ["sleep", "1000"]), programs.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(tmp_path)
    yield programs
    programs.close()


def test_what_a_program_says_is_returned(programs: Programs) -> None:
    assert programs.run(["echo", "said"]) == "said\n"


def test_a_program_that_fails_is_reported_with_what_it_said(programs: Programs) -> None:
    with pytest.raises(BedError, match="ended with 3: no such luck"):
        programs.run(["sh", "-c", "echo no such luck; exit 3"])


def test_a_wait_ends_when_what_it_needs_has_ended(programs: Programs) -> None:
    programs.start("short", ["false"])
    with pytest.raises(BedError, match="short ended with 1"):
        programs.wait_until(lambda: False, "never", within_s=60, needs=("short",))


def test_a_program_that_does_not_listen_is_killed(programs: Programs) -> None:
    programs.start("deaf", ["sh", "-c", "trap '' TERM; echo deaf; sleep 1000"])
    programs.wait_until(lambda: programs.said("deaf") == "deaf", "it to be deaf", 30)
    programs.stop("deaf", within_s=0.2)
    assert programs.ended("deaf") == -signal.SIGKILL


@pytest.mark.parametrize("victim", ["user", "keeper"])
def test_nothing_outlives_its_user(tmp_path: Path, victim: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", USER, str(tmp_path)],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as user:
        assert user.stdout is not None
        sleeper, keeper = (psutil.Process(int(pid)) for pid in user.stdout.readline().split())
        os.kill(user.pid if victim == "user" else keeper.pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while runs(sleeper) and time.monotonic() < deadline:
            time.sleep(0.05)
        user.kill()
    assert not runs(sleeper)


def runs(process: psutil.Process) -> bool:
    """A dead one that nobody has reaped does not run."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
