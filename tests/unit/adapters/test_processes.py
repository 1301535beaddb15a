"""Which processes count as an attempt's, from a /proc that is written for the test and from the real one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleet_app.adapters import processes
from fleet_app.adapters.local_processes import MARK

LLM = frozenset({"llm"})
GONE_S = 20.0
WATCHDOG = "while kill -s 0 40; do sleep 1; done; kill -9 -41"


@dataclass(frozen=True)
class Fake:
    """A process in the test's /proc."""

    pid: int
    attempt: str = "llm"
    member: str = ""
    arguments: tuple[str, ...] = ("python", "train.py")
    state: str = "S"
    started: int = 1000
    mark: str = ""
    first: str = "PATH=/bin"


def write(proc: Path, *fakes: Fake) -> Path:
    for fake in fakes:
        folder = proc / str(fake.pid)
        folder.mkdir(parents=True, exist_ok=True)
        variables = [fake.first, *([f"{MARK}={fake.mark}"] if fake.mark else [])]
        variables += [f"FLEET_ATTEMPT={fake.attempt}" if fake.attempt else "HOME=/"]
        variables += [f"FLEET_MEMBER={fake.member}", ""] if fake.member else [""]
        (folder / "environ").write_bytes("\0".join(variables).encode())
        (folder / "cmdline").write_bytes("\0".join([*fake.arguments, ""]).encode())
        between = " 0" * 17
        (folder / "stat").write_text(f"{fake.pid} (a) b) {fake.state} 1{between} {fake.started} 0 0\n")
    (proc / "meminfo").touch()
    return proc


def test_a_member_of_an_elastic_attempt_is_counted_by_its_own_processes_and_with_all(tmp_path: Path) -> None:
    proc = write(tmp_path, Fake(3), Fake(5, member="ab"), Fake(7, member="cd"), Fake(9, attempt="llm.2", member="ab"))
    asked = frozenset({"llm", "llm/ab", "llm/ef"})
    assert processes.scan(asked, proc) == {"llm": (3, 5, 7), "llm/ab": (5,), "llm/ef": ()}


SCANS: dict[str, tuple[tuple[Fake, ...], dict[str, tuple[int, ...]]]] = {
    "no process at all": ((), {"llm": ()}),
    "shell, driver and worker count": (
        (Fake(7), Fake(3), Fake(5, arguments=("ray::Trainer.step",))),
        {"llm": (3, 5, 7)},
    ),
    "another attempt of the same workload does not count": ((Fake(3, attempt="llm.2"),), {"llm": ()}),
    "a process outside the fleet does not count": ((Fake(3, attempt=""),), {"llm": ()}),
    "a zombie does not count": ((Fake(3, state="Z"),), {"llm": ()}),
    "the supervisor does not count": ((Fake(40, arguments=("ray::JobSupervisor.run",)),), {"llm": ()}),
    "the watchdog and its sleep do not count": (
        (Fake(50, arguments=("/bin/sh", "-c", WATCHDOG)), Fake(51, arguments=("sleep", "1"))),
        {"llm": ()},
    ),
    "a longer sleep is the job's own and counts": ((Fake(51, arguments=("sleep", "10")),), {"llm": (51,)}),
    "a shell that only mentions the watchdog counts": (
        (Fake(50, arguments=("/bin/sh", "-c", f"{WATCHDOG}; train")),),
        {"llm": (50,)},
    ),
    "a process without arguments counts": ((Fake(3, arguments=()),), {"llm": (3,)}),
}


@pytest.mark.parametrize(("fakes", "want"), SCANS.values(), ids=SCANS)
def test_scan(tmp_path: Path, fakes: tuple[Fake, ...], want: dict[str, tuple[int, ...]]) -> None:
    assert processes.scan(LLM, write(tmp_path, *fakes)) == want


MARKS = {
    "of none, as this one": (None, Fake(3), True),
    "of this fleet": ("ours", Fake(3, mark="ours"), True),
    "of another fleet on this host": ("ours", Fake(3, mark="theirs"), False),
    "of a local fleet, and this one is of none": (None, Fake(3, mark="theirs"), False),
    "of no local fleet, and this one is of one": ("ours", Fake(3), False),
    "one that may have lost its mark to its title": ("ours", Fake(3, first="ray::Trainer.step"), True),
}


@pytest.mark.parametrize(("ours", "fake", "counts"), MARKS.values(), ids=MARKS)
def test_what_another_fleet_has_under_the_same_name_is_neither_counted_nor_ended(
    tmp_path: Path, ours: str | None, fake: Fake, counts: bool
) -> None:
    proc, want = write(tmp_path, fake), {"llm": (3,) if counts else ()}
    assert processes.scan(LLM, proc, mark=ours) == processes.Watch(proc, mark=ours).scan(LLM) == want


