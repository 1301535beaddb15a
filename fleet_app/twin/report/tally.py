"""Counts the records of a run into figures, as they are told: memory grows with jobs and hours, not with records.

Knows records. Does not know how figures are shown, nor the engine beyond the names of classes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
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
    Demanded,
    Ended,
    Foreseen,
    Grown,
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
from fleet_app.twin.report.bars import longest
from fleet_app.twin.report.counts import Attempt, ClassCount, Cut, ServiceCount, TeamCount
from fleet_app.twin.report.effort import EffortCount, Held
from fleet_app.twin.report.figures import Bar, Figures, Moment, Waits
from fleet_app.twin.report.foresight import ForesightCount
from fleet_app.twin.report.moments import label, moment, size_of
from fleet_app.twin.report.spread import curve, spread
from fleet_app.twin.report.told import Told

SETTLES_S = 1800.0
"""A run begins with an empty fleet: what requests and replicas meet before this, or its tenth part, does not count."""
PREEMPTED = frozenset({Cause.DRAINED, Cause.MOVED})


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What records do not say: the run's name, when it began, how long it was, its GPUs, its price, whose services are.

    A service is a team's by its name. Of some, the part of the time in which its GPUs compute and the 10^12 FLOPs of a
    request are known. Figures count moments from the beginning.
    """

    name: str
    lasted_s: float
    gpus: int
    price_per_gpu_hour: float
    team_of_service: Mapping[str, str]
    began_at: float = 0.0
    class_of_node: Mapping[str, NodeClass] = field(default_factory=dict)
    effort_of_service: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    peak_tflops: float | None = None


