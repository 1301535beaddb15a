"""`fleet policy render`: the policy as Kubernetes objects. Needs no fleet and no cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from fleet_app.cli import show
from fleet_app.cli.options import Json, PolicyPath
from fleet_app.policy.load import load_policy
from fleet_app.render.manifests import PARTS, USUAL, render
from fleet_app.render.objects import dump
from fleet_app.render.site import NAMESPACE, site_of

Namespace = Annotated[str, typer.Option("--namespace", "-n", metavar="NAME", help="The fleet's namespace.")]
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="The chart's release; default: the policy's name.")
]
Only = Annotated[
    str | None,
    typer.Option("--only", metavar="PART,...", help=f"Of {', '.join(PARTS)}; default: {', '.join(USUAL)}."),
]


def render_policy(
    file: PolicyPath,
    *,
    only: Only = None,
    namespace: Namespace = NAMESPACE,
    cluster: Cluster = None,
    as_json: Json = False,
) -> None:
    """Print what a policy says to Kubernetes, for `kubectl apply --server-side -f -`.

    The same policy gives the same text. Kueue's objects are for sites that run Kueue: ask for them with --only.

    Examples:
      fleet policy render policy.yaml | kubectl apply --server-side -f -
      fleet policy render policy.yaml --only kueue --namespace ml --cluster prod
    """
    policy = load_policy(file)
    parts = USUAL if only is None else tuple(part.strip() for part in only.split(","))
    objects = render(site_of(policy, cluster, namespace), policy, parts)
    if as_json:
        show.data({"apiVersion": "v1", "kind": "List", "items": objects})
    else:
        show.raw(dump(objects))
