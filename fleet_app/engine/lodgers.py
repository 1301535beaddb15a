"""All who may be asked to leave a node, as one: the room they have there, and the least that some of it costs (R2, R3).

Knows workloads and what each would lose. Does not choose victims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fleet_app.engine.values import NOTHING, Shape, total
from fleet_app.engine.workload import Workload


class Lodgers(NamedTuple):
    """All who may be asked to leave a node: the room they have there, and what it costs to have some of it.

    `least_priority` and `most_priority` are the lowest and highest among them, `least_lost` the fewest GPU-seconds that
    one of them loses, `all_lost` what all do, `smallest` the fewest GPUs that one has. `rates` are GPU-seconds lost for
    each GPU, and how many GPUs, cheapest first. The loss of one with several nodes is shared out among them, so that a
    sum over nodes is never too much.
    """

    room: Shape
    smallest: int
    least_priority: int
    most_priority: int
    least_lost: float
    all_lost: float
    rates: tuple[tuple[float, int], ...]

    def at_least(self, gpus: int) -> tuple[int, float]:
        """Return what nobody can do better than for that many of their GPUs: the priority, and GPU-seconds lost."""
        if gpus > self.room.gpus - self.smallest:
            return self.most_priority, self.all_lost  # nobody can be spared
        lost, missing = 0.0, gpus
        for rate, has in self.rates:
            if has >= missing:
                lost += rate * missing
                break
            lost += rate * has
            missing -= has
        return self.least_priority, max(self.least_lost, lost)


NO_LODGERS = Lodgers(NOTHING, 0, 0, 0, 0.0, 0.0, ())


def as_one(lodgers: Sequence[Workload], lost_gpu_s: Callable[[Workload], float]) -> Lodgers:
    """Return them as one; `lost_gpu_s` says what a workload would lose on all of its nodes."""
    if not lodgers:
        return NO_LODGERS
    if len(lodgers) == 1:
        return _alone(lodgers[0], lost_gpu_s)
    lost = [lost_gpu_s(one) / len(one.nodes) for one in lodgers]
    gpus = [one.shape.gpus for one in lodgers]
    priorities = [one.priority for one in lodgers]
    return Lodgers(
        room=total([one.shape for one in lodgers]),
        smallest=min(gpus),
        least_priority=min(priorities),
        most_priority=max(priorities),
        least_lost=min(lost),
        all_lost=sum(lost),
        rates=tuple(sorted([(each / has, has) for each, has in zip(lost, gpus, strict=True) if has])),
    )


def _alone(lodger: Workload, lost_gpu_s: Callable[[Workload], float]) -> Lodgers:
    """Return one who is alone on a node: as most are, it is worth not to sort and to sum."""
    lost, priority = lost_gpu_s(lodger) / len(lodger.nodes), lodger.priority
    return Lodgers(lodger.shape, lodger.shape.gpus, priority, priority, lost, lost, ())
