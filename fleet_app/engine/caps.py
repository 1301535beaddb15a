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
        self._leaving: dict[tuple[str, str], int] = defaultdict(int)
        self.kept: list[tuple[Workload, str]] = []
        """Who waits, and of which accelerator it keeps what comes free from whom it lets not pass (O4)."""

    def seat(self, team: str, nodes: Iterable[str], shape: Shape) -> None:
        """Count the whole GPUs of one bundle on each of some nodes."""
        for name in nodes:
            for cap in self._of_node(team, name):
                self._used[cap] += shape.gpus

    def leave(self, team: str, seats: Iterable[tuple[str, Shape]]) -> None:
        """Count what a team has on some nodes among what is leaving; until it has left the team has it."""
        for name, shape in seats:
            for cap in self._of_node(team, name):
                self._leaving[cap] += shape.gpus

    def keep(self, workload: Workload, accelerator: str) -> None:
        """Keep for one that waits what comes free of an accelerator, once (O4)."""
        if all(one.name != workload.name for one, _ in self.kept):
            self.kept.append((workload, accelerator.lower()))

    def left(self, team: str, accelerator: str, ahead: Iterable[Workload] = ()) -> int | None:
        """Return how many more GPUs of an accelerator the team may have beside those who are ahead.

        None without a cap, negative above it.
        """
        of = self._of(team, accelerator)
        if not of:
            return None
        kept = self._asked(ahead)
        return min(self._limits[cap] - self._used[cap] - kept[cap[0]] for cap in of)

    def most(self, team: str, accelerator: str) -> int | None:
        """Return the most GPUs of an accelerator that the team could ever have; None without a cap."""
        return min((self._limits[cap] for cap in self._of(team, accelerator)), default=None)

    def limits(self, team: str, accelerator: str) -> dict[str, int]:
        """Return by entry the most GPUs of an accelerator that it may have, of the capped ones a team counts for."""
        return {cap[0]: self._limits[cap] for cap in self._of(team, accelerator)}

    def short(self, team: str, accelerator: str, gpus: int, ahead: Iterable[Workload] = ()) -> dict[str, int]:
        """Return by entry how many GPUs too few its cap leaves for so many more, once all that leaves has left."""
        kept = self._asked(ahead)
        soon = {cap: self._used[cap] - self._leaving[cap] + kept[cap[0]] for cap in self._of(team, accelerator)}
        lacks = {cap[0]: used + gpus - self._limits[cap] for cap, used in soon.items()}
        return {entry: missing for entry, missing in lacks.items() if missing > 0}

    def gpus(self, one: Workload, accelerator: str) -> int:
        """Return how many whole GPUs of an accelerator a workload has."""
        kind = accelerator.lower()
        here = ((self._nodes.get(name), shape.gpus) for name, shape in one.seats)
        return sum(gpus for node, gpus in here if node is not None and node.accelerator.lower() == kind)

    def above(self, team: str) -> tuple[str, ...]:
        """Return the entries that a team's GPUs count for, its own first."""
        return self._path(team)

    def _asked(self, ahead: Iterable[Workload]) -> dict[str, int]:
        """Return by entry the GPUs that some ask for."""
        found: dict[str, int] = defaultdict(int)
        for one in ahead:
            for entry in self._path(one.team):
                found[entry] += one.gpus
        return found

    def _of_node(self, team: str, name: str) -> list[tuple[str, str]]:
        node = self._nodes.get(name)
        return [] if node is None else self._of(team, node.accelerator)

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
