"""The options that many commands share, how they are read, and how a function becomes a command."""

from __future__ import annotations

import getpass
import inspect
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from fleet_app.cli import show
from fleet_app.engine.errors import RequestError
from fleet_app.policy.units import parse_duration

DEFAULT_HOME = Path("~/.fleet")


def _expanded(path: Path) -> Path:
    return path.expanduser()


def _json_asked(context: typer.Context, value: bool) -> bool:  # noqa: FBT001  # typer calls it so
    show.json_errors(context, asked=value)
    return value


Home = Annotated[
    Path,
    typer.Option("--home", envvar="FLEET_HOME", callback=_expanded, help="The fleet's home directory."),
]
GatewayUrl = Annotated[
    str | None,
    typer.Option(
        "--gateway", envvar="FLEET_GATEWAY", metavar="URL", help="The fleet's gateway, instead of the home's."
    ),
]
Json = Annotated[bool, typer.Option("--json", callback=_json_asked, help="Print JSON; errors too, on stderr.")]
Who = Annotated[str | None, typer.Option("--who", help="Who asks; default: you, at this machine.")]
PolicyPath = Annotated[Path, typer.Argument(metavar="FILE", help="A policy (YAML).", show_default=False)]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a workload.", show_default=False)]


def me() -> str:
    """Return who asks when nobody else is named. Raises RequestError when this user has no name."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except OSError as error:  # no name for this user id
        raise RequestError("your name is not known here", where="--who", fix="Give --who NAME") from error


def seconds(text: str, where: str) -> float:
    """Return the seconds in a duration that was given to the option `where`. Raises RequestError when it is none."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise RequestError(f"{text!r} is no duration", where=where, fix="Write for example 30s, 2m or 1h30m") from error


def add_command(app: typer.Typer, function: Callable[..., None], name: str | None = None) -> None:
    """Make a function a command; its docstring is the help, in which examples keep their lines."""
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    kept = [f"\b\n{each}" if each.startswith("Example") else each for each in paragraphs]
    app.command(name, help="\n\n".join(kept))(function)
