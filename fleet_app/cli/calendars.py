"""`fleet calendar`: what is booked, as a table, as a picture, and for the calendars that people have."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.text import Text

from fleet_app.cli import agenda, client, show, tables
from fleet_app.cli.moments import moment
from fleet_app.cli.options import DEFAULT_HOME, GatewayUrl, Home, Json
from fleet_app.engine.errors import RequestError


def calendar(
    *,
    from_: Annotated[str, typer.Option("--from", metavar="TIME", help="ISO 8601, now, or +3d.")] = "now",
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="ISO 8601, or +7d; default: to the last booking's end.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Show also what has ended, was given up or lapsed.")
    ] = False,
    ics: Annotated[bool, typer.Option("--ics", help="Print iCalendar (RFC 5545).")] = False,
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Show what is booked: by whom, where, from when to when.

    SAID is what a booking was said to cost, COST what it has cost so far, or did cost; both in the policy's money. The
    picture has a row a domain and a letter a booking; `#` is several at once.

    Examples:
      fleet calendar --to +7d
      fleet calendar --ics > fleet.ics
    """
    asked = client.find(home, gateway)
    now = time.time()
    start_at = moment(from_, "--from", now)
    until = None if to is None else moment(to, "--to", now, later_than=start_at)
    if until is not None and until <= start_at:
        raise RequestError("is not after --from", where="--to", fix="Give a later time")
    found: Sequence[tables.Row] = asked.get("bookings")
    shown = [each for each in found if _is_shown(each, start_at, until, everything=everything)]
    if as_json:
        show.data(shown)
    elif ics:
        from fleet_app.cli.ics import to_ics  # noqa: PLC0415  # no other command needs its library

        show.raw(to_ics(shown, str(urlsplit(asked.url).hostname)))
    elif not shown:
        show.hint("Nothing is booked. `fleet book` books; `fleet calendar --all` shows what was.")
    else:
        _show(shown, start_at, until)


def _is_shown(booking: Mapping[str, Any], start_at: float, until: float | None, *, everything: bool) -> bool:
    if not everything and booking["stage"] not in agenda.OPEN:
        return False
    starts = until is None or float(booking["start_at"]) < until
    return starts and (everything or float(booking["end_at"]) > start_at)


def _show(shown: Sequence[tables.Row], start_at: float, until: float | None) -> None:
    console = show.stdout()
    console.print(agenda.bookings(shown))
    drawn = [each for each in shown if each["stage"] in agenda.OPEN]
    if drawn:
        ends = max(float(each["end_at"]) for each in drawn)
        console.print()
        console.print(agenda.picture(drawn, start_at, until or max(ends, start_at + 1)))
        console.print(Text(agenda.legend(drawn)))
    for note in agenda.notes(shown):
        show.hint(note)
