"""Microsoft ITP, as a table: `cluster` (= team), `submission_time` (s of the collection), `duration` (s), `num_gpu`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleet_app.twin.readers.reading import LINE, Malformed, positive, rows, seconds
from fleet_app.twin.readers.row import Row


def itp(lines: Iterable[str]) -> Iterator[Row | Malformed]:
    """Yield the jobs; a job is called by the number of its line."""
    yield from rows(lines, ("cluster", "submission_time", "duration", "num_gpu"), _row)


def _row(cells: dict[str, str]) -> Row:
    return Row(
        name=f"itp-{int(cells[LINE]):06d}",
        team=cells["cluster"],
        submitted_at=seconds(cells["submission_time"], "submission_time"),
        run_s=seconds(cells["duration"], "duration"),
        gpus=positive(cells["num_gpu"], "num_gpu"),
    )
