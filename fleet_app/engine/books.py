"""Ledgers that follow one another on a fleet of which little changes between two decisions.

What a ledger enters before anything is decided is kept up to date, change by change, and each decision gets a ledger of
its own with a copy: equal to the one that would enter every fact anew (`tests/laws/test_deciding.py`), and gone with
the decision. Knows nodes, workloads and services, one at a time. Decides nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter

from fleet_app.engine import quota
from fleet_app.engine.booked import Booked
from fleet_app.engine.calendar import Booking
from fleet_app.engine.ends import Limited, limited
from fleet_app.engine.ledger import Known, Ledger
from fleet_app.engine.members import Members
from fleet_app.engine.memo import Memo
from fleet_app.engine.ordering import class_of
from fleet_app.engine.policy import Policy, PriorityClass
from fleet_app.engine.quota import QuotaTree
from fleet_app.engine.transfers import quotas_at
from fleet_app.engine.values import Condition, Node, Shape
from fleet_app.engine.workload import Service, Workload, exchanged

_NAME = attrgetter("name")
_LIMIT = itemgetter(0)


class Books:
    """What every ledger of a policy enters: nodes, their room and lodgers, who holds what, and quota.

    `odd` names the workloads that only a whole ledger knows how to enter: elastic ones, and slices. `lodging` is how
    often somebody on a node may be asked to leave it. What ledgers found out about the policy and the nodes is kept for
    those that follow.
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
        self.taken: dict[str, int] = {}
        self.firm: dict[str, int] = {}
        self.holding: list[Workload] = []
        self.limited: list[Limited] = []
        self.leaving: list[Workload] = []
        self.odd: set[str] = set()
        self.lodging = 0
        self._away: dict[str, int] = {}
        self._down: set[str] = set()
        self.classes: dict[tuple[int, str], PriorityClass] = {}
        self.largest: dict[str, int] = {}
        self.alike: list[tuple[Node, int]] = []
        self._memo = Memo()

    @property
    def sound(self) -> bool:
        """Return whether no node is away and nothing is on a node that is not there."""
        return not self._away and not self._down

    def node(self, old: Node | None, new: Node) -> None:
        """Enter a node, or what became of it."""
        less = new.capacity - new.foreign
        (self._down.add if new.condition is Condition.DOWN else self._down.discard)(new.name)
        self._memo, self.alike = Memo(), []
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
        if old is not None and new is not None and _sits_as(old) == _sits_as(new):
            self._renew(old, new)
            return
        if old is not None:
            self._seat(old, -1)
        if new is not None:
            self._seat(new, 1)

    def service(self, old: Service | None, new: Service) -> None:
        """Enter the grants that a service has now in place of those it had."""
        left, taken = exchanged(() if old is None else old.grants, new.grants)
        before = {grant.name: grant.node for grant in left}
        after = {grant.name: grant.node for grant in taken}
        gone = [before[name] for name in before.keys() - after.keys()]
        come = [after[name] for name in after.keys() - before.keys()]
        for nodes, sign in ((gone, -1), (come, 1)):
            for node in nodes:
                self.replicas[node] = self.replicas.get(node, 0) + sign
                self._room(node, new.shape, -sign)
                self._add_most(node, -sign * new.shape.gpus)
        if gone or come:
            self._charge(new.team, new.shape.gpus * (len(come) - len(gone)), firm=True)

    def class_of(self, workload: Workload) -> PriorityClass:
        """Return the workload's priority class."""
        key = (workload.priority, workload.kind)
        known = self.classes.get(key)
        if known is None:
            known = self.classes[key] = class_of(self.policy, workload)
        return known

    def memo(self, *, alike: bool) -> Memo:
        """Return what ledgers found out about the nodes, for the next; if they are `alike` also who may use which."""
        known = self._memo
        if not alike:
            return Memo(most_ever=known.most_ever)
        return Memo(
            eligible=known.eligible,
            places=known.places,
            most_ever=known.most_ever,
            could_be_placed=known.could_be_placed,
            blocks=known.blocks,
        )

    def room_for(self, one: Workload) -> bool:
        """Return whether so many nodes have so many GPUs free as a workload asks for, and quota; else may yet lack.

        What has several bundles keeps off nodes with replicas (P6).
        """
        if one.team not in self.tree.entries:
            return False
        left = one.bundles if one.minimum is None else one.minimum
        alone = one.bundles > 1 or one.minimum is not None
        least = min(shape.gpus for shape in one.shapes) if one.groups else one.shape.gpus
        if quota.available(self.tree, self.used, one.team) < least * left:
            return False
        for name, room in self.free.items():
            if room.gpus >= least and self.nodes[name].placeable and not (alone and self.replicas.get(name, 0)):
                left -= 1
                if left <= 0:
                    return True
        return False

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
        _put(self.holding, one, sign)
        if leaves:
            _put(self.leaving, one, sign)
        if one.max_run_s is not None:
            self._limit(one, sign)

    def _limit(self, one: Workload, sign: int) -> None:
        if sign > 0:
            insort(self.limited, limited(one))
        else:
            del self.limited[bisect_left(self.limited, limited(one)[:2])]

    def _renew(self, old: Workload, new: Workload) -> None:
        """Enter what became of a workload that stays where it is, such as that it has saved its work."""
        _put_in_place(self.holding, new)
        if new.leaving:
            _put_in_place(self.leaving, new)
        if new.max_run_s is not None:
            self._limit(old, -1)
            self._limit(new, 1)
        if self.class_of(new).yields and not new.leaving:
            for node, shape in new.seats:
                lodgers = self.lodgers[node] = list(self.lodgers[node])
                _put_in_place(lodgers, replace(new, shape=shape) if new.groups else new)

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
        self.lodging += sign

    def quota_at(self, bookings: Sequence[Booking], now: float) -> tuple[QuotaTree, dict[str, int]]:
        """Return the quota in force, and what is used of it: what is drawn depends on what bookings transfer."""
        entries = quotas_at(self.policy, bookings, now)
        if entries is self.policy.quotas:
            return self.tree, dict(self.used)
        tree, used = QuotaTree.build(entries), dict[str, int]()
        for team in sorted(self.taken):
            quota.charge(tree, used, team, self.taken[team])
        return tree, used

    def _charge(self, team: str, gpus: int, *, firm: bool) -> None:
        quota.charge(self.tree, self.used, team, gpus)
        self.taken[team] = self.taken.get(team, 0) + gpus
        if firm:
            self.firm[team] = self.firm.get(team, 0) + gpus


