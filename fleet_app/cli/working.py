"""`fleet submit`, `drain`, `move`, `cancel` and `logs`: one workload from its beginning to its end."""

from __future__ import annotations

import json
import secrets
import shlex
import string
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from fleet_app.cli import client, groups, show, waiting
from fleet_app.cli.options import DEFAULT_HOME, GatewayUrl, Home, Json, Name, seconds
from fleet_app.engine.errors import RequestError
from fleet_app.policy.specs import load_spec

_NAME_LETTERS = string.ascii_lowercase + string.digits


class Kind(StrEnum):
    """Kinds of workload that can be submitted."""

    GANG = "gang"
    BACKFILL = "backfill"


class Notice(StrEnum):
    """How a drain is raised."""

    LIBRARY = "library"
    SIGNAL = "signal"


def submit(
    entrypoint: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="What to run, after --.", show_default=False)
    ] = None,
    *,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Spec (YAML); options win over it.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name; default: the kind and five letters.")] = None,
    kind: Annotated[Kind | None, typer.Option("--kind", help="All ranks or none, or work that yields.")] = None,
    team: Annotated[str | None, typer.Option("--team", help="Who pays.")] = None,
    priority: Annotated[str | None, typer.Option("--priority", help="Priority class of the policy.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", help="Bundles, one a node.")] = None,
    min_nodes: Annotated[
        int | None, typer.Option("--min-nodes", help="Elastic: runs with this many nodes or more, and gives some back.")
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", help="GPUs of each bundle.")] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", help="Part of a card instead, by its MIG profile, such as 1g.10gb.")
    ] = None,
    share: Annotated[
        str | None, typer.Option("--share", help="Part of a shared card instead, such as 0.25; backfill only.")
    ] = None,
    cpus: Annotated[str | None, typer.Option("--cpus", help="CPUs of each bundle.")] = None,
    memory: Annotated[str | None, typer.Option("--memory", help="Memory of each bundle, such as 4GiB.")] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            metavar="NAME=NODESxGPUS",
            help="Bundles of another shape in the same gang, such as ps=1x0,cpus=16; repeatable, instead of --nodes.",
        ),
    ] = None,
    within: Annotated[str | None, typer.Option("--within", help="Topology level that must hold all of it.")] = None,
    accelerator: Annotated[str | None, typer.Option("--accelerator", help="Accelerator type.")] = None,
    grace: Annotated[str | None, typer.Option("--grace", help="Time to leave when drained, such as 30s.")] = None,
    max_run_time: Annotated[
        str | None,
        typer.Option("--max-run-time", help="Ends for good when it has had its nodes so long, such as 4h."),
    ] = None,
    interactive: Annotated[
        bool | None, typer.Option("--interactive", help="A session: it ends when nobody uses its GPUs.")
    ] = None,
    notice: Annotated[
        Notice | None, typer.Option("--notice", help="By the fleet's library alone, or also by SIGTERM.")
    ] = None,
    working_dir: Annotated[
        str | None, typer.Option("--working-dir", help="Directory to upload and run in, or a URI.")
    ] = None,
    runtime_env_json: Annotated[
        str | None, typer.Option("--runtime-env-json", metavar="JSON", help="Ray runtime environment.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", metavar="KEY=VALUE", help="Environment variable; repeatable.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait for its end; exit 1 when it fails.")] = False,
    until: Annotated[waiting.Until, typer.Option("--until", help="With --wait: what to wait for.")] = (
        waiting.Until.ENDED
    ),
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Submit a gang or a backfill job.

    What is left out, the policy's defaults fill in. Prints the workload's name. It waits for its
    turn, then runs as an ordinary Ray job of that name.

    Examples:
      fleet submit --kind gang --team research --nodes 4 --gpus 8 --working-dir . -- python train.py --steps 1000
      fleet submit --kind backfill --team batch --gpus 2 --grace 30s -- python batch.py
      fleet submit --kind backfill --team batch --partition 1g.10gb -- python small.py
      fleet submit --kind gang --nodes 8 --min-nodes 2 --gpus 8 -- python elastic.py
      fleet submit --kind gang --group ps=1x0,cpus=16 --group actors=4x8 -- python reinforce.py
      fleet submit --file jobs/pretrain.yaml --wait --until running
    """
    asked = client.find(home, gateway)
    given: dict[str, object] = {
        "name": name,
        "kind": kind,
        "team": team,
        "priority": priority,
        "nodes": nodes,
        "min_nodes": min_nodes,
        "gpus": gpus,
        "partition": partition,
        "share": share,
        "cpus": cpus,
        "memory": memory,
        "groups": groups.parsed(group) if group else None,
        "within": within,
        "accelerator": accelerator,
        "grace": grace,
        "max_run_time": max_run_time,
        "interactive": interactive,
        "notice": notice,
        "entrypoint": shlex.join(entrypoint) if entrypoint else None,
    }
    spec = {**(load_spec(file) if file else {}), **{key: value for key, value in given.items() if value is not None}}
    spec["runtime_env"] = _runtime_env(spec.get("runtime_env"), runtime_env_json, working_dir, env or ())
    spec.setdefault("name", f"{spec.get('kind') or 'job'}-{_letters(5)}")
    if not spec.get("entrypoint"):
        raise RequestError("there is nothing to run", where="entrypoint", fix="Add it at the end: -- python train.py")
    spec["runtime_env"] = _uploaded(asked, spec["runtime_env"])
    accepted = asked.post("submit", spec)
    submitted = str(accepted.get("name", spec["name"]))
    if not as_json:
        typer.echo(submitted)
        if not wait:
            show.hint(f"Accepted. Follow it with `fleet explain {submitted}` or `fleet logs --follow {submitted}`.")
    outcome = waiting.wait(asked, submitted, until) if wait else None
    if as_json:
        show.data(outcome.workload if outcome else accepted)
    if outcome is not None and not outcome.ok:
        raise typer.Exit(1)


def drain(
    name: Name,
    *,
    grace: Annotated[str | None, typer.Option("--grace", help="Time to leave, such as 30s; default: its own.")] = None,
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Ask a running workload to save its work and leave.

    It goes back to the queue, and resumes from what it saved.

    Example:
      fleet drain batch-7 --grace 30s
    """
    body = {} if grace is None else {"grace_s": seconds(grace, "--grace")}
    answer = client.find(home, gateway).post(f"drain/{quote(name, safe='')}", body)
    _answered(answer, f"Asked {name} to leave. See it with `fleet explain {name}`.", as_json=as_json)


