"""Calls of ports that may fail: noted, and tried again later, later each time.

Knows how often something failed. Does not know what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.ports import Clock
from fleet_app.engine.errors import FleetError

T = TypeVar("T")

RETRY_FIRST_S = 0.1
RETRY_LAST_S = 5.0
FORGET_AFTER_S = 60.0
FORGET_EVERY = 100


class Tries:
    """What failed, how often, and when it may be tried again. Lives as long as the arbiter's process, no longer."""

    def __init__(self, clock: Clock) -> None:
        """Start with nothing that failed."""
        self._clock = clock
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self.made = 0
        """Calls made so far: whoever watches over the loop sees that it moves."""

    def may(self, what: str) -> bool:
        """Return whether it is time to try."""
        return self._clock.now() >= self._not_before.get(what, 0.0)

    def left_s(self, what: str) -> float:
        """Return how many seconds it takes until it may be tried."""
        return max(0.0, self._not_before.get(what, 0.0) - self._clock.now())

    def put_off(self, what: str, for_s: float) -> None:
        """Do not try again for that many seconds."""
        self._not_before[what] = self._clock.now() + for_s

    def _forget(self) -> None:
        """Drop what nobody has tried for a while: it is not going to be tried again."""
        long_ago = self._clock.now() - FORGET_AFTER_S
        for what in [what for what, at in self._not_before.items() if at < long_ago]:
            del self._not_before[what]
            self._failures.pop(what, None)

    def call(self, book: Book, what: str, call: Callable[[], T]) -> T | None:
        """Return what a call returns; None when it failed now, or failed before and it is too early."""
        if not self.may(what):
            return None
        self.made += 1
        if self.made % FORGET_EVERY == 0:
            self._forget()
        try:
            value = call()
        except FleetError as error:
            self.failed(book, what, error.sentence())
            return None
        self._failures.pop(what, None)
        self._not_before.pop(what, None)
        return value

    def failed(self, book: Book, what: str, why: str) -> None:
        """Note a failure (the first, second, fourth, eighth and so on) and put the next try off."""
        count = self._failures.get(what, 0) + 1
        self._failures[what] = count
        self.put_off(what, min(RETRY_LAST_S, RETRY_FIRST_S * 2.0 ** min(count - 1, 10)))
        if count & (count - 1) == 0:
            book.note(self._clock.now(), What.FAULT, what, why=why, times=count)

    @property
    def last_failures(self) -> tuple[str, ...]:
        """Return what fails at present, sorted."""
        return tuple(sorted(self._failures))
