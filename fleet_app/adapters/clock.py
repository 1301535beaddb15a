"""Time as the machine has it."""

from __future__ import annotations

import time


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()
