"""`fleet book`: what a booking costs, then the booking; and to extend, approve or give up one."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

import typer

from fleet_app.cli import agenda, client, show
from fleet_app.cli.moments import moment
from fleet_app.cli.options import DEFAULT_HOME, GatewayUrl, Home, Json, me
from fleet_app.engine.errors import RequestError

_TRANSFER = re.compile(r"(?P<lender>[^=:]+)=(?P<gpus>\d{1,7}):(?P<approved_by>.+)")

By = Annotated[str | None, typer.Option("--by", help="Who asks or approves; default: you, at this machine.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would cost, and book nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    """How an order is to be carried out, and told."""

    gateway: client.Gateway
    dry_run: bool
    yes: bool
    as_json: bool


def book(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the booking.", show_default=False)],
    *,
    team: Annotated[str | None, typer.Option("--team", help="For whom.")] = None,
    maintenance: Annotated[bool, typer.Option("--maintenance", help="For nobody: a maintenance window.")] = False,
    gpus: Annotated[int | None, typer.Option("--gpus", help="GPUs in all: part of a node, or whole nodes.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", help="Whole nodes.")] = None,
    node: Annotated[list[str] | None, typer.Option("--node", help="This node; repeatable.")] = None,
    domain: Annotated[str | None, typer.Option("--domain", help="All nodes of a domain, such as s1/l2.")] = None,
    from_: Annotated[str, typer.Option("--from", metavar="TIME", help="ISO 8601, now, or +3d.")] = "now",
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="ISO 8601, or +4h: so long after it starts.")
    ] = None,
    within: Annotated[str | None, typer.Option("--within", help="Topology level whose domains hold it.")] = None,
    most_domains: Annotated[
        int | None, typer.Option("--most-domains", min=1, help="In how many of those it may lie; default: 1.")
    ] = None,
    accelerator: Annotated[str | None, typer.Option("--accelerator", help="Accelerator type.")] = None,
    transfer: Annotated[
        list[str] | None,
        typer.Option("--transfer", metavar="LENDER=GPUS:APPROVER", help="Nominal that another gives; repeatable."),
    ] = None,
    extend: Annotated[
        str | None, typer.Option("--extend", metavar="TIME", help="Let it end at TIME, or so much later (+4h).")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Give it up.")] = False,
    approve: Annotated[bool, typer.Option("--approve", help="Let what was proposed bind.")] = False,
    by: By = None,
    approved_by: Annotated[str | None, typer.Option("--approved-by", help="Who approves, if not the asker.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Book nodes for a team, or for maintenance, and say first what that costs.

    What it displaces is shown: who has to go and when each would run again, lent GPU-hours, what is left for serving,
    money. One that displaces more than the policy allows binds nobody until somebody other than the asker approves it.
    A time without a zone is in this machine's.

    Examples:
      fleet book bench --team research --nodes 4 --within spine --from +1d --to +8h
      fleet book bench --extend +2h
      fleet book bench --approve --by grace
      fleet book fans --maintenance --domain s1/l2 --from 2026-12-24T18:00 --to +4h
    """
    who = by or me()
    asked = client.find(home, gateway)
    how = _How(gateway=asked, dry_run=dry_run, yes=yes, as_json=as_json)
    size = {"gpus": gpus, "nodes": nodes, "on": node, "domain": domain}
    rest = {"within": within, "most_domains": most_domains, "accelerator": accelerator}
    wanted = {key: value for key, value in {"team": team, **size, **rest}.items() if value is not None}
    _check_one(
        wanted, {"--extend": extend is not None, "--cancel": cancel, "--approve": approve}, to, maintenance=maintenance
    )
    if extend is not None:
        _extend(how, name, extend, {"asked_by": who, "approved_by": approved_by or ""})
    elif cancel:
        _order(how, name, "cancel", {"who": who})
    elif approve:
        _order(how, name, "approve", {"who": who})
    else:
        now = time.time()
        start_at = moment(from_, "--from", now)
        times = {"start_at": start_at, "end_at": moment(str(to), "--to", now, later_than=start_at)}
        transfers = [_transfer(each) for each in transfer or ()]
        body = {"name": name, **wanted, **times, **({"transfers": transfers} if transfers else {})}
        body |= {"asked_by": who, "approved_by": approved_by or ""}
        _offered_then(how, "bookings", body, f"Book {name}?")


