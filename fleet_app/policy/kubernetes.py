"""The policy's section `kubernetes`: what is published there, beyond what the rest of the policy says already.

The engine reads none of it. Does not know what is rendered from it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fleet_app.policy.section import Section
from fleet_app.policy.units import Cidr, Name

Port = Annotated[int, Field(strict=True, ge=1, le=65_535)]


class Egress(Section):
    """Somewhere outside that the fleet's pods may reach, and at which TCP ports: a store of checkpoints, a registry."""

    cidr: Cidr
    ports: Annotated[tuple[Port, ...], Field(min_length=1, max_length=20)] = (443,)


class Kubernetes(Section):
    """What admission and the network allow on Kubernetes.

    With `budgets: blocking` a disruption budget of gangs passes if it allows no eviction at all; with `none` none does.
    Pods that ask for GPUs of the fleet's nodes without being the fleet's are recorded (`strangers: audit`) or refused.
    Pods of the two classes reach one another only with `separate: false`; no workload has nodes of both. `clients`
    names the namespaces whose pods may reach Serve and the gateway, which left out anybody may.
    """

    budgets: Literal["none", "blocking"] = "none"
    strangers: Literal["audit", "refuse"] = "audit"
    separate: Annotated[bool, Field(strict=True)] = True
    clients: tuple[Name, ...] | None = None
    egress: dict[Name, Egress] = Field(default_factory=dict)
