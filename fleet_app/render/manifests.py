"""Everything that is rendered from a policy, in parts that can be had one by one. Start reading here."""

from __future__ import annotations

from collections.abc import Collection

from fleet_app.engine.errors import RequestError
from fleet_app.policy.problems import closest
from fleet_app.policy.schema import PolicyFile
from fleet_app.render.admission import admission, anchor
from fleet_app.render.alerts import alerts
from fleet_app.render.kueue import kueue
from fleet_app.render.network import network
from fleet_app.render.objects import Object
from fleet_app.render.priorities import priorities
from fleet_app.render.site import Site

PARTS = {
    "priorityclasses": priorities,
    "admission": admission,
    "anchor": anchor,
    "network": network,
    "alerts": alerts,
    "kueue": kueue,
}

USUAL = ("priorityclasses", "admission", "anchor", "network", "alerts")
"""What a site has anyway; Kueue's objects are for those that run Kueue, and rendered when they are asked for."""


def render(site: Site, policy: PolicyFile, parts: Collection[str] = USUAL) -> list[Object]:
    """Return the objects of these parts. Raises RequestError for a part that there is not."""
    for part in parts:
        if part not in PARTS:
            raise RequestError(f"{part!r} is no part", where="--only", fix=closest(part, PARTS))
    return [each for name, objects in PARTS.items() if name in parts for each in objects(site, policy)]
