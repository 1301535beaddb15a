"""The books of one decision: what is free, what is coming free, who may be asked to leave, what quota is used.

The only thing in the engine that changes; it lives and dies inside one `decide`. Knows sums, not rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from fleet_app.engine import quota
from fleet_app.engine.booked import Booked
from fleet_app.engine.caps import caps_of
from fleet_app.engine.crossings import shifted
from fleet_app.engine.ends import Limited, Start, leaves_by, limited
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.lodgers import Lodgers, as_one
from fleet_app.engine.members import Members, member_of
from fleet_app.engine.memo import Memo
from fleet_app.engine.ordering import class_of
from fleet_app.engine.plan import Hold
from fleet_app.engine.policy import Policy, PriorityClass
from fleet_app.engine.quota import QuotaTree
from fleet_app.engine.state import FleetState
from fleet_app.engine.transfers import quotas_at
from fleet_app.engine.values import NOTHING, Condition, Node, Shape, left_of, smaller
from fleet_app.engine.workload import Workload


@dataclass(slots=True)
class Known:
    """Answers that the books have given already, until what they rest on changes."""

    classes: dict[tuple[int, str], PriorityClass] = field(default_factory=dict)
    lost_gpu_s: dict[str, float] = field(default_factory=dict)
    lodgers: dict[str, Lodgers] = field(default_factory=dict)
    borrowed: dict[str, int] = field(default_factory=dict)
    available: dict[str, int] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)
    alike: list[tuple[Node, int]] = field(default_factory=list)


class Ledger:
    """Room and quota as the decision so far leaves them.

    `free` is room that is empty now; `coming` is room of workloads that are leaving. A claim takes from both:
    what it takes of `free` is held for the claimer until the rest has come. `empty` is the room there would be if
    all work of the fleet had ended. `most_gpus` are the GPUs on each node once everything that is leaving and everybody
    who may be asked has left. `waiting` are the workloads that wait, in no order; `holding` those that have nodes, by
    name; `limited` those of them that declared a maximum run time, by when it is over. `changed` are the nodes whose
    room or lodgers changed, in the order of the changes: whoever keeps an index reads on in it. `calendar` is what is
    booked, `caps` are numbers by accelerator (V9); None in a fleet without any.
    """

    def __init__(self, state: FleetState, policy: Policy, now: float) -> None:
        """Enter every fact of the state once; the order of its parts means nothing."""
        self.policy = shifted(policy, state.crossings) if state.crossings else policy
        self.now = now
        self.nodes = {node.name: node for node in sorted(state.nodes, key=attrgetter("domains", "name"))}
        for quarantined in state.quarantines:
            if quarantined.binds(now):
                self.keep_out(quarantined.node)
        self.tree = QuotaTree.build(quotas_at(self.policy, state.bookings, now))
        self.waiting, self.holding = _by_phase(state.workloads)
        self.free = {
            name: node.capacity if node.foreign is NOTHING else node.capacity - node.foreign
            for name, node in self.nodes.items()
        }
        self.empty = dict(self.free)
        self.most_gpus: dict[str, int] = {}
        self.coming: dict[str, Shape] = {}
        self.leavers: dict[str, list[tuple[float, Shape]]] = defaultdict(list)
        self.lodgers: dict[str, list[Workload]] = defaultdict(list)
        self.replicas: dict[str, int] = defaultdict(int)
        self.used: dict[str, int] = {}
        self.firm: dict[str, int] = defaultdict(int)
        self.booked: dict[str, list[Workload]] = defaultdict(list)
        self.reserved: dict[str, Workload] = {}
        self.starts: dict[str, Start] = {}
        self.limited: list[Limited] = []
        self.leaving: set[str] = set()
        self.going: list[Workload] = []
        self.holds: list[Hold] = []
        self.changed: list[str] = []
        self.members, self.memo = Members(), Memo()
        self.calendar = Booked(state.bookings, self.policy, now, self.empty) if state.bookings else None
        self._known = Known()
        self.caps = caps_of(self.tree, self.nodes, self.holding, state.services)
        self._enter_all(state)

    def class_of(self, workload: Workload) -> PriorityClass:
        """Return the workload's priority class."""
        key = (workload.priority, workload.kind)
        known = self._known.classes.get(key)
        if known is None:
            known = self._known.classes[key] = class_of(self.policy, workload)
        return known

    def keep_out(self, name: str) -> None:
        """Place nothing new on a node from now on; one that takes nothing anyway stays as it is."""
        node = self.nodes.get(name)
        if node is not None and node.placeable:
            self.nodes[name] = replace(node, condition=Condition.QUARANTINED)

    def gone(self, name: str) -> bool:
        """Return whether a node is lost: not there at all, or away for longer than the policy tolerates (H1)."""
        node = self.nodes.get(name)
        return node is None or (node.condition is Condition.DOWN and not self.in_doubt(node))

    def in_doubt(self, node: Node) -> bool:
        """Return whether a node is away, and may yet be back before that is held against it (H1)."""
        away = node.condition is Condition.DOWN and node.down_since is not None
        return away and self.now - (node.down_since or 0.0) < self.policy.health.tolerance_s

    def may_end(self) -> Iterable[Workload]:
        """Return who may have to end without being asked for its room, by name: whoever has nodes."""
        return self.holding

    def give(self, team: str, nodes: Sequence[str], shape: Shape, *, firm: bool) -> None:
        """Take one bundle's room on each node, and the quota for all of them, from now on."""
        for node in nodes:
            self._seat(node, shape)
        self.charge(team, shape.gpus * len(nodes), firm=firm)
        if self.caps is not None:
            self.caps.seat(team, nodes, shape)

    def withhold(self, node: str, gpus: int) -> None:
        """Let whole work have so many GPUs of a node less from now on: their cards are for slices (V1)."""
        less = Shape(gpus=gpus)
        self.changed.append(node)
        self.free[node] -= less
        self.empty[node] -= less
        self.most_gpus[node] -= gpus

    def claim(self, claimer: str, team: str, nodes: Sequence[str], shape: Shape) -> None:
        """Keep room for who cannot start yet: what is free now is held, the rest taken from what is coming.

        Its quota is taken from what will be used: until it starts, others may use what will be left.
        """
        for node in nodes:
            self.changed.append(node)
            held = smaller(self.free[node], shape)
            self.free[node] -= held
            self.coming[node] = self.coming.get(node, NOTHING) - (shape - held)
            self.most_gpus[node] -= shape.gpus
            if not held.is_nothing():
                self.holds.append(Hold(node=node, beneficiary=claimer, shape=held))
        self._charge_soon(team, shape.gpus * len(nodes))
        self.firm[team] += shape.gpus * len(nodes)
        if self.caps is not None:
            self.caps.seat(team, nodes, shape)

    def hold(self, beneficiary: str, node: str, shape: Shape) -> None:
        """Hold room that is free for somebody, from now on."""
        self.changed.append(node)
        self.free[node] -= shape
        self.holds.append(Hold(node=node, beneficiary=beneficiary, shape=shape))

    def release_soon(self, leaver: Workload) -> None:
        """Count a workload, or a member of an elastic one, that was just asked to leave among what is coming free."""
        if leaver.minimum is not None:
            leaver = self.members.leave_whole(leaver, self.lodgers)
        self.leaving.add(leaver.name)
        gone_at = leaves_by(self.policy.drain, leaver, self.now)
        for node, shape in leaver.seats:
            self.changed.append(node)
            self.leavers[node].append((gone_at, shape))
            self.coming[node] = self.coming.get(node, NOTHING) + shape
            stay = [lodger for lodger in self.lodgers[node] if lodger.name != leaver.name]
            if len(stay) == len(self.lodgers[node]) and node in self.most_gpus:
                self.most_gpus[node] += shape.gpus
            self.lodgers[node] = stay
            self._known.lodgers.pop(node, None)
        if self.calendar is not None:
            self.calendar.unseat(self.members.parents.get(leaver.name, leaver).name, leaver.nodes)
        if self.caps is not None:
            self.caps.leave(leaver.team, leaver.seats)
        self._charge_soon(leaver.team, -sum([shape.gpus for _, shape in leaver.seats]))
        if leaver.name in self.members.parents:
            self._known.lost_gpu_s.pop(self.members.leave(leaver).name, None)

    def take_back(self, team: str, node: str, shape: Shape) -> None:
        """Count an idle grant that was just taken back among what is coming free."""
        self.changed.append(node)
        self.coming[node] = self.coming.get(node, NOTHING) + shape
        if node in self.most_gpus:
            self.most_gpus[node] += shape.gpus
        self.replicas[node] -= 1
        self.firm[team] -= shape.gpus
        if self.caps is not None:
            self.caps.leave(team, ((node, shape),))
        self._charge_soon(team, -shape.gpus)

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
        known = self._known.available.get(team)
        if known is None:
            left = min(quota.available(self.tree, self.used, team), self.available_soon(team))
            known = self._known.available[team] = left
        return known

    def available_soon(self, team: str) -> int:
        """Return how many more GPUs the team may take once everything that is leaving has left."""
        return quota.available(self.tree, self.used_soon, team)

    def largest(self, team: str) -> int:
        """Return the most GPUs that the team could ever take, with nothing else in use."""
        known = self._known.largest.get(team)
        if known is None:
            known = self._known.largest[team] = quota.largest(self.tree, team)
        return known

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

    def undisturbed(self, workload: Workload) -> bool:
        """Return whether it was drained before and has not yet run again for as long as it may undisturbed (R7)."""
        since = self.now if workload.started_at is None else workload.started_at
        return workload.attempt > 1 and self.now - since < self.policy.drain.min_run_s

    def lodgers_of(self, node: str) -> Lodgers:
        """Return those who may be asked to leave a node, as one."""
        known = self._known.lodgers.get(node)
        if known is None:
            known = self._known.lodgers[node] = as_one(self.lodgers.get(node, ()), self.lost_gpu_s)
        return known

    def borrowed(self, team: str) -> int:
        """Return how many GPUs the team borrows, once everything that is leaving has left."""
        borrowed = self._known.borrowed.get(team)
        if borrowed is None:
            borrowed = self._known.borrowed[team] = quota.above_nominal(self.tree, self.used_soon, team)
        return borrowed

    def share_with(self, team: str, gpus: int) -> int:
        """Return what the team would borrow with that many GPUs more, for its weight; in units that all teams share."""
        quota_of = self.tree.entries.get(team)
        weight = 1 if quota_of is None else quota_of.weight
        return max(0, self.used_soon.get(team, 0) + gpus - self.tree.nominal(team)) * (self.tree.weights // weight)

    def lost_gpu_s(self, victim: Workload) -> float:
        """Return the GPU-seconds that a drain now would cost: unsaved work and a restart, on every GPU it has."""
        lost = self._known.lost_gpu_s.get(victim.name)
        if lost is None:
            since = victim.saved_at if victim.saved_at is not None else victim.started_at
            unsaved = 0.0 if since is None else max(0.0, self.now - since)
            lost = self._known.lost_gpu_s[victim.name] = victim.gpus * (unsaved + self.policy.drain.restart_cost_s)
        return lost

    def placeable(self) -> list[Node]:
        """Return the nodes that may take new work, in the order of the fabric."""
        return [node for node in self.nodes.values() if node.placeable]

    def alike(self) -> list[tuple[Node, int]]:
        """Return one node of each sort, and how many there are: of one class, capacity and block, sound or not."""
        if not self._known.alike:
            sorts: dict[object, list[Node]] = defaultdict(list)
            for node in self.nodes.values():
                sort = (node.domains, node.node_class, node.accelerator, node.driver, node.capacity.parts)
                sorts[sort].append(node)
            self._known.alike = [(nodes[0], len(nodes)) for nodes in sorts.values()]
        return self._known.alike

    def _enter_all(self, state: FleetState) -> None:
        """Seat and charge what workloads and services have.

        All that a team has is charged at once: what is charged upwards depends on the sum alone (Q1). All that sits on
        a node is taken from it at once: there are many more workloads than nodes.
        """
        taken: dict[str, int] = defaultdict(int)
        seats: dict[str, list[Shape]] = defaultdict(list)
        leaving: list[Workload] = []
        for workload in self.holding:
            leaves = workload.leaving
            self._enter(workload, taken, seats, stays=not leaves)
            if leaves:
                leaving.append(workload)
        for service in state.services:
            for grant in service.grants:
                seats[grant.node].append(service.shape)
                self.replicas[grant.node] += 1
            taken[service.team] += service.shape.gpus * len(service.grants)
            self.firm[service.team] += service.shape.gpus * len(service.grants)
        for node, shapes in seats.items():
            if node in self.free:
                self.free[node] = left_of(self.free[node], shapes)
        for name, free in self.free.items():
            self.most_gpus[name] = free.gpus + sum([lodger.shape.gpus for lodger in self.lodgers.get(name, ())])
        for team in sorted(taken):
            quota.charge(self.tree, self.used, team, taken[team])
        self.limited.sort()
        self.used_soon = dict(self.used)
        for workload in (*leaving, *self.going):
            self.release_soon(workload)
        self._open_calendar()

    def _open_calendar(self) -> None:
        if self.calendar is not None:
            self.calendar.seat_all(self.holding, self.class_of)

    def _enter(self, workload: Workload, taken: dict[str, int], seats: dict[str, list[Shape]], *, stays: bool) -> None:
        """Charge a workload and seat it; one of several shapes lodges on a node with the shape that it has there."""
        mixed = bool(workload.groups)
        gpus = workload.gpus if mixed else workload.shape.gpus * len(workload.nodes)
        taken[workload.team] += gpus
        yields = self.class_of(workload).yields
        if not yields:
            self.firm[workload.team] += gpus
        elastic = workload.minimum is not None
        if elastic:
            self.going += [member_of(workload, node) for node in self.members.enter(workload)] if stays else []
        if workload.max_run_s is not None:
            self.limited.append(limited(self.members.rest_of(workload) if elastic else workload))
        for node, shape in workload.seats:
            seats[node].append(shape)
            if yields and stays:
                self.lodgers[node].append(self._lodger(workload, node, shape) if mixed or elastic else workload)

    def _lodger(self, workload: Workload, node: str, shape: Shape) -> Workload:
        """Return who may be asked to leave a node, of a workload that is not the same on each of its nodes."""
        if workload.minimum is None:
            return replace(workload, shape=shape)
        return member_of(workload, node) if node in workload.going else self.members.member_on(workload, node)

    def _seat(self, node: str, shape: Shape) -> None:
        if node in self.free:
            self.changed.append(node)
            self.free[node] -= shape
            self.most_gpus[node] -= shape.gpus

    def charge(self, team: str, gpus: int, *, firm: bool) -> None:
        """Take quota from now on; `firm` is whether it is for what never yields."""
        quota.charge(self.tree, self.used, team, gpus)
        self._charge_soon(team, gpus)
        if firm:
            self.firm[team] += gpus

    def _charge_soon(self, team: str, gpus: int) -> None:
        quota.charge(self.tree, self.used_soon, team, gpus)
        self._known.borrowed.clear()
        self._known.available.clear()


def _by_phase(workloads: Sequence[Workload]) -> tuple[list[Workload], list[Workload]]:
    """Return those that wait, in no order, and those that have nodes, by name."""
    queued = Phase.QUEUED
    holding = [one for one in workloads if one.phase is not queued and one.holding]
    return [one for one in workloads if one.phase is queued], sorted(holding, key=attrgetter("name"))
