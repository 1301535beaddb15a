"""Ledgers that follow one another on a fleet of which little changes between two decisions.

What a ledger enters before anything is decided is kept up to date, change by change, and each decision gets a ledger of
its own with a copy: equal to the one that would enter every fact anew (`tests/laws/test_deciding.py`), and gone with
the decision. Knows nodes, workloads and services, one at a time. Decides nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter

from fleet_app.engine import quota
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.ordering import class_of
from fleet_app.engine.policy import Policy, PriorityClass
from fleet_app.engine.quota import QuotaTree
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Condition, Node, Shape
from fleet_app.engine.workload import Service, Workload

_NAME = attrgetter("name")


class Books:
    """What every ledger of a policy enters: nodes, their room and lodgers, who holds what, and quota.

    `odd` names the workloads that only a whole ledger knows how to enter: elastic ones, and slices.
    """

    def __init__(self, policy: Policy) -> None:
        """Begin with an empty fleet."""
        self.policy = policy
        self.tree = QuotaTree.build(policy.quotas)
        self.nodes: dict[str, Node] = {}
        self.empty: dict[str, Shape] = {}
        self.free: dict[str, Shape] = {}
        self.most_gpus: dict[str, int] = {}
        self.lodgers: dict[str, list[Workload]] = {}
        self.replicas: dict[str, int] = {}
        self.used: dict[str, int] = {}
        self.firm: dict[str, int] = {}
        self.holding: list[Workload] = []
        self.limited: list[Workload] = []
        self.leaving: list[Workload] = []
        self.odd: set[str] = set()
        self._away: dict[str, int] = {}
        self._classes: dict[tuple[int, str], PriorityClass] = {}

    @property
    def sound(self) -> bool:
        """Return whether no node is away and nothing is on a node that is not there."""
        return not self._away and all(node.condition is not Condition.DOWN for node in self.nodes.values())

    def node(self, old: Node | None, new: Node) -> None:
        """Enter a node, or what became of it."""
        less = new.capacity - new.foreign
        if old is None:
            self.nodes[new.name] = new
            self.nodes = dict(sorted(self.nodes.items(), key=lambda item: (item[1].domains, item[0])))
            self.empty[new.name] = self.free[new.name] = less
            self.most_gpus[new.name] = less.gpus
            return
        change = less - self.empty[new.name]
        self.nodes[new.name] = new
        self.empty[new.name] = less
        self.free[new.name] += change
        self.most_gpus[new.name] += change.gpus

    def holder(self, old: Workload | None, new: Workload | None) -> None:
        """Enter what a workload has now in place of what it had; None where it has nothing."""
        if old is not None:
            self._seat(old, -1)
        if new is not None:
            self._seat(new, 1)

    def service(self, old: Service | None, new: Service) -> None:
        """Enter the grants that a service has now in place of those it had."""
        before, after = () if old is None else old.grants, new.grants
        if before == after:
            return
        for grants, sign in ((before, -1), (after, 1)):
            for grant in grants:
                self.replicas[grant.node] = self.replicas.get(grant.node, 0) + sign
                self._room(grant.node, new.shape, -sign)
                self._add_most(grant.node, -sign * new.shape.gpus)
        self._charge(new.team, new.shape.gpus * (len(after) - len(before)), firm=True)

    def class_of(self, workload: Workload) -> PriorityClass:
        """Return the workload's priority class."""
        key = (workload.priority, workload.kind)
        known = self._classes.get(key)
        if known is None:
            known = self._classes[key] = class_of(self.policy, workload)
        return known

    def _seat(self, one: Workload, sign: int) -> None:
        if one.minimum is not None or one.slice is not None:
            (self.odd.add if sign > 0 else self.odd.discard)(one.name)
        yields, leaves = self.class_of(one).yields, one.leaving
        lodges = yields and not leaves
        gpus = 0
        for node, shape in one.seats:
            gpus += shape.gpus
            self._room(node, shape, -sign)
            if lodges:
                self._lodge(node, replace(one, shape=shape) if one.groups else one, sign)
            else:
                self._add_most(node, -sign * shape.gpus)
        self._charge(one.team, sign * gpus, firm=not yields)
        for who, listed in ((self.holding, True), (self.limited, one.max_run_s is not None), (self.leaving, leaves)):
            if listed:
                _put(who, one, sign)

    def _room(self, node: str, shape: Shape, sign: int) -> None:
        if node in self.free:
            self.free[node] = self.free[node] + shape if sign > 0 else self.free[node] - shape
        else:
            self._away[node] = self._away.get(node, 0) - sign
            if not self._away[node]:
                del self._away[node]

    def _add_most(self, node: str, gpus: int) -> None:
        if node in self.most_gpus:
            self.most_gpus[node] += gpus

    def _lodge(self, node: str, one: Workload, sign: int) -> None:
        """Let somebody lodge on a node, or no more; lists that a ledger has are left as they are."""
        lodgers = list(self.lodgers.get(node, ()))
        _put(lodgers, one, sign)
        self.lodgers[node] = lodgers

    def _charge(self, team: str, gpus: int, *, firm: bool) -> None:
        quota.charge(self.tree, self.used, team, gpus)
        if firm:
            self.firm[team] = self.firm.get(team, 0) + gpus


def _put(workloads: list[Workload], one: Workload, sign: int) -> None:
    """Put a workload into a list in the order of names, or take it out."""
    if sign > 0:
        insort(workloads, one, key=_NAME)
    else:
        del workloads[bisect_left(workloads, one.name, key=_NAME)]


class Following(Ledger):
    """A ledger that begins with what the books have, in place of entering every fact."""

    def __init__(self, books: Books, now: float, waiting: Iterable[Workload]) -> None:
        """Take a copy; what is leaving is counted as of now."""
        super().__init__(FleetState(), books.policy, now)
        self.tree = books.tree
        self.nodes = dict(books.nodes)
        self.waiting, self.holding = list(waiting), list(books.holding)
        self.free, self.empty = dict(books.free), dict(books.empty)
        self.most_gpus = dict(books.most_gpus)
        self.lodgers = defaultdict(list, books.lodgers)
        self.replicas = defaultdict(int, books.replicas)
        self.firm = defaultdict(int, books.firm)
        self.limited = list(books.limited)
        self.used, self.used_soon = dict(books.used), dict(books.used)
        self._sound = books.sound
        for one in books.leaving:
            self.release_soon(one)

    def may_end(self) -> Iterable[Workload]:
        """Return who has to be looked at: where every node is sound only who is leaving or has a limit."""
        if not self._sound:
            return self.holding
        told = [one for one in self.holding if one.name in self.leaving]
        return sorted({one.name: one for one in (*told, *self.limited)}.values(), key=_NAME)
