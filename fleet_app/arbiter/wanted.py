"""What services wanted, a sample a minute, kept in the journal: a forecast survives the arbiter. Pure.

Knows demands and time. Does not know how a forecast is made, nor what it is used for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fleet_app.arbiter.book import Book
from fleet_app.engine.forecast import History
from fleet_app.engine.headroom import growth_gpus
from fleet_app.engine.policy import Headroom

EVERY_S = 60.0
KEPT = 22 * 24 * 60
"""Samples kept: three weeks, so that every hour of the week was seen twice and is still, and a day."""


def sample(book: Book, now: float) -> None:
    """Note what is wanted in this minute, once; for minutes in which nobody looked, what was wanted before them."""
    number = math.floor(now / EVERY_S)
    wanted = sum(max(demand.wanted, demand.floor) * demand.shape.gpus for demand in book.demands)
    last = book.wanted.newest()
    if last is None:
        if wanted:
            book.wanted.put(_key(number), wanted)
        return
    before = int(last)
    for missed in range(max(before + 1, number - KEPT), number):
        book.wanted.put(_key(missed), book.wanted.get(last) or 0)
    if number > before:
        book.wanted.put(_key(number), wanted)
        for old in range(before - KEPT, number - KEPT + 1):
            book.wanted.drop(_key(old))


def history(book: Book) -> History | None:
    """Return what was wanted so far; None when nobody ever wanted anything."""
    return history_of(book.wanted.items())


def history_of(rows: Sequence[tuple[str, int]]) -> History | None:
    """Return the history in samples by their keys, in order; None without any."""
    if not rows:
        return None
    gpus = tuple(float(wanted) for _, wanted in rows)
    return History(first_at=int(rows[0][0]) * EVERY_S, every_s=EVERY_S, wanted_gpus=gpus)


class Growth:
    """By how much demand may grow, worked out anew when there is a new sample or another policy: it takes a while."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._for: tuple[str | None, Headroom] | None = None
        self._gpus: int | None = None

    def __call__(self, book: Book, headroom: Headroom) -> int | None:
        """Return the GPUs for the immediate tier by forecast (S7); None when none is asked for or possible."""
        last = book.wanted.newest()
        if headroom.quantile is None or last is None:
            return None
        if self._for != (last, headroom):
            known = history(book)
            self._gpus = None if known is None else growth_gpus(headroom, known, known.last_at)
            self._for = (last, headroom)
        return self._gpus


def _key(number: int) -> str:
    return f"{number:012d}"
