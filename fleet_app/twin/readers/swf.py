"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, -1 for what is not known.

https://www.cs.huji.ac.il/labs/parallel/workload/swf.html. A processor is taken as a GPU. `UnixStartTime` in the header
says which moment the first column of times counts from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fleet_app.twin.readers.reading import Aside, Malformed
from fleet_app.twin.readers.row import Row

FIELDS = 18
NUMBER, SUBMIT, WAIT, RUN, PROCESSORS, ASKED, LIMIT, STATUS, GROUP, QUEUE = 0, 1, 2, 3, 4, 7, 8, 10, 12, 14
FAILED = 0
STARTS = re.compile(r";\s*UnixStartTime:\s*(\d+)")


def swf(lines: Iterable[str]) -> Iterator[Row | Malformed | Aside]:
    """Yield the jobs that ran."""
    starts_at = 0.0
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text.startswith(";"):
            known = STARTS.match(text)
            starts_at = float(known[1]) if known else starts_at
        elif text:
            yield _job(number, text, starts_at)


def _job(number: int, text: str, starts_at: float) -> Row | Malformed | Aside:
    cells = text.split()
    if len(cells) != FIELDS:
        return Malformed(line=number, why=f"{len(cells)} fields, not {FIELDS}")
    try:
        values = [float(cell) for cell in cells]
    except ValueError as error:
        return Malformed(line=number, why=str(error))
    gpus = int(values[PROCESSORS] if values[PROCESSORS] > 0 else values[ASKED])
    if values[RUN] < 0:
        return Aside(why="jobs whose run time is not known, or that never ran")
    if values[SUBMIT] < 0 or gpus <= 0:
        return Malformed(line=number, why=f"submitted at {cells[SUBMIT]}, on {gpus} processors")
    submitted_at = starts_at + values[SUBMIT]
    return Row(
        name=f"swf-{int(values[NUMBER])}",
        team=f"group-{int(values[GROUP])}",
        submitted_at=submitted_at,
        started_at=submitted_at + values[WAIT] if values[WAIT] >= 0 else None,
        run_s=values[RUN],
        gpus=gpus,
        limit_s=values[LIMIT] if values[LIMIT] > 0 else None,
        queue=f"queue-{int(values[QUEUE])}",
        failed=int(values[STATUS]) == FAILED,
    )
