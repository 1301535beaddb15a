"""Programs of a bed as its user sees them: started, waited for and stopped by name, each with a log of its own.

All are children of a keeper (keeper.py), which ends them when this process ends, however it does. Does not know what
the programs are.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

KEEPER = Path(__file__).with_name("keeper.py")


class BedError(Exception):
    """The bed could not be made or used; its text says which step, and what was said last."""


class Programs:
    """A keeper and its programs. `world` is what the keeper runs under, such as `unshare`; all programs are in it."""

    def __init__(self, folder: Path, world: Sequence[str] = ()) -> None:
        self.logs = folder / "log"
        self.logs.mkdir()
        command = [*world, sys.executable, "-I", "-S", str(KEEPER)]
        with (self.logs / "keeper").open("wb") as errors:
            self._keeper = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
        self.pid = self._keeper.pid
        self._runs = 0

    def start(self, name: str, argv: Sequence[str | Path], inside: Sequence[str] = ()) -> int:
        """Start a program; return its process id, as its keeper sees it."""
        words = [*inside, *map(str, argv)]
        return int(self._ask(do="start", name=name, argv=words, log=str(self.logs / name)))

    def run(self, argv: Sequence[str | Path], inside: Sequence[str] = (), within_s: float = 60) -> str:
        """Run a program to its end and return what it said. Raises BedError when it fails or takes too long."""
        return self.finish(self.launch(argv, inside), within_s)

    def launch(self, argv: Sequence[str | Path], inside: Sequence[str] = ()) -> str:
        """Start a program that is to end by itself; return its name, for `finish`."""
        self._runs += 1
        name = f"run-{self._runs:03}-{Path(argv[0]).name}"
        self.start(name, argv, inside)
        return name

    def finish(self, name: str, within_s: float) -> str:
        """Wait for the end of a program and return what it said. Raises BedError when it fails or takes too long."""
        self.wait_until(lambda: self.ended(name) is not None, f"{name} to end", within_s)
        if self.ended(name) != 0:
            raise BedError(f"{name} ended with {self.ended(name)}: {self.said(name)}")
        return (self.logs / name).read_text(encoding="utf-8", errors="replace")

    def stop(self, name: str, within_s: float = 20) -> None:
        """End a program, by force when it takes its time."""
        self._ask(do="signal", name=name, number=signal.SIGTERM)
        try:
            self.wait_until(lambda: self.ended(name) is not None, f"{name} to end", within_s)
        except BedError:
            self.kill(name)

    def kill(self, name: str) -> None:
        """End a program at once."""
        self._ask(do="signal", name=name, number=signal.SIGKILL)
        self.wait_until(lambda: self.ended(name) is not None, f"{name} to be killed", 20)

    def ended(self, name: str) -> int | None:
        """Return the exit code of a program, None while it runs."""
        code = self._ask(do="ended", name=name)
        return None if code is None else int(code)

    def said(self, name: str) -> str:
        """Return the last of a program's log."""
        return (self.logs / name).read_text(encoding="utf-8", errors="replace").strip()[-1500:]

    def wait_until(
        self, holds: Callable[[], bool], what: str, within_s: float, needs: Sequence[str] = (), every_s: float = 0.1
    ) -> None:
        """Wait until something holds. Raises BedError when it takes too long, or when a program that it needs ends."""
        deadline = time.monotonic() + within_s
        while not holds():
            for name in needs:
                if (code := self.ended(name)) is not None:
                    raise BedError(f"waiting for {what}: {name} ended with {code}: {self.said(name)}")
            if time.monotonic() > deadline:
                last = "".join(f"\n{name} said last: {self.said(name)}" for name in needs)
                raise BedError(f"waited {within_s:.0f} s for {what}{last}")
            time.sleep(every_s)

    def close(self) -> None:
        """End everything."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        try:
            self._keeper.wait(30)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait(30)
        self._keeper.stdout.close()

    def _ask(self, **ask: Any) -> Any:
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        try:
            self._keeper.stdin.write(json.dumps(ask) + "\n")
            self._keeper.stdin.flush()
            line = self._keeper.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise BedError(f"the bed's keeper is gone: {self.said('keeper')}")
        answer = json.loads(line)
        if "error" in answer:
            raise BedError(f"{ask['do']} {ask.get('name', '')}: {answer['error']}")
        return answer["value"]
