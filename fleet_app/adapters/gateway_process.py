"""The gateway's process as the supervisor of a fleet holds it. Does not know what a gateway does."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import time
from pathlib import Path

from ray._private.utils import set_kill_on_parent_death_linux

from fleet_app.adapters.local_home import FleetHome
from fleet_app.engine.errors import FaultError

log = logging.getLogger("fleet.gateway")

LISTEN_WITHIN_S = 240.0
"""How long it may take to start: a second on a quiet machine."""

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
END_WITHIN_S = 5.0


class Gateway:
    """The gateway's process: started again, on the same port, whenever it ends."""

    def __init__(
        self, home: FleetHome, dashboard_url: str, *, host: str, port: int = 0, log_file: Path | None = None
    ) -> None:
        """Start nothing yet. Port 0 is a free one; without a file it writes where this process does."""
        self._home = home
        self._dashboard_url = dashboard_url
        self._host = host
        self._port = port
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None
        self._pause_s = FIRST_PAUSE_S
        self._again_at = 0.0

    def start(self) -> None:
        """Start it; its URL is there a little later."""
        self._home.gateway_url.unlink(missing_ok=True)
        with contextlib.ExitStack() as opened:
            output = None if self._log_file is None else opened.enter_context(self._log_file.open("ab"))
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "fleet_app.gateway", "--home", str(self._home.path)),
                    *("--dashboard-url", self._dashboard_url, "--host", self._host, "--port", str(self._port)),
                    *("--url-file", str(self._home.gateway_url)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=set_kill_on_parent_death_linux,  # noqa: PLW1509  # one system call, as Ray itself does
            )

    def url(self) -> str:
        """Wait until it listens; return its URL. Raises FaultError."""
        deadline = time.monotonic() + LISTEN_WITHIN_S
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            with contextlib.suppress(FileNotFoundError):
                url = self._home.gateway_url.read_text(encoding="utf-8").strip()
                self._port = int(url.rpartition(":")[2])
                return url
            time.sleep(0.02)
        raise FaultError("the gateway did not start", where=str(self._log_file or self._host))

    def keep(self) -> None:
        """Start it again when it has ended, after a pause that doubles each time."""
        if self._process is None or self._process.poll() is None or time.monotonic() < self._again_at:
            return
        log.warning("the gateway ended with %d: starting it again", self._process.returncode)
        self._again_at = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self.start()

    def stop(self) -> None:
        """End it, with a moment for what it is answering."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_WITHIN_S)
