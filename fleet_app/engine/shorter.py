"""Of those that ask for the same, who may pass the others: whoever declared to be gone earlier (rules O7, O11).

Where room is kept for one at most, nobody may be asked to leave and nobody leaves, one that is refused stops all behind
it that ask for the same, but for shorter work: that may be gone before the planned start, and nothing is kept for
whoever is refused after it. So of each such group only those matter that are shorter than all before them.
Knows who waits, in which order, and for how long each runs at most. Does not know room, or what is decided.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator
from operator import itemgetter

from fleet_app.engine.ends import grace_s
from fleet_app.engine.policy import DrainContract, Policy
from fleet_app.engine.workload import Workload

Ask = tuple[object, ...]
"""What all of a group ask for, whatever they declared of their end."""

Place = tuple[object, ...]
"""What decides who of two comes first in the order: the lower."""

Lasts = tuple[float, float]
"""Seconds that a workload runs at most, and of the grace that follows."""

Group = list[tuple[Place, Lasts, Workload]]

_PLACE = itemgetter(0)


class Shorter:
    """Who waits, by what each asks for; of each group the first in the order first."""

    def __init__(self, drain: DrainContract) -> None:
        """Begin with nobody."""
        self._drain = drain
        self._groups: dict[Ask, Group] = {}

    def enter(self, place: Place, one: Workload) -> None:
        """Let somebody wait."""
        insort(self._groups.setdefault(ask_of(one), []), (place, lasts(self._drain, one), one), key=_PLACE)

    def leave(self, place: Place, one: Workload) -> None:
        """Let somebody wait no more."""
        group = self._groups[ask_of(one)]
        del group[bisect_left(group, place, key=_PLACE)]
        if not group:
            del self._groups[ask_of(one)]

    def groups(self) -> Iterable[tuple[Ask, Group]]:
        """Return everybody who waits, by what they ask for."""
        return self._groups.items()

    def is_longer(self, one: Workload, other: Workload) -> bool:
        """Return whether somebody is gone no earlier than another that starts at the same moment."""
        return _covers(lasts(self._drain, other), lasts(self._drain, one))


def keeps_for_one(policy: Policy) -> bool:
    """Return whether room is kept for one that waits at most (O11)."""
    keepers = policy.ordering.keepers
    return keepers is not None and keepers <= 1


def ask_of(one: Workload) -> Ask:
    """Return what somebody asks for, with all on which it depends who else is refused with it, but for its end."""
    return (one.asked, one.requeued)


def lasts(drain: DrainContract, one: Workload) -> Lasts:
    """Return for how long somebody runs at most, for ever where it declared nothing, and its grace."""
    return (math.inf if one.max_run_s is None else one.max_run_s, grace_s(drain, one))


def shorter(group: Group, starts: Collection[str]) -> Iterator[tuple[Place, Workload]]:
    """Yield who of a group is shorter than all before it but for those that start, and those too."""
    least: Lasts | None = None
    for place, lasting, one in group:
        if one.name in starts:
            yield place, one
        elif least is None or not _covers(least, lasting):
            yield place, one
            least = lasting if least is None or _covers(lasting, least) else least


def _covers(short: Lasts, long: Lasts) -> bool:
    return short[0] <= long[0] and short[1] <= long[1]