def move(name: Name, *, home: Home = DEFAULT_HOME, gateway: GatewayUrl = None, as_json: Json = False) -> None:
    """Ask a running workload to leave at its next checkpoint.

    It has no deadline, and nothing kills it. Then it goes back to the queue, ahead of others of its priority, and
    resumes from what it saved: on other nodes if those that it had were quarantined meanwhile.

    Example:
      fleet move llm-pretrain
    """
    answer = client.find(home, gateway).post(f"move/{quote(name, safe='')}")
    _answered(answer, f"Asked {name} to move. See it with `fleet explain {name}`.", as_json=as_json)


def cancel(name: Name, *, home: Home = DEFAULT_HOME, gateway: GatewayUrl = None, as_json: Json = False) -> None:
    """End a workload for good, wherever it is.

    Example:
      fleet cancel batch-7
    """
    answer = client.find(home, gateway).post(f"cancel/{quote(name, safe='')}")
    _answered(answer, f"Asked {name} to end. See it with `fleet queue --all`.", as_json=as_json)


def logs(
    name: Name,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the workload ends.")] = False,
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Print what a workload has printed, in all attempts.

    Examples:
      fleet logs llm-pretrain
      fleet logs --follow llm-pretrain
    """
    asked = client.find(home, gateway)
    path = quote(name, safe="")
    if follow:
        from fleet_app.cli.tailing import tail  # noqa: PLC0415  # slow to import

        tail(asked, path, (lambda text: show.line({"log": text})) if as_json else show.raw)
        return
    text = asked.log(path)
    if as_json:
        show.data({"name": name, "log": text})
    else:
        show.raw(text)


def _answered(answer: Mapping[str, Any], says: str, *, as_json: bool) -> None:
    if as_json:
        show.data(answer)
    else:
        show.hint(says)


def _runtime_env(
    given: object, text: str | None, working_dir: str | None, variables: Sequence[str]
) -> dict[str, object]:
    """Return Ray's runtime environment from a spec's, a JSON text and the options, later ones winning."""
    if given is not None and not isinstance(given, Mapping):
        raise RequestError("must be a mapping", where="runtime_env", fix="Write `key: value` lines below it")
    together: dict[str, object] = {**(given or {}), **_json_object(text)}
    if working_dir is not None:
        together["working_dir"] = working_dir
    if variables:
        known = together.get("env_vars")
        together["env_vars"] = {**(known if isinstance(known, Mapping) else {}), **dict(map(_variable, variables))}
    return together


def _json_object(text: str | None) -> dict[str, object]:
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        raise RequestError(f"is no JSON ({error})", where="--runtime-env-json", fix="Write a JSON object") from error
    if not isinstance(value, dict):
        raise RequestError("is no JSON object", where="--runtime-env-json", fix='Write for example {"pip": ["numpy"]}')
    return value


def _variable(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise RequestError(f"{text!r} is no variable with a value", where="--env", fix="Write --env KEY=VALUE")
    return key, value


def _uploaded(gateway: client.Gateway, runtime_env: object) -> object:
    """Return a runtime environment whose local directories are packages on the gateway."""
    if not isinstance(runtime_env, Mapping) or not {"working_dir", "py_modules"} & runtime_env.keys():
        return runtime_env
    from fleet_app.adapters.upload import upload  # noqa: PLC0415  # it needs Ray, which takes seconds to import

    with show.busy("Uploading"):
        return upload(gateway.url, gateway.headers, runtime_env)


def _letters(count: int) -> str:
    return "".join(secrets.choice(_NAME_LETTERS) for _ in range(count))
