"""The fleet as it stands: the facts that a decision is made of, kept by name, and who watches them change.

The only thing in the twin that changes and that the engine sees. Does not know time, chance or what happens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from fleet_app.engine import life
from fleet_app.engine.calendar import Booking
from fleet_app.engine.failures import Failure, Quarantined
from fleet_app.engine.forecast import History
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Crossing, Node
from fleet_app.engine.workload import Service, Workload
from fleet_app.twin import cutting

NOTHING_BESIDE = FleetState()
"""What there is beside nodes and workloads where training alone is there, and nothing breaks: asked for very often."""


class Watcher(Protocol):
    """Whoever keeps books of the fleet: told of each value that becomes another; None is no value."""

    def workload(self, old: Workload | None, new: Workload | None) -> None:
        """See a workload come, change or go."""

    def service(self, old: Service | None, new: Service) -> None:
        """See a service come or change."""

    def node(self, old: Node | None, new: Node) -> None:
        """See a node come or change."""


class Fleet:
    """Nodes, live workloads, services, and what is known beside them, by name."""

    def __init__(self, policy: Policy, nodes: Iterable[Node]) -> None:
        """Begin with nodes alone."""
        self.policy = policy
        self.nodes = {node.name: node for node in nodes}
        self.workloads: dict[str, Workload] = {}
        self.services: dict[str, Service] = {}
        self.failures: list[Failure] = []
        self.quarantines: dict[str, Quarantined] = {}
        self.bookings: dict[str, Booking] = {}
        self.crossings: dict[str, Crossing] = {}
        self.demand: History | None = None
        self.growth_gpus: int | None = None
        self.grants_made = 0
        self.has_cards = any(node.cards for node in self.nodes.values())
        self._watchers: list[Watcher] = []

    def watch(self, watcher: Watcher) -> None:
        """Tell somebody of everything there is, and of every change from now on."""
        self._watchers.append(watcher)
        for node in self.nodes.values():
            watcher.node(None, node)
        for workload in self.workloads.values():
            watcher.workload(None, workload)
        for service in self.services.values():
            watcher.service(None, service)

    def put(self, new: Workload) -> None:
        """Let a workload be as given."""
        old = self.workloads.get(new.name)
        self.workloads[new.name] = new
        for watcher in self._watchers:
            watcher.workload(old, new)

    def drop(self, name: str) -> None:
        """Let a workload be gone: it has ended."""
        old = self.workloads.pop(name)
        for watcher in self._watchers:
            watcher.workload(old, None)

    def put_service(self, new: Service) -> None:
        """Let a service be as given."""
        old = self.services.get(new.name)
        self.services[new.name] = new
        for watcher in self._watchers:
            watcher.service(old, new)

    def put_node(self, new: Node) -> None:
        """Let a node be as given."""
        old = self.nodes.get(new.name)
        self.nodes[new.name] = new
        for watcher in self._watchers:
            watcher.node(old, new)

    def note_idle_cards(self, now: float) -> bool:
        """Note since when nothing has been on each card that is cut or shared; return whether that began now."""
        nodes = list(self.nodes.values())
        found = cutting.idled(nodes, self.workloads.values(), self.services.values(), now)
        for old, new in zip(nodes, found, strict=True):
            if old != new:
                self.put_node(new)
        return any(card.idle_since == now for node in found for card in node.cards)

    def beside(self) -> FleetState:
        """Return all that a decision is made of but nodes and workloads, of which whoever watches knows."""
        forecast = self.demand is not None or self.growth_gpus is not None
        if not (forecast or self.services or self.failures or self.quarantines or self.bookings or self.crossings):
            return NOTHING_BESIDE
        return FleetState(
            services=tuple(self.services.values()),
            failures=tuple(self.failures),
            quarantines=tuple(self.quarantines.values()),
            bookings=tuple(self.bookings.values()),
            demand=self.demand,
            growth_gpus=self.growth_gpus,
            crossings=tuple(self.crossings.values()),
        )

    def state(self) -> FleetState:
        """Return all that a decision is made of."""
        nodes: Iterable[Node] = self.nodes.values()
        if self.has_cards:
            nodes = cutting.busy(nodes, self.workloads.values(), self.services.values())
        if self.crossings:
            nodes = [life.as_it_crosses(node, self.crossings.values()) for node in nodes]
        return replace(self.beside(), nodes=tuple(nodes), workloads=tuple(self.workloads.values()))
