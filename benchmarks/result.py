"""One benchmark's figures, and the machine they were taken on. Knows no benchmark."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A line of the table; `ours` and `other` are medians in `unit`, `ratio` is ours / other."""

    id: str
    what: str
    unit: str
    ours: float
    other: float | None
    other_name: str | None
    ratio: float | None
    runs: int
    min: float
    max: float
    machine: str

    def as_json(self) -> dict[str, object]:
        """Return the line as the JSON object of `benchmarks/out/latest.json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """What was measured: our runs, and another's of the same thing in the same run."""

    ours: Sequence[float]
    other: Sequence[float] = ()
    other_name: str | None = None


def result(name: str, what: str, unit: str, samples: Samples) -> Result:
    """Return the medians of the samples as one line."""
    ours = statistics.median(samples.ours)
    other = statistics.median(samples.other) if samples.other else None
    return Result(
        id=name,
        what=what,
        unit=unit,
        ours=ours,
        other=other,
        other_name=samples.other_name,
        ratio=ours / other if other else None,
        runs=len(samples.ours),
        min=min(samples.ours),
        max=max(samples.ours),
        machine=f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
    )
