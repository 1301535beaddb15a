"""Everything that changes during a run, in one place: the facts, the agenda, and what the engine does not know.

How far each workload is and when each replica answers is here; what happens to them is in `attempts`, `replicas` and
`machines`. Knows no rules.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from fleet_app.engine.ordering import class_of
from fleet_app.engine.plan import Hold
from fleet_app.twin.chance import Chance
from fleet_app.twin.clock import Agenda, What
from fleet_app.twin.fleet import Fleet
from fleet_app.twin.meter import Meter
from fleet_app.twin.record import Cause, Record
from fleet_app.twin.work import Job, Scenario, Traffic

Tell = Callable[[Record], None]


@dataclass(slots=True, kw_only=True)
class Doing:
    """One live workload: how far it is, and what is under way.

    Of its work `safe_s` is saved and `fresh_s` more was done by `since`, from when on it does `rate` seconds of work a
    second; None while it does nothing. Events of its that do not have its `mark` are of before.
    `asked_at` is when it was asked to leave, `told_at` by when an acknowledged leave would be over. `restarts` counts
    deaths of ranks since it last saved.
    """

    job: Job
    queued_at: float
    mark: int = 0
    safe_s: float = 0.0
    fresh_s: float = 0.0
    since: float | None = None
    rate: float = 1.0
    asked_at: float | None = None
    cause: Cause = Cause.DRAINED
    saves: bool = False
    restarts: int = 0
    queued_s: float = 0.0
    first_admitted_at: float | None = None
    held_since: float = 0.0
    held_gpu_s: float = 0.0
    members_asked_at: float = 0.0

    def done_s(self, now: float) -> float:
        """Return how much of its work is done, saved or not."""
        more = 0.0 if self.since is None else (now - self.since) * self.rate
        return self.safe_s + self.fresh_s + more

    def charge(self, now: float, gpus: int) -> None:
        """Count what it had since this was counted last."""
        self.held_gpu_s += (now - self.held_since) * gpus
        self.held_since = now


@dataclass(slots=True, kw_only=True)
class Serving:
    """One service: its traffic now, and its replicas by the name of their grant.

    A replica is there from when it took its grant, `wanted_at` that moment or before, and answers once it is `ready`.
    `missing` are the moments since when replicas are wanted that are not there yet. `needed` is what traffic needs now,
    `past` what it needed until when, of what was more than at any time since, the most first.
    `drained` is whether somebody was asked to leave for the service since nobody was missing.
    """

    traffic: Traffic
    point: int = -1
    rate: float = 0.0
    ready: dict[str, bool] = field(default_factory=dict)
    wanted_at: dict[str, float] = field(default_factory=dict)
    missing: deque[float] = field(default_factory=deque)
    needed: int = 0
    past: deque[tuple[float, int]] = field(default_factory=deque)
    drained: bool = False
    began_at: float = 0.0


class World:
    """One run as it stands at `now`; `woken` is whether something is to be decided."""

    def __init__(self, scenario: Scenario, tell: Tell) -> None:
        """Begin before anything has happened."""
        self.scenario = scenario
        self.policy = scenario.policy
        self.tell = tell
        self.now = scenario.begins_at
        self.chance = Chance(scenario.seed)
        self.agenda = Agenda()
        self.fleet = Fleet(scenario.policy, scenario.nodes)
        self.meter = Meter(scenario.policy, self.now)
        self.fleet.watch(self.meter)
        self.doing: dict[str, Doing] = {}
        self.serving: dict[str, Serving] = {}
        self.pulling: dict[str, tuple[tuple[str, str], ...]] = {}
        self.lost: dict[str, int] = {}
        self.holds: tuple[Hold, ...] = ()
        self.woken = False

    def due(self, at: float | None, whose: str = "") -> None:
        """Let something be decided at a moment, if it is not past: a deadline only if it is still `whose` it is now."""
        if at is not None and at > self.now:
            self.agenda.put(at, What.DUE, whose)

    def may_be_cut_short(self, job: Job) -> bool:
        """Return whether it matters when a job saves its work: whether anybody could end it before it ends."""
        workload = job.workload
        lent = class_of(self.policy, workload).yields
        return lent or workload.movable or workload.minimum is not None or self.scenario.faults.any
