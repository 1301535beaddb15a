"""Who had how much, over time: GPU-seconds by class of nodes and by team, a record of each at the end of every span.

Watches the fleet: costs what changes. What a class has adds up to its nodes' GPUs, what a team has to its nominal
(I10). Does not know events or decisions; holds are told to it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fleet_app.engine.lifecycle import LEAVING
from fleet_app.engine.ordering import class_of
from fleet_app.engine.plan import Hold
from fleet_app.engine.policy import Policy
from fleet_app.engine.values import Node, NodeClass
from fleet_app.engine.workload import Service, Workload, exchanged
from fleet_app.twin.record import ClassSpan, TeamSpan

ALLOCATED, DRAINING, HELD, DOWN, TOTAL, LENT = range(6)
Parts = list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """GPU-seconds since the span began: by class of nodes and part, and of each team its own, lent and borrowed."""

    began_at: float
    at: float
    classes: dict[NodeClass, tuple[float, ...]]
    teams: dict[str, tuple[float, float, float]]


@dataclass(slots=True)
class _Use:
    """One team: GPUs it uses, of how many that are its own, and its GPU-seconds in the span."""

    nominal: int
    cohort: str
    used: int = 0
    own_gpu_s: float = 0.0
    lent_gpu_s: float = 0.0
    borrowed_gpu_s: float = 0.0


class Meter:
    """GPUs in use now, and GPU-seconds since the span began."""

    def __init__(self, policy: Policy, now: float) -> None:
        """Begin a span now."""
        self._policy = policy
        self._began_at = self._at = now
        self._nodes: dict[str, Node] = {}
        self._busy: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()
        self._gpus: dict[NodeClass, list[int]] = {kind: [0] * 6 for kind in NodeClass}
        self._gpu_s: dict[NodeClass, Parts] = {kind: [0.0] * 6 for kind in NodeClass}
        self._teams = _teams(policy)
        self._borrowed = 0
        self._lending: list[tuple[_Use, float]] | None = None
        self._yields: dict[tuple[int, str], bool] = {}

    # What changes.

    def workload(self, old: Workload | None, new: Workload | None) -> None:
        """See a workload come, change or go."""
        before = () if old is None else old.nodes
        after = () if new is None else new.nodes
        if old is not None and new is not None and before == after and _place(old) == _place(new):
            return
        if old is not None and before:
            self._seat(old, -1)
        if new is not None and after:
            self._seat(new, 1)

    def service(self, old: Service | None, new: Service) -> None:
        """See what a service has come, change or go."""
        gone, come = exchanged(() if old is None else old.grants, new.grants)
        before = {grant.name: grant for grant in gone}
        gpus = new.shape.gpus
        self._use(new.team, gpus * (len(come) - len(gone)))
        for grant in come:
            known = before.pop(grant.name, None)
            if known is grant:
                continue
            if known is not None:
                self._count(known.node, ALLOCATED if known.occupied else HELD, -gpus)
            self._count(grant.node, ALLOCATED if grant.occupied else HELD, gpus)
        for grant in before.values():
            self._count(grant.node, ALLOCATED if grant.occupied else HELD, -gpus)

    def node(self, old: Node | None, new: Node) -> None:
        """See a node come, go or change its condition; what it has comes with it."""
        name = new.name
        if old is not None:
            self._gpus[old.node_class][TOTAL] -= old.capacity.gpus
            self._gpus[old.node_class][DOWN] -= old.foreign.gpus + (0 if _sound(old) else self._free(old))
            self._busy[name] -= old.foreign.gpus
        self._nodes[name] = new
        self._busy[name] += new.foreign.gpus
        self._gpus[new.node_class][TOTAL] += new.capacity.gpus
        self._gpus[new.node_class][DOWN] += new.foreign.gpus + (0 if _sound(new) else self._free(new))

    def _free(self, node: Node) -> int:
        return node.capacity.gpus - self._busy[node.name]

    def holds(self, holds: Iterable[Hold]) -> None:
        """See what is kept for somebody from now on, beside grants."""
        for name, gpus in self._kept.items():
            self._count(name, HELD, -gpus)
        self._kept.clear()
        for hold in holds:
            self._kept[hold.node] += hold.shape.gpus
            self._count(hold.node, HELD, hold.shape.gpus)

    def _seat(self, one: Workload, sign: int) -> None:
        part, gpus = _part(one), 0
        borrows = self._is_lent(one)
        for name, shape in one.seats:
            has = sign * shape.gpus
            gpus += has
            self._count(name, DRAINING if name in one.going else part, has)
            if borrows and self._class_of(name) is NodeClass.SERVING:
                self._gpus[NodeClass.SERVING][LENT] += has
        self._use(one.team, gpus)

    def _is_lent(self, one: Workload) -> bool:
        key = (one.priority, one.kind)
        if key not in self._yields:
            self._yields[key] = class_of(self._policy, one).yields
        return self._yields[key]

    def _class_of(self, name: str) -> NodeClass | None:
        node = self._nodes.get(name)
        return None if node is None else node.node_class

    def _count(self, name: str, part: int, gpus: int) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        counts = self._gpus[node.node_class]
        counts[part] += gpus
        self._busy[name] += gpus
        if not _sound(node):
            counts[DOWN] -= gpus

    def _use(self, name: str, gpus: int) -> None:
        team = self._teams.get(name)
        if team is None:
            team = self._teams[name] = _Use(nominal=0, cohort=name)
        before = max(0, team.used - team.nominal)
        team.used += gpus
        self._lending = None
        self._borrowed += max(0, team.used - team.nominal) - before

    def gpus(self, kind: NodeClass) -> tuple[int, ...]:
        """Return what a class of nodes has now, by part."""
        return tuple(self._gpus[kind])

    # What time makes of it.

    @property
    def so_far(self) -> Metered:
        """Return what was metered since the span began."""
        teams = {name: (one.own_gpu_s, one.lent_gpu_s, one.borrowed_gpu_s) for name, one in self._teams.items()}
        classes = {kind: tuple(gpu_s) for kind, gpu_s in self._gpu_s.items()}
        return Metered(began_at=self._began_at, at=self._at, classes=classes, teams=teams)

    def go_on(self, metered: Metered) -> None:
        """Go on from what was metered before."""
        self._began_at, self._at = metered.began_at, metered.at
        self._gpu_s = {kind: list(gpu_s) for kind, gpu_s in metered.classes.items()}
        for name, (own, lent, borrowed) in metered.teams.items():
            team = self._teams.setdefault(name, _Use(nominal=0, cohort=name))
            team.own_gpu_s, team.lent_gpu_s, team.borrowed_gpu_s = own, lent, borrowed

    def advance(self, now: float) -> None:
        """Let everybody have what they have until now."""
        seconds = now - self._at
        if seconds <= 0.0:
            return
        self._at = now
        for kind, gpus in self._gpus.items():
            gpu_s = self._gpu_s[kind]
            for part, has in enumerate(gpus):
                if has:
                    gpu_s[part] += has * seconds
        for team in self._teams.values():
            if team.used:
                own = min(team.used, team.nominal)
                team.own_gpu_s += own * seconds
                team.borrowed_gpu_s += (team.used - own) * seconds
        if self._borrowed:
            if self._lending is None:
                self._lending = self._lent()
            for team, gpus_lent in self._lending:
                team.lent_gpu_s += gpus_lent * seconds

    def _lent(self) -> list[tuple[_Use, float]]:
        """Return how much each team lends of what its cohort's borrowers have: in proportion to what it left unused."""
        borrowed: dict[str, int] = defaultdict(int)
        unused: dict[str, int] = defaultdict(int)
        for team in self._teams.values():
            borrowed[team.cohort] += max(0, team.used - team.nominal)
            unused[team.cohort] += max(0, team.nominal - team.used)
        found: list[tuple[_Use, float]] = []
        for team in self._teams.values():
            left = unused[team.cohort]
            if left:
                share = min(1.0, borrowed[team.cohort] / left)
                found.append((team, max(0, team.nominal - team.used) * share))
        return found

    def span(self, now: float) -> Iterator[ClassSpan | TeamSpan]:
        """Yield what everybody had since the span began, and begin the next one."""
        self.advance(now)
        for kind in NodeClass:
            yield self._class_span(kind)
            self._gpu_s[kind] = [0.0] * 6
        for name in sorted(self._teams):
            yield self._team_span(name)
        self._began_at = now

    def _class_span(self, kind: NodeClass) -> ClassSpan:
        allocated, draining, held, down, total, lent = self._gpu_s[kind]
        idle, stranded = self._idle(kind)
        return ClassSpan(
            began_at=self._began_at,
            at=self._at,
            node_class=kind,
            allocated_gpu_s=allocated,
            draining_gpu_s=draining,
            held_gpu_s=held,
            idle_gpu_s=total - allocated - draining - held - down,
            down_gpu_s=down,
            total_gpu_s=total,
            lent_gpu_s=lent,
            stranded_gpus=stranded,
            idle_gpus=idle,
        )

    def _idle(self, kind: NodeClass) -> tuple[int, int]:
        """Return how many GPUs are idle on the sound nodes of a class, and on those that are not wholly so (F1)."""
        idle = stranded = 0
        for node in self._nodes.values():
            if node.node_class is kind and _sound(node):
                free = self._free(node)
                idle += free
                stranded += free if self._busy[node.name] else 0
        return idle, stranded

    def _team_span(self, name: str) -> TeamSpan:
        team, seconds = self._teams[name], self._at - self._began_at
        nominal = team.nominal * seconds
        found = TeamSpan(
            began_at=self._began_at,
            at=self._at,
            team=name,
            nominal_gpu_s=nominal,
            own_gpu_s=team.own_gpu_s,
            lent_gpu_s=team.lent_gpu_s,
            unused_gpu_s=nominal - team.own_gpu_s - team.lent_gpu_s,
            borrowed_gpu_s=team.borrowed_gpu_s,
        )
        team.own_gpu_s = team.lent_gpu_s = team.borrowed_gpu_s = 0.0
        return found


def _place(one: Workload) -> tuple[int, tuple[str, ...]]:
    return _part(one), one.going


def _part(one: Workload) -> int:
    return DRAINING if one.killed or one.phase in LEAVING else ALLOCATED


def _sound(node: Node) -> bool:
    return node.placeable


def _teams(policy: Policy) -> dict[str, _Use]:
    """Return the entries that nobody is below, with the top of their cohort."""
    parents = {one.name: one.parent for one in policy.quotas}
    above = set(parents.values())

    def top(name: str) -> str:
        parent = parents.get(name)
        return top(parent) if parent is not None and parent in parents else name

    return {
        one.name: _Use(nominal=one.nominal_gpus, cohort=top(one.name)) for one in policy.quotas if one.name not in above
    }
