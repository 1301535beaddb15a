"""The attempts of one workload by the notes of a journal: when each began, was asked to leave, and ended. Pure.

Knows kinds of notes and moments. Does not know records, nor what the twin makes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from fleet_app.arbiter.notes import Note, What

ENDS = frozenset({What.REQUEUED, What.SUCCEEDED, What.FAILED, What.STOPPED})
ASKS = frozenset({What.DRAINING, What.STOPPING})
"""Who is asked to move leaves at its next checkpoint, whenever that is: that tells nothing of how fast it leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One attempt; moments are None where they have not come, or nobody told.

    `saved_at` is when it had acknowledged, after it was asked to leave.
    """

    number: int
    admitted_at: float
    started_at: float | None = None
    asked_at: float | None = None
    ended_at: float | None = None
    saved_at: float | None = None

    def worked_s(self, until: float) -> float:
        """Return how long it worked: until it had saved its work where it was asked to leave, else until its end."""
        if self.started_at is None:
            return 0.0
        ended_at = until if self.ended_at is None else self.ended_at
        return max(0.0, (ended_at if self.saved_at is None else self.saved_at) - self.started_at)

    @property
    def start_s(self) -> float | None:
        """Return how long it took from the admission until its ranks ran."""
        return None if self.started_at is None else max(0.0, self.started_at - self.admitted_at)

    @property
    def saves_s(self) -> float | None:
        """Return how long it took from the notice until its work was saved."""
        return None if self.asked_at is None or self.saved_at is None else max(0.0, self.saved_at - self.asked_at)

    @property
    def leaves_s(self) -> float | None:
        """Return how long it took from the notice until its nodes were free."""
        return None if self.asked_at is None or self.ended_at is None else max(0.0, self.ended_at - self.asked_at)


def attempts(notes: Iterable[Note]) -> Iterator[Ran]:
    """Yield the attempts that had nodes, in order; one that never got its room in Ray is none."""
    open_one: Ran | None = None
    for note in notes:
        if note.kind in {What.ADMITTED, What.STARTED} and open_one is None:
            open_one = Ran(number=_number(note), admitted_at=note.at)
        if open_one is None:
            continue
        if note.kind is What.STARTED:
            open_one = replace(open_one, started_at=note.at)
        elif note.kind in ASKS and open_one.asked_at is None:
            open_one = replace(open_one, asked_at=note.at)
        elif note.kind is What.ACKNOWLEDGED:
            open_one = replace(open_one, saved_at=note.at)
        elif note.kind in ENDS:
            yield replace(open_one, ended_at=note.at)
            open_one = None
        elif note.kind is What.WITHDRAWN:
            open_one = None
    if open_one is not None:
        yield open_one


def _number(note: Note) -> int:
    number = note.detail.get("attempt")
    return number if isinstance(number, int) else 1
