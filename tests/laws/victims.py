"""Victims by brute force: every set of those who may be asked, judged from the facts.

Slow and plain on purpose; the engine's own search is held to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from fleet_app.engine.ordering import class_of
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.trial import Asker
from fleet_app.engine.values import Node, Shape
from fleet_app.engine.workload import Workload
from tests.laws.reference import enlarges_nothing, together, told_to_end

Cost = tuple[int, float, int, int, float, tuple[str, ...]]


class BruteForce:
    """All sets of victims for one asker on the nodes where it may run."""

    def __init__(
        self,
        state: FleetState,
        policy: Policy,
        now: float,
        asker: Asker,
        nodes: Sequence[Node],
        *,
        whole: bool = False,
    ) -> None:
        """With `whole` elastic workloads leave as a whole only, else by members only as long as they can spare any."""
        self.state, self.policy, self.now, self.asker, self.nodes = state, policy, now, asker, nodes
        self.names = {node.name for node in nodes}
        self.nominal = Counter({quota.name: quota.nominal_gpus for quota in policy.quotas})
        stay = [one for one in state.workloads if one.holding and not told_to_end(one)]
        self.stay = [part for one in stay for part in parts_of(one, whole=whole)]
        self.spare = {one.name: len(one.nodes) - len(one.going) - (one.minimum or 0) for one in stay}
        self.use = Counter()
        for one in self.stay:
            self.use[one.team] += one.gpus
        for service in state.services:
            self.use[service.team] += len(service.grants) * service.shape.gpus

    def with_wholes(self) -> BruteForce:
        """Return the same question where elastic workloads leave as a whole."""
        return BruteForce(self.state, self.policy, self.now, self.asker, self.nodes, whole=True)

    def able(self) -> list[Workload]:
        """Return who may be asked at all: lower, yielding, and there or a borrower."""
        return [
            one
            for one in self.stay
            if class_of(self.policy, one).yields and one.priority < self.asker.priority and self.may_go([one])
        ]

    def may_go(self, victims: Sequence[Workload]) -> bool:
        """Return whether other teams lose no more than they borrow; on serving's own nodes all may be asked (R2).

        And whether every elastic workload keeps its minimum (R8).
        """
        members = Counter(parent_of(one) for one in victims if parent_of(one))
        if any(count > self.spare[parent] for parent, count in members.items()):
            return False
        for team in {one.team for one in victims}:
            theirs = [one for one in victims if one.team == team]
            bound = [one for one in theirs if not self._free_to_ask(one)]
            if bound:
                rest = self.use[team] - sum(one.gpus for one in theirs) + max(one.gpus for one in bound)
                if rest <= self.nominal[team]:
                    return False
        return True

    def enough(self, victims: Sequence[Workload]) -> bool:
        """Return whether all bundles fit in one domain, inside the limits, once these have left."""
        gone = {one.name for one in victims}
        room = {node.name: node.capacity - node.foreign for node in self.nodes}
        for one in self.stay:
            if one.name not in gone and parent_of(one) not in gone:
                self._take(room, one.seats)
        for service in self.state.services:
            self._take(room, [(grant.node, service.shape) for grant in service.grants])
        if self.asker.sought is not None:
            return self._fits_together(room) and self._allowed(victims)
        depth = self.asker.depth
        count = Counter(
            (node.accelerator, node.driver, node.domains[:depth])
            for node in self.nodes
            if len(node.domains) >= depth and self.asker.shape.fits(room[node.name])
        )
        return max(count.values(), default=0) >= self.asker.bundles and self._allowed(victims)

    def cost(self, victims: Sequence[Workload]) -> Cost:
        """Return R3's order of sets, in words of the facts."""
        restart_s = self.policy.drain.restart_cost_s
        lost = 0.0
        for one in sorted(victims, key=lambda one: one.name):
            since = one.started_at if one.saved_at is None else one.saved_at
            lost += one.gpus * ((0.0 if since is None else max(0.0, self.now - since)) + restart_s)
        return (
            max((one.priority for one in victims), default=-1),
            lost,
            -sum(max(0, self.use[team] - self.nominal[team]) for team in {one.team for one in victims}),
            sum(one.gpus for one in victims),
            -max((one.admitted_at or 0.0 for one in victims), default=0.0),
            tuple(sorted(one.name for one in victims)),
        )

    def sets(self) -> Iterator[tuple[Workload, ...]]:
        """Yield every set that may go and is enough, and of which nobody can be spared."""
        able = self.able()
        found: list[set[str]] = []
        for size in range(len(able) + 1):
            for victims in combinations(able, size):
                names = {one.name for one in victims}
                if not any(known < names for known in found) and self.enough(victims):
                    found.append(names)
                    if self.may_go(victims):
                        yield victims

    def _free_to_ask(self, one: Workload) -> bool:
        passed = one.admitted_at is not None and one.admitted_at > self.asker.since
        here = not self.names.isdisjoint(one.nodes)
        return one.team == self.asker.team or (here and (self.asker.anyone or passed))

    def _fits_together(self, room: dict[str, Shape]) -> bool:
        """Return whether the groups fit in one domain, tried bundle by bundle (P7)."""
        sought, depth = self.asker.sought, self.asker.depth
        shapes = [group.shape for group in sought.groups for _ in range(group.bundles)]
        deep = [node for node in self.nodes if len(node.domains) >= depth]
        kinds = {(node.accelerator, node.driver) for node in deep if sought.accelerator in {None, node.accelerator}}
        for part in {node.domains[:depth] for node in deep}:
            here = [node for node in deep if node.domains[:depth] == part]
            for kind in kinds or {("", "")}:
                options = [
                    {
                        node.name
                        for node in here
                        if (not shape.gpus or (node.accelerator, node.driver) == kind) and shape.fits(room[node.name])
                    }
                    for shape in shapes
                ]
                if together(options, set()):
                    return True
        return False

    def _take(self, room: dict[str, Shape], seats: Iterable[tuple[str, Shape]]) -> None:
        for name, shape in seats:
            if name in room:
                room[name] -= shape

    def _allowed(self, victims: Sequence[Workload]) -> bool:
        use = self.use.copy()
        for one in victims:
            use[one.team] -= one.gpus
        return enlarges_nothing(self.policy, use, self.asker.team, self.asker.gpus)


def parts_of(one: Workload, *, whole: bool) -> list[Workload]:
    """Return who may leave of a workload by itself: of an elastic one its members, where it can spare any."""
    stay = [node for node in one.nodes if node not in one.going]
    if one.minimum is None:
        return [one]
    if whole or len(stay) <= one.minimum:
        return [replace(one, nodes=tuple(stay), going=())]
    return [replace(one, name=f"{one.name}/{node}", nodes=(node,), bundles=1, minimum=None, going=()) for node in stay]


def parent_of(member: Workload) -> str:
    """Return the name of the workload that somebody is a member of; nothing for who is nobody's."""
    return member.name.rpartition("/")[0]
