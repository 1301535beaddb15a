"""`fleet policy`: check, show, compare and change the one file that says who owns what. `validate` needs no fleet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from fleet_app.cli import client, rendering, show
from fleet_app.cli.options import DEFAULT_HOME, GatewayUrl, Home, Json, PolicyPath, Who, add_command, me
from fleet_app.policy.fleet import check_fleet, load_fleet
from fleet_app.policy.load import load_policy, policy_schema
from fleet_app.policy.problems import refuse

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Check, show, compare, change and publish the policy.

\b
  fleet policy validate clusters/demo.yaml
  fleet policy diff clusters/demo.yaml
  fleet policy apply clusters/demo.yaml
  fleet policy render clusters/demo.yaml
""",
)


def validate(
    file: PolicyPath,
    *,
    fleet: Annotated[Path | None, typer.Option("--fleet", help="Nodes that it must match, too (YAML).")] = None,
    as_json: Json = False,
) -> None:
    """Check a policy file. Needs no fleet.

    Every problem is said with its line, its path and what to do.

    Examples:
      fleet policy validate clusters/demo.yaml
      fleet policy validate clusters/demo.yaml --fleet clusters/demo-nodes.yaml
    """
    policy = load_policy(file)
    if fleet is not None:
        refuse(check_fleet(load_fleet(fleet), policy), str(fleet))
    teams = {
        team: body.nominal
        for organisation in policy.organisations.values()
        for team, body in organisation.teams.items()
    }
    if as_json:
        show.data({"valid": True, "name": policy.name, "teams": teams})
        return
    typer.echo(f"{file}: valid")


def schema(*, as_json: Json = False) -> None:
    """Print the JSON schema of a policy. Needs no fleet.

    Example:
      fleet policy schema > fleet.schema.json
    """
    show.data(policy_schema())


def show_policy(*, home: Home = DEFAULT_HOME, gateway: GatewayUrl = None, as_json: Json = False) -> None:
    """Print the policy in force.

    Example:
      fleet policy show
    """
    text = client.find(home, gateway).get_text("policy")
    if as_json:
        show.data({"policy": text})
    else:
        typer.echo(text, nl=not text.endswith("\n"))


def diff(file: PolicyPath, *, home: Home = DEFAULT_HOME, gateway: GatewayUrl = None, as_json: Json = False) -> None:
    """Show what a policy file would change of the policy in force.

    Example:
      fleet policy diff clusters/demo.yaml
    """
    answer = _put(client.find(home, gateway), file, dry_run=True)
    _say_changes(answer, "Nothing would change.", as_json=as_json)


def apply(
    file: PolicyPath,
    *,
    who: Who = None,
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Put a policy in force.

    What it changes is shown, and journaled with who asked.

    Example:
      fleet policy apply clusters/demo.yaml
    """
    answer = _put(client.find(home, gateway), file, dry_run=False, who=who or me())
    _say_changes(answer, "Nothing to change: it is in force already.", as_json=as_json)


def _put(gateway: client.Gateway, file: Path, *, dry_run: bool, who: str | None = None) -> Mapping[str, Any]:
    load_policy(file)  # says the file's own lines; the gateway checks again
    query: dict[str, str] = {"dry_run": "true"} if dry_run else {}
    answer: Mapping[str, Any] = gateway.post_text(
        "policy", file.read_text(encoding="utf-8"), **query, **({"who": who} if who else {})
    )
    return answer


def _say_changes(answer: Mapping[str, Any], nothing: str, *, as_json: bool) -> None:
    if as_json:
        show.data(answer)
        return
    changes: Sequence[Mapping[str, Any]] = answer.get("changes", [])
    for change in changes:
        line = f"{change['path']}: {_value(change['old'])} -> {_value(change['new'])}"
        show.stdout().print(Text(show.plain(line)), soft_wrap=True)
    if not changes:
        show.hint(nothing)


def _value(value: object) -> str:
    return "(none)" if value is None else value if isinstance(value, str) else json.dumps(value)


add_command(app, validate)
add_command(app, schema)
add_command(app, show_policy, "show")
add_command(app, diff)
add_command(app, apply)
add_command(app, rendering.render_policy, "render")
