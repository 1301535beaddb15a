"""The parent of all programs of a bed: it starts and signals them as it is told, and ends when its user does.

Runs as a program of its own: a line of JSON in, a line of JSON out. When its standard input ends, because its user is
done or dead, it ends every child, and when it is killed itself the kernel does. As the first process of a
PID namespace it takes everything else in there along, daemons included. Never blocks on a child. Does not know what
it keeps.
"""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

END_WITHIN_S = 5


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1  # from linux/prctl.h


def _end_with_parent() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Keeper:
    """The children by name. Orphans that become ours are not reaped: a few dead ones harm nobody, and end with us."""

    def __init__(self) -> None:
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, argv: list[str], log: str) -> int:
        """Start a program that the kernel ends with us; its output goes to the end of a file."""
        with Path(log).open("ab") as out:
            self._children[name] = subprocess.Popen(
                argv,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 (no threads; done when Popen returns)
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd="/",
            )
        return self._children[name].pid

    def signal(self, name: str, number: int) -> None:
        """Signal a program unless it has ended."""
        self._children[name].send_signal(number)

    def ended(self, name: str) -> int | None:
        """Return the exit code of a program, None while it runs."""
        return self._children[name].poll()

    def end_all(self) -> None:
        """Ask every program to end, the last started first, and kill those that do not."""
        for child in reversed(self._children.values()):
            child.terminate()
        deadline = time.monotonic() + END_WITHIN_S
        while time.monotonic() < deadline and any(child.poll() is None for child in self._children.values()):
            time.sleep(0.05)
        for child in self._children.values():
            child.kill()


def main() -> None:
    """Do what is asked, line by line, until there is nobody left who asks."""
    keeper = Keeper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the user, who then closes our input
    for line in sys.stdin:
        ask: dict[str, Any] = json.loads(line)
        try:
            answer = {"value": getattr(keeper, ask.pop("do"))(**ask)}
        except (OSError, KeyError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    keeper.end_all()


if __name__ == "__main__":
    main()
