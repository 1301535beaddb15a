"""SenseTime Helios, the recorded state of a virtual cluster: at each sample the jobs and GPUs that ran and that waited.

`time` (wall clock, taken as UTC), `running_gpujob_num`, `pending_gpujob_num`, `running_gpu_num`, `pending_gpu_num`, and
`total_gpu_num`, the GPUs that it owns (HeliosArtifact, `cluster_sequence_vc.csv`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from fleet_app.twin.readers.reading import Malformed, not_negative, positive, rows

COLUMNS = (
    "time",
    "running_gpujob_num",
    "pending_gpujob_num",
    "running_gpu_num",
    "pending_gpu_num",
    "total_gpu_num",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What ran and what waited at a moment, in jobs and in GPUs, of how many GPUs that there were."""

    at: float
    running: int
    running_gpus: int
    pending: int
    pending_gpus: int
    gpus: int


def helios_state(lines: Iterable[str]) -> Iterator[Sampled | Malformed]:
    """Yield the samples."""
    yield from rows(lines, COLUMNS, _sampled)


def _sampled(cells: dict[str, str]) -> Sampled:
    return Sampled(
        at=datetime.fromisoformat(cells["time"]).replace(tzinfo=UTC).timestamp(),
        running=not_negative(cells["running_gpujob_num"], "running_gpujob_num"),
        running_gpus=not_negative(cells["running_gpu_num"], "running_gpu_num"),
        pending=not_negative(cells["pending_gpujob_num"], "pending_gpujob_num"),
        pending_gpus=not_negative(cells["pending_gpu_num"], "pending_gpu_num"),
        gpus=positive(cells["total_gpu_num"], "total_gpu_num"),
    )
