"""Requests a minute of an Azure LLM service over time, as rates of traffic.

`time_utc`, and the rate in `requests_per_minute`, or in `req_per_min_mid` as it was read off the published figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from fleet_app.twin.readers.reading import Malformed, rows, seconds

Rate = tuple[float, float]
"""From a moment on (seconds since the epoch), so many requests a second."""

COLUMN = "requests_per_minute"
DIGITIZED = "req_per_min_mid"


def azure(lines: Iterable[str], column: str = COLUMN) -> Iterator[Rate | Malformed]:
    """Yield the rates."""

    def rate(cells: dict[str, str]) -> Rate:
        at = datetime.fromisoformat(cells["time_utc"]).timestamp()
        return at, seconds(cells[column], column) / 60.0

    yield from rows(lines, ("time_utc", column), rate)


def digitized(lines: Iterable[str]) -> Iterator[Rate | Malformed]:
    """Yield the rates in the middle of the line in the published figure."""
    yield from azure(lines, DIGITIZED)


def scaled(rates: Iterable[Rate], peak: float) -> tuple[Rate, ...]:
    """Return the rates so that the highest of them is `peak` requests a second."""
    known = list(rates)
    most = max((rate for _, rate in known), default=0.0)
    return tuple((at, rate * peak / most) for at, rate in known) if most else tuple(known)
