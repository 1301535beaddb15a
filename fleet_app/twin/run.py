"""A run: everything that happens at a moment, then one decision by the engine, then what it says; and so on.

The loop of the arbiter on a virtual clock. What happens is in `attempts`, `replicas` and `machines`; what is decided
is the engine's alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from fleet_app.engine.decide import decide
from fleet_app.engine.deciding import Deciding
from fleet_app.engine.plan import Plan
from fleet_app.twin import attempts, carry, machines, pulling, replicas
from fleet_app.twin.clock import Happening, What
from fleet_app.twin.committing import Committing
from fleet_app.twin.record import Committed, QueueSample, Record, Waiting
from fleet_app.twin.work import Job, Scenario
from fleet_app.twin.world import Serving, World

Progress = Callable[[float, int], None]
"""Told now and then: the moment that the run has come to, and how many events there were."""

TOLD_EVERY = 100
"""After how many events progress is told."""

QUIET = frozenset({What.SAVED, What.SPAN_ENDS, What.DEMANDED, What.SAMPLED, What.READY})
"""What does not by itself call for a decision: demand and its forecast do where they change what is wanted."""


class Run:
    """One run of a scenario; its records are told as it goes."""

    def __init__(self, scenario: Scenario, tell: Callable[[Record], None], *, plainly: bool = False) -> None:
        """Begin, with nothing decided yet; `plainly` is to decide anew each time, for comparison: it tells the same."""
        self.world = World(scenario, tell)
        self._deciding = None if plainly else Deciding(scenario.policy)
        if self._deciding is not None:
            self.world.fleet.watch(self._deciding)
        at = scenario.commits_at
        self._committing = None if at is None else Committing(scenario.policy, at)
        if self._committing is not None:
            self.world.fleet.watch(self._committing)
        self.events = 0
        self.decisions = 0
        self.submitted = 0
        self.next: Job | None = None
        self._coming: Iterator[Job] = iter(scenario.jobs)

    def begin(self) -> None:
        """Put down what will happen in any case."""
        world = self.world
        for traffic in world.scenario.traffic:
            replicas.opened(world, Serving(traffic=traffic))
        for name in world.fleet.nodes:
            machines.may_break(world, name)
        for number, asked in enumerate(world.scenario.bookings):
            world.agenda.put(asked.at, What.BOOKING_ASKED, str(number))
        world.agenda.put(world.now + world.scenario.span_s, What.SPAN_ENDS, "")
        headroom = world.policy.headroom
        if world.scenario.traffic and (headroom.quantile is not None or headroom.immediate_gpus):
            world.agenda.put(world.now, What.SAMPLED, "")
        world.agenda.put(world.now, What.DUE, "")
        self.take_next()

    def take_next(self) -> None:
        """Put down when the next job is submitted."""
        self.next = next(self._coming, None)
        if self.next is not None:
            at = max(self.world.now, self.next.workload.submitted_at)
            self.world.agenda.put(at, What.SUBMITTED, self.next.workload.name)

    def skip(self, submitted: int) -> None:
        """Take the jobs that were submitted before as read, and the one that is to come next."""
        self.submitted = submitted
        self.next = next(islice(self._coming, submitted, None), None)

    def go(self, until: float | None = None, progress: Progress | None = None) -> None:
        """Go on until a moment, or to the end."""
        ends_at, told = self.world.scenario.ends_at, self.events
        last = min((at for at in (until, ends_at) if at is not None), default=None)
        while not self.over:
            at = self.world.agenda.next_at
            if at is None or (last is not None and at > last):
                break
            self.step(at)
            if progress is not None and self.events - told >= TOLD_EVERY:
                told = self.events
                progress(self.world.now, self.events)
        if last is not None and not self.over:
            self.world.now = max(self.world.now, last)

    @property
    def over(self) -> bool:
        """Return whether nothing that was submitted is left and nothing will be, in a run that has no other end."""
        return self.world.scenario.ends_at is None and self.next is None and not self.world.doing

    def step(self, at: float) -> None:
        """Let everything happen that happens at the next moment, and decide if that calls for it."""
        world = self.world
        world.now = at
        world.meter.advance(at)
        due = False
        for happening in world.agenda.at(at):
            if self._happens(happening) and happening.what not in QUIET:
                world.woken = True
                due = due or happening.what is What.DUE
        if world.woken:
            world.woken = False
            self._look_around()
            if self._committing is not None:
                self._commit(self._committing)
            plan = self._plan(due=due)
            if plan is not None:
                self.decisions += 1
                carry.carry_out(world, plan)

    def _look_around(self) -> None:
        """Bring up to date what follows from the rest, in a fleet that has it at all."""
        world = self.world
        if world.fleet.bookings:
            machines.forget_bookings(world)
        slicing = world.policy.slicing
        if world.fleet.has_cards and world.fleet.note_idle_cards(world.now) and slicing is not None:
            world.due(world.now + slicing.settle_s)

    def _commit(self, committing: Committing) -> None:
        """Let teams commit what fits inside their nominal; to the engine it is somebody else who comes to wait."""
        for new in committing.due(self.world.now):
            self.world.fleet.drop(new.name)
            self.world.fleet.put(new)
            self.world.tell(Committed(at=self.world.now, workload=new.name, team=new.team, gpus=new.gpus))

    def _plan(self, *, due: bool) -> Plan | None:
        """Return what the engine decides now; None where nothing has happened that could change it."""
        fleet, now = self.world.fleet, self.world.now
        if self._deciding is None:
            return self.decided()
        facts = fleet.beside()
        whole = self._deciding.whole(facts)
        return self._deciding.plan(fleet.state() if whole else facts, now, due=due)

    def decided(self) -> Plan:
        """Return what the engine decides now, from all facts."""
        return decide(self.world.fleet.state(), self.world.policy, self.world.now)

    def finish(self) -> None:
        """Tell what nobody has told yet: spans that are not over, and who still waits, and why."""
        self._span()
        world = self.world
        waits = {wait.workload: wait.reason for wait in self.decided().waits} if world.doing else {}
        for name, doing in world.doing.items():
            one = world.fleet.workloads[name]
            if not one.holding:
                world.tell(
                    Waiting(
                        at=world.now,
                        workload=name,
                        team=one.team,
                        gpus=one.gpus,
                        waited_s=world.now - doing.queued_at,
                        reason=waits.get(name, ""),
                    )
                )

    def _happens(self, happening: Happening) -> bool:
        """Let one thing happen; return whether it did, and was not of before."""
        _, what, _, name, mark = happening
        world = self.world
        if what is What.SUBMITTED:
            self.events += 1
            self._submit()
            return True
        if what in _TO_WORKLOADS:
            doing = world.doing.get(name)
            if doing is None or doing.mark != mark:
                return False
            self.events += 1
            _TO_WORKLOADS[what](world, name)
        elif what is What.DUE and name:
            told = world.fleet.workloads.get(name)
            return told is not None and told.deadline_at == world.now
        elif what in _TO_OTHERS:
            self.events += 1
            _TO_OTHERS[what](world, name)
        elif what is What.SAMPLED:
            replicas.sampled(world)
        elif what is What.BOOKING_ASKED:
            machines.booking_asked(world, int(name))
        elif what is What.SPAN_ENDS:
            self._span()
            world.agenda.put(world.now + world.scenario.span_s, What.SPAN_ENDS, "")
        return True

    def _submit(self) -> None:
        job = self.next
        assert job is not None
        self.submitted += 1
        attempts.submitted(self.world, job)
        self.take_next()

    def _span(self) -> None:
        world = self.world
        for record in world.meter.span(world.now):
            world.tell(record)
        for serving in world.serving.values():
            replicas.settle(world, serving)
        waiting = [one for one in world.fleet.workloads.values() if not one.holding]
        world.tell(
            QueueSample(
                at=world.now,
                waiting=len(waiting),
                waiting_gpus=sum(one.gpus for one in waiting),
                running=len(world.fleet.workloads) - len(waiting),
            )
        )


def run(
    scenario: Scenario, tell: Callable[[Record], None], progress: Progress | None = None, *, plainly: bool = False
) -> Run:
    """Run a scenario from its beginning to its end, and return the run as it then stands."""
    one = Run(scenario, tell, plainly=plainly)
    one.begin()
    one.go(progress=progress)
    one.finish()
    return one


_TO_WORKLOADS: dict[What, Callable[[World, str], None]] = {
    What.ENDED: attempts.ended,
    What.LEFT: attempts.left,
    What.MEMBERS_LEFT: attempts.members_left,
    What.RANK_DIED: attempts.rank_died,
    What.STARTED: attempts.started,
    What.SAVED: attempts.saved,
}

_TO_OTHERS: dict[What, Callable[[World, str], None]] = {
    What.NODE_LOST: machines.lost,
    What.NODE_BACK: machines.back,
    What.PULLED: pulling.pulled,
    What.READY: replicas.ready,
    What.VACATED: replicas.vacated,
    What.DEMANDED: replicas.demanded,
}
