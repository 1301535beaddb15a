"""What is counted while records are told, in GPU-seconds, and the numbers that come of it. Does not know records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from fleet_app.engine.values import NodeClass
from fleet_app.engine.workload import Kind
from fleet_app.twin.record import Cause
from fleet_app.twin.report.effort import HOUR_S, EffortCount
from fleet_app.twin.report.figures import ClassUse, Interrupted, Money, ServiceUse, TeamUse
from fleet_app.twin.report.spread import spread


@dataclass(slots=True)
class Taken:
    """GPUs that somebody gave back for a team and does not have again: since when, on serving's nodes to what share."""

    team: str
    since: float
    gpus: int
    serving_share: float


@dataclass(slots=True)
class Attempt:
    """A workload that is there: who it is, what it has had since when, and why its last attempt was cut short.

    `serving_share` is the share of its nodes that are serving's, `cut_on_serving` that of those that it had last.
    `asked_for` is the team for which it was asked to leave, `taken` what it gave back so and does not have again.
    """

    team: str
    kind: Kind
    gpus: int
    admitted_at: float | None = None
    started_at: float | None = None
    cut_by: Cause | None = None
    sm_active: float | None = None
    tflops: float | None = None
    serving_share: float = 0.0
    cut_on_serving: float = 0.0
    asked_for: str | None = None
    taken: list[Taken] = field(default_factory=list)

    def gave(self, at: float, gpus: int, serving_share: float) -> None:
        """Note what it has given back for a team."""
        if self.asked_for is not None:
            self.taken.append(Taken(team=self.asked_for, since=at, gpus=gpus, serving_share=serving_share))

    def has_again(self, gpus: int | None = None) -> Iterator[Taken]:
        """Yield what it has again of what it gave, of so many GPUs, what went first first; None is all of it."""
        while self.taken and (gpus is None or gpus > 0):
            first = self.taken[0]
            back = first.gpus if gpus is None else min(gpus, first.gpus)
            yield replace(first, gpus=back)
            first.gpus -= back
            gpus = None if gpus is None else gpus - back
            if not first.gpus:
                del self.taken[0]


@dataclass(slots=True)
class TeamCount:
    """One team: GPU-seconds by what they were, and how often it was asked to leave."""

    nominal: float = 0.0
    own: float = 0.0
    lent: float = 0.0
    unused: float = 0.0
    borrowed: float = 0.0
    useful: float = 0.0
    lost: float = 0.0
    reclaimed: int = 0
    reclaimed_gpu_s: float = 0.0
    asked: int = 0
    breaks: int = 0
    waits: list[float] = field(default_factory=list)
    still: int = 0
    effort: EffortCount = field(default_factory=EffortCount)

    def figures(self, name: str, price: float, peak_tflops: float | None) -> TeamUse:
        """Return it in numbers."""
        return TeamUse(
            team=name,
            nominal_gpu_h=self.nominal / HOUR_S,
            own_gpu_h=self.own / HOUR_S,
            lent_gpu_h=self.lent / HOUR_S,
            unused_gpu_h=self.unused / HOUR_S,
            borrowed_gpu_h=self.borrowed / HOUR_S,
            useful_gpu_h=self.useful / HOUR_S,
            lost_gpu_h=self.lost / HOUR_S,
            reclaimed_gpus=self.reclaimed,
            reclaimed_gpu_h=self.reclaimed_gpu_s / HOUR_S,
            asked=self.asked,
            breaks=self.breaks,
            own_money=self.own / HOUR_S * price,
            borrowed_money=self.borrowed / HOUR_S * price,
            waited=spread(self.waits),
            still_waiting=self.still,
            effort=self.effort.figures(peak_tflops, price),
        )


@dataclass(slots=True)
class ClassCount:
    """One class of nodes: GPU-seconds by what they were."""

    total: float = 0.0
    allocated: float = 0.0
    draining: float = 0.0
    held: float = 0.0
    idle: float = 0.0
    down: float = 0.0
    lent: float = 0.0
    reclaimed: float = 0.0
    stranded: list[float] = field(default_factory=list)
    effort: EffortCount = field(default_factory=EffortCount)

    def figures(self, kind: NodeClass, price: float, peak_tflops: float | None) -> ClassUse:
        """Return it in numbers."""
        return ClassUse(
            node_class=str(kind),
            total_gpu_h=self.total / HOUR_S,
            allocated_gpu_h=self.allocated / HOUR_S,
            draining_gpu_h=self.draining / HOUR_S,
            held_gpu_h=self.held / HOUR_S,
            idle_gpu_h=self.idle / HOUR_S,
            down_gpu_h=self.down / HOUR_S,
            lent_gpu_h=self.lent / HOUR_S,
            reclaimed_gpu_h=self.reclaimed / HOUR_S,
            stranded_share=sum(self.stranded) / len(self.stranded) if self.stranded else 0.0,
            effort=self.effort.figures(peak_tflops, price),
        )

    def money(self, price: float, tax_gpu_s: float) -> Money:
        """Return what its GPUs are worth by what became of them, with what preemption cost."""
        each, tax = price / HOUR_S, min(tax_gpu_s, self.lent)
        return Money(
            price_per_gpu_hour=price,
            total=self.total * each,
            serving=(self.allocated + self.draining - self.lent) * each,
            lent=(self.lent - tax) * each,
            tax=tax * each,
            held=self.held * each,
            idle=self.idle * each,
            down=self.down * each,
        )


@dataclass(slots=True)
class ServiceCount:
    """One service: what its requests and replicas met."""

    gpu_s: float = 0.0
    seconds: float = 0.0
    peak: int = 0
    requests: float = 0.0
    late: float = 0.0
    short_gpu_s: float = 0.0
    overdue_gpu_s: float = 0.0
    ready: list[float] = field(default_factory=list)

    def figures(self, name: str, team: str) -> ServiceUse:
        """Return it in numbers."""
        return ServiceUse(
            service=name,
            team=team,
            mean_gpus=self.gpu_s / self.seconds if self.seconds else 0.0,
            peak_gpus=self.peak,
            requests=self.requests,
            late=self.late,
            short_gpu_min=self.short_gpu_s / 60.0,
            overdue_gpu_min=self.overdue_gpu_s / 60.0,
            ready=spread(self.ready),
        )


@dataclass(slots=True)
class Cut:
    """Attempts that were cut short for one cause: how many, and GPU-seconds."""

    count: int = 0
    lost: float = 0.0
    leaving: float = 0.0
    restarting: float = 0.0

    def figures(self, cause: Cause) -> Interrupted:
        """Return it in numbers."""
        return Interrupted(
            cause=str(cause),
            count=self.count,
            lost_gpu_h=self.lost / HOUR_S,
            leaving_gpu_h=self.leaving / HOUR_S,
            restarting_gpu_h=self.restarting / HOUR_S,
        )