def _check_one(wanted: Mapping[str, object], changes: Mapping[str, bool], to: str | None, *, maintenance: bool) -> None:
    """Raise RequestError unless exactly one thing is to be done, and all is said that it takes."""
    given = [option for option, is_given in changes.items() if is_given]
    if len(given) > 1:
        raise RequestError(f"{' and '.join(given)} are two things", where="fleet book", fix="Give one of them")
    if given and (wanted or maintenance or to is not None):
        raise RequestError(
            f"{given[0]} is for a booking that there is", where="fleet book", fix="Leave out what is to be booked"
        )
    if given:
        return
    if maintenance == ("team" in wanted):
        raise RequestError("is it for a team, or for maintenance?", where="--team", fix="Give --team or --maintenance")
    if to is None:
        raise RequestError("until when?", where="--to", fix="Give --to TIME, such as +4h")


def _transfer(text: str) -> dict[str, object]:
    found = _TRANSFER.fullmatch(text)
    if found is None:
        raise RequestError(f"{text!r} is no transfer", where="--transfer", fix="Write LENDER=GPUS:APPROVER")
    return {"lender": found["lender"], "gpus": int(found["gpus"]), "approved_by": found["approved_by"]}


def _extend(how: _How, name: str, text: str, who: Mapping[str, object]) -> None:
    known = next((each for each in how.gateway.get("bookings") if each["name"] == name), None)
    now = time.time()
    end_at = moment(text, "--extend", now, later_than=None if known is None else float(known["end_at"]))
    _offered_then(how, f"bookings/{quote(name, safe='')}/extend", {**who, "end_at": end_at}, f"Extend {name}?")


def _order(how: _How, name: str, what: str, body: Mapping[str, object]) -> None:
    path = f"bookings/{quote(name, safe='')}/{what}"
    if what == "approve":
        _offered_then(how, path, body, f"Approve {name}?")
        return
    if how.dry_run:
        raise RequestError("giving up costs nothing", where="--dry-run", fix="Leave it out")
    confirm(f"Give {name} up?", yes=how.yes)
    _said(how, how.gateway.post(path, body))


def _offered_then(how: _How, path: str, body: Mapping[str, object], question: str) -> None:
    """Show what an order costs; then, unless that was all that was asked for, have it confirmed and give it."""
    answer: Mapping[str, Any] = how.gateway.post(path, body, dry_run="true")
    if how.dry_run and how.as_json:
        show.data(answer)
    if not how.as_json:
        show_cost(answer["offer"])
    if how.dry_run:
        return
    confirm(question, yes=how.yes)
    _said(how, how.gateway.post(path, body))


def show_cost(offer: Mapping[str, Any]) -> None:
    """Print what a booking would displace and cost."""
    if offer["displaces"]:
        show.stdout().print(agenda.displaced(offer))
        show.stdout().print()
    show.pairs(agenda.cost(offer))


def confirm(question: str, *, yes: bool) -> None:
    """Ask whether to go on. Raises RequestError when the answer is no, or nobody can answer."""
    try:
        agreed = yes or typer.confirm(question, err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise RequestError("nothing was done: it was not confirmed", where=question, fix="Answer yes, or give --yes")


_HINTS: Mapping[str | None, str] = {
    "proposed": "{name} is proposed, and binds nobody yet: `fleet book {name} --approve --by WHO`, by somebody else.",
    "booked": "{name} is booked. See it with `fleet calendar`.",
    "in-force": "{name} is booked, and in force. See it with `fleet calendar`.",
    "cancelled": "{name} is given up.",
    None: "{name}: {message}. See what becomes of it with `fleet calendar`.",
}


def _said(how: _How, answer: Mapping[str, Any]) -> None:
    if how.as_json:
        show.data(answer)
        return
    stage = answer.get("message") if answer.get("message") == "proposed" else answer.get("stage")
    show.hint(_HINTS.get(stage, _HINTS[None]).format(name=answer["name"], message=answer.get("message") or stage))
