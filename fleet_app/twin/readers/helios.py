"""SenseTime Helios, the job log of a cluster (`cluster_log.csv` of HeliosData); a virtual cluster is a team.

`job_id`, `vc`, `gpu_num`, `node_num`, `state`, `submit_time`, `start_time` (wall clock), `duration` (s); other columns
are ignored. The wall clock is taken as UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleet_app.twin.readers.reading import Aside, Malformed, moment, not_negative, positive, rows, seconds
from fleet_app.twin.readers.row import Row

COLUMNS = ("job_id", "vc", "gpu_num", "node_num", "state", "submit_time", "start_time", "duration")
FAILED = frozenset({"FAILED", "TIMEOUT", "NODE_FAIL"})


def helios(lines: Iterable[str]) -> Iterator[Row | Malformed | Aside]:
    """Yield the jobs that had GPUs."""
    yield from rows(lines, COLUMNS, _row)


def _row(cells: dict[str, str]) -> Row | Aside:
    gpus = not_negative(cells["gpu_num"], "gpu_num")
    if gpus == 0:
        return Aside(why="jobs without GPUs")
    return Row(
        name=f"helios-{positive(cells['job_id'], 'job_id')}",
        team=cells["vc"],
        submitted_at=moment(cells["submit_time"], "submit_time"),
        started_at=moment(cells["start_time"], "start_time"),
        run_s=seconds(cells["duration"], "duration"),
        gpus=gpus,
        nodes=positive(cells["node_num"], "node_num"),
        failed=cells["state"] in FAILED,
    )
