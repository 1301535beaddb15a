"""How many whole GPUs of one accelerator each entry of the quota tree may have: rule V9.

A cap stands beside all other numbers: it is not lent, and what it counts is charged to the plain numbers too. Knows
entries, accelerators and counts. Does not know nodes, priorities or who asks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from fleet_app.engine.flavors import WHOLE, whole_of
from fleet_app.engine.policy import Quota
from fleet_app.engine.quota import QuotaTree
from fleet_app.engine.values import Node, Shape
from fleet_app.engine.workload import Service, Workload


class Caps:
    """The caps of a fleet, and what is used of each so far."""

    def __init__(self, tree: QuotaTree, nodes: Mapping[str, Node], quotas: Iterable[Quota]) -> None:
        """Start with nothing used."""
        self._tree = tree
        self._nodes = nodes
        self._limits = {
            (entry.name, accelerator): own.nominal
            for entry in quotas
            for own in entry.flavors
            if (accelerator := whole_of(own.flavor))
        }
        self._used: dict[tuple[str, str], int] = defaultdict(int)

    def seat(self, team: str, nodes: Iterable[str], shape: Shape) -> None:
        """Count the whole GPUs of one bundle on each of some nodes."""
        for name in nodes:
            node = self._nodes.get(name)
            if node is not None:
                self.take(team, node.accelerator, shape.gpus)

    def take(self, team: str, accelerator: str, gpus: int) -> None:
        """Count GPUs that a team has, or that are kept for it, from now on; fewer than none are given back."""
        for cap in self._of(team, accelerator):
            self._used[cap] += gpus

    def left(self, team: str, accelerator: str) -> int | None:
        """Return how many more GPUs of an accelerator the team may have; None without a cap, negative above it."""
        return min((self._limits[cap] - self._used[cap] for cap in self._of(team, accelerator)), default=None)

    def most(self, team: str, accelerator: str) -> int | None:
        """Return the most GPUs of an accelerator that the team could ever have; None without a cap."""
        return min((self._limits[cap] for cap in self._of(team, accelerator)), default=None)

    def allows(self, team: str, accelerator: str, gpus: int) -> bool:
        """Return whether the team may have so many more GPUs of an accelerator."""
        left = self.left(team, accelerator) if gpus else None
        return left is None or left >= gpus

    def short(self, team: str, accelerator: str, gpus: int) -> dict[str, int]:
        """Return by entry how many GPUs too few its cap leaves for so many more; below one where it leaves enough."""
        return {cap[0]: self._used[cap] + gpus - self._limits[cap] for cap in self._of(team, accelerator)}

    def above(self, team: str) -> tuple[str, ...]:
        """Return the entries that a team's GPUs count for, its own first."""
        return self._path(team)

    def _of(self, team: str, accelerator: str) -> list[tuple[str, str]]:
        one = accelerator.lower()
        return [(name, one) for name in self._path(team) if (name, one) in self._limits]

    def _path(self, team: str) -> tuple[str, ...]:
        return self._tree.paths.get(team, (team,))


def caps_of(
    tree: QuotaTree, nodes: Mapping[str, Node], holding: Iterable[Workload], services: Iterable[Service]
) -> Caps | None:
    """Return the caps of a policy with all that is used of them; None where it has none, so that they cost nothing."""
    entries = [entry for entry in tree.entries.values() if entry.flavors]
    if not any(whole_of(own.flavor) for entry in entries for own in entry.flavors):
        return None
    caps = Caps(tree, nodes, entries)
    for workload in holding:
        for name, shape in workload.seats:
            caps.seat(workload.team, (name,), shape)
    for service in services:
        caps.seat(service.team, (grant.node for grant in service.grants), service.shape)
    return caps


def flavor(accelerator: str) -> str:
    """Return the flavor of whole GPUs of an accelerator."""
    return f"{accelerator.lower()}-{WHOLE}"