class Tally:
    """Is told the records of a run, and says what they come to."""

    def __init__(self, about: About) -> None:
        """Begin, with nothing told."""
        self._about = about
        self._settled_at = about.began_at + min(SETTLES_S, about.lasted_s / 10)
        self._here: dict[str, Attempt] = {}
        self._class_of = dict(about.class_of_node)
        self._teams: defaultdict[str, TeamCount] = defaultdict(TeamCount)
        self._classes: dict[NodeClass, ClassCount] = {kind: ClassCount() for kind in NodeClass}
        self._services: defaultdict[str, ServiceCount] = defaultdict(ServiceCount)
        self._waits: defaultdict[int, list[float]] = defaultdict(list)
        self._still: Counter[int] = Counter()
        self._cuts: defaultdict[Cause, Cut] = defaultdict(Cut)
        self._tax_gpu_s = 0.0
        self._given_back: list[float] = []
        self._after_drain: list[float] = []
        self._outcomes: Counter[Outcome] = Counter()
        self._spans: list[ClassSpan] = []
        self._moments: list[Moment] = []
        self._bars: defaultdict[str, list[Bar]] = defaultdict(list)
        self._happened: Counter[str] = Counter()
        self._effort = EffortCount()
        self._foresight = ForesightCount()

    @singledispatchmethod
    def tell(self, record: Record) -> None:
        """Count one record; those that no figure rests on are passed over."""

    # Workloads.

    @tell.register
    def _(self, one: Submitted) -> None:
        self._here[one.workload] = Attempt(
            team=one.team, kind=one.kind, gpus=one.gpus, sm_active=one.sm_active, tflops=one.tflops
        )

    @tell.register
    def _(self, one: Admitted) -> None:
        here = self._here[one.workload]
        here.admitted_at, here.started_at, here.gpus = one.at, None, one.gpus
        here.serving_share = self._on_serving(one.nodes)
        self._has_again(here, one.at)
        self._waits[size_of(one.gpus)].append(one.waited_s)
        self._teams[here.team].waits.append(one.waited_s)

    @tell.register
    def _(self, one: Started) -> None:
        here = self._here[one.workload]
        here.started_at = one.at
        if here.cut_by is not None and here.admitted_at is not None:
            cost = Cut(restarting=(one.at - here.admitted_at) * here.gpus)
            self._cost(here, here.cut_by, here.cut_on_serving, cost)
            here.cut_by = None

    @tell.register
    def _(self, one: Noticed) -> None:
        here = self._here[one.workload]
        self._teams[here.team].asked += 1
        here.asked_for = self._team_of(one.beneficiary) if one.cause in PREEMPTED else None
        if here.asked_for is not None:
            self._teams[here.asked_for].reclaimed += one.gpus

    @tell.register
    def _(self, one: Shrunk) -> None:
        here, share = self._here[one.workload], self._on_serving(one.nodes)
        self._cost(here, Cause.DRAINED, share, Cut(leaving=(one.at - one.asked_at) * one.gpus))
        self._given_back.append(one.at - one.asked_at)
        here.gave(one.at, one.gpus, share)

    @tell.register
    def _(self, one: Grown) -> None:
        self._has_again(self._here[one.workload], one.at, one.gpus)

    @tell.register
    def _(self, one: Left) -> None:
        here = self._here[one.workload]
        leaving_s = 0.0 if one.asked_at is None else one.at - one.asked_at
        self._cuts[one.cause].count += 1
        self._cost(here, one.cause, here.serving_share, Cut(lost=one.lost_gpu_s, leaving=leaving_s * one.gpus))
        if one.cause is Cause.DRAINED:
            self._given_back.append(leaving_s)
        team = self._teams[here.team]
        team.lost += one.lost_gpu_s
        team.breaks += one.broke
        self._worked(here, one.at, lost_gpu_s=one.lost_gpu_s + leaving_s * one.gpus)
        self._bar(one.workload, here, one.at, str(one.cause))
        if one.cause in PREEMPTED:
            here.gave(one.at, one.gpus, here.serving_share)
        here.admitted_at, here.started_at = None, None
        here.cut_by, here.cut_on_serving = one.cause, here.serving_share

    @tell.register
    def _(self, one: Ended) -> None:
        here = self._here.pop(one.workload)
        self._has_again(here, one.at)
        self._outcomes[one.outcome] += 1
        if here.admitted_at is not None:
            self._worked(here, one.at)
            self._bar(one.workload, here, one.at, str(one.outcome))

    @tell.register
    def _(self, one: Waiting) -> None:
        self._still[size_of(one.gpus)] += 1
        self._teams[one.team].still += 1

    def _has_again(self, here: Attempt, at: float, gpus: int | None = None) -> None:
        """Count what was taken back until now of what somebody has again."""
        for taken in here.has_again(gpus):
            gpu_s = taken.gpus * (at - taken.since)
            self._teams[taken.team].reclaimed_gpu_s += gpu_s
            self._classes[NodeClass.SERVING].reclaimed += gpu_s * taken.serving_share
            self._classes[NodeClass.TRAINING].reclaimed += gpu_s * (1.0 - taken.serving_share)

    def _cost(self, here: Attempt, cause: Cause, on_serving: float, cost: Cut) -> None:
        """Count what a cut cost; what is lent is counted on serving's nodes, and so is what preemption costs of it."""
        cut = self._cuts[cause]
        cut.lost += cost.lost
        cut.leaving += cost.leaving
        cut.restarting += cost.restarting
        if here.kind is Kind.BACKFILL and cause in PREEMPTED:
            self._tax_gpu_s += (cost.lost + cost.leaving + cost.restarting) * on_serving

    def _worked(self, here: Attempt, at: float, lost_gpu_s: float = 0.0) -> None:
        if here.admitted_at is None:
            return
        ran = 0.0 if here.started_at is None else (at - here.started_at) * here.gpus
        held = Held(held=(at - here.admitted_at) * here.gpus, ran=ran, useful=max(0.0, ran - lost_gpu_s))
        self._teams[here.team].useful += held.useful
        if here.sm_active is not None or here.tflops is not None:
            share = here.serving_share
            self._put(here.team, held, lambda count, part: count.work(part, here.sm_active, here.tflops), share)

    def _put(self, team: str, held: Held, count: Callable[[EffortCount, Held], None], serving: float) -> None:
        """Count what somebody did with GPUs, for the fleet, the team, and each class as far as they were of it."""
        count(self._effort, held)
        count(self._teams[team].effort, held)
        for kind, share in ((NodeClass.SERVING, serving), (NodeClass.TRAINING, 1.0 - serving)):
            if share:
                count(self._classes[kind].effort, held.times(share))

    def _on_serving(self, nodes: Sequence[str]) -> float:
        """Return the share of some nodes that are serving's."""
        return sum(self._class_of.get(name) is NodeClass.SERVING for name in nodes) / len(nodes) if nodes else 0.0

    def _bar(self, name: str, here: Attempt, at: float, ended: str) -> None:
        if here.admitted_at is None:
            return
        self._bars[name].append(
            Bar(
                workload=name,
                team=here.team,
                kind=str(here.kind),
                began_at=here.admitted_at - self._about.began_at,
                ended_at=at - self._about.began_at,
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
        if one.at - one.waited_s < self._settled_at:
            return
        self._services[one.service].ready.append(one.waited_s)
        if one.drained:
            self._after_drain.append(one.waited_s)

    @tell.register
    def _(self, one: ServiceSpan) -> None:
        service, seconds = self._services[one.service], one.at - one.began_at
        if one.began_at < self._settled_at:
            return
        service.gpu_s += one.granted * one.replica_gpus * seconds
        service.seconds += seconds
        service.peak = max(service.peak, one.wanted * one.replica_gpus)
        service.requests += one.requests
        service.late += one.late
        service.short_gpu_s += max(0, one.wanted - one.granted) * one.replica_gpus * seconds
        service.overdue_gpu_s += one.overdue_s * one.replica_gpus
        known = self._about.effort_of_service.get(one.service)
        if known is not None:
            sm_active, tflop = known[0], None if known[1] is None else known[1] * one.requests
            gpus = one.replica_gpus * seconds
            held = Held(held=one.granted * gpus, ran=one.ready * gpus, useful=one.ready * gpus)
            team = self._about.team_of_service.get(one.service, "")
            self._put(team, held, lambda count, part: count.served(part, sm_active, tflop), 1.0)

    @tell.register
    def _(self, one: Demanded) -> None:
        self._foresight.demanded(one)

    @tell.register
    def _(self, one: Foreseen) -> None:
        self._foresight.foreseen(one)

    @tell.register
    def _(self, one: NodeLost) -> None:
        self._happened["nodes lost"] += 1

    @tell.register
    def _(self, one: Crossed) -> None:
        self._happened[f"nodes gone over to {one.to}"] += 1
        self._class_of[one.node] = one.to

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
            self._moments.append(moment(self._spans, one, self._about.began_at))
        self._spans = []

    # What was told, to go on from another day.

    @property
    def so_far(self) -> Told:
        """Return what has been told so far."""
        return Told(
            here=self._here,
            teams=dict(self._teams),
            classes=self._classes,
            services=dict(self._services),
            waits=dict(self._waits),
            still=dict(self._still),
            cuts=dict(self._cuts),
            tax_gpu_s=self._tax_gpu_s,
            given_back=self._given_back,
            after_drain=self._after_drain,
            outcomes=dict(self._outcomes),
            spans=self._spans,
            moments=self._moments,
            bars=dict(self._bars),
            happened=dict(self._happened),
            effort=self._effort,
            foresight=self._foresight,
        )

    def go_on(self, told: Told) -> None:
        """Go on from what was told before."""
        self._here, self._classes = dict(told.here), dict(told.classes)
        self._teams = defaultdict(TeamCount, told.teams)
        self._services = defaultdict(ServiceCount, told.services)
        self._waits = defaultdict(list, told.waits)
        self._cuts = defaultdict(Cut, told.cuts)
        self._bars = defaultdict(list, told.bars)
        self._still, self._outcomes = Counter(told.still), Counter(told.outcomes)
        self._happened, self._tax_gpu_s = Counter(told.happened), told.tax_gpu_s
        self._given_back, self._after_drain = list(told.given_back), list(told.after_drain)
        self._spans, self._moments = list(told.spans), list(told.moments)
        self._effort, self._foresight = told.effort, told.foresight

    # What it comes to.

    def figures(self) -> Figures:
        """Return what has been told so far, in numbers; attempts that go on are counted up to the end."""
        about, price = self._about, self._about.price_per_gpu_hour
        for name, here in self._here.items():
            self._worked(here, about.began_at + about.lasted_s)
            self._bar(name, here, about.began_at + about.lasted_s, "runs on")
            self._has_again(here, about.began_at + about.lasted_s)
            here.admitted_at = here.started_at = None
        serving = self._classes[NodeClass.SERVING]
        return Figures(
            name=about.name,
            lasted_s=about.lasted_s,
            gpus=about.gpus,
            classes=tuple(one.figures(kind, price, about.peak_tflops) for kind, one in self._classes.items()),
            teams=tuple(self._teams[name].figures(name, price, about.peak_tflops) for name in sorted(self._teams)),
            services=tuple(
                one.figures(name, about.team_of_service.get(name, "")) for name, one in sorted(self._services.items())
            ),
            waits=tuple(
                Waits(size=label(size), waited=spread(self._waits[size]), still_waiting=self._still[size])
                for size in sorted({*self._waits, *self._still})
            ),
            interrupted=tuple(self._cuts[cause].figures(cause) for cause in sorted(self._cuts)),
            given_back=spread(self._given_back),
            given_back_curve=curve(self._given_back),
            ready_after_drain=spread(self._after_drain),
            ended=self._outcomes.total(),
            failed=self._outcomes[Outcome.FAILED],
            effort=self._effort.figures(about.peak_tflops, price),
            foresight=self._foresight.figures(),
            tax_share=self._tax_gpu_s / serving.lent if serving.lent else 0.0,
            money=serving.money(price, self._tax_gpu_s),
            moments=tuple(self._moments),
            bars=tuple(bar for bars in longest(self._bars.values()) for bar in bars),
            notes=tuple(f"{count} {what}" for what, count in sorted(self._happened.items())),
        )
