"""Alibaba's recommendation services: the life of every replica of each, GPU nodes (`HN`) and CPU nodes (`CN`) apart.

`instance_sn`, `role`, `app_name`, `cpu_request`, `gpu_request`, `memory_request` (GiB), `creation_time`,
`scheduled_time`, `deletion_time` (s from the start of the trace; empty is before it, or after its end).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fleet_app.engine.values import Shape
from fleet_app.twin.readers.reading import Aside, Malformed, not_negative, positive, rows, seconds

COLUMNS = (
    "instance_sn",
    "role",
    "app_name",
    "cpu_request",
    "gpu_request",
    "memory_request",
    "creation_time",
    "scheduled_time",
    "deletion_time",
)
MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A replica of a service: what it asks for, and when it was made, had a place and went; None outside the trace."""

    name: str
    service: str
    shape: Shape
    created_at: float | None
    scheduled_at: float | None
    deleted_at: float | None


def dlrm(lines: Iterable[str]) -> Iterator[Instance | Malformed | Aside]:
    """Yield the replicas that had GPUs."""
    yield from rows(lines, COLUMNS, _instance)


def _instance(cells: dict[str, str]) -> Instance | Aside:
    gpus = not_negative(cells["gpu_request"], "gpu_request")
    if gpus == 0:
        return Aside(why="replicas without GPUs")
    return Instance(
        name=cells["instance_sn"],
        service=cells["app_name"],
        shape=Shape(
            gpus=gpus,
            cpu_milli=1000 * positive(cells["cpu_request"], "cpu_request"),
            memory_mib=int(MIB_PER_GIB * seconds(cells["memory_request"], "memory_request")),
        ),
        created_at=_moment(cells, "creation_time"),
        scheduled_at=_moment(cells, "scheduled_time"),
        deleted_at=_moment(cells, "deletion_time"),
    )


def _moment(cells: dict[str, str], what: str) -> float | None:
    return seconds(cells[what], what) if cells[what] else None