def _put(workloads: list[Workload], one: Workload, sign: int) -> None:
    """Put a workload into a list in the order of names, or take it out."""
    if sign > 0:
        insort(workloads, one, key=_NAME)
    else:
        del workloads[bisect_left(workloads, one.name, key=_NAME)]


def _put_in_place(workloads: list[Workload], one: Workload) -> None:
    """Put a workload in the place of the one of its name, in a list in the order of names."""
    workloads[bisect_left(workloads, one.name, key=_NAME)] = one


def _sits_as(one: Workload) -> tuple[object, ...]:
    """Return all of a workload on which sums rest, and in which lists it is; objects that nobody changes."""
    return (one.team, one.nodes, one.shape, one.groups, one.leaving, one.priority, one.kind, one.max_run_s, one.minimum)


class Following(Ledger):
    """A ledger that begins with what the books have, in place of entering every fact."""

    def __init__(
        self,
        books: Books,
        now: float,
        waiting: Iterable[Workload],
        *,
        bookings: Sequence[Booking] = (),
        alike: bool,
    ) -> None:
        """Take a copy; what is leaving is counted as of now. What a ledger finds out is shared.

        `alike` is whether nothing will be different from other ledgers in who may use which nodes.
        """
        self.policy, self.now, self.caps = books.policy, now, None
        self.tree, self.used = books.quota_at(bookings, now)
        self.nodes = dict(books.nodes)
        self.waiting, self.holding = list(waiting), list(books.holding)
        self.free, self.empty, self.most_gpus = dict(books.free), dict(books.empty), dict(books.most_gpus)
        self.coming, self.leavers = {}, defaultdict(list)
        self.lodgers, self.replicas = defaultdict(list, books.lodgers), defaultdict(int, books.replicas)
        self.used_soon = dict(self.used)
        self.firm, self.booked = defaultdict(int, books.firm), defaultdict(list)
        self.reserved, self.starts = {}, {}
        self.limited, self.leaving = list(books.limited), set()
        self.members, self.going = Members(), []
        self.holds, self.changed = [], []
        self.memo = books.memo(alike=alike)
        largest = books.largest if self.tree is books.tree else {}
        self._known = Known(classes=books.classes, largest=largest, alike=books.alike)
        self._sound = books.sound
        self.calendar = Booked(bookings, books.policy, now, self.empty) if bookings else None
        for one in books.leaving:
            self.release_soon(one)
        self._open_calendar()

    def may_end(self) -> Iterable[Workload]:
        """Return who has to be looked at: where every node is sound only who is leaving or whose time is over."""
        if not self._sound:
            return self.holding
        found = [one for _, _, one in self.limited[: bisect_right(self.limited, self.now, key=_LIMIT)]]
        if self.leaving:
            found += [one for one in self.holding if one.name in self.leaving]
        return sorted({one.name: one for one in found}.values(), key=_NAME) if found else ()
