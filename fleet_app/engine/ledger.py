"""The books of one decision: what is free, what is coming free, who may be asked to leave, what quota is used.

The only thing in the engine that changes; it lives and dies inside one `decide`. Knows sums, not rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from fleet_app.engine import quota
from fleet_app.engine.ends import Start, leaves_by
from fleet_app.engine.ordering import class_of
from fleet_app.engine.plan import Hold
from fleet_app.engine.policy import Policy, PriorityClass
from fleet_app.engine.quota import QuotaTree
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import NOTHING, Node, Shape
from fleet_app.engine.workload import Workload


class Ledger:
    """Room and quota as the decision so far leaves them.

    `free` is room that is empty now; `coming` is room of workloads that are leaving. A claim takes from both:
    what it takes of `free` is held for the claimer until the rest has come.
    """

    def __init__(self, state: FleetState, policy: Policy, now: float) -> None:
        """Enter every fact of the state once; the order of its parts means nothing."""
        self.policy = policy
        self.now = now
        self.nodes = {node.name: node for node in sorted(state.nodes, key=lambda n: (n.domains, n.name))}
        self.tree = QuotaTree.build(policy.quotas)
        self.workloads = {workload.name: workload for workload in sorted(state.workloads, key=lambda w: w.name)}
        self.free = {name: node.capacity - node.foreign for name, node in self.nodes.items()}
        self.coming: dict[str, Shape] = {}
        self.leavers: dict[str, list[tuple[float, Shape]]] = defaultdict(list)
        self.lodgers: dict[str, list[Workload]] = defaultdict(list)
        self.replicas: dict[str, int] = defaultdict(int)
        self.used: dict[str, int] = {}
        self.used_soon: dict[str, int] = {}
        self.firm: dict[str, int] = defaultdict(int)
        self.booked: dict[str, list[Workload]] = defaultdict(list)
        self.reserved: dict[str, Workload] = {}
        self.starts: dict[str, Start] = {}
        self.limited: list[Workload] = []
        self.leaving: set[str] = set()
        self.holds: list[Hold] = []
        self.eligible: dict[object, list[Node]] = {}
        self.most_ever: dict[object, int] = {}
        self._classes: dict[tuple[int, str], PriorityClass] = {}
        for workload in self.workloads.values():
            if workload.holding:
                self._enter(workload)
        for service in sorted(state.services, key=lambda s: s.name):
            for grant in service.grants:
                self.give(service.team, (grant.node,), service.shape, firm=True)
                self.replicas[grant.node] += 1

    def class_of(self, workload: Workload) -> PriorityClass:
        """Return the workload's priority class."""
        key = (workload.priority, workload.kind)
        if key not in self._classes:
            self._classes[key] = class_of(self.policy, workload)
        return self._classes[key]

    def give(self, team: str, nodes: Iterable[str], shape: Shape, *, firm: bool) -> None:
        """Take one bundle's room on each node, and the quota for all of them, from now on."""
        gpus = 0
        for node in nodes:
            gpus += shape.gpus
            if node in self.free:
                self.free[node] -= shape
        self._charge(team, gpus, firm=firm)

    def claim(self, claimer: str, team: str, nodes: Sequence[str], shape: Shape) -> None:
        """Keep room for who cannot start yet: what is free now is held, the rest taken from what is coming.

        Its quota is taken from what will be used: until it starts, others may use what will be left.
        """
        for node in nodes:
            held = _smaller(self.free[node], shape)
            self.free[node] -= held
            self.coming[node] = self.coming.get(node, NOTHING) - (shape - held)
            if not held.is_nothing():
                self.holds.append(Hold(node=node, beneficiary=claimer, shape=held))
        quota.charge(self.tree, self.used_soon, team, shape.gpus * len(nodes))
        self.firm[team] += shape.gpus * len(nodes)

    def release_soon(self, leaver: Workload) -> None:
        """Count a workload that was just asked to leave among what is coming free."""
        self.leaving.add(leaver.name)
        gone_at = leaves_by(self.policy.drain, leaver, self.now)
        for node in leaver.nodes:
            self.leavers[node].append((gone_at, leaver.shape))
            self.coming[node] = self.coming.get(node, NOTHING) + leaver.shape
            self.lodgers[node] = [lodger for lodger in self.lodgers[node] if lodger.name != leaver.name]
        quota.charge(self.tree, self.used_soon, leaver.team, -leaver.shape.gpus * len(leaver.nodes))

    def take_back(self, team: str, node: str, shape: Shape) -> None:
        """Count an idle grant that was just taken back among what is coming free."""
        self.coming[node] = self.coming.get(node, NOTHING) + shape
        self.replicas[node] -= 1
        self.firm[team] -= shape.gpus
        quota.charge(self.tree, self.used_soon, team, -shape.gpus)

    def soon(self, node: str) -> Shape:
        """Return the room on a node once everything that is leaving has left."""
        coming = self.coming.get(node)
        return self.free[node] if coming is None else self.free[node] + coming

    def ready_at(self, node: str, shape: Shape) -> float:
        """Return when enough of what is leaving a node has left it for the shape to fit, in seconds."""
        if shape.fits(self.free[node]):
            return self.now
        room = self.soon(node)
        for gone_at, leavers in sorted(self.leavers.get(node, ()), key=lambda one: one[0], reverse=True):
            if not shape.fits(room - leavers):
                return gone_at
            room -= leavers
        return self.now

    def available(self, team: str) -> int:
        """Return how many more GPUs the team may take now, and leave to others what is kept for them."""
        return min(quota.available(self.tree, self.used, team), self.available_soon(team))

    def available_soon(self, team: str) -> int:
        """Return how many more GPUs the team may take once everything that is leaving has left."""
        return quota.available(self.tree, self.used_soon, team)

    def lodging(self, nodes: Iterable[str]) -> list[Workload]:
        """Return who on the nodes may be asked to leave and was not yet, by name."""
        found = {lodger.name: lodger for node in nodes for lodger in self.lodgers.get(node, ())}
        return [found[name] for name in sorted(found)]

    def firm_left(self, team: str) -> int:
        """Return how much of the team's nominal is not yet taken by work that never yields."""
        return self.tree.nominal(team) - self.firm.get(team, 0)

    def firm_left_behind(self, team: str) -> int:
        """Return what is left of the team's nominal behind those that wait for it already."""
        return self.firm_left(team) - sum(workload.gpus for workload in self.booked.get(team, ()))

    def borrowed(self, team: str) -> int:
        """Return how many GPUs the team borrows, once everything that is leaving has left."""
        return quota.above_nominal(self.tree, self.used_soon, team)

    def lost_gpu_s(self, victim: Workload) -> float:
        """Return the GPU-seconds that a drain now would cost: unsaved work and a restart, on every GPU it has."""
        since = victim.saved_at if victim.saved_at is not None else victim.started_at
        unsaved = 0.0 if since is None else max(0.0, self.now - since)
        return victim.gpus * (unsaved + self.policy.drain.restart_cost_s)

    def placeable(self) -> list[Node]:
        """Return the nodes that may take new work, in the order of the fabric."""
        return [node for node in self.nodes.values() if node.placeable]

    def _enter(self, workload: Workload) -> None:
        yields = self.class_of(workload).yields
        self.give(workload.team, workload.nodes, workload.shape, firm=not yields)
        if workload.max_run_s is not None:
            self.limited.append(workload)
        for node in workload.nodes:
            if yields and not workload.leaving:
                self.lodgers[node].append(workload)
        if workload.leaving:
            self.release_soon(workload)

    def _charge(self, team: str, gpus: int, *, firm: bool) -> None:
        quota.charge(self.tree, self.used, team, gpus)
        quota.charge(self.tree, self.used_soon, team, gpus)
        if firm:
            self.firm[team] += gpus


def _smaller(room: Shape, shape: Shape) -> Shape:
    return Shape(
        gpus=max(0, min(room.gpus, shape.gpus)),
        cpu_milli=max(0, min(room.cpu_milli, shape.cpu_milli)),
        memory_mib=max(0, min(room.memory_mib, shape.memory_mib)),
    )
