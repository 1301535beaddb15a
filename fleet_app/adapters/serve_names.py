"""How Serve names the placement group that it makes for a replica: the replica's own full id.

The one module that spells it, without importing Serve: that is too much for the arbiter's process. A test holds it
against Serve's own. Does not know which services are the fleet's.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet_app.worker.contract import service_name

PREFIX = "SERVE_REPLICA::"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A replica by its full id, and what the fleet calls its deployment."""

    name: str
    service: str


def replica_of(group_name: str) -> Replica | None:
    """Return the replica whose group bears a name; None when the name is no replica's."""
    if not group_name.startswith(PREFIX):
        return None
    parts = group_name.removeprefix(PREFIX).split("#")
    if len(parts) not in (2, 3):
        return None
    app, deployment, _ = ("", *parts)[-3:]
    return Replica(name=group_name, service=service_name(app, deployment))
