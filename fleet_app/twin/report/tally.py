"""Counts the records of a run into figures, as they are told: memory grows with jobs and hours, not with records.

Knows records. Does not know how figures are shown, nor the engine beyond the names of classes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatchmethod

from fleet_app.engine.values import NodeClass
from fleet_app.engine.workload import Kind
from fleet_app.twin.record import (
    Admitted,
    Booked,
    Cause,
    ClassSpan,
    Crossed,
    Ended,
    Left,
    NodeLost,
    Noticed,
    Outcome,
    QueueSample,
    Record,
    ReplicaReady,
    ServiceSpan,
    Shrunk,
    Started,
    Submitted,
    TeamSpan,
    Waiting,
)
from fleet_app.twin.report.figures import (
    Bar,
    ClassUse,
    Figures,
    Interrupted,
    Moment,
    Money,
    ServiceUse,
    TeamUse,
    Waits,
)
from fleet_app.twin.report.spread import spread

HOUR_S = 3600.0
SIZES = (1, 7, 8, 32, 64, 128, 256, 512)
"""Up to how many GPUs workloads are counted together, by how long they waited."""
SETTLES_S = 1800.0
"""A run begins with an empty fleet: what requests and replicas meet before this is not counted."""
SHOWN = 48
"""Of how many workloads attempts are kept: those that had the most GPU-hours."""
PREEMPTED = frozenset({Cause.DRAINED, Cause.MOVED})


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What records do not say: the run's name, how long it was, its GPUs, the price, and whose each service is."""

    name: str
    lasted_s: float
    gpus: int
    price_per_gpu_hour: float
    team_of_service: Mapping[str, str]


@dataclass(slots=True)
class _Attempt:
    """A workload that is there: who it is, what it has had since when, and why its last attempt was cut short."""

    team: str
    kind: Kind
    gpus: int
    admitted_at: float | None = None
    started_at: float | None = None
    cut_by: Cause | None = None


@dataclass(slots=True)
class _Team:
    nominal: float = 0.0
    own: float = 0.0
    lent: float = 0.0
    unused: float = 0.0
    borrowed: float = 0.0
    useful: float = 0.0
    lost: float = 0.0
    reclaimed: int = 0
    asked: int = 0
    breaks: int = 0


@dataclass(slots=True)
class _Class:
    total: float = 0.0
    allocated: float = 0.0
    draining: float = 0.0
    held: float = 0.0
    idle: float = 0.0
    down: float = 0.0
    lent: float = 0.0
    stranded: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Service:
    gpu_s: float = 0.0
    seconds: float = 0.0
    peak: int = 0
    requests: float = 0.0
    late: float = 0.0
    short_gpu_s: float = 0.0
    ready: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Cut:
    count: int = 0
    lost: float = 0.0
    leaving: float = 0.0
    restarting: float = 0.0


