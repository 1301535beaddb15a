"""`fleet queue`, `nodes`, `services`, `fragments`, `explain` and `events`: what is, and why."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.text import Text

from fleet_app.cli import client, show, tables
from fleet_app.cli.options import DEFAULT_HOME, GatewayUrl, Home, Json

LOOK_EVERY_S = 0.5
PAGE = 10_000
AHEAD_SHOWN = 10


def queue(
    *,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Show workloads that have ended, too.")] = False,
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Show workloads: what waits and why, what runs where.

    What has ended is listed for as long as the policy's `history` says; `fleet explain` knows all of it.
    SHAPE is bundles x GPUs of each. STEP is the last that was reached, and the one up to which work is safe.

    Examples:
      fleet queue
      fleet queue --all --json
    """
    asked = client.find(home, gateway)
    found: Sequence[tables.Row] = asked.get("workloads", **({} if everything else {"ended": "false"}))
    shown = [each for each in found if everything or each.get("phase") not in tables.ENDED]
    if as_json:
        show.data(shown)
        return
    if shown:
        show.stdout().print(tables.queue(shown, time.time()))
    counts: Mapping[str, int] = {} if everything else asked.get("status").get("counts", {})
    ended = sum(counts.get(phase, 0) for phase in tables.ENDED)
    if not shown:
        show.hint("Nothing waits or runs.")
    if ended:
        show.hint(f"{ended} more {'has' if ended == 1 else 'have'} ended: `fleet queue --all`.")


def nodes(*, home: Home = DEFAULT_HOME, gateway: GatewayUrl = None, as_json: Json = False) -> None:
    """Show nodes, and who holds each of their GPUs.

    A bar has a letter a GPU; `.` is a free one, and `!` one that something uses without the fleet's leave,
    which is named. A node that is quarantined says for how much longer, why, and who keeps it out.

    Example:
      fleet nodes
    """
    found: Sequence[tables.Row] = client.find(home, gateway).get("nodes")
    if as_json:
        show.data(found)
        return
    if not found:
        show.hint("The arbiter has seen no node yet.")
        return
    show.stdout().print(tables.nodes(found, time.time()))


def services(*, home: Home = DEFAULT_HOME, gateway: GatewayUrl = None, as_json: Json = False) -> None:
    """Show services: replicas wanted, granted, running.

    Example:
      fleet services
    """
    found: Sequence[tables.Row] = client.find(home, gateway).get("services")
    if as_json:
        show.data(found)
        return
    if not found:
        show.hint("No service has announced itself: it does so with the fleet's autoscaling policy.")
        return
    show.stdout().print(tables.services(found))


