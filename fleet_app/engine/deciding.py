"""Decides again and again on a fleet of which little changes in between: the same plans, for less.

Every decision is made by the steps of `decide`, on a ledger that is equal to the one that `decide` makes (`books`).
Those who wait are handed to the steps only as far as they can matter, and where nothing that changed can matter there
is no decision. What is left out, and why that changes nothing:

* Of those that ask for the same all but the first few. The steps refuse all who ask for the same as soon as they refuse
  one, so whoever comes after one that was refused is refused too. Where all that were handed over got what they want,
  more are handed over, and it is decided again before anybody has acted on it.
* In a strict queue all behind the first that waits with no room coming: nobody passes it, or asks (O6, O12).
* A decision for somebody who comes to wait behind one that was refused the same, or in a strict queue behind the first
  that waits with no room coming.
* Where services have all that they are to have, a decision for an end while nobody waits, or while all who could be
  next yield, and find no room for all of their bundles: who yields asks nobody to leave.
* A decision for a start, but where pulls are limited: what has its nodes and begins to use them makes no room.

Plans name fewer of those who wait, and are else the same (`tests/laws/test_deciding.py`). While anything is booked it
is decided every time: what may start there depends on the moment (C1). What rests on moments that nobody tells of (O8),
and what is not entered change by change, is decided from all facts every time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fleet_app.engine.admission import ITS_OWN
from fleet_app.engine.books import Books, Following
from fleet_app.engine.decide import decide, plan_of, steps
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import HOPELESS, ROOM_COMES, Admit, Plan, Wait
from fleet_app.engine.policy import Policy
from fleet_app.engine.queues import Place, Queues, Sort, sort_of
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
        self._refused: dict[str | Sort, Stopped] = {}
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
            self._changed = self._changed or not self._is_behind(new)
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
        key = one.team if self.queues.in_line(one.team) else sort_of(one)
        ahead = self._refused.get(key)
        return ahead is not None and ahead.place < self.queues.place(one)

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
        could = (one for one in self._refused.values() if not one.hopeless)
        return any(not one.yields or self.books.room_for(one.workload) for one in could)

    def whole(self, facts: FleetState) -> bool:
        """Return whether it has to be decided from all facts."""
        return bool(not self._follows or self.books.odd or facts.crossings or facts.usage or facts.departures)

    def _decided(self, facts: FleetState, now: float) -> Plan:
        """Return the plan for as many of those who wait as can matter."""
        count = len(self.queues.waiting) if self.policy.pulls.sources else FIRST
        while True:
            handed = [Handed(key, listed[:count], len(listed) > count) for key, listed in self.queues.lists()]
            plan = self._planned(facts, now, handed)
            waits = {wait.workload: wait for wait in plan.waits}
            stops = {one.key: one.stops_at(waits) for one in handed}
            if all(not one.more or stops[one.key] is not None for one in handed):
                break
            count *= 4
        self._refused = {
            key: Stopped(place, one, self.books.class_of(one).yields, waits[one.name].reason in HOPELESS)
            for key, (place, one) in ((key, stop) for key, stop in stops.items() if stop is not None)
        }
        self._coming = {one.workload for one in plan.actions if isinstance(one, Admit)}
        self._changed = len(self._coming) < len(plan.actions)
        self._ended = False
        self._open = any(wait.reason in ITS_OWN for wait in waits.values())
        return plan

    def _planned(self, facts: FleetState, now: float, handed: Iterable[Handed]) -> Plan:
        waiting = [one for part in handed for _, one in part.first]
        beside = facts.services or facts.quarantines or facts.failures or facts.bookings
        alike = not (beside or self.policy.spares.nodes)
        ledger = Following(self.books, now, waiting, bookings=facts.bookings, alike=alike)
        for quarantined in facts.quarantines:
            if quarantined.binds(now):
                ledger.keep_out(quarantined.node)
        plan = plan_of(ledger, steps(ledger, facts))
        self._short = ledger.memo.short or any(one.slice is not None for one in facts.services)
        ledger.memo.indexes.clear()  # they know the ledger: without this it would be there until it is searched for
        return plan


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

    def stops_at(self, waits: Mapping[str, Wait]) -> tuple[Place, Workload] | None:
        """Return the first that waits and whom nobody behind it can pass, with its place; None where all can."""
        for place, one in self.first:
            wait = waits.get(one.name)
            if wait is not None and self._stops(wait):
                return place, one
        return None

    def _stops(self, wait: Wait) -> bool:
        return wait.reason not in (HOPELESS | ROOM_COMES if isinstance(self.key, str) else ITS_OWN)
