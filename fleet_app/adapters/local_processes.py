"""The processes of a local fleet: how its end finds all of them, whoever started them and whatever became of that.

A child inherits the environment, so the fleet's mark is on every raylet, actor and job. Ray's agents write their title
over their environment; they are known by their logs, which are files of the fleet's own temporary folder. Knows
Linux's /proc. Does not know what the processes do.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MARK = "FLEET_HOME_ID"

_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What only the processes of one fleet have: its id in the environment, its temporary folder's files open."""

    home_id: str
    temp_dir: str


def carriers(mark: Mark) -> tuple[int, ...]:
    """Return the live processes of a fleet, the caller excepted."""
    own = os.getpid()
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return tuple(pid for pid in pids if pid != own and carries(pid, mark))


def carries(pid: int, mark: Mark) -> bool:
    """Return whether a process is alive and of the fleet."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it ended, or is somebody else's
        return False
    variables = environment.split(b"\0")
    if f"{MARK}={mark.home_id}".encode() in variables:
        return True
    return lost_its_mark(variables) and _has_open(pid, mark.temp_dir)


def lost_its_mark(variables: Sequence[bytes]) -> bool:
    """Return whether a process may have lost its mark: it wrote its title over the beginning of its environment."""
    return len(variables) > 1 and b"=" not in variables[0]


def own_mark() -> str | None:
    """Return the id of the local fleet that this process is of, None for one that is of none."""
    return os.environ.get(MARK)


def _has_open(pid: int, folder: str) -> bool:
    """Return whether a process has a file below a folder open."""
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if entry.readlink().is_relative_to(folder):
                    return True
    return False


def send(pid: int, mark: Mark, number: signal.Signals) -> bool:
    """Send a signal to a process of the fleet; return whether it was one. Never hits a later owner of the pid."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if carries(pid, mark):
                signal.pidfd_send_signal(handle, number)
                return True
        finally:
            os.close(handle)
    return False


def gone_within(pid: int, mark: Mark, seconds: float) -> bool:
    """Wait until a process of the fleet has ended, at most that long; return whether it has."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        return not carries(pid, mark) or bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def end_all(mark: Mark, seconds: float) -> tuple[int, ...]:
    """Kill every process of the fleet, the caller excepted, at most that long; return those that are left."""
    deadline = time.monotonic() + seconds
    clean = 0
    left: tuple[int, ...] = ()
    while clean < 2:  # a process may have forked between two looks
        left = carriers(mark)
        clean = 0 if left else clean + 1
        for pid in left:
            send(pid, mark, signal.SIGKILL)
        if left and time.monotonic() > deadline:
            break
        time.sleep(_PAUSE_S)
    return left