def test_a_real_process_of_another_fleet_stays_when_one_of_its_name_is_ended() -> None:
    attempt = f"same-{os.getpid()}"
    wait = [sys.executable, "-c", "input()"]
    env = {**os.environ, "FLEET_ATTEMPT": attempt}
    with (
        subprocess.Popen(wait, env={**env, MARK: "ours"}, stdin=subprocess.PIPE) as ours,
        subprocess.Popen(wait, env={**env, MARK: "theirs"}, stdin=subprocess.PIPE) as theirs,
    ):
        watch = processes.Watch(mark="ours")
        while watch.scan(frozenset({attempt})) != {attempt: (ours.pid,)}:
            assert ours.poll() is None
        watch.end(attempt)
        assert ours.wait(GONE_S) == -signal.SIGKILL
        theirs.communicate(b"\n")
        assert theirs.returncode == 0


def test_every_attempt_that_is_asked_for_is_answered(tmp_path: Path) -> None:
    proc = write(tmp_path, Fake(3), Fake(4, attempt="other"))
    assert processes.scan(frozenset({"llm", "gone"}), proc) == {"gone": (), "llm": (3,)}


def test_asking_for_nobody_reads_nothing() -> None:
    assert processes.scan(frozenset(), Path("/does/not/exist")) == {}


def test_a_process_on_its_way_out_counts_until_it_is_gone(tmp_path: Path) -> None:
    watch = processes.Watch(write(tmp_path, Fake(3)))
    assert watch.scan(LLM) == {"llm": (3,)}
    write(tmp_path, Fake(3, attempt=""))  # its environment reads empty, the process is still there
    assert watch.scan(LLM) == {"llm": (3,)}
    write(tmp_path, Fake(3, attempt="", state="Z"))
    assert watch.scan(LLM) == {"llm": ()}


def test_a_later_process_with_the_same_pid_is_not_taken_for_it(tmp_path: Path) -> None:
    watch = processes.Watch(write(tmp_path, Fake(3)))
    watch.scan(LLM)
    write(tmp_path, Fake(3, attempt="", started=2000))
    assert watch.scan(LLM) == {"llm": ()}


@pytest.fixture
def stubborn() -> Iterator[subprocess.Popen[str]]:
    """A real process that ignores SIGTERM, and has a child in a session of its own."""
    code = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True);"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    attempt = f"stubborn-{os.getpid()}"
    with subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "FLEET_ATTEMPT": attempt}, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_all_real_processes_of_an_attempt_are_found_and_ended(stubborn: subprocess.Popen[str]) -> None:
    assert stubborn.stdout is not None
    child = int(stubborn.stdout.readline())
    attempt = f"stubborn-{os.getpid()}"
    assert processes.scan(frozenset({attempt})) == {attempt: tuple(sorted((stubborn.pid, child)))}
    processes.end(attempt)
    assert stubborn.wait(GONE_S) == -signal.SIGKILL
    await_none(attempt)


def test_children_that_are_born_meanwhile_do_not_get_away() -> None:
    code = (
        "import os, subprocess, sys, time; print(flush=True)\n"
        "for _ in range(200): subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL); time.sleep(0.005)"
    )
    attempt = f"forking-{os.getpid()}"
    environment = {**os.environ, "FLEET_ATTEMPT": attempt}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) as forking:
        assert forking.stdout is not None
        forking.stdout.readline()
        processes.end(attempt)
        assert forking.wait(GONE_S) == -signal.SIGKILL
    await_none(attempt)


def test_a_process_lives_until_its_last_thread_has_ended() -> None:
    """Its first thread may be gone long before: the kernel then shows a zombie, which still holds memory and GPUs."""
    attempt = f"threads-{os.getpid()}"
    code = (
        "import ctypes, os, sys, threading\n"
        "print(flush=True)\n"
        "sys.stdin.readline()\n"
        "threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()\n"
        "this_thread_ends = {'x86_64': 60, 'aarch64': 93}[os.uname().machine]\n"
        "ctypes.CDLL(None).syscall(this_thread_ends, 0)\n"
    )
    watch = processes.Watch()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "FLEET_ATTEMPT": attempt},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        assert watch.scan(frozenset({attempt})) == {attempt: (process.pid,)}
        process.stdin.write(b"\n")
        process.stdin.flush()
        while b") Z" not in Path(f"/proc/{process.pid}/stat").read_bytes():
            pass
        assert watch.scan(frozenset({attempt})) == {attempt: (process.pid,)}
        process.communicate(b"")
    assert watch.scan(frozenset({attempt})) == {attempt: ()}


def await_none(attempt: str) -> None:
    deadline = time.monotonic() + GONE_S
    while processes.scan(frozenset({attempt}))[attempt]:
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.01)
