"""A line of work that waits: several sorts, each of workloads that ask for the same, in one order.

Knows submission and names. Does not know rank, shares, quota or room.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from fleet_app.engine.workload import Workload


@dataclass(slots=True)
class Sort:
    """Workloads that all ask for the same, the last to be considered first: taking the next one off is cheap.

    `asked` is a number for what they ask; sorts that differ in nothing but their place in the queue share it.
    """

    asked: int
    waiting: list[Workload]

    @property
    def first(self) -> Workload:
        """Return who is next."""
        return self.waiting[-1]


def place(workload: Workload) -> tuple[float, str]:
    """Return what decides among equals: the earliest submitted, then the name (O1)."""
    return (workload.submitted_at, workload.name)


class Line:
    """Those that wait in one line; only what is not considered yet is in it."""

    def __init__(self, sorts: Iterable[Sort]) -> None:
        """Take the sorts over; none of them is empty."""
        self._sorts = [(*place(sort.first), sort) for sort in sorts]
        heapify(self._sorts)

    def __bool__(self) -> bool:
        """Return whether anybody is left."""
        return bool(self._sorts)

    @property
    def first(self) -> Workload:
        """Return who is next."""
        return self._sorts[0][-1].waiting[-1]

    @property
    def asked(self) -> int:
        """Return the number for what the next one asks."""
        return self._sorts[0][-1].asked

    def refuse(self) -> tuple[str, ...]:
        """Take out all that ask for the same as the first, but for itself, and return their names, in order."""
        waiting = self._sorts[0][-1].waiting
        if len(waiting) == 1:
            return ()
        names = tuple([one.name for one in reversed(waiting[:-1])])
        del waiting[:-1]
        return names

    def advance(self) -> None:
        """Be done with the first."""
        sort = self._sorts[0][-1]
        sort.waiting.pop()
        if sort.waiting:
            heapreplace(self._sorts, (*place(sort.first), sort))
        else:
            heappop(self._sorts)
