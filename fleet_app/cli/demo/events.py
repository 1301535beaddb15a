"""The journal's events as the demo asks about them. Knows their kinds and details; watches nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One entry of the journal: what happened to whom, and when (seconds since the epoch)."""

    seq: int
    at: float
    kind: str
    subject: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Story:
    """All events so far, in the order of the journal."""

    events: Sequence[Event]

    def of(self, *kinds: str, subject: str | None = None, since: float = 0.0) -> Iterator[Event]:
        """Return the events of those kinds, of one subject if it is given, from a moment on."""
        for event in self.events:
            if event.kind in kinds and event.at >= since and subject in {None, event.subject}:
                yield event

    def first(self, *kinds: str, subject: str | None = None, since: float = 0.0) -> Event | None:
        """Return the first such event, None when there is none."""
        return next(self.of(*kinds, subject=subject, since=since), None)

    def count(self, *kinds: str, subject: str | None = None, since: float = 0.0) -> int:
        """Return how many such events there are."""
        return sum(1 for _ in self.of(*kinds, subject=subject, since=since))


def parsed(rows: Sequence[Mapping[str, Any]]) -> list[Event]:
    """Return the events in an answer of the control API."""
    return [
        Event(seq=row["seq"], at=row["at"], kind=row["kind"], subject=row["subject"], detail=row["detail"])
        for row in rows
    ]