def fragments(
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Say what to move so that more nodes become whole.")] = False,
    most: Annotated[
        int | None, typer.Option("--nodes", min=1, help="With --plan: make no more nodes whole than this.")
    ] = None,
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Show how the free GPUs lie: how many are stranded, and what would fit now.

    STRANDED are free GPUs on nodes in use: they form no whole node. The columns after WHOLE NODES are how many
    bundles of 1, 2, 4 and 8 GPUs fit; BLOCK is the most whole nodes in one domain. Nothing is moved.

    Examples:
      fleet fragments
      fleet fragments --plan --nodes 4
    """
    query: dict[str, str | int] = {"plan": "true"} if plan else {}
    found: Mapping[str, Any] = client.find(home, gateway).get("fragments", **query, **({"nodes": most} if most else {}))
    if as_json:
        show.data(found)
        return
    if not found.get("pictures"):
        show.hint("The arbiter has seen no node yet.")
        return
    moves = found.get("plan")
    if not plan or moves is None:
        show.stdout().print(tables.fragments(found["pictures"]))
        show.hint("What to move so that more nodes become whole: `fleet fragments --plan`.")
        return
    if moves["moves"]:
        show.stdout().print(tables.moves(moves["moves"]))
    show.hint(tables.outcome(moves))


def recommendations(*, home: Home = DEFAULT_HOME, gateway: GatewayUrl = None, as_json: Json = False) -> None:
    """Show what could be smaller, by what was really used, and how cards should be cut.

    What services and jobs used at most, what would do, and what that saves; nothing is done about it, and where nobody
    measures GPUs nothing is known of it. Which empty cards should have another layout, for what waits.

    Example:
      fleet recommendations
    """
    found: Sequence[tables.Row] = client.find(home, gateway).get("recommendations")
    if as_json:
        show.data(found)
        return
    if not found:
        show.hint("Nothing that was measured could be smaller.")
        return
    smaller = [each for each in found if each.get("kind") != "layout"]
    if smaller:
        show.stdout().print(tables.recommendations(smaller))
    if len(smaller) < len(found):
        show.stdout().print(tables.layouts([each for each in found if each.get("kind") == "layout"]))


def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A workload, service or booking.", show_default=False)],
    *,
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Say why a workload or service waits, in numbers.

    And what would have to change for it to start, when that may be, who is ahead of it and why, and why it was
    interrupted before: for whom, why it and not another, when. Of a service that waits: who holds what it needs.

    The estimated start follows from declared ends and deadlines, as if nobody else came; nothing rests on it. A
    planned start is kept.

    Example:
      fleet explain llm-pretrain
    """
    found: Mapping[str, Any] = client.find(home, gateway).get(f"explain/{quote(name, safe='')}")
    if as_json:
        show.data(found)
        return
    show.stdout().print(Text(f"{show.plain(name)} {show.plain(str(found.get('sentence', '')))}"), soft_wrap=True)
    estimate: Mapping[str, Any] | None = found.get("estimate")
    if estimate:
        show.stdout().print(Text(f"Estimated start: {show.plain(str(estimate['sentence']))}"), soft_wrap=True)
    for told in found.get("past") or ():
        show.stdout().print(Text(f"Before: {show.plain(str(told.get('sentence', '')))}"), soft_wrap=True)
    turns: Sequence[tables.Row] = found.get("turns") or ()
    for turn in turns[:AHEAD_SHOWN]:
        said = f"Ahead: {turn['workload']}: {turn['why']}; {turn['outcome']}"
        show.stdout().print(Text(show.plain(said)), soft_wrap=True)
    if len(turns) > AHEAD_SHOWN:
        show.hint(f"{len(turns) - AHEAD_SHOWN} more are ahead of it: --json names them all.")


def events(
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new ones until Ctrl-C.")] = False,
    last: Annotated[int, typer.Option("--last", "-n", min=0, help="How many of the latest to begin with.")] = 50,
    subject: Annotated[
        str | None, typer.Option("--subject", "-s", help="Only those of one workload, service or node.")
    ] = None,
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Show what happened, oldest first.

    From the journal. With --follow and --json together: one JSON object a line.

    Examples:
      fleet events --last 20
      fleet events --follow --subject llm-pretrain
    """
    asked = client.find(home, gateway)
    latest: deque[tables.Row] = deque(since(asked, 0, subject), maxlen=last or 1)
    shown = list(latest) if last else []
    if not follow:
        if as_json:
            show.data(shown)
        elif shown:
            show.stdout().print(tables.events(shown, {int(entry["seq"]): _time(entry) for entry in shown}))
        else:
            show.hint("Nothing has happened yet.")
        return
    after = int(latest[-1]["seq"]) if latest else 0
    for entry in shown:
        _say(entry, as_json=as_json)
    while True:
        for entry in since(asked, after, subject):
            after = int(entry["seq"])
            _say(entry, as_json=as_json)
        time.sleep(LOOK_EVERY_S)


def since(gateway: client.Gateway, after: int, subject: str | None) -> Iterator[tables.Row]:
    """Yield every event after a number, page by page."""
    more = {"subject": subject} if subject else {}
    while True:
        page: Sequence[tables.Row] = gateway.get("events", after=after, limit=PAGE, **more)
        yield from page
        if len(page) < PAGE:
            return
        after = int(page[-1]["seq"])


def _say(entry: tables.Row, *, as_json: bool) -> None:
    if as_json:
        show.line(entry)
        return
    what = f"{_time(entry)}  {entry['kind']:<14}  {show.plain(str(entry['subject'])):<24}  {tables.detail(entry)}"
    show.stdout().print(Text(what.rstrip()), soft_wrap=True)


def _time(entry: tables.Row) -> str:
    at = datetime.fromtimestamp(float(entry["at"])).astimezone()
    return at.strftime("%H:%M:%S") + f".{at.microsecond // 1000:03d}"
