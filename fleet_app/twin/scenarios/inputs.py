"""Reads the histories that a scenario names, each file once, and keeps what was malformed or of no use in each.

With `load` the only one of the package that touches files. Does not know what becomes of what was read.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from fleet_app.engine.errors import RequestError
from fleet_app.twin.readers.azure import Rate, azure
from fleet_app.twin.readers.helios import helios
from fleet_app.twin.readers.itp import itp
from fleet_app.twin.readers.kueue import kueue
from fleet_app.twin.readers.philly import philly
from fleet_app.twin.readers.reading import Reader, Reading, read
from fleet_app.twin.readers.row import Row
from fleet_app.twin.readers.slurm import sacct
from fleet_app.twin.readers.swf import swf
from fleet_app.twin.readers.values import Value, values
from fleet_app.twin.scenarios.demand import turned
from fleet_app.twin.scenarios.sources import Azure, Format, History

READERS: dict[Format, Reader[Row]] = {
    "philly": philly,
    "itp": itp,
    "helios": helios,
    "sacct": sacct,
    "kueue": kueue,
    "swf": swf,
}


class Inputs:
    """The files of one scenario; paths are as seen from the folder of its file."""

    def __init__(self, beside: Path, *, strict: bool = False) -> None:
        """Begin with nothing read; `strict` is to refuse what is malformed."""
        self._beside = beside
        self._strict = strict
        self._known: dict[tuple[str, Path], Reading[Any]] = {}

    def rows(self, history: History) -> tuple[Row, ...]:
        """Return the jobs of a history. Raises RequestError where there are none, or one of a team not to be found."""
        found: tuple[Row, ...] = self._read(history.source, history.file, READERS[history.source])
        _refuse_unknown("teams", {*history.only.teams, *history.teams}, {row.team for row in found}, history.file)
        _refuse_unknown("queues", set(history.only.queues), {row.queue for row in found}, history.file)
        return found

    def rates(self, trace: Azure) -> list[Rate]:
        """Return the requests a second of a trace, from where the run begins. Raises RequestError where none are."""
        column = trace.column
        found = self._read(f"azure {column}", trace.file, lambda lines: azure(lines, column))
        return list(found) if trace.begins is None else turned(found, datetime.fromisoformat(trace.begins).timestamp())

    def values(self, file: str) -> tuple[Value, ...]:
        """Return the moments and values of a table. Raises RequestError where there are none."""
        return self._read("trace", file, values)

    def sentences(self) -> tuple[str, ...]:
        """Return how much was read of each file, and what was left aside or malformed, and why."""
        return tuple(text for reading in self._known.values() for text in reading.sentences())

    def _read(self, source: str, file: str, reader: Reader[Any]) -> tuple[Any, ...]:
        path = self._beside / file
        if (source, path) not in self._known:
            self._known[source, path] = read(path, reader, strict=self._strict)
        reading = self._known[source, path]
        if not reading.found:
            why = "; ".join(reading.sentences()[1:])
            fix = f"Give a file as {source.partition(' ')[0]} writes it, or correct `source`"
            raise RequestError(f"says nothing that is of use: {why or 'it is empty'}", where=str(path), fix=fix)
        return reading.found


def _refuse_unknown(what: str, asked: set[str], known: set[str], file: str) -> None:
    lacking = sorted(asked - known)
    if lacking:
        fix = f"Its {what} are {', '.join(sorted(name for name in known if name)[:20]) or 'not told apart'}"
        raise RequestError(f"has no {what} called {', '.join(lacking)}", where=file, fix=fix)
