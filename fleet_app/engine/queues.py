"""Those who wait, by what they ask for and in order, and the first of each: for decisions that follow one another.

Knows who waits, and the order without waiting that counts (O8). Does not know room, quota, or what is decided.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from operator import itemgetter

from fleet_app.engine.ordering import ranking
from fleet_app.engine.policy import Policy
from fleet_app.engine.shorter import Place, Shorter, keeps_for_one
from fleet_app.engine.workload import Workload

Sort = tuple[object, ...]
"""What they all ask for who are refused as soon as one of them is."""

Listed = list[tuple[Place, Workload]]

_PLACE = itemgetter(0)


class Queues:
    """Who waits, first in the order first: by sort, of teams whose queue is strict by team, and by what they ask for.

    The last only where that is of use: where room is kept for one at most and no queue is strict.
    """

    def __init__(self, policy: Policy) -> None:
        """Begin with nobody."""
        self.waiting: dict[str, Workload] = {}
        self.strict = {quota.name for quota in policy.quotas if quota.strict}
        self.sorts: dict[str, dict[Sort, Listed]] = {}
        self.teams: dict[str, Listed] = {name: [] for name in self.strict}
        self.shorter = None if self.strict or not keeps_for_one(policy) else Shorter(policy.drain)
        self._rank = ranking(policy, 0.0)
        self._choosy: dict[str, int] = dict.fromkeys(self.strict, 0)

    def enter(self, one: Workload) -> None:
        """Let somebody wait."""
        self.waiting[one.name] = one
        place = self.place(one)
        entry = (place, one)
        if self.shorter is not None:
            self.shorter.enter(place, one)
        _put(self.sorts.setdefault(one.team, {}).setdefault(sort_of(one), []), entry)
        if one.team in self.strict:
            _put(self.teams[one.team], entry)
            self._choosy[one.team] += one.accelerator is not None

    def leave(self, one: Workload) -> None:
        """Let somebody wait no more."""
        del self.waiting[one.name]
        place, sort, sorts = self.place(one), sort_of(one), self.sorts[one.team]
        if self.shorter is not None:
            self.shorter.leave(place, one)
        listed = sorts[sort]
        del listed[bisect_left(listed, place, key=_PLACE)]
        if not listed:
            del sorts[sort]
        if one.team in self.strict:
            listed = self.teams[one.team]
            del listed[bisect_left(listed, place, key=_PLACE)]
            self._choosy[one.team] -= one.accelerator is not None

    def place(self, one: Workload) -> Place:
        """Return where it is in the order (O1, O10)."""
        return (*[-part for part in self._rank(one)], not one.requeued, one.submitted_at, one.name)

    def in_line(self, team: str) -> bool:
        """Return whether nobody may pass the first of a team that waits: none of them asks for an accelerator (O6)."""
        return team in self.strict and not self._choosy[team]

    def lists(self) -> Iterator[tuple[str | Sort, Listed]]:
        """Yield the lists of which only the first few matter: a team's where nobody may pass, else a sort's."""
        for team, sorts in self.sorts.items():
            if not self.in_line(team):
                yield from sorts.items()
            elif sorts:
                yield team, self.teams[team]


def sort_of(one: Workload) -> Sort:
    """Return what somebody asks for, with all on which it depends who else is refused with it."""
    return (one.asked, one.requeued, one.max_run_s, one.grace_s)


def _put(listed: Listed, entry: tuple[Place, Workload]) -> None:
    if not listed or listed[-1][0] < entry[0]:
        listed.append(entry)
    else:
        insort(listed, entry, key=_PLACE)
