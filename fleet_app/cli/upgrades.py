"""`fleet upgrade`: a driver that rolls over the fleet, one domain after another, each in a maintenance window."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from fleet_app.cli import agenda, client, show
from fleet_app.cli.booking import By
from fleet_app.cli.moments import moment
from fleet_app.cli.options import DEFAULT_HOME, GatewayUrl, Home, Json, me, seconds


def upgrade(
    *,
    driver: Annotated[str, typer.Option("--driver", help="Nodes with any other are upgraded.", show_default=False)],
    level: Annotated[str, typer.Option("--level", help="Topology level whose domains go one by one.")] = "leaf",
    start: Annotated[str, typer.Option("--start", metavar="TIME", help="ISO 8601, now, or +3d.")] = "now",
    window: Annotated[str, typer.Option("--window", help="How long each domain takes.")] = "1h",
    pause: Annotated[str, typer.Option("--pause", help="How long to wait between two.")] = "0s",
    by: By = None,
    approved_by: Annotated[str | None, typer.Option("--approved-by", help="Who approves, if not the asker.")] = None,
    apply: Annotated[bool, typer.Option("--apply/--dry-run", help="Book the windows, or only show them.")] = False,
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Plan maintenance windows that roll a driver over the fleet.

    One window a domain, each at the earliest moment at which it can be honoured: no service falls below its floor, and
    committed work moves first. Nothing is booked without --apply. What is done to a node in its window is yours; it
    joins again with its label `fleet/driver`.

    Examples:
      fleet upgrade --driver 550.90 --level leaf --start +1d --window 2h
      fleet upgrade --driver 550.90 --level leaf --start +1d --window 2h --apply
    """
    body = {
        "driver": driver,
        "level": level,
        "start_at": moment(start, "--start", time.time()),
        "window_s": seconds(window, "--window"),
        "pause_s": seconds(pause, "--pause"),
        "asked_by": by or me(),
        "approved_by": approved_by or "",
    }
    query = {} if apply else {"dry_run": "true"}
    answer: Mapping[str, Any] = client.find(home, gateway).post("upgrade", body, **query)
    if as_json:
        show.data(answer)
        return
    windows = answer["windows"]
    if not windows:
        show.hint(f"Nothing to do: every node has driver {driver}.")
        return
    show.stdout().print(agenda.windows(windows))
    show.hint("See them with `fleet calendar`." if apply else "Nothing is booked yet: --apply books them.")
