"""How much of their GPUs workloads and services really used: facts, from whoever measures.

Values only. Knows names, percent and moments; does not know what follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass

FRESH_S = 600.0
"""A measurement older than this says nothing about now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The most that the GPUs of a workload or service together were used, from `since` to `until` (epoch seconds).

    In percent of all that it has: time in which their processors were active, and memory; each the highest of any
    minute.
    """

    subject: str
    since: float
    until: float
    sm_active_percent: int
    memory_percent: int = 0

    def measured_s(self, began: float, now: float) -> float:
        """Return for how long it was measured since it began, in seconds; nothing when that is too long ago."""
        return max(0.0, self.until - max(self.since, began)) if now - self.until <= FRESH_S else 0.0
