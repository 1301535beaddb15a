"""Microsoft Philly, as a table: `timestamp` (wall clock), `duration` (s), `num_gpus`, `cluster` (= team)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from fleet_app.twin.readers.reading import LINE, Malformed, positive, rows, seconds
from fleet_app.twin.readers.row import Row


def philly(lines: Iterable[str]) -> Iterator[Row | Malformed]:
    """Yield the jobs; the wall clock is taken as UTC, and a job is called by the number of its line."""
    yield from rows(lines, ("timestamp", "duration", "num_gpus", "cluster"), _row)


def _row(cells: dict[str, str]) -> Row:
    return Row(
        name=f"philly-{int(cells[LINE]):06d}",
        team=cells["cluster"],
        submitted_at=datetime.fromisoformat(cells["timestamp"]).replace(tzinfo=UTC).timestamp(),
        run_s=seconds(cells["duration"], "duration"),
        gpus=positive(cells["num_gpus"], "num_gpus"),
    )
