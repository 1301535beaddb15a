"""The fleet in one span of time, and how workloads are put together by size."""

from __future__ import annotations

from fleet_app.engine.values import NodeClass
from fleet_app.twin.record import ClassSpan, QueueSample
from fleet_app.twin.report.figures import Moment

SIZES = (1, 7, 8, 32, 64, 128, 256, 512)
"""Up to how many GPUs workloads are counted together, by how long they waited."""


def moment(spans: list[ClassSpan], queue: QueueSample, began_at: float) -> Moment:
    """Return the fleet in one span, from what its classes had, in a run that began at a moment."""
    seconds = spans[0].at - spans[0].began_at
    by_class = {one.node_class: one for one in spans}
    serving, training = by_class[NodeClass.SERVING], by_class[NodeClass.TRAINING]
    total = sum(one.total_gpu_s for one in spans) / seconds
    return Moment(
        at=spans[0].began_at - began_at,
        serving_gpus=(serving.allocated_gpu_s + serving.draining_gpu_s - serving.lent_gpu_s) / seconds,
        training_gpus=training.allocated_gpu_s / seconds,
        lent_gpus=serving.lent_gpu_s / seconds,
        draining_gpus=training.draining_gpu_s / seconds,
        held_gpus=sum(one.held_gpu_s for one in spans) / seconds,
        idle_gpus=sum(one.idle_gpu_s for one in spans) / seconds,
        down_gpus=sum(one.down_gpu_s for one in spans) / seconds,
        headroom_gpus=(serving.idle_gpu_s + serving.held_gpu_s) / seconds,
        waiting=queue.waiting,
        waiting_gpus=queue.waiting_gpus,
        stranded_share=sum(one.stranded_gpus for one in spans) / total if total else 0.0,
    )


def size_of(gpus: int) -> int:
    """Return the size with which a workload is counted; one more than the largest for those beyond."""
    return next((size for size in SIZES if gpus <= size), SIZES[-1] + 1)


def label(size: int) -> str:
    """Return what a size is called, such as 9-32."""
    if size > SIZES[-1]:
        return f"> {SIZES[-1]}"
    below = max((one for one in SIZES if one < size), default=0)
    return str(size) if size - below == 1 else f"{below + 1}-{size}"