class Tally:
    """Is told the records of a run, and says what they come to."""

    def __init__(self, about: About) -> None:
        """Begin, with nothing told."""
        self._about = about
        self._here: dict[str, _Attempt] = {}
        self._teams: defaultdict[str, _Team] = defaultdict(_Team)
        self._classes: dict[NodeClass, _Class] = {kind: _Class() for kind in NodeClass}
        self._services: defaultdict[str, _Service] = defaultdict(_Service)
        self._waits: defaultdict[int, list[float]] = defaultdict(list)
        self._still: Counter[int] = Counter()
        self._cuts: defaultdict[Cause, _Cut] = defaultdict(_Cut)
        self._tax_gpu_s = 0.0
        self._given_back: list[float] = []
        self._after_drain: list[float] = []
        self._outcomes: Counter[Outcome] = Counter()
        self._spans: list[ClassSpan] = []
        self._moments: list[Moment] = []
        self._bars: defaultdict[str, list[Bar]] = defaultdict(list)
        self._happened: Counter[str] = Counter()

    @singledispatchmethod
    def tell(self, record: Record) -> None:
        """Count one record; those that no figure rests on are passed over."""

    # Workloads.

    @tell.register
    def _(self, one: Submitted) -> None:
        self._here[one.workload] = _Attempt(team=one.team, kind=one.kind, gpus=one.gpus)

    @tell.register
    def _(self, one: Admitted) -> None:
        here = self._here[one.workload]
        here.admitted_at, here.started_at, here.gpus = one.at, None, one.gpus
        self._waits[_size(one.gpus)].append(one.waited_s)

    @tell.register
    def _(self, one: Started) -> None:
        here = self._here[one.workload]
        here.started_at = one.at
        if here.cut_by is not None and here.admitted_at is not None:
            self._cost(here, here.cut_by, restarting=(one.at - here.admitted_at) * here.gpus)
            here.cut_by = None

    @tell.register
    def _(self, one: Noticed) -> None:
        self._teams[self._here[one.workload].team].asked += 1
        whose = self._team_of(one.beneficiary)
        if whose is not None and one.cause in PREEMPTED:
            self._teams[whose].reclaimed += one.gpus

    @tell.register
    def _(self, one: Shrunk) -> None:
        here = self._here[one.workload]
        self._cost(here, Cause.DRAINED, leaving=(one.at - one.asked_at) * one.gpus)
        self._given_back.append(one.at - one.asked_at)

    @tell.register
    def _(self, one: Left) -> None:
        here = self._here[one.workload]
        leaving_s = 0.0 if one.asked_at is None else one.at - one.asked_at
        self._cuts[one.cause].count += 1
        self._cost(here, one.cause, lost=one.lost_gpu_s, leaving=leaving_s * one.gpus)
        if one.cause is Cause.DRAINED:
            self._given_back.append(leaving_s)
        team = self._teams[here.team]
        team.lost += one.lost_gpu_s
        team.breaks += one.broke
        self._worked(here, one.at, lost_gpu_s=one.lost_gpu_s + leaving_s * one.gpus)
        self._bar(one.workload, here, one.at, str(one.cause))
        here.admitted_at, here.started_at, here.cut_by = None, None, one.cause

    @tell.register
    def _(self, one: Ended) -> None:
        here = self._here.pop(one.workload)
        self._outcomes[one.outcome] += 1
        if here.admitted_at is not None:
            self._worked(here, one.at)
            self._bar(one.workload, here, one.at, str(one.outcome))

    @tell.register
    def _(self, one: Waiting) -> None:
        self._still[_size(one.gpus)] += 1

    def _cost(
        self, here: _Attempt, cause: Cause, *, lost: float = 0.0, leaving: float = 0.0, restarting: float = 0.0
    ) -> None:
        cut = self._cuts[cause]
        cut.lost += lost
        cut.leaving += leaving
        cut.restarting += restarting
        if here.kind is Kind.BACKFILL and cause in PREEMPTED:
            self._tax_gpu_s += lost + leaving + restarting

    def _worked(self, here: _Attempt, at: float, lost_gpu_s: float = 0.0) -> None:
        if here.started_at is not None:
            self._teams[here.team].useful += max(0.0, (at - here.started_at) * here.gpus - lost_gpu_s)

    def _bar(self, name: str, here: _Attempt, at: float, ended: str) -> None:
        if here.admitted_at is None:
            return
        self._bars[name].append(
            Bar(
                workload=name,
                team=here.team,
                kind=str(here.kind),
                began_at=here.admitted_at,
                ended_at=at,
                gpus=here.gpus,
                ended=ended,
            )
        )

    def _team_of(self, name: str) -> str | None:
        here = self._here.get(name)
        return self._about.team_of_service.get(name) if here is None else here.team

    # Services, nodes, bookings.

    @tell.register
    def _(self, one: ReplicaReady) -> None:
        if one.at - one.waited_s < SETTLES_S:
            return
        self._services[one.service].ready.append(one.waited_s)
        if one.drained:
            self._after_drain.append(one.waited_s)

    @tell.register
    def _(self, one: ServiceSpan) -> None:
        service, seconds = self._services[one.service], one.at - one.began_at
        if one.began_at < SETTLES_S:
            return
        service.gpu_s += one.granted * one.replica_gpus * seconds
        service.seconds += seconds
        service.peak = max(service.peak, one.wanted * one.replica_gpus)
        service.requests += one.requests
        service.late += one.late
        service.short_gpu_s += max(0, one.wanted - one.granted) * one.replica_gpus * seconds

    @tell.register
    def _(self, one: NodeLost) -> None:
        self._happened["nodes lost"] += 1

    @tell.register
    def _(self, one: Crossed) -> None:
        self._happened[f"nodes gone over to {one.to}"] += 1

    @tell.register
    def _(self, one: Booked) -> None:
        self._happened[f"booking {one.booking} {one.what}"] += 1

    # Who had how much.

    @tell.register
    def _(self, one: TeamSpan) -> None:
        team = self._teams[one.team]
        team.nominal += one.nominal_gpu_s
        team.own += one.own_gpu_s
        team.lent += one.lent_gpu_s
        team.unused += one.unused_gpu_s
        team.borrowed += one.borrowed_gpu_s

    @tell.register
    def _(self, one: ClassSpan) -> None:
        found = self._classes[one.node_class]
        found.total += one.total_gpu_s
        found.allocated += one.allocated_gpu_s
        found.draining += one.draining_gpu_s
        found.held += one.held_gpu_s
        found.idle += one.idle_gpu_s
        found.down += one.down_gpu_s
        found.lent += one.lent_gpu_s
        gpus = one.total_gpu_s / (one.at - one.began_at) if one.at > one.began_at else 0.0
        found.stranded.append(one.stranded_gpus / gpus if gpus else 0.0)
        self._spans.append(one)

    @tell.register
    def _(self, one: QueueSample) -> None:
        """Close a moment: the spans of all classes come before what waits at their end."""
        if self._spans and self._spans[0].at > self._spans[0].began_at:
            self._moments.append(moment(self._spans, one))
        self._spans = []

    # What it comes to.

    def figures(self) -> Figures:
        """Return what has been told so far, in numbers; attempts that go on are counted up to the end."""
        about = self._about
        for name, here in self._here.items():
            self._worked(here, about.lasted_s)
            self._bar(name, here, about.lasted_s, "runs on")
            here.admitted_at = here.started_at = None
        lent_gpu_s = self._classes[NodeClass.SERVING].lent
        return Figures(
            name=about.name,
            lasted_s=about.lasted_s,
            gpus=about.gpus,
            classes=tuple(_class_use(kind, one) for kind, one in self._classes.items()),
            teams=tuple(self._team_use(name) for name in sorted(self._teams)),
            services=tuple(self._service_use(name) for name in sorted(self._services)),
            waits=tuple(
                Waits(size=_label(size), waited=spread(self._waits[size]), still_waiting=self._still[size])
                for size in sorted({*self._waits, *self._still})
            ),
            interrupted=tuple(_interrupted(cause, self._cuts[cause]) for cause in sorted(self._cuts)),
            given_back=spread(self._given_back),
            ready_after_drain=spread(self._after_drain),
            ended=self._outcomes.total(),
            failed=self._outcomes[Outcome.FAILED],
            tax_share=self._tax_gpu_s / lent_gpu_s if lent_gpu_s else 0.0,
            money=self._money(),
            moments=tuple(self._moments),
            bars=tuple(bar for bars in self._longest() for bar in bars),
            notes=tuple(f"{count} {what}" for what, count in sorted(self._happened.items())),
        )

    def _money(self) -> Money:
        serving, each = self._classes[NodeClass.SERVING], self._about.price_per_gpu_hour / HOUR_S
        tax = min(self._tax_gpu_s, serving.lent)
        return Money(
            price_per_gpu_hour=self._about.price_per_gpu_hour,
            total=serving.total * each,
            serving=(serving.allocated + serving.draining - serving.lent) * each,
            lent=(serving.lent - tax) * each,
            tax=tax * each,
            held=serving.held * each,
            idle=serving.idle * each,
            down=serving.down * each,
        )

    def _longest(self) -> list[list[Bar]]:
        """Return the attempts of the workloads that had the most, in the order in which those began."""

        def had(bars: list[Bar]) -> float:
            return sum((bar.ended_at - bar.began_at) * bar.gpus for bar in bars)

        most = sorted(self._bars.values(), key=lambda bars: (-had(bars), bars[0].workload))[:SHOWN]
        return sorted(most, key=lambda bars: (bars[0].began_at, bars[0].workload))

    def _team_use(self, name: str) -> TeamUse:
        team, price = self._teams[name], self._about.price_per_gpu_hour
        return TeamUse(
            team=name,
            nominal_gpu_h=team.nominal / HOUR_S,
            own_gpu_h=team.own / HOUR_S,
            lent_gpu_h=team.lent / HOUR_S,
            unused_gpu_h=team.unused / HOUR_S,
            borrowed_gpu_h=team.borrowed / HOUR_S,
            useful_gpu_h=team.useful / HOUR_S,
            lost_gpu_h=team.lost / HOUR_S,
            reclaimed_gpus=team.reclaimed,
            asked=team.asked,
            breaks=team.breaks,
            own_money=team.own / HOUR_S * price,
            borrowed_money=team.borrowed / HOUR_S * price,
        )

    def _service_use(self, name: str) -> ServiceUse:
        one = self._services[name]
        return ServiceUse(
            service=name,
            team=self._about.team_of_service.get(name, ""),
            mean_gpus=one.gpu_s / one.seconds if one.seconds else 0.0,
            peak_gpus=one.peak,
            requests=one.requests,
            late=one.late,
            short_gpu_min=one.short_gpu_s / 60.0,
            ready=spread(one.ready),
        )


