"""Any table of moments and values: ISO 8601 with a zone and a number a line, under one line of headings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from fleet_app.twin.readers.reading import Malformed

Value = tuple[float, float]
"""From a moment on (seconds since the epoch), so much."""


def values(lines: Iterable[str]) -> Iterator[Value | Malformed]:
    """Yield the values."""
    for number, line in enumerate(lines, start=1):
        if number > 1:
            try:
                yield _value(line.strip())
            except ValueError as error:
                yield Malformed(line=number, why=f"is no moment and value: {error}")


def _value(line: str) -> Value:
    at, value = line.split(",")
    return datetime.fromisoformat(at).timestamp(), float(value)
