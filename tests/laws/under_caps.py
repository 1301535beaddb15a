"""Who starts, waits and leaves where caps are all that is in the way: the slow, plain answer to rule V9.

One after another in the order of the queue, entry by entry; of those who may be asked to leave every set is weighed.
The engine's answer is held to it, action by action.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from fleet_app.engine.plan import Admit, Drain, Reason
from fleet_app.engine.workload import Workload
from tests.laws.caps import Cap, caps_of, has, path, use
from tests.laws.in_line import in_order
from tests.laws.reference import Case, least, told_to_end

KINDS = ("a100", "h100")


class UnderCaps:
    """A decision, taken again by hand, on a fleet with room and nominal for everybody."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.limits = caps_of(case)
        self.used = use(case, after=False)
        self.going: Counter[Cap] = Counter()
        self.kept: list[tuple[Workload, str]] = []
        self.asked: set[str] = set()
        for one in case.state.workloads:
            if one.holding and told_to_end(one):
                self.going += self.counts(one)

    def check(self) -> None:
        """Hold the plan to what follows for everybody who waits, in order."""
        for one in in_order(self.case):
            if one.minimum is not None:
                self.check_one(one, self.size(one))
            else:
                self.check_one(one, one.bundles)
        drained = {action.workload for action in self.case.actions(Drain)}
        assert drained == self.asked, (drained, self.asked)

    def check_one(self, one: Workload, bundles: int) -> None:
        gpus = self.gpus(one, bundles)
        able = [kind for kind in self.kinds(one) if self.fits(one, kind, gpus)]
        admitted = next((action for action in self.case.actions(Admit) if action.workload == one.name), None)
        if able:
            assert admitted is not None, (one, able)
            assert len(admitted.nodes) == bundles
            on = +has(self.case, one, admitted.nodes)
            assert on.total() == gpus
            assert set(on) <= set(able), (one, on, able)
            self.take(one, gpus, next(iter(on), None))
            return
        assert admitted is None, (one, admitted)
        self.check_wait(one, gpus)

    def check_wait(self, one: Workload, gpus: int) -> None:
        wait = self.case.wait(one.name)
        most = {kind: self.most(one, kind) for kind in self.kinds(one)}
        ever = [kind for kind in most if most[kind] >= gpus]
        if not ever:
            assert (wait.reason, wait.asked) == (Reason.TOO_LARGE_FOR_QUOTA, gpus)
            assert wait.available == max(most.values())
            return
        ordered = sorted(ever, key=lambda kind: (-self.left(one, kind), kind))
        for kind in ordered if not self.case.yields(one) else ():
            victims = self.cheapest(one, kind, gpus)
            if victims is not None:
                assert wait.reason is Reason.DRAIN_UNDER_WAY, (one, wait, victims)
                names = {action.workload for action in self.case.actions(Drain) if action.beneficiary == one.name}
                assert names == {victim.name for victim in victims}, (one, names, victims)
                self.asked |= names
                for victim in victims:
                    self.going += self.counts(victim)
                self.take(one, gpus, kind)
                return
        assert (wait.reason, wait.asked, wait.level) == (Reason.QUOTA_USED, gpus, f"{ordered[0]}-whole"), wait
        assert wait.available == max(0, self.left(one, ordered[0]))
        if not self.case.yields(one):
            self.kept.append((one, ordered[0]))

    def size(self, one: Workload) -> int:
        """Return with how many members an elastic one starts: as many as any accelerator allows."""
        for count in range(one.bundles, least(one), -1):
            if any(self.fits(one, kind, self.gpus(one, count)) for kind in self.kinds(one)):
                return count
        return least(one)

    def kinds(self, one: Workload) -> list[str]:
        return [kind for kind in KINDS if one.accelerator in {None, kind}]

    def gpus(self, one: Workload, bundles: int) -> int:
        return one.gpus if one.groups else one.shape.gpus * bundles

    def fits(self, one: Workload, kind: str, gpus: int) -> bool:
        return gpus == 0 or self.left(one, kind) >= gpus

    def left(self, one: Workload, kind: str) -> float:
        """Return what the caps of a workload leave it, beside those ahead that it may not pass."""
        return min((self.limits[cap] - self.used[cap] - self.held(one, cap) for cap in self.of(one, kind)), default=1e9)

    def held(self, one: Workload, cap: Cap) -> int:
        """Return what is kept under a cap for those ahead: what yields to them may pass (O4)."""
        ahead = [other for other, kind in self.kept if kind == cap[1] and cap[0] in path(self.case, other.team)]
        passes = self.case.yields(one)
        return sum(self.gpus(other, least(other)) for other in ahead if not (passes and one.priority < other.priority))

    def most(self, one: Workload, kind: str) -> float:
        return min((self.limits[cap] for cap in self.of(one, kind)), default=1e9)

    def of(self, one: Workload, kind: str) -> list[Cap]:
        return [(entry, kind) for entry in path(self.case, one.team) if (entry, kind) in self.limits]

    def counts(self, one: Workload) -> Counter[Cap]:
        """Return what a workload with nodes counts for, by entry and accelerator."""
        found: Counter[Cap] = Counter()
        for kind, gpus in has(self.case, one, one.nodes).items():
            for entry in path(self.case, one.team):
                found[entry, kind] += gpus
        return found

    def take(self, one: Workload, gpus: int, kind: str | None) -> None:
        for entry in path(self.case, one.team) if kind else ():
            self.used[entry, kind] += gpus

    def cheapest(self, one: Workload, kind: str, gpus: int) -> tuple[Workload, ...] | None:
        """Return the cheapest who leave for a workload, of every set of those below a cap of it (R3); None if none."""
        return min(self.sets(one, kind, gpus), key=self.cost, default=None)

    def sets(self, one: Workload, kind: str, gpus: int) -> Iterator[tuple[Workload, ...]]:
        able = [
            other
            for other in self.case.state.workloads
            if other.holding and self.case.yields(other) and other.priority < one.priority
            if not told_to_end(other) and other.name not in self.asked and has(self.case, other, other.nodes)[kind]
        ]
        for size in range(len(able) + 1):
            yield from (gone for gone in combinations(able, size) if self.enough(one, kind, gpus, gone))

    def enough(self, one: Workload, kind: str, gpus: int, gone: tuple[Workload, ...]) -> bool:
        """Return whether the caps allow it once these have left too, and would not if any of them stayed."""

        def allows(leaving: tuple[Workload, ...]) -> bool:
            less = sum((self.counts(other) for other in leaving), Counter()) + self.going
            over = (
                self.used[cap] - less[cap] + self.held(one, cap) + gpus - self.limits[cap] for cap in self.of(one, kind)
            )
            return all(excess <= 0 for excess in over)

        return allows(gone) and not any(allows((*gone[:place], *gone[place + 1 :])) for place in range(len(gone)))

    def cost(self, gone: tuple[Workload, ...]) -> tuple[object, ...]:
        """Return the order of sets of R3; nobody borrows here."""
        now, restart_s = self.case.now, self.case.policy.drain.restart_cost_s
        since = [one.started_at if one.saved_at is None else one.saved_at for one in gone]
        return (
            max((one.priority for one in gone), default=-1),
            sum(one.gpus * (now - at + restart_s) for one, at in zip(gone, since, strict=True)),
            sum(one.gpus for one in gone),
            -max((one.admitted_at or 0.0 for one in gone), default=0.0),
            tuple(sorted(one.name for one in gone)),
        )
