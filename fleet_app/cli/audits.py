"""`fleet audit`: what in a cluster, or in manifests, breaks the rules that admission keeps."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from fleet_app.audit import sites
from fleet_app.audit.documents import parse
from fleet_app.audit.judge import Bench
from fleet_app.audit.relations import audit as ask
from fleet_app.audit.sarif import sarif as in_sarif
from fleet_app.audit.things import Finding, Thing
from fleet_app.cli import show, tables
from fleet_app.cli.options import Json
from fleet_app.engine.errors import RequestError
from fleet_app.policy.load import load_policy
from fleet_app.policy.schema import PolicyFile
from fleet_app.render.admission import guards
from fleet_app.render.guards import Guard
from fleet_app.render.site import Site

STDIN = Path("-")
NO_POLICY = {"version": 1, "name": "none", "organisations": {"none": {}}}
"""What is asked by rests on what a policy leaves out, where none is given."""

Manifests = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE]...", help="Manifests (YAML or JSON), - for stdin; none: a cluster.", show_default=False
    ),
]
Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="How to reach the cluster; default: kubectl's.")]
Context = Annotated[str | None, typer.Option("--context", help="Of the kubeconfig; default: its current one.")]
PolicyFileOption = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="The policy that applies; default: what one leaves out.")
]
ClusterName = Annotated[
    str | None,
    typer.Option("--cluster", metavar="NAME", help="The fleet's RayCluster; default: the one that is there."),
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The fleet's namespace; default: the cluster's.")
]
Sarif = Annotated[
    Path | None, typer.Option("--sarif", metavar="FILE", help="Write SARIF 2.1.0 here too; - for stdout.")
]


def audit(
    files: Manifests = None,
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    policy: PolicyFileOption = None,
    cluster: ClusterName = None,
    namespace: Namespace = None,
    sarif: Sarif = None,
    as_json: Json = False,
) -> None:
    """Find what breaks the rules for gangs on Kubernetes.

    Asks what admission would ask (`fleet policy render`), of everything that exists in a cluster or is written in
    manifests; docs/audit.md has the rules. Exit code 1 when there are findings, 2 when something cannot be read.

    Examples:
      fleet audit
      fleet audit --context prod --policy policy.yaml --sarif findings.sarif
      helm template my-release charts/my-chart | fleet audit -
    """
    rules = load_policy(policy) if policy else PolicyFile.model_validate(NO_POLICY)
    things = _written(files) if files else _existing(kubeconfig, context, guards(Site(cluster=""), rules))
    site = sites.find(things, cluster, namespace)
    findings = ask(Bench(guards(site, rules)), things, site.namespace)
    if sarif is not None:
        _write(sarif, json.dumps(in_sarif(findings), indent=2) + "\n")
    if as_json:
        show.data({"looked_at": len(things), "findings": [asdict(each) for each in findings]})
    elif sarif != STDIN:
        _say(findings, len(things))
    if findings:
        raise typer.Exit(1)


def _written(files: Sequence[Path]) -> list[Thing]:
    """Return the objects in manifests."""
    return [thing for path in files for thing in parse(_read(path), "stdin" if path == STDIN else str(path))]


def _read(path: Path) -> str:
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        return data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise RequestError(f"cannot be read: {what}", where=str(path), fix="Give a readable file, or -") from error


def _existing(kubeconfig: Path | None, context: str | None, asked: Sequence[Guard]) -> list[Thing]:
    """Return the objects of a cluster that any guard would look at, and its nodes."""
    adapter = importlib.import_module("fleet_app.adapters.kube_objects")  # the client takes a second to import
    cluster = adapter.KubeObjects(kubeconfig, context)
    wanted = {
        adapter.Sort(group=target.group, version=target.versions[-1], resource=resource, kind=kind)
        for guard in asked
        for target in guard.targets
        for resource, kind in target.kinds.items()
        if "/" not in resource
    }
    with show.busy(f"reading {cluster.host}"):
        return [
            Thing(object=each, source=cluster.host)
            for sort in sorted(wanted, key=lambda sort: (sort.group, sort.resource))
            for each in cluster.list(sort)
        ]


def _say(findings: Sequence[Finding], looked_at: int) -> None:
    if findings:
        show.stdout().print(_table(findings))
    for message in dict.fromkeys(each.message for each in findings):
        show.hint(message)
    show.hint(f"{len(findings) or 'no'} finding{'' if len(findings) == 1 else 's'} in {looked_at} objects")


def _table(findings: Sequence[Finding]) -> Table:
    table = tables.empty("RULE", "KIND", "NAMESPACE", "NAME", "FOUND IN")
    for each in findings:
        place = each.source if each.line is None else f"{each.source}:{each.line}"
        named = (show.plain(text) for text in (each.kind, each.namespace, each.name, place))
        table.add_row(Text(each.rule, style="red" if each.refused else "yellow"), *named)
    return table


def _write(path: Path, text: str) -> None:
    if path == STDIN:
        show.raw(text)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RequestError(f"cannot be written: {error.strerror}", where=str(path), fix="Give --sarif FILE") from error
