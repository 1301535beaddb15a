"""A run that is kept in a file: written once a minute, and when somebody stops it; the same command goes on from there.

Knows signals and the clock. Does not know what is in the file.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from fleet_app.cli import show
from fleet_app.twin.simulate import Due, Keeping, StoppedError

EVERY_S = 60.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)

Now = Callable[[], float]


class Keeper:
    """Says when the file is due: at once when the run is to stop, else every minute."""

    def __init__(self, now: Now = time.monotonic) -> None:
        """Begin a minute now."""
        self._now = now
        self._written_at = now()
        self.stopped = False

    def due(self) -> Due:
        """Return what is to be done about the file now."""
        if self.stopped:
            return Due.STOP
        if self._now() - self._written_at < EVERY_S:
            return Due.NOTHING
        self._written_at = self._now()
        return Due.WRITE


@contextmanager
def kept(path: Path | None) -> Iterator[Keeping | None]:
    """Let a run be kept in a file, if one is given: the first Ctrl-C stops it once it is written, the second at once.

    Raises KeyboardInterrupt when the run was stopped.
    """
    if path is None:
        yield None
        return
    keeper = Keeper()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def stop(number: int, _: FrameType | None) -> None:
        keeper.stopped = True
        signal.signal(number, before[signal.Signals(number)])

    for number in SIGNALS:
        signal.signal(number, stop)
    if path.exists():
        show.hint(f"{path}: the run goes on from there")
    try:
        yield Keeping(path=path, due=keeper.due)
    except StoppedError:
        show.hint(f"{path}: the run is in it as it stood; the same command goes on from there")
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
