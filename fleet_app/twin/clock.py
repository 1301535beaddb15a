"""The virtual clock and what is on it: what happens next, and in which order at one moment.

Knows moments and names. Does not know what anything means: who pops it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple


class What(IntEnum):
    """What happens, in the order in which it happens at one moment: what frees something before what asks for it."""

    ENDED = 0
    LEFT = 1
    MEMBERS_LEFT = 2
    VACATED = 3
    RANK_DIED = 4
    NODE_LOST = 5
    NODE_BACK = 6
    STARTED = 7
    PULLED = 8
    SAVED = 9
    READY = 10
    DEMANDED = 11
    SAMPLED = 12
    BOOKING_ASKED = 13
    SUBMITTED = 14
    DUE = 15
    """Nothing happens but time: something is to be decided anew."""
    SPAN_ENDS = 16


class Happening(NamedTuple):
    """Something that happens `at` a moment to `name`; one whose `mark` is not its name's any more does not happen."""

    at: float
    what: What
    number: int
    name: str
    mark: int


class Agenda:
    """What is to happen, the next first; of equals what was put first."""

    def __init__(self, coming: list[Happening] | None = None, put: int = 0) -> None:
        """Begin with what is coming already, of so many that were ever put."""
        self._heap = coming or []
        self.put_so_far = put

    def put(self, at: float, what: What, name: str, mark: int = 0) -> None:
        """Let something happen at a moment."""
        self.put_so_far += 1
        heappush(self._heap, Happening(at, what, self.put_so_far, name, mark))

    @property
    def next_at(self) -> float | None:
        """Return when the next thing happens; None when nothing will."""
        return self._heap[0].at if self._heap else None

    def at(self, now: float) -> Iterator[Happening]:
        """Take out all that happens at a moment or before, also what is put meanwhile, in order."""
        heap = self._heap
        while heap and heap[0].at <= now:
            yield heappop(heap)

    def coming(self) -> list[Happening]:
        """Return all that is to happen, in no order that means anything."""
        return list(self._heap)
