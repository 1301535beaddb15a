"""`fleet what-if`: the fleet's own past, as it was and as another policy or more nodes would have made it.

Reads a journal and two policies; needs no fleet and no Ray.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fleet_app.cli import show
from fleet_app.cli.options import DEFAULT_HOME, Home, Json
from fleet_app.cli.simulating import changed, side_by_side
from fleet_app.engine.errors import RequestError
from fleet_app.engine.values import NodeClass
from fleet_app.policy.document import read_document
from fleet_app.policy.load import load_policy
from fleet_app.policy.schema import PolicyFile, nominal_gpus
from fleet_app.policy.schema import entries as entries_of
from fleet_app.twin.readers.journal import Past, past
from fleet_app.twin.scenarios.history import Supposed, history, problems
from fleet_app.twin.scenarios.load import Loaded, changed_policy

JOURNAL, POLICY, PRESENT = "journal.db", "policy.yaml", "as it was"

HISTORY = "A fleet's journal, or the home that has it; default: the home's."
IN_FORCE = "The policy that was in force; default: policy.yaml beside the journal."
NODES = "So many nodes more, or fewer: +64, serving=+16 or training=-8."


def what_if(
    *,
    policy: Annotated[Path | None, typer.Option("--policy", metavar="FILE", help="The policy to try.")] = None,
    journal: Annotated[Path | None, typer.Option("--history", metavar="JOURNAL", help=HISTORY)] = None,
    present: Annotated[Path | None, typer.Option("--present", metavar="FILE", help=IN_FORCE)] = None,
    nodes: Annotated[list[str] | None, typer.Option("--nodes", metavar="[CLASS=]COUNT", help=NODES)] = None,
    put: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Put another value into that policy.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a history with rows that make no sense.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write charts and tables as one HTML file.")] = None,
    home: Home = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Say what the fleet's own past would have looked like under another policy, or with other nodes.

    Runs what the journal tells (nodes, workloads, how long they ran, what services wanted) on the twin twice, under the
    policy in force and under the other one, and shows side by side what changed and for whom. Changes nothing.

    Examples:
      fleet what-if --policy new.yaml
      fleet what-if --policy new.yaml --history /backup/journal.db --present old.yaml --html before-after.html
      fleet what-if --nodes +64 --set organisations.lab.teams.research.nominal=1024
    """
    if policy is None and not nodes and not put:
        fix = "Give --policy, --nodes or --set"
        raise RequestError("nothing is to be different", where="what-if", fix=fix)
    file = _journal(journal or home)
    known = past(file, strict=strict)
    old_path = present or file.parent / POLICY
    old, new = load_policy(old_path), changed_policy(policy or old_path, changed(put or ()))
    known = _fitting(known, old)
    read_document(policy or old_path).refuse(list(problems(known, old, new)))
    other = Supposed(policy=new, nodes=_more(nodes or ()))
    runs = (history(known, PRESENT, old), history(known, _name(policy, nodes, put), old, other))
    said = [*sentences(known), *_left_over(runs[1], new)]
    for sentence in said:
        show.hint(sentence)
    side_by_side(runs, html, {"history": {**_plain(known), "said": said}}, as_json=as_json)


def sentences(known: Past) -> list[str]:
    """Return what is to be said of a past: how much was read, what was not, and what a run of it does not know."""
    counts = f"{len(known.jobs)} workloads, {len(known.traffic)} services, {len(known.bookings)} bookings"
    first, *rest = known.reading.sentences()
    lasted = show.duration(known.ends_at - known.begins_at)
    said = [f"{first.rpartition(':')[0]}: {lasted} with {counts} on {len(known.nodes)} nodes", *rest]
    if known.policies:
        said.append(f"The policy changed {known.policies} times meanwhile: `{PRESENT}` has the last one throughout")
    return said


def _plain(known: Past) -> Mapping[str, Any]:
    reading = known.reading
    return {
        "begins_at": known.begins_at,
        "ends_at": known.ends_at,
        "workloads": len(known.jobs),
        "services": len(known.traffic),
        "bookings": len(known.bookings),
        "nodes": len(known.nodes),
        "aside": dict(reading.aside),
        "malformed": [asdict(one) for one in reading.malformed],
    }


def _journal(given: Path) -> Path:
    return given / JOURNAL if given.is_dir() else given


def _fitting(known: Past, policy: PolicyFile) -> Past:
    """Return a past without the work of teams that the policy in force does not have any more."""
    teams = {entry.name for entry in entries_of(policy)}
    jobs = tuple(job for job in known.jobs if job.workload.team in teams)
    traffic = tuple(one for one in known.traffic if one.service.team in teams)
    gone = len(known.jobs) - len(jobs) + len(known.traffic) - len(traffic)
    aside = (*known.reading.aside, ("work of teams that the policy in force does not have", gone))
    reading = replace(known.reading, aside=aside) if gone else known.reading
    return replace(known, jobs=jobs, traffic=traffic, reading=reading)


def _more(given: Iterable[str]) -> dict[NodeClass, int]:
    """Return how many nodes more of each class were asked for. Raises RequestError for anything else."""
    found: dict[NodeClass, int] = {}
    for text in given:
        match = re.fullmatch(r"(?:(serving|training)=)?([+-][0-9]{1,6})", text)
        if match is None:
            raise RequestError(f"{text!r} is no change of nodes", where="--nodes", fix="Write +64 or serving=-8")
        found[NodeClass(match[1] or NodeClass.TRAINING)] = int(match[2])
    return found


def _name(policy: Path | None, nodes: Iterable[str] | None, put: Iterable[str] | None) -> str:
    """Return what a run is called by what is different in it."""
    stem = [] if policy is None else [policy.stem]
    return ", ".join([*stem, *(put or ()), *(f"{text} nodes" for text in nodes or ())])


def _left_over(run: Loaded, policy: PolicyFile) -> list[str]:
    """Return that GPUs are nobody's, where more nodes are there than the policy gives to teams."""
    gpus = sum(node.capacity.gpus for node in run.scenario.nodes)
    given = sum(nominal_gpus(entry.team) for entry in entries_of(policy) if entry.is_team)
    if gpus <= given:
        return []
    return [f"{gpus - given} of {gpus} GPUs are no team's nominal: whoever is to have them needs it in the policy"]
