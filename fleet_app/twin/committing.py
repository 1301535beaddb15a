"""Teams that commit what fits inside their nominal: whoever waits first in a team asks again as committed work.

A team's work is submitted at a class that borrows, and runs wherever there is room. Once the first that waits fits into
what the team's nominal has left, the team commits it: from then on it borrows nothing, yields to nobody, and may ask
whoever borrows to leave. Knows teams, nominal and who has what. Does not know nodes, and decides nothing: this is what
the people of a team do, which the engine has no part in.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import replace

from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.ordering import class_of
from fleet_app.engine.policy import Policy
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Service, Workload

Place = tuple[bool, float, str]


class Committing:
    """What each team has, committed or not, and who of it waits uncommitted, first in its order first."""

    def __init__(self, policy: Policy, priority: int) -> None:
        """Begin with nobody; whoever is committed asks at that priority from then on."""
        self._policy = policy
        self._priority = priority
        self._nominal = {quota.name: quota.nominal_gpus for quota in policy.quotas}
        self._used: dict[str, int] = defaultdict(int)
        self._waiting: dict[str, list[tuple[Place, Workload]]] = defaultdict(list)
        self._changed: set[str] = set()

    def workload(self, old: Workload | None, new: Workload | None) -> None:
        """See a workload come, change or go."""
        if old is not None:
            self._enter(old, -1)
        if new is not None:
            self._enter(new, 1)

    def service(self, old: Service | None, new: Service) -> None:
        """See a service come or change: what its replicas have is its team's as well."""
        before = 0 if old is None else len(old.grants)
        self._used[new.team] += new.shape.gpus * (len(new.grants) - before)
        self._changed.add(new.team)

    def node(self, old: Node | None, new: Node) -> None:
        """See a node come or change: of no matter to quota."""

    def due(self, now: float) -> list[Workload]:
        """Return who is to be committed now, as it then is: of each team its first ones, as long as they fit.

        Among committed work it comes now, so that whoever was drained is not in front of whom it was drained for.
        """
        found = []
        for team in sorted(self._changed):
            left = self._nominal.get(team, 0) - self._used[team]
            for _, one in self._waiting[team]:
                left -= one.gpus
                if left < 0:
                    break
                found.append(replace(one, priority=self._priority, requeued=False, submitted_at=now))
        self._changed.clear()
        return found

    def _enter(self, one: Workload, sign: int) -> None:
        self._changed.add(one.team)
        waits = one.phase is Phase.QUEUED
        yields = class_of(self._policy, one).yields
        if waits and yields:
            listed, place = self._waiting[one.team], (not one.requeued, one.submitted_at, one.name)
            if sign > 0:
                insort(listed, (place, one), key=_place)
            else:
                del listed[bisect_left(listed, place, key=_place)]
        elif not yields and (waits or (one.holding and not one.leaving)):
            self._used[one.team] += sign * one.gpus


def _place(entry: tuple[Place, Workload]) -> Place:
    return entry[0]
