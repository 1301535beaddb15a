"""Reading a history: what was found in it, what was malformed, and what was left aside, and why. Nothing is dropped.

A reader gets the lines of a file and yields, for each that says something, either a value, or `Malformed` for a line
that it cannot make sense of, or `Aside` for one that makes sense and is not of use. Knows files and lines, no format.
"""

from __future__ import annotations

import gzip
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from fleet_app.engine.errors import RequestError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """A line, counted from 1, that a reader cannot make sense of, and why."""

    line: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """Something that a reader understood and that is of no use: `why` is the same for all of its sort."""

    why: str


Reader = Callable[[Iterable[str]], Iterable[T | Malformed | Aside]]
"""What a format is to the twin."""

SHOWN = 3
"""How many malformed lines are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Generic[T_co]):
    """All that a file said."""

    source: str
    found: tuple[T_co, ...]
    malformed: tuple[Malformed, ...] = ()
    aside: tuple[tuple[str, int], ...] = ()

    def sentences(self) -> list[str]:
        """Return what is to be shown of it: how much was read, what was not and why."""
        told = [f"{self.source}: {len(self.found)} read"]
        told += [f"{self.source}: {count} left aside: {why}" for why, count in self.aside]
        if self.malformed:
            told.append(f"{self.source}: {len(self.malformed)} malformed and skipped")
            told += [f"{self.source}:{one.line}: {one.why}" for one in self.malformed[:SHOWN]]
        return told


def read(path: Path, reader: Reader[T], *, strict: bool = False) -> Reading[T]:
    """Return what a file says; it may be packed with gzip. Raises RequestError when it cannot be read.

    Malformed lines are skipped and counted, or with `strict` refused at the first one.
    """
    try:
        with _opened(path) as lines:
            return gathered(lines, reader, str(path), strict=strict)
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"cannot be read: {error}", where=str(path), fix="Give a file of text, or gzip") from error


def gathered(lines: Iterable[str], reader: Reader[T], source: str, *, strict: bool = False) -> Reading[T]:
    """Return what lines of text say. Raises RequestError at the first malformed one when that is asked for."""
    found: list[T] = []
    malformed: list[Malformed] = []
    aside: Counter[str] = Counter()
    for one in reader(lines):
        if isinstance(one, Malformed):
            if strict:
                fix = "Put the line right, or let malformed lines be skipped"
                raise RequestError(one.why, where=f"{source}:{one.line}", fix=fix)
            malformed.append(one)
        elif isinstance(one, Aside):
            aside[one.why] += 1
        else:
            found.append(one)
    return Reading(source=source, found=tuple(found), malformed=tuple(malformed), aside=tuple(sorted(aside.items())))


def _opened(path: Path) -> io.TextIOWrapper:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8")
    return path.open(encoding="utf-8")


def columns(lines: Iterable[str], wanted: Iterable[str], between: str = ",") -> Iterator[dict[str, str] | Malformed]:
    """Yield each line after the first as its cells by the names in the first; quotes mean nothing.

    A table without one of the wanted columns is malformed as a whole, a line with other than as many cells by itself.
    """
    rows = iter(lines)
    names = next(rows, "").rstrip("\r\n").split(between)
    lacking = sorted(set(wanted) - set(names))
    if lacking:
        yield Malformed(line=1, why=f"has no column {', '.join(lacking)}")
        return
    for number, line in enumerate(rows, start=2):
        cells = line.rstrip("\r\n").split(between)
        if len(cells) != len(names):
            yield Malformed(line=number, why=f"{len(cells)} cells, not {len(names)}")
        else:
            yield dict(zip(names, cells, strict=True)) | {LINE: str(number)}


LINE = "#"
"""The name under which a row has the number of its line."""


def rows(
    lines: Iterable[str], wanted: Iterable[str], row: Callable[[dict[str, str]], T], between: str = ","
) -> Iterator[T | Malformed]:
    """Yield what `row` makes of the cells of each line; one for which it raises ValueError is malformed."""
    for cells in columns(lines, wanted, between):
        if isinstance(cells, Malformed):
            yield cells
            continue
        try:
            yield row(cells)
        except ValueError as error:
            yield Malformed(line=int(cells[LINE]), why=str(error))


def positive(text: str, what: str) -> int:
    """Return a whole number above zero. Raises ValueError for anything else."""
    number = not_negative(text, what)
    if number == 0:
        raise ValueError(f"{what} is 0")
    return number


def not_negative(text: str, what: str) -> int:
    """Return a whole number that is not below zero. Raises ValueError for anything else."""
    if not text.strip().isascii() or not text.strip().isdigit():
        raise ValueError(f"{what} is {text.strip() or 'empty'}, not a whole number")
    return int(text)


def seconds(text: str, what: str) -> float:
    """Return a duration or moment in seconds, not negative. Raises ValueError for anything else."""
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{what} is {text.strip() or 'empty'}, not a number of seconds") from None
    if not 0.0 <= number < float("inf"):
        raise ValueError(f"{what} is {text.strip()}")
    return number


def moment(text: str, what: str) -> float:
    """Return an ISO 8601 time in seconds since the epoch, UTC where it names no zone. Raises ValueError for others."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{what} is {text or 'empty'}, not a time") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
