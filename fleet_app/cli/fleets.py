"""`fleet up`, `down`, `status`, `pause` and `resume`: a fleet as a whole."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fleet_app.adapters import local
from fleet_app.cli import client, show
from fleet_app.cli.options import DEFAULT_HOME, GatewayUrl, Home, Json
from fleet_app.engine.errors import NotFoundError, RequestError
from fleet_app.policy.fleet import FleetFile, check_fleet, load_fleet
from fleet_app.policy.load import load_policy
from fleet_app.policy.problems import refuse

OnStage = Callable[[local.Stage], None]

_STAGES = {
    "ray": "Finding Ray",
    "head": "Starting Ray's head",
    "nodes": "Starting nodes",
    "gateway": "Starting the gateway",
    "arbiter": "Starting the arbiter",
    "serve": "Deploying Serve applications",
}

_ADDRESSES = {
    "gateway_url": "Gateway: Ray's Jobs API and the fleet's own",
    "dashboard_url": "Ray dashboard",
    "serve_url": "Serve applications",
    "ray_address": "Ray address",
}


def up(
    *,
    fleet: Annotated[Path | None, typer.Option("--fleet", help="Nodes to start on this machine (YAML).")] = None,
    policy: Annotated[Path | None, typer.Option("--policy", help="Policy; default: the home's own.")] = None,
    attach: Annotated[
        str | None,
        typer.Option("--attach", metavar="ADDRESS", help="Start no Ray: use the one at HOST:PORT, or `auto`."),
    ] = None,
    serve: Annotated[Path | None, typer.Option("--serve", help="Serve config file to deploy.")] = None,
    home: Home = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Start a fleet on this machine, or on an existing Ray.

    Starts Ray with declared GPUs, the arbiter and the gateway, beside any other Ray cluster here. All of it listens on
    loopback; only Serve's replicas open a port on all interfaces, as Ray has it. To put an existing Ray cluster under
    a policy, run it on that cluster's head with --attach instead of --fleet.

    Examples:
      fleet up --fleet clusters/demo-nodes.yaml --policy clusters/demo.yaml
      fleet up --fleet clusters/demo-nodes.yaml --policy clusters/demo.yaml --serve serve_configs/chat.yaml
      fleet up --attach auto --policy clusters/demo.yaml --home /var/lib/fleet
    """
    wanted = _wanted(home, fleet, policy, attach, serve)
    with _progress() as on_stage:
        addresses = local.up(wanted, on_stage)
    if as_json:
        show.data(dict(addresses))
        return
    show.pairs((says, addresses[key]) for key, says in _ADDRESSES.items() if addresses.get(key))
    show.hint(f"The fleet {wanted.name} is up in {wanted.home}. See it with `fleet nodes`, end it with `fleet down`.")


def down(*, home: Home = DEFAULT_HOME, as_json: Json = False) -> None:
    """End the fleet of a home, every process of it.

    Journal, policy and checkpoints stay in the home: a fleet that is started there again goes on with them. On an
    existing Ray cluster only the arbiter and the gateway end; what runs goes on.

    Example:
      fleet down
    """
    ended = local.down(home)
    if as_json:
        show.data({"home": str(home), "ended_processes": ended})
        return
    show.hint(f"Ended the {ended} processes of the fleet in {home}.")


def status(*, home: Home = DEFAULT_HOME, gateway: GatewayUrl = None, as_json: Json = False) -> None:
    """Show whether the fleet is well, and where it is.

    Example:
      fleet status
    """
    found: Mapping[str, Any] = client.find(home, gateway).get("status")
    known = (client.read_fleet(home) or {}) if gateway is None else {"gateway_url": gateway}
    if as_json:
        show.data({**found, "addresses": {key: known.get(key) for key in _ADDRESSES}})
        return
    show.pairs(_status_rows(found, known))


def pause(*, home: Home = DEFAULT_HOME, gateway: GatewayUrl = None, as_json: Json = False) -> None:
    """Start and drain nothing until `fleet resume`.

    The arbiter goes on seeing and deciding; what runs goes on running.

    Example:
      fleet pause
    """
    _order("pause", "The arbiter starts and drains nothing until `fleet resume`.", home, gateway, as_json=as_json)


def resume(*, home: Home = DEFAULT_HOME, gateway: GatewayUrl = None, as_json: Json = False) -> None:
    """End a pause.

    Example:
      fleet resume
    """
    _order("resume", "The arbiter acts again.", home, gateway, as_json=as_json)


