"""Alibaba's openb cluster: nodes of several accelerators, and pods that ask for whole GPUs or a part of one.

Nodes: `sn`, `cpu_milli`, `memory_mib`, `gpu`, `model`. Pods: `name`, `cpu_milli`, `memory_mib`, `num_gpu`, `gpu_milli`
(of each), `gpu_spec` (models, `|` between them), `creation_time`, `deletion_time`, `scheduled_time` (s).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.twin.readers.reading import Aside, Malformed, not_negative, positive, rows, seconds

WHOLE_MILLI = 1_000
POD = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "creation_time", "deletion_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod: what it asks for, `gpu_milli` of each of its GPUs, of which models, and when it was there.

    Moments are in seconds; `scheduled_at` is None for one that never was.
    """

    name: str
    shape: Shape
    gpu_milli: int
    models: tuple[str, ...]
    created_at: float
    deleted_at: float
    scheduled_at: float | None

    @property
    def whole(self) -> bool:
        """Return whether it asks for whole GPUs, or none."""
        return self.shape.gpus != 1 or self.gpu_milli == WHOLE_MILLI


def openb_nodes(lines: Iterable[str]) -> Iterator[Node | Malformed | Aside]:
    """Yield the nodes that have GPUs, all of training's and in one domain."""
    yield from rows(lines, ("sn", "cpu_milli", "memory_mib", "gpu", "model"), _node)


def openb_pods(lines: Iterable[str]) -> Iterator[Pod | Malformed]:
    """Yield the pods."""
    yield from rows(lines, (*POD, "scheduled_time"), _pod)


def _node(cells: dict[str, str]) -> Node | Aside:
    gpus = not_negative(cells["gpu"], "gpu")
    if gpus == 0:
        return Aside(why="nodes without GPUs")
    return Node(
        name=cells["sn"],
        node_class=NodeClass.TRAINING,
        domains=(),
        capacity=_shape(cells, gpus),
        accelerator=cells["model"],
    )


def _pod(cells: dict[str, str]) -> Pod:
    gpus = not_negative(cells["num_gpu"], "num_gpu")
    scheduled = cells["scheduled_time"]
    return Pod(
        name=cells["name"],
        shape=_shape(cells, gpus),
        gpu_milli=positive(cells["gpu_milli"], "gpu_milli") if gpus else 0,
        models=tuple(part for part in cells["gpu_spec"].split("|") if part),
        created_at=seconds(cells["creation_time"], "creation_time"),
        deleted_at=seconds(cells["deletion_time"], "deletion_time"),
        scheduled_at=seconds(scheduled, "scheduled_time") if scheduled else None,
    )


def _shape(cells: dict[str, str], gpus: int) -> Shape:
    return Shape(
        gpus=gpus,
        cpu_milli=not_negative(cells["cpu_milli"], "cpu_milli"),
        memory_mib=not_negative(cells["memory_mib"], "memory_mib"),
    )
