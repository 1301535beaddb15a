"""What somebody would find if some workloads left: nodes that fit, by domain, and what the quota books would say.

Changes a copy of the ledger's sums, never the ledger. Knows room, quota and who may be asked for whom. Does not know
what victims cost or which to choose.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleet_app.engine import quota
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.matching import Sought, Tally
from fleet_app.engine.values import Block, Node, Shape
from fleet_app.engine.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """For whom room is sought: `bundles` of `shape`, all in one domain at least `depth` levels deep.

    `anyone` is whether every yielding workload on the nodes may be asked (serving, on its own nodes), or only those
    of the asker's own team, of teams that borrow, and those that passed it: that started there after `since`, when it
    began to wait, in seconds (R2). With `sought` it is for bundles of several shapes, placed together (P7).
    """

    name: str
    team: str
    priority: int
    shape: Shape
    bundles: int = 1
    depth: int = 0
    anyone: bool = False
    since: float = math.inf
    sought: Sought | None = None

    def passed_by(self, lodger: Workload) -> bool:
        """Return whether a workload started while the asker waited."""
        return lodger.admitted_at is not None and lodger.admitted_at > self.since

    @property
    def gpus(self) -> int:
        """Return the GPUs of all of its bundles together."""
        return self.shape.gpus * self.bundles if self.sought is None else self.sought.gpus


class Trial:
    """Room and books as they would be without those in `gone`."""

    def __init__(self, ledger: Ledger, asker: Asker, nodes: Sequence[Node]) -> None:
        """Start with what will be free once everything that is leaving has left."""
        self.ledger = ledger
        self.asker = asker
        self.nodes = {node.name: node for node in nodes if len(node.domains) >= asker.depth}
        self.room = {name: ledger.soon(name) for name in self.nodes}
        self.books = dict(ledger.used_soon)
        self.gone: dict[str, Workload] = {}
        self.fits: dict[Block, int] = defaultdict(int)
        for node in self.fitting():
            self.fits[node.block(asker.depth)] += 1
        self.tally = None if asker.sought is None else Tally(asker.sought, self.nodes, self.has_room)
        self.ample = (
            sum([count >= asker.bundles for count in self.fits.values()]) if self.tally is None else self.tally.ample
        )

    def leave(self, victims: Iterable[Workload]) -> None:
        """Let these leave too."""
        for victim in victims:
            self.gone[victim.name] = victim
            self._move(victim, leaves=True)

    def stay(self, victim: Workload) -> None:
        """Let one that left stay after all."""
        del self.gone[victim.name]
        self._move(victim, leaves=False)

    def enough(self) -> bool:
        """Return whether some domain has room for all bundles, and the books allow it."""
        return self.ample > 0 and self.books_allow()

    def enough_without(self, victims: Sequence[Workload]) -> bool:
        """Return whether it would be enough if these left too."""
        self.leave(victims)
        found = self.enough()
        for victim in victims:
            self.stay(victim)
        return found

    def books_allow(self) -> bool:
        """Return whether the asker's team may take what is asked."""
        return quota.available(self.ledger.tree, self.books, self.asker.team) >= self.asker.gpus

    def may_go(self, victims: Sequence[Workload]) -> bool:
        """Return whether these may leave after those in `gone`.

        Nobody's team loses more than it borrows, but for what the last victim has beyond that (R2), and no elastic
        workload more members than it can spare (R8).
        """
        members = self.ledger.members
        if members.parents and not members.can_be_spared([*self.gone.values(), *victims]):
            return False
        if len(victims) == 1:
            (victim,) = victims
            return self._exempt(victim) or self.books.get(victim.team, 0) > self.ledger.tree.nominal(victim.team)
        for team in sorted({victim.team for victim in victims if not self._exempt(victim)}):
            theirs = [victim for victim in victims if victim.team == team]
            last = max(victim.gpus for victim in theirs if not self._exempt(victim))
            above = self.books.get(team, 0) - self.ledger.tree.nominal(team)
            if above - sum(victim.gpus for victim in theirs) + last <= 0:
                return False
        return True

    def has_room(self, name: str, shape: Shape) -> bool:
        """Return whether a shape fits on a node."""
        return shape.fits(self.room[name])

    def fitting(self) -> list[Node]:
        """Return the nodes on which a bundle fits."""
        return [node for name, node in self.nodes.items() if self.asker.shape.fits(self.room[name])]

    def _exempt(self, victim: Workload) -> bool:
        if victim.team == self.asker.team:
            return True
        may_be_asked = self.asker.anyone or self.asker.passed_by(victim)
        return may_be_asked and any(name in self.nodes for name in victim.nodes)

    def _move(self, victim: Workload, *, leaves: bool) -> None:
        quota.charge(self.ledger.tree, self.books, victim.team, -victim.gpus if leaves else victim.gpus)
        for name, shape in victim.seats:
            if name in self.nodes:
                before = self.room[name]
                after = self.room[name] = before + shape if leaves else before - shape
                if self.tally is None:
                    change = self.asker.shape.fits(after) - self.asker.shape.fits(before)
                    self._count(self.nodes[name].block(self.asker.depth), change)
                else:
                    self.tally.look(name)
                    self.ample = self.tally.ample

    def _count(self, block: Block, change: int) -> None:
        before = self.fits[block] >= self.asker.bundles
        self.fits[block] += change
        self.ample += (self.fits[block] >= self.asker.bundles) - before