def _order(path: str, says: str, home: Path, gateway: str | None, *, as_json: bool) -> None:
    answer = client.find(home, gateway).post(path)
    if as_json:
        show.data(answer)
    else:
        show.hint(says)


def _wanted(
    home: Path, fleet: Path | None, policy: Path | None, attach: str | None, serve: Path | None
) -> local.Wanted:
    """Return what to start, once all of it has been checked. Raises RequestError."""
    if (fleet is None) == (attach is None):
        raise RequestError(
            "name either the nodes to start or a Ray to attach to", where="fleet up", fix="Give --fleet or --attach"
        )
    if attach is not None and "://" in attach:
        raise RequestError(
            f"{attach!r} is no address of a GCS", where="--attach", fix="Run it on Ray's head, with HOST:PORT or `auto`"
        )
    if serve is not None and not serve.is_file():
        raise NotFoundError("there is no such file", where=str(serve), fix="Name a Serve config file")
    parsed = load_fleet(fleet) if fleet is not None else None
    text = _checked_policy(policy or home / "policy.yaml", parsed)
    return local.Wanted(
        home=home,
        name=parsed.name if parsed else home.name,
        policy=text if policy is not None else None,
        nodes=local.nodes_of(parsed) if parsed else (),
        attach=attach,
        serve_config=serve,
    )


def _checked_policy(path: Path, fleet: FleetFile | None) -> str:
    """Return a policy's text, once it has been checked, against the nodes too. Raises RequestError."""
    if not path.exists():
        raise RequestError("there is no policy", where=str(path), fix="Name one with --policy")
    policy = load_policy(path)
    if fleet is not None:
        refuse(check_fleet(fleet, policy), fleet.name)
    return path.read_text(encoding="utf-8")


@contextlib.contextmanager
def _progress() -> Iterator[OnStage]:
    """Show on stderr how far a fleet is: a moving line in a terminal, else a line a part."""
    console = show.stderr()
    if not console.is_terminal:
        seen: set[str] = set()

        def say(stage: local.Stage) -> None:
            if stage.name not in seen:
                seen.add(stage.name)
                console.print(f"{_STAGES.get(stage.name, stage.name)} ...")

        yield say
        return
    columns = (
        *(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20)),
        *(MofNCompleteColumn(), TimeElapsedColumn()),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("Starting", total=1)

        def move(stage: local.Stage) -> None:
            progress.update(task, description=_STAGES.get(stage.name, stage.name), completed=stage.done, total=stage.of)

        yield move


def _pools(found: Mapping[str, Any]) -> str:
    """Return when Kubernetes answered last, what it showed then, and what fails."""
    age = found.get("age_s")
    seen = "never answered" if age is None else f"seen {show.duration(age)} ago"
    waiting = f", {found['waiting_pods']} waiting for one" if found.get("waiting_pods") else ""
    what = f"{found.get('pods')} pods on {found.get('machines')} nodes{waiting}, {found.get('held_pods')} held"
    cordoned = f"; cordoned: {', '.join(found['cordoned'])}" if found.get("cordoned") else ""
    asked = [f"{each['nodes']} nodes for {each['class']} asked for ({each['why']})" for each in found.get("asked", ())]
    return "; ".join([f"{seen}: {what}{cordoned}", *asked, *found.get("troubles", ())])


def _status_rows(found: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    arbiter = found.get("arbiter") or {}
    age = arbiter.get("lease_age_s")
    since = "never seen" if age is None else f"last sign of life {show.duration(age)} ago"
    yield "Arbiter", f"{'alive' if arbiter.get('alive') else 'NOT RUNNING'}, {since}"
    yield "Paused", "yes: nothing is started or drained" if found.get("paused") else "no"
    yield "Workloads", show.counted(found.get("counts") or {})
    yield "Bookings", show.counted(found.get("bookings") or {})
    yield "Requests that wait for the arbiter", found.get("inbox")
    if pools := found.get("pools"):
        yield "Kubernetes", _pools(pools)
    if why := (found.get("immediate") or {}).get("sentence"):
        yield "Immediate tier", why
    yield "Policy", found.get("policy_hash")
    for key, says in _ADDRESSES.items():
        if known.get(key):
            yield says, known[key]
