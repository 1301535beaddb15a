"""One observation of the whole fleet, the input of a decision.

A value: nothing in it changes, and the order of its parts means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet_app.engine.calendar import Booking
from fleet_app.engine.failures import Failure, Quarantined
from fleet_app.engine.forecast import History
from fleet_app.engine.telemetry import Usage
from fleet_app.engine.values import Crossing, Departure, Node
from fleet_app.engine.workload import Service, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetState:
    """Nodes, workloads that have not ended, services; what went wrong, is kept out, is booked, is really used.

    A booking that is over stays as long as anything of its team that began in it still has one of its nodes (C7).
    `demand` is what services wanted so far, in GPUs; None where nobody wrote it down.
    `crossings` are the nodes whose class changes or has changed; the nodes themselves are as that makes them.
    `departures` are the nodes that go away, of their own or at somebody's wish (N1, N2).
    `growth_gpus` is how much more services may want within a start-up, at the policy's quantile; None when unknown.
    """

    nodes: tuple[Node, ...] = ()
    workloads: tuple[Workload, ...] = ()
    services: tuple[Service, ...] = ()
    failures: tuple[Failure, ...] = ()
    quarantines: tuple[Quarantined, ...] = ()
    bookings: tuple[Booking, ...] = ()
    demand: History | None = None
    growth_gpus: int | None = None
    crossings: tuple[Crossing, ...] = ()
    departures: tuple[Departure, ...] = ()
    usage: tuple[Usage, ...] = ()
