"""How the command line speaks: data to stdout, everything else to stderr, readable without colour.

Knows consoles, errors and how quantities are written. Does not know what is shown.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping

import typer
from rich.console import Console
from rich.text import Text

from fleet_app.engine.errors import FleetError

WIDE = 200
"""Columns of a table that goes to a pipe or a file: nothing is cut there without need."""

_JSON = "fleet.json"


def stdout() -> Console:
    """Return the console for data."""
    return _console(stderr=False)


def stderr() -> Console:
    """Return the console for everything else."""
    return _console(stderr=True)


def data(value: object) -> None:
    """Print a value as JSON on stdout."""
    typer.echo(json.dumps(value, indent=2))


def line(value: object) -> None:
    """Print a value as JSON on one line of stdout, at once."""
    typer.echo(json.dumps(value))


def raw(text: str) -> None:
    """Print a text as it is on stdout, at once."""
    typer.echo(text, nl=False)


def hint(text: str) -> None:
    """Say on stderr what one may want to do next, or what has been done."""
    stderr().print(Text(text, style="dim"))


def error(error: FleetError, *, as_json: bool) -> None:
    """Say on stderr what went wrong: what, where, and on a line of its own what to do."""
    if as_json:
        said = {"what": error.what, "where": error.where, "fix": error.fix}
        typer.echo(json.dumps({"error": said}), err=True)
        return
    head = f"{error.where}: {error.what}" if error.where else error.what
    console = stderr()
    console.print(Text.assemble(("error: ", "bold red"), plain(head, keep_lines=True)), soft_wrap=True)
    if error.fix:
        console.print(Text(plain(error.fix), style="dim"))


@contextlib.contextmanager
def busy(what: str) -> Iterator[None]:
    """Say on stderr what takes its time."""
    console = stderr()
    if not console.is_terminal:
        yield
        return
    with console.status(f"{what} ..."):
        yield


def json_errors(context: typer.Context, *, asked: bool) -> None:
    """Remember whether the command that runs was asked for JSON."""
    if asked:
        context.meta[_JSON] = True


def wants_json(context: typer.Context) -> bool:
    """Return whether the command that ran was asked for JSON."""
    return bool(context.meta.get(_JSON))


def plain(text: str, *, keep_lines: bool = False) -> str:
    """Return text of somebody else's without what would steer a terminal."""
    kept = "\n" if keep_lines else ""
    return "".join(letter if letter.isprintable() or letter in kept else " " for letter in text)


def duration(seconds: float) -> str:
    """Return a duration in its two largest units, such as 45s, 3m12s, 2h05m, 3d04h."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02d}h"


def pairs(rows: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one a line, as two columns on stdout."""
    shown = [(name, "-" if value is None else str(value)) for name, value in rows]
    width = max((len(name) for name, _ in shown), default=0)
    console = stdout()
    for name, value in shown:
        line = Text.assemble((f"{name:<{width}}  ", "bold"), plain(value))
        console.print(line, soft_wrap=True)


def counted(counts: Mapping[str, int]) -> str:
    """Return counts as a list, such as `3 queued, 1 running`."""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _console(*, stderr: bool) -> Console:
    file = sys.stderr if stderr else sys.stdout
    width = None if file.isatty() or "COLUMNS" in os.environ else WIDE
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)
