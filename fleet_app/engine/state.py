"""One observation of the whole fleet, the input of a decision.

A value: nothing in it changes, and the order of its parts means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet_app.engine.calendar import Booking
from fleet_app.engine.failures import Failure, Quarantined
from fleet_app.engine.telemetry import Usage
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Service, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetState:
    """Nodes, workloads that have not ended, services; what went wrong, is kept out, is booked, is really used."""

    nodes: tuple[Node, ...] = ()
    workloads: tuple[Workload, ...] = ()
    services: tuple[Service, ...] = ()
    failures: tuple[Failure, ...] = ()
    quarantines: tuple[Quarantined, ...] = ()
    bookings: tuple[Booking, ...] = ()
    usage: tuple[Usage, ...] = ()
