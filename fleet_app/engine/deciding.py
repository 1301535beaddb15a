"""Decides again and again on a fleet of which little changes in between: the same plans, for less.

Every decision is made by the steps of `decide`, on a ledger that is equal to the one that `decide` makes (`books`).
Those who wait are handed to the steps only as far as they can matter, and where nothing that changed can matter there
is no decision. What is left out, and why that changes nothing:

* Of those that ask for the same all but the first few. The steps refuse all who ask for the same as soon as they refuse
  one, so whoever comes after one that was refused is refused too. Where all that were handed over got what they want,
  more are handed over, and it is decided again before anybody has acted on it.
* Where room is kept for one at most, and nobody yields or leaves (`shorter`), of those that ask for the same all that
  run no less long than one before them that was refused, and where so many nodes have no room all but the first.
* In a strict queue all behind the first that waits with no room coming: nobody passes it, or asks (O6, O12).
* A decision for somebody who comes to wait behind one that was refused the same, or in a strict queue behind the first
  that waits with no room coming.
* Where services have all that they are to have, a decision for an end while nobody waits, or while all who could be
  next find no room for all of their bundles, and ask nobody to leave: they yield, or nobody there does or leaves.
* There, and where room is kept for one at most, a decision for somebody who comes last and finds no room.
* A decision for a start, but where pulls are limited: what has its nodes and begins to use them makes no room.

Plans name fewer of those who wait, and are else the same (`tests/laws/test_deciding.py`). While anything is booked it
is decided every time: what may start there depends on the moment (C1). What rests on moments that nobody tells of (O8),
and what is not entered change by change, is decided from all facts every time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from fleet_app.engine.admission import ITS_OWN
from fleet_app.engine.books import Books, Following
from fleet_app.engine.decide import decide, plan_of, steps
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import HOPELESS, ROOM_COMES, Admit, Plan, Wait
from fleet_app.engine.policy import Policy
from fleet_app.engine.queues import Listed, Queues, Sort, sort_of
from fleet_app.engine.shorter import Place, Shorter, ask_of, shorter
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Service, Workload

FIRST = 2
"""How many of those that ask for the same are handed over at first."""


class Deciding:
    """The decisions of one policy on one fleet, of which it is told every change."""

    def __init__(self, policy: Policy) -> None:
        """Begin with an empty fleet."""
        self.policy = policy
        self.books = Books(policy)
        self.queues = Queues(policy)
        self._changed = True
        self._ended = False
        self._open = False
        self._short = False
        self._beside: tuple[object, ...] = ()
        self._coming: set[str] = set()
        self._calm = False
        self._refused: dict[str | Sort, list[Stopped]] = {}
        plain = policy.ordering.ageing_s is None and policy.slicing is None
        self._follows = plain and not any(quota.flavors for quota in policy.quotas)

    # What changes.

    def node(self, old: Node | None, new: Node) -> None:
        """See a node come or change."""
        self.books.node(old, new)
        self._changed = True

    def service(self, old: Service | None, new: Service) -> None:
        """See a service come or change."""
        self.books.service(old, new)
        self._changed = True

    def workload(self, old: Workload | None, new: Workload | None) -> None:
        """See a workload come, change or go."""
        was = old is not None and old.phase is Phase.QUEUED
        waits = new is not None and new.phase is Phase.QUEUED
        if old is not None and was:
            self.queues.leave(old)
        if new is not None and waits:
            self.queues.enter(new)
        self.books.holder(None if was else old, None if waits else new)
        self._note(old, new)

    def _note(self, old: Workload | None, new: Workload | None) -> None:
        """Note whether what happened to a workload can change what is decided."""
        if old is None and new is not None and new.phase is Phase.QUEUED:
            self._changed = self._changed or not (self._is_behind(new) or self._only_waits(new))
        elif new is None:
            self._ended = True
        elif new.name in self._coming and new.phase is not Phase.QUEUED:
            self._coming.discard(new.name)
        elif old is None or self._standing(old) != self._standing(new):
            self._changed = True

    def _standing(self, one: Workload) -> tuple[object, ...]:
        """Return all of a workload on which it can rest who starts.

        When it last saved says only what a drain costs, and that its ranks run that it fetches no more.
        """
        begins = one.phase is Phase.ADMITTED and not self.policy.pulls.sources
        phase = Phase.RUNNING if begins else one.phase
        return (phase, one.nodes, one.killed, one.deadline_at, one.going, one.broken_drains, one.expired)

    def _is_behind(self, one: Workload) -> bool:
        """Return whether somebody that was refused is in front of it, whom it cannot pass."""
        key, place = self._key(one), self.queues.place(one)
        shorter = self.queues.shorter if self._calm else None
        return any(
            ahead.place < place and (shorter is None or shorter.is_longer(one, ahead.workload))
            for ahead in self._refused.get(key, ())
        )

    def _key(self, one: Workload) -> str | Sort:
        if self._calm:
            return ask_of(one)
        return one.team if self.queues.in_line(one.team) else sort_of(one)

    def _only_waits(self, one: Workload) -> bool:
        """Return whether somebody comes last and finds no room, so that nothing that is kept for it matters."""
        if not self._calm or self._open or self._may_be_made or self.books.room_for(one):
            return False
        key, place = self._key(one), self.queues.place(one)
        if not all(ahead.place < place for stopped in self._refused.values() for ahead in stopped):
            return False
        yields = self.books.class_of(one).yields
        self._refused.setdefault(key, []).append(Stopped(place, one, yields, hopeless=False))
        return True

    @property
    def _may_be_made(self) -> bool:
        """Return whether room could come free that is not free yet: somebody leaves, or may be asked to."""
        return bool(self.books.lodging or self.books.leaving or self.books.replicas)

    # What is decided.

    def plan(self, facts: FleetState, now: float, *, due: bool = False) -> Plan | None:
        """Return what is to be done now; None when nothing has changed that could change it.

        `facts` are all that there are but for workloads, unless `whole` says that those are needed. `due` is whether
        something is to be decided for the time that has passed.
        """
        if self.whole(facts):
            self._changed = True
            return decide(facts, self.policy, now)
        beside = (facts.growth_gpus, facts.failures, facts.quarantines, facts.bookings)
        if facts.bookings or beside != self._beside:
            self._beside, self._changed = beside, True
        if not (self._changed or due or (self._ended and self._room_matters())):
            return None
        return self._decided(facts, now)

    def _room_matters(self) -> bool:
        """Return whether what came free may change anything: for services, or for somebody who could be next."""
        if self._short or self._open:
            return True
        made = self._may_be_made
        could = (stopped[0] for stopped in self._refused.values() if not stopped[0].hopeless)
        return any((made and not one.yields) or self.books.room_for(one.workload) for one in could)

    def whole(self, facts: FleetState) -> bool:
        """Return whether it has to be decided from all facts."""
        return bool(not self._follows or self.books.odd or facts.crossings or facts.usage or facts.departures)

    def _decided(self, facts: FleetState, now: float) -> Plan:
        """Return the plan for as many of those who wait as can matter."""
        found = self._of_the_shorter(facts, now)
        self._calm = found is not None
        plan, waits, stops = found or self._of_the_first(facts, now)
        self._refused = {
            key: [
                Stopped(place, one, self.books.class_of(one).yields, waits[one.name].reason in HOPELESS)
                for place, one in stopped
            ]
            for key, stopped in stops.items()
            if stopped
        }
        self._coming = set(_admitted(plan))
        self._changed = len(self._coming) < len(plan.actions)
        self._ended = False
        self._open = any(wait.reason in ITS_OWN for wait in waits.values())
        return plan

    def _of_the_first(self, facts: FleetState, now: float) -> Outcome:
        """Decide for the first few of each list, and for more where all of those get what they want."""
        count = len(self.queues.waiting) if self.policy.pulls.sources else FIRST
        while True:
            handed = [Handed(key, listed[:count], len(listed) > count) for key, listed in self.queues.lists()]
            plan, _ = self._planned(facts, now, [entry for one in handed for entry in one.first])
            waits = {wait.workload: wait for wait in plan.waits}
            stops = {one.key: one.stops_at(waits) for one in handed}
            if all(not one.more or stops[one.key] for one in handed):
                return Outcome(plan, waits, stops)
            count *= 4

    def _of_the_shorter(self, facts: FleetState, now: float) -> Outcome | None:
        """Decide for those who are shorter than all before them that ask for the same; None where that is not enough.

        Those behind somebody who starts may be next, and it is decided again.
        """
        queue = self.queues.shorter
        beside = facts.services or facts.bookings or self.policy.pulls.sources
        if queue is None or beside or self._may_be_made:
            return None
        starts: frozenset[str] = frozenset()
        handed = self._handed(queue, starts)
        while True:
            plan, comes = self._planned(facts, now, [entry for first in handed.values() for entry in first])
            if comes:
                return None
            starts |= frozenset(_admitted(plan))
            before, handed = handed, self._handed(queue, starts)
            if handed == before:
                waits = {wait.workload: wait for wait in plan.waits}
                stops = {key: [entry for entry in first if entry[1].name in waits] for key, first in handed.items()}
                return Outcome(plan, waits, stops)

    def _handed(self, queue: Shorter, starts: Collection[str]) -> dict[str | Sort, Listed]:
        """Return of all who ask for the same those who matter, or the first where there is no room for any."""
        return {
            key: list(shorter(group, starts)) if self.books.room_for(group[0][-1]) else [(group[0][0], group[0][-1])]
            for key, group in queue.groups()
        }

    def _planned(self, facts: FleetState, now: float, handed: Listed) -> tuple[Plan, bool]:
        """Return the plan for those who are handed over, and whether any room is coming free or kept for that."""
        waiting = [one for _, one in handed]
        beside = facts.services or facts.quarantines or facts.failures or facts.bookings
        alike = not (beside or self.policy.spares.nodes)
        ledger = Following(self.books, now, waiting, bookings=facts.bookings, alike=alike)
        for quarantined in facts.quarantines:
            if quarantined.binds(now):
                ledger.keep_out(quarantined.node)
        plan = plan_of(ledger, steps(ledger, facts))
        self._short = ledger.memo.short or any(one.slice is not None for one in facts.services)
        ledger.memo.indexes.clear()  # they know the ledger: without this it would be there until it is searched for
        return plan, bool(ledger.coming)


def _admitted(plan: Plan) -> Iterable[str]:
    return (one.workload for one in plan.actions if isinstance(one, Admit))


class Outcome(NamedTuple):
    """A plan, why those wait to whom it gave nothing, and of each list those whom nobody behind them can pass."""

    plan: Plan
    waits: Mapping[str, Wait]
    stops: Mapping[str | Sort, Listed]


class Stopped(NamedTuple):
    """Somebody who was refused, and whom nobody behind it passes before something changes."""

    place: Place
    workload: Workload
    yields: bool
    hopeless: bool


class Handed(NamedTuple):
    """The first of one list of those who wait, and whether there are more; the key of a team's list is its name."""

    key: str | Sort
    first: Sequence[tuple[Place, Workload]]
    more: bool

    def stops_at(self, waits: Mapping[str, Wait]) -> Listed:
        """Return the first that waits and whom nobody behind it can pass, with its place; nobody where all can."""
        for place, one in self.first:
            wait = waits.get(one.name)
            if wait is not None and self._stops(wait):
                return [(place, one)]
        return []

    def _stops(self, wait: Wait) -> bool:
        return wait.reason not in (HOPELESS | ROOM_COMES if isinstance(self.key, str) else ITS_OWN)
