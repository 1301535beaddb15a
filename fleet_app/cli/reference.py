"""The help of every command as one text, for the README: `python -m fleet_app.cli.reference`.

The same on every machine: no colour, and always as wide as WIDTH.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from fleet_app.cli.main import app

WIDTH = 100


def reference() -> str:
    """Return the help of `fleet` and of each command, as Markdown."""
    root = typer.main.get_command(app)
    return "\n\n".join(f"### `{name}`\n\n```text\n{text}\n```" for name, text in _helps(root, "fleet", None)) + "\n"


def _helps(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    # The options alone would follow the terminal's width.
    context = command.make_context(
        name.rpartition(" ")[2], [], parent=parent, resilient_parsing=True, terminal_width=WIDTH
    )
    with context:
        yield name, command.get_help(context).strip()
        for each in command.list_commands(context) if hasattr(command, "list_commands") else ():
            yield from _helps(command.get_command(context, each), f"{name} {each}", context)


if __name__ == "__main__":
    typer.echo(reference(), nl=False)
