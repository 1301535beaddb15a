"""Time that only the test moves, for tests of one adapter. A whole fleet in memory has its own: `tests.fakes`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """A clock that stands, in seconds since the epoch."""

    at: float = 1000.0

    def now(self) -> float:
        """Return what the test has set."""
        return self.at
