"""Which processes of this host belong to which attempt, and the end of them, from /proc.

Every process of a fleet job carries `FLEET_ATTEMPT` in the environment it was started with: shell, driver, workers,
and whatever they start, also in a session of its own. Those of a member of an elastic attempt carry `FLEET_MEMBER` as
well, and it counts as an attempt, by its id (`contract.member_id`), wherever one is asked for. Not counted are zombies,
what another fleet on this host has under the same name (a local fleet's processes carry its mark, others none), and
what Ray itself adds and ends: the supervisor of the job, the watchdog shell beside it, and that shell's `sleep 1`.
A process that has unset the variable before it started another, or that belongs to another user than this one, is not
seen. Linux only; does not know Ray.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from fleet_app.adapters.local_processes import MARK, lost_its_mark
from fleet_app.worker.contract import member_id
from fleet_app.worker.environment import ENV_ATTEMPT, ENV_MEMBER

PROC = Path("/proc")
ROUNDS = 20
"""How often `end` looks again for processes that were born while it killed others."""

QUIET_LOOKS = 2

VARIABLE = f"{ENV_ATTEMPT}=".encode()
MEMBER_VARIABLE = f"{ENV_MEMBER}=".encode()
MARK_VARIABLE = f"{MARK}=".encode()
SUPERVISOR = b"ray::JobSupervisor"
WATCHDOG_PAUSE = (b"sleep", b"1")
WATCHDOG = re.compile(rb"while kill -s 0 \d+; do sleep 1; done; kill -9 -\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A live process; `started` (kernel ticks) tells it from a later one with the same pid."""

    pid: int
    started: int
    arguments: tuple[bytes, ...]


class Watch:
    """Whoever looks for the processes of one fleet again and again, and remembers the last look.

    `mark` is the fleet's, None for one that is no local fleet.

    A process on its way out has lost its environment before it lets go of its GPUs, so one that was seen counts
    until the kernel is done with it.
    """

    def __init__(self, proc: Path = PROC, *, mark: str | None = None) -> None:
        self._proc, self._mark = proc, mark
        self._seen: dict[str, set[Process]] = {}

    def scan(self, attempts: frozenset[str]) -> dict[str, tuple[int, ...]]:
        """Return the pids of each attempt's processes on this host, () for none; attempts not named are forgotten."""
        found = _find(attempts, self._proc, self._mark)
        self._seen = {
            attempt: processes | {old for old in self._seen.get(attempt, set()) if _lives(old, self._proc)}
            for attempt, processes in found.items()
        }
        return {attempt: _pids_of(processes) for attempt, processes in self._seen.items()}

    def end(self, attempt: str) -> None:
        """SIGKILL every process of an attempt on this host."""
        end(attempt, self._proc, mark=self._mark)


def scan(attempts: frozenset[str], proc: Path = PROC, *, mark: str | None = None) -> dict[str, tuple[int, ...]]:
    """Return the pids of each attempt's processes on this host, supervisor and watchdog left out; () for none."""
    return {attempt: _pids_of(processes) for attempt, processes in _find(attempts, proc, mark).items()}


def end(attempt: str, proc: Path = PROC, *, mark: str | None = None) -> None:
    """SIGKILL every process of an attempt on this host.

    Looks again until two looks find none that it did not kill, so that what is born meanwhile does not get away. What
    was killed is gone when the kernel is done with it: waiting for that here would only keep the processor from it.
    """
    killed: set[Process] = set()
    quiet = 0
    for _ in range(ROUNDS):
        born = _find(frozenset({attempt}), proc, mark)[attempt] - killed
        quiet = 0 if born else quiet + 1
        if quiet == QUIET_LOOKS:
            return
        for process in born:
            _kill(process.pid, attempt, proc, mark)
        killed |= born


def _owners(pid: int, proc: Path, mark: str | None) -> tuple[str, ...]:
    """Return the attempt that a process belongs to, and the member of it that it says it is of, if it does."""
    with contextlib.suppress(OSError):
        environment = (proc / str(pid) / "environ").read_bytes()
        if VARIABLE in environment:  # most have it not: look closer only then
            entries = environment.split(b"\0")
            attempt, member = _value(VARIABLE, entries), _value(MEMBER_VARIABLE, entries)
            if attempt is not None and _carries(entries, mark):
                return (attempt,) if member is None else (attempt, member_id(attempt, member))
    return ()


def _carries(entries: list[bytes], mark: str | None) -> bool:
    """Return whether a process carries a fleet's mark, or none where the fleet has none.

    One that may have lost it counts as the fleet's: a GPU must not be promised while its process may live.
    """
    theirs = _value(MARK_VARIABLE, entries)
    return theirs == mark or (theirs is None and lost_its_mark(entries))


def _value(variable: bytes, entries: list[bytes]) -> str | None:
    return next((os.fsdecode(entry[len(variable) :]) for entry in entries if entry.startswith(variable)), None)


def _kill(pid: int, attempt: str, proc: Path, mark: str | None) -> None:
    # The descriptor is taken first and the environment read again, so that a pid that was given to
    # another process in between is never killed.
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if attempt in _owners(pid, proc, mark):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def _find(attempts: frozenset[str], proc: Path, mark: str | None) -> dict[str, set[Process]]:
    found: dict[str, set[Process]] = {attempt: set() for attempt in sorted(attempts)}
    pids = (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()) if attempts else ()
    for pid in pids:
        asked = [owner for owner in _owners(pid, proc, mark) if owner in found]
        if asked and (process := _read(pid, proc)) is not None and not _is_rays(process):
            for owner in asked:
                found[owner].add(process)
    return found


def _pids_of(processes: set[Process]) -> tuple[int, ...]:
    return tuple(sorted({process.pid for process in processes}))


def _lives(old: Process, proc: Path) -> bool:
    process = _read(old.pid, proc)
    return process is not None and process.started == old.started


def _read(pid: int, proc: Path) -> Process | None:
    """Return a process that lives, None when it is gone or a zombie.

    One whose first thread has ended is shown as a zombie while others of it still do, and hold what it holds.
    """
    with contextlib.suppress(OSError):
        # The name in parentheses may hold anything, so the fields are counted from behind it.
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        if fields[0] not in "ZX" or int(fields[17]) > 1:
            arguments = (proc / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            return Process(pid=pid, started=int(fields[19]), arguments=tuple(arguments))
    return None


def _is_rays(process: Process) -> bool:
    """Return whether it is the supervisor, its watchdog, or a pause of the watchdog, which may outlive it by 1 s."""
    return (
        process.arguments[0].startswith(SUPERVISOR)
        or process.arguments == WATCHDOG_PAUSE
        or (process.arguments[1:2] == (b"-c",) and WATCHDOG.fullmatch(process.arguments[-1]) is not None)
    )
