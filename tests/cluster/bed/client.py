"""What a test gets of a cluster: kubectl and helm with its kubeconfig. Does not know who made it, nor how."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import yaml

from tests.tools import tool

T = TypeVar("T")


class CommandError(Exception):
    """A command failed; its text is what the command said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster that answers at `kubeconfig`, with images of the fleet that its nodes can have, if any."""

    kubeconfig: Path
    image: str | None = None
    next_image: str | None = None

    def kubectl(self, *words: str, stdin: str = "", within_s: float = 120) -> str:
        """Run kubectl and return its output. Raises CommandError with what it complains of."""
        return self._run([str(tool("kubectl")), *words], stdin, within_s)

    @contextlib.contextmanager
    def background(self, *words: str, stdout: IO[str]) -> Iterator[None]:
        """Run kubectl meanwhile; its input ends with the `with`, and it is to end then."""
        command = [str(tool("kubectl")), *words]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.STDOUT, text=True, env=self._environment()
        ) as running:
            try:
                yield
                assert running.poll() is None, f"{' '.join(words[:4])} ended with {running.returncode}"
            finally:
                assert running.stdin is not None
                running.stdin.close()
                try:
                    running.wait(30)
                except subprocess.TimeoutExpired:
                    running.kill()

    def helm(self, *words: str, within_s: float = 900) -> str:
        """Run helm and return its output. Raises CommandError with what it complains of."""
        return self._run([str(tool("helm")), *words], "", within_s)

    def apply(self, *documents: Mapping[str, Any], namespace: str | None = None) -> str:
        """Apply objects, on the server's side. Raises CommandError where the API server refuses one."""
        where = ("--namespace", namespace) if namespace else ()
        words = ("apply", "--server-side", "--force-conflicts", "--filename=-", *where)
        return self.kubectl(*words, stdin=yaml.safe_dump_all(documents))

    def get(self, *words: str) -> Any:
        """Return what `kubectl get` finds, as JSON."""
        return json.loads(self.kubectl("get", "--output=json", *words))

    def wait_until(self, holds: Callable[[], object], what: str, within_s: float = 180, every_s: float = 0.5) -> None:
        """Wait until something holds; that the asking fails is no answer. Raises AssertionError when time is up."""
        self.wait_for(holds, what, within_s, every_s)

    def wait_for(self, ask: Callable[[], T], what: str, within_s: float = 180, every_s: float = 0.5) -> T:
        """Wait until an answer is true, and return it. Raises AssertionError when time is up."""
        deadline = time.monotonic() + within_s
        last: object = None
        while True:
            try:
                if answer := ask():
                    return answer
                last = answer
            except (CommandError, LookupError, ValueError) as error:
                last = error
            assert time.monotonic() < deadline, f"waited {within_s:.0f} s for {what}; last: {last}"
            time.sleep(every_s)

    def _run(self, command: Sequence[str], stdin: str, within_s: float) -> str:
        try:
            done = subprocess.run(
                command,
                input=stdin,
                capture_output=True,
                text=True,
                timeout=within_s,
                env=self._environment(),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise CommandError(f"{' '.join(command[1:4])}: no end within {within_s:.0f} s") from error
        if done.returncode != 0:
            raise CommandError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def _environment(self) -> dict[str, str]:
        # Over websockets kubectl gives up an `exec` that was silent for a minute, as on a machine that stands still.
        return os.environ | {"KUBECONFIG": str(self.kubeconfig), "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}