def moment(spans: list[ClassSpan], queue: QueueSample) -> Moment:
    """Return the fleet in one span, from what its classes had."""
    seconds = spans[0].at - spans[0].began_at
    by_class = {one.node_class: one for one in spans}
    serving, training = by_class[NodeClass.SERVING], by_class[NodeClass.TRAINING]
    total = sum(one.total_gpu_s for one in spans) / seconds
    return Moment(
        at=spans[0].began_at,
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


def _size(gpus: int) -> int:
    return next((size for size in SIZES if gpus <= size), SIZES[-1] + 1)


def _label(size: int) -> str:
    if size > SIZES[-1]:
        return f"> {SIZES[-1]}"
    below = max((one for one in SIZES if one < size), default=0)
    return str(size) if size - below == 1 else f"{below + 1}-{size}"


def _class_use(kind: NodeClass, one: _Class) -> ClassUse:
    return ClassUse(
        node_class=str(kind),
        total_gpu_h=one.total / HOUR_S,
        allocated_gpu_h=one.allocated / HOUR_S,
        draining_gpu_h=one.draining / HOUR_S,
        held_gpu_h=one.held / HOUR_S,
        idle_gpu_h=one.idle / HOUR_S,
        down_gpu_h=one.down / HOUR_S,
        lent_gpu_h=one.lent / HOUR_S,
        stranded_share=sum(one.stranded) / len(one.stranded) if one.stranded else 0.0,
    )


def _interrupted(cause: Cause, cut: _Cut) -> Interrupted:
    return Interrupted(
        cause=str(cause),
        count=cut.count,
        lost_gpu_h=cut.lost / HOUR_S,
        leaving_gpu_h=cut.leaving / HOUR_S,
        restarting_gpu_h=cut.restarting / HOUR_S,
    )
