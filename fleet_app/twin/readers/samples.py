"""One measurement over time, of many containers: `t_s` (s from the start), `container`, `value`.

The form in which the measurements of Alibaba's GenAI serving are (requests a second, load times, end-to-end times).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fleet_app.twin.readers.reading import Malformed, rows, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A value that was measured at a moment; of no container where it is of all together."""

    at: float
    container: str
    value: float


def samples(lines: Iterable[str]) -> Iterator[Sample | Malformed]:
    """Yield the measurements."""
    yield from rows(lines, ("t_s", "container", "value"), _sample)


def _sample(cells: dict[str, str]) -> Sample:
    return Sample(at=seconds(cells["t_s"], "t_s"), container=cells["container"], value=seconds(cells["value"], "value"))
