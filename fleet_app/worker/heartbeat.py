"""The step heartbeat: how far an attempt is, told to the fleet without ever holding the job up.

Does not know notices or checkpoints: a heartbeat promises nothing, only an acknowledgement does.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from fleet_app.worker import board
from fleet_app.worker.contract import Beat, beat_key, encode
from fleet_app.worker.environment import JobEnvironment

PERIOD_S = 0.5
"""At most one heartbeat in that many seconds reaches the board."""


class Heart:
    """Sends the newest beat in a thread of its own; beats that come faster than the period are skipped."""

    def __init__(self, send: Callable[[Beat], None], period_s: float = PERIOD_S) -> None:
        """`send` may block and may raise board.BoardError; the beat is then lost and the next one is newer."""
        self._send = send
        self._period_s = period_s
        self._newest: Beat | None = None
        self._due = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def beat(self, step: int) -> None:
        """Say that `step` is done."""
        self._newest = Beat(step=step, at=time.time())
        self._due.set()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="fleet-heartbeat", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._due.wait():
            self._due.clear()
            if (beat := self._newest) is not None:
                # A lost heartbeat is no loss: the next one says more.
                with suppress(board.BoardError):
                    self._send(beat)
            time.sleep(self._period_s)


@cache
def _this_process() -> Heart | None:
    job = JobEnvironment.from_env(os.environ)
    if job is None:
        return None
    key = beat_key(job.attempt)
    return Heart(lambda beat: board.write(key, encode(beat)))


def heartbeat(step: int) -> None:
    """Say that `step` is done; call it from one rank only. Returns at once; does nothing outside a fleet job."""
    heart = _this_process()
    if heart is not None:
        heart.beat(step)
