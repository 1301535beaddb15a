"""How long things took, as percentiles."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fleet_app.twin.report.figures import Spread


def spread(seconds: Iterable[float]) -> Spread:
    """Return the percentiles of durations by nearest rank: each is one that occurred; 0 where there is none."""
    ordered = sorted(seconds)
    return Spread(
        count=len(ordered),
        p50_s=at_rank(ordered, 50),
        p90_s=at_rank(ordered, 90),
        p99_s=at_rank(ordered, 99),
        longest_s=at_rank(ordered, 100),
    )


def curve(seconds: Iterable[float]) -> tuple[float, ...]:
    """Return the durations that 1 %, 2 % ... 100 % do not exceed; nothing where there is none."""
    ordered = sorted(seconds)
    return tuple(at_rank(ordered, percent) for percent in range(1, 101)) if ordered else ()


def at_rank(ordered: list[float], percent: int) -> float:
    """Return the smallest value that at least so many per cent do not exceed."""
    if not ordered:
        return 0.0
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
