"""`fleet quarantine` and `release`: nodes that are to take nothing new, and that may again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from fleet_app.cli import client, show
from fleet_app.cli.options import DEFAULT_HOME, GatewayUrl, Home, Json, Who, me, seconds

NodeName = Annotated[str, typer.Argument(metavar="NODE", help="Name of a node.", show_default=False)]


def quarantine(
    node: NodeName,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; `fleet nodes` shows it.", show_default=False)],
    for_: Annotated[str | None, typer.Option("--for", help="How long, such as 2h; default: the policy's.")] = None,
    who: Who = None,
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Place nothing new on a node.

    What runs there goes on. It takes work again when the time is over, or when it is released. The fleet itself
    quarantines nodes that were lost or failed under a gang.

    Example:
      fleet quarantine n07 --reason "fan noise" --for 2h
    """
    body = {"reason": reason, "who": who or me()} | ({} if for_ is None else {"for_s": seconds(for_, "--for")})
    answer = client.find(home, gateway).post(f"quarantine/{quote(node, safe='')}", body)
    _answered(answer, f"Asked for {node} to be quarantined. See it with `fleet nodes`.", as_json=as_json)


def release(
    node: NodeName,
    *,
    who: Who = None,
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Let a quarantined node take work again.

    What happened on it before is not held against it any more.

    Example:
      fleet release n07
    """
    answer = client.find(home, gateway).post(f"release/{quote(node, safe='')}", {"who": who or me()})
    _answered(answer, f"Asked for {node} to be released. See it with `fleet nodes`.", as_json=as_json)


def _answered(answer: Mapping[str, Any], says: str, *, as_json: bool) -> None:
    if as_json:
        show.data(answer)
    else:
        show.hint(says)
