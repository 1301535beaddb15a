"""`fleet boundary`: which nodes should be serving's and which training's, and letting them cross."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from fleet_app.cli import client, show, tables
from fleet_app.cli.options import DEFAULT_HOME, GatewayUrl, Home, Json, Who, me
from fleet_app.engine.errors import RequestError


def boundary(
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Let the recommended nodes cross.")] = False,
    cancel: Annotated[
        list[str] | None, typer.Option("--cancel", metavar="NODE", help="Call off the crossing of a node; repeatable.")
    ] = None,
    who: Who = None,
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Say which nodes should go over to another class.

    From the peak that serving is forecast to want, and from the committed work that waits. Changes nothing without
    --apply; then the nodes take nothing new, committed work on them is asked to move at its next checkpoint, and each
    changes its class, and the nominal of both classes, once nothing is in the way. Until then --cancel calls it off:
    the node is open again as what it was, and who was asked to move for it leaves all the same.

    Examples:
      fleet boundary
      fleet boundary --apply
      fleet boundary --cancel node-3 --cancel node-4
    """
    asked = client.find(home, gateway)
    if cancel and apply:
        raise RequestError("both were given", where="--apply, --cancel", fix="Give one of them")
    if cancel:
        told = asked.post("boundary/cancel", {"nodes": cancel, "who": who or me()})
        if as_json:
            show.data(told)
        show.hint(f"Called off for {len(cancel)} {'node' if len(cancel) == 1 else 'nodes'}: see `fleet boundary`.")
        return
    found: dict[str, Any] = asked.get("boundary")
    plan = found["plan"]
    if plan is None:
        raise RequestError("there is nothing to tell", where="boundary", fix="Add the section `boundary` to the policy")
    if as_json:
        show.data(found)
    else:
        for table in (tables.crossing_steps(plan["steps"]), tables.crossings(found["crossings"])):
            if table.row_count:
                show.stdout().print(table)
        show.stdout().print(Text(tables.boundary(plan)), soft_wrap=True)
    if apply and plan["steps"]:
        nodes = [step["node"] for step in plan["steps"]]
        asked.post("boundary", {"nodes": nodes, "to": plan["steps"][0]["to"], "who": who or me()})
        show.hint(f"Asked for {len(nodes)} nodes to cross. See them with `fleet boundary` and `fleet nodes`.")
