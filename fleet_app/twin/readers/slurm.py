"""Slurm's accounting: what `sacct -P -o JobID,Account,Partition,Submit,Start,ElapsedRaw,State,NNodes,AllocTRES` says.

With `TimelimitRaw` (minutes) among the columns a job declares how long it will run; other columns are ignored. Times
without a zone are taken as UTC: run sacct with `SLURM_TIME_FORMAT=%Y-%m-%dT%H:%M:%S` and TZ=UTC. Fields as in
https://slurm.schedmd.com/sacct.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fleet_app.twin.readers.reading import Aside, Malformed, moment, not_negative, positive, rows, seconds
from fleet_app.twin.readers.row import Row

COLUMNS = ("JobID", "Account", "Partition", "Submit", "Start", "ElapsedRaw", "State", "NNodes", "AllocTRES")
FAILED = frozenset({"FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"})
UNFINISHED = frozenset({"PENDING", "RUNNING", "REQUEUED", "RESIZING", "SUSPENDED"})
NO_TIME = frozenset({"Unknown", "None", ""})


def sacct(lines: Iterable[str]) -> Iterator[Row | Malformed | Aside]:
    """Yield the jobs that have ended and had GPUs."""
    yield from rows(lines, COLUMNS, _row, between="|")


def _row(cells: dict[str, str]) -> Row | Aside:
    state = cells["State"].partition(" ")[0]  # as in `CANCELLED by 1000`
    if "." in cells["JobID"]:
        return Aside(why="steps of jobs")
    if state in UNFINISHED:
        return Aside(why="jobs that have not ended")
    if cells["Start"] in NO_TIME:
        return Aside(why="jobs that never started")
    gpus = _gpus(cells["AllocTRES"])
    if gpus == 0:
        return Aside(why="jobs without GPUs")
    return Row(
        name=f"slurm-{cells['JobID']}",
        team=cells["Account"],
        submitted_at=_moment(cells["Submit"], "Submit"),
        started_at=_moment(cells["Start"], "Start"),
        run_s=seconds(cells["ElapsedRaw"], "ElapsedRaw"),
        gpus=gpus,
        nodes=positive(cells["NNodes"], "NNodes"),
        limit_s=_limit_s(cells.get("TimelimitRaw", "")),
        queue=cells["Partition"],
        failed=state in FAILED,
    )


def _gpus(tres: str) -> int:
    """Return the GPUs in `billing=8,cpu=64,gres/gpu=8,gres/gpu:h100=8`: the sum where there is one, else by type."""
    found = dict(part.split("=", 1) for part in tres.split(",") if "=" in part)
    if "gres/gpu" in found:
        return not_negative(found["gres/gpu"], "gres/gpu")
    return sum(not_negative(count, name) for name, count in found.items() if name.startswith("gres/gpu:"))


def _moment(text: str, what: str) -> float:
    return float(text) if re.fullmatch(r"\d{9,11}", text) else moment(text, what)


def _limit_s(minutes: str) -> float | None:
    """Return the declared run time; None for `UNLIMITED`, `Partition_Limit` or nothing."""
    return 60.0 * int(minutes) if minutes.isdigit() else None
