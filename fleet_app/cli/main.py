"""`fleet`: puts the commands together, and turns the fleet's errors into messages and exit codes.

Exit codes: 0 done, 1 our fault or a workload that failed, 2 something that the caller can put right, 130 Ctrl-C.
"""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fleet_app import __version__
from fleet_app.cli import (
    ahead,
    audits,
    booking,
    calendars,
    classes,
    fleets,
    health,
    looking,
    policies,
    show,
    simulating,
    supposing,
    upgrades,
    working,
)
from fleet_app.cli.options import add_command
from fleet_app.engine.errors import FleetError

INTERRUPTED = 130


class Commands(TyperGroup):
    """The commands, in the order in which they were added."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command. The fleet's errors end here, as messages."""
        try:
            return super().invoke(ctx)
        except FleetError as error:
            show.error(error, as_json=show.wants_json(ctx))
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names of the commands in the order of a fleet's life."""
        return list(self.commands)


app = typer.Typer(
    name="fleet",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Share one GPU fleet on Ray between training gangs, services and backfill.

\b
  fleet up --fleet clusters/small-nodes.yaml --policy clusters/small.yaml
  fleet submit --kind gang --team research --nodes 4 --gpus 8 -- python train.py
  fleet queue
  fleet down
""",
)


def _say_version(value: bool) -> None:  # noqa: FBT001  # typer calls it so
    if value:
        typer.echo(f"fleet {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Print the version.")
    ] = False,
) -> None: ...


def demo() -> None:
    """Run the whole story on this machine.

    A gang, a service and backfill share a local fleet, and the arbiter decides. Starts a fleet of its own,
    shows what happens and why, proves it from the journal, and leaves nothing behind.

    Example:
      fleet demo
    """
    # It needs Ray, which takes seconds to import.
    raise typer.Exit(importlib.import_module("fleet_app.cli.demo").run())


add_command(app, fleets.up)
add_command(app, fleets.down)
add_command(app, fleets.status)
add_command(app, fleets.pause)
add_command(app, fleets.resume)
add_command(app, working.submit)
add_command(app, looking.queue)
add_command(app, looking.nodes)
add_command(app, looking.services)
add_command(app, looking.fragments)
add_command(app, looking.recommendations)
add_command(app, ahead.ahead, "forecast")
add_command(app, classes.boundary)
add_command(app, looking.explain)
add_command(app, booking.book)
add_command(app, calendars.calendar)
add_command(app, upgrades.upgrade)
add_command(app, health.quarantine)
add_command(app, health.release)
add_command(app, working.drain)
add_command(app, working.move)
add_command(app, working.cancel)
add_command(app, working.logs)
add_command(app, looking.events)
app.add_typer(policies.app, name="policy")
add_command(app, audits.audit)
add_command(app, simulating.simulate_scenario, "simulate")
add_command(app, supposing.what_if, "what-if")
add_command(app, demo)


if __name__ == "__main__":
    app()
