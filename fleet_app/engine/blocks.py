"""Where a booking can lie: what each node would have to give up for it, and which nodes do best together (rule C9).

Knows the ledger of this moment, other bookings, and what is asked. Does not know quota, prices, or what becomes of
those that have to leave.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from fleet_app.engine import placement
from fleet_app.engine.calendar import Booking, BookingAsk
from fleet_app.engine.ends import gone_at, grace_s
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.values import NOTHING, Node, NodeClass, Shape
from fleet_app.engine.workload import Workload

ENDS, DRAINED, MOVED = "ends", "drained", "moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From when to when, in seconds since the epoch, and which other bookings there are."""

    start_at: float
    end_at: float
    bookings: tuple[Booking, ...] = ()
    fixed: frozenset[str] = frozenset()

    def overlapping(self, node: str) -> list[Booking]:
        """Return the bookings of a node that are in force in the window, or in a part of it."""
        return [
            one
            for one in self.bookings
            if node in one.nodes and one.start_at < self.end_at and self.start_at < one.end_at
        ]


@dataclass(slots=True)
class Site:
    """A node, what a booking would displace there (by how it leaves), and what is in its way for good, or until when.

    `clear_at` are the moments at which something that is in the way now would not be any more. `own` is the team's own
    committed work that will still be inside the booking at its start.
    """

    node: Node
    leaving: dict[str, list[Workload]] = field(default_factory=lambda: {ENDS: [], DRAINED: [], MOVED: []})
    blocked_by: list[str] = field(default_factory=list)
    clear_at: list[float] = field(default_factory=list)
    own: list[Workload] = field(default_factory=list)

    @property
    def usable(self) -> bool:
        """Return whether the node can be cleared in time."""
        return not self.blocked_by


class Survey:
    """Every node that a booking could lie on in a window, and what is in its way there."""

    def __init__(self, ledger: Ledger, ask: BookingAsk, window: Window) -> None:
        """Look at every node once; `window.fixed` names committed work that is not to be moved."""
        self.ledger = ledger
        self.ask = ask
        self.window = window
        self._there: dict[str, list[Workload]] = defaultdict(list)
        for workload in ledger.holding:
            for name, shape in workload.seats:
                self._there[name].append(_with(workload, shape))
        self.sites = {node.name: self._site(node) for node in ledger.nodes.values() if self._would_do(node)}

    def chosen(self) -> tuple[str, ...] | None:
        """Return the nodes that do best: all in one domain, or else in as few as are allowed; None when none do (C9).

        Nodes that would be free for it come before those on which its team's committed work is, and both before those
        from which committed work has to move.
        """
        usable = [site for site in self.sites.values() if site.usable]
        if self.ask.nodes:
            names = {site.node.name for site in usable}
            enough = names.issuperset(self.ask.nodes) and self._domains(self.ask.nodes) <= self._most_domains()
            return self.ask.nodes if enough else None
        still = [site for site in usable if not site.leaving[MOVED]]
        free = [site.node for site in still if not site.own]
        for nodes in (free, [site.node for site in still], [site.node for site in usable]):
            found = placement.place(nodes, self.ask.count, self.depth, self._tightness)
            if found is None and self._most_domains() > 1:
                found = self._over_domains(nodes)
            if found is not None:
                return found
        return None

    def nearest(self) -> tuple[int, tuple[str, ...]]:
        """Return how many nodes the best domain has, and who is in the way on those that it lacks."""
        usable = [site.node for site in self.sites.values() if site.usable]
        wanted = [self.sites[name] for name in self.ask.nodes if name in self.sites] or list(self.sites.values())
        blocked = sorted((site for site in wanted if not site.usable), key=_difficulty)
        best = placement.most(usable, self.depth)
        lacking = blocked if self.ask.nodes else self._in_best_domain(blocked)[: max(1, self.ask.count - best)]
        return best, tuple(sorted({name for site in lacking for name in site.blocked_by}))

    def moments(self) -> list[float]:
        """Return when something that is in the way now is not any more, the earliest first."""
        found = {at for site in self.sites.values() for at in site.clear_at}
        return sorted(at for at in found if self.window.start_at < at < math.inf)

    @property
    def depth(self) -> int:
        """Return how many levels deep the domain lies that is to hold the booking; 0 for a maintenance window."""
        levels = self.ledger.policy.levels
        if self.ask.team is None:
            return 0
        return levels.index(self.ask.within) + 1 if self.ask.within in levels else min(1, len(levels))

    def shape_on(self, node: Node) -> Shape:
        """Return what is booked on a node: with the GPUs their share of its CPUs and memory, if none are asked."""
        asked, capacity, empty = self.ask.shape, node.capacity, self.ledger.empty[node.name]
        if asked.cpu_milli or asked.memory_mib or not capacity.gpus:
            return asked
        return Shape(
            gpus=asked.gpus,
            cpu_milli=max(0, min(capacity.cpu_milli * asked.gpus // capacity.gpus, empty.cpu_milli)),
            memory_mib=max(0, min(capacity.memory_mib * asked.gpus // capacity.gpus, empty.memory_mib)),
        )

    # --- one node ---------------------------------------------------------------------------------------------------

    def _would_do(self, node: Node) -> bool:
        if self.ask.nodes and node.name not in self.ask.nodes:
            return False
        if self.ask.team is None:
            return True
        return (
            node.node_class is NodeClass.TRAINING
            and node.placeable
            and self.ask.accelerator in {None, node.accelerator}
            and self.shape_on(node).fits(self.ledger.empty[node.name])
        )

    def _site(self, node: Node) -> Site:
        site = Site(node=node)
        others = self.window.overlapping(node.name)
        room = self._room(node, others)
        if room is None:
            site.blocked_by += [one.name for one in others] or ["what others use"]
            site.clear_at += [one.end_at for one in others]
            return site
        inside = self.shape_on(node) if self.ask.team is not None else NOTHING
        for workload, how, until in sorted(self._occupants(node), key=_keeps_first):
            own = workload.team == self.ask.team
            if own and how == DRAINED:
                continue
            if own and workload.shape.fits(inside):
                inside -= workload.shape
                site.own += [workload] if how != ENDS else []
            elif self.ask.team is not None and workload.shape.fits(room):
                room -= workload.shape
            elif how:
                site.leaving[how].append(workload)
            else:
                site.blocked_by.append(workload.name)
                site.clear_at.append(until)
        return site

    def _room(self, node: Node, others: Sequence[Booking]) -> Shape | None:
        """Return what the booking leaves to others beside it; None where it does not fit beside what is booked."""
        if self.ask.team is None:
            return None if others else NOTHING
        room = self.ledger.empty[node.name] - self.shape_on(node)
        for one in others:
            if one.team is None:
                return None
            room -= one.shape
        return room if NOTHING.fits(room) else None

    def _occupants(self, node: Node) -> Iterator[tuple[Workload, str, float]]:
        """Yield who is on a node, how it will have left by the start (empty if it will not), and by when it could."""
        ledger, start_at = self.ledger, self.window.start_at
        policy = ledger.policy
        for one in self._there[node.name]:
            gone = gone_at(policy.drain, one, ledger.now)
            if gone is not None and (one.leaving or gone <= start_at):
                yield one, ENDS if gone <= start_at else "", gone
            elif ledger.class_of(one).yields:
                asked = ledger.now + max(grace_s(policy.drain, one), policy.calendar.reclaim_lead_s)
                yield one, DRAINED if asked <= start_at else "", asked
            elif one.name not in self.window.fixed and can_move(ledger, one):
                moved = ledger.now + policy.calendar.move_lead_s
                yield one, MOVED if moved <= start_at else "", moved
            else:
                yield one, "", math.inf if gone is None else gone

    # --- together ---------------------------------------------------------------------------------------------------

    def _most_domains(self) -> int:
        if self.ask.team is None:
            return len(self.ledger.nodes)
        return max(1, min(self.ask.most_domains, self.ledger.policy.calendar.most_domains))

    def _domains(self, names: Iterable[str]) -> int:
        return len({self.ledger.nodes[name].block(self.depth) for name in names})

    def _tightness(self, node: Node) -> tuple[int, ...]:
        """Return what taking the node costs: first GPUs that have to move, then GPU-seconds that are lost."""
        leaving = self.sites[node.name].leaving
        moved = sum(one.shape.gpus for one in leaving[MOVED])
        lost = sum(self.ledger.lost_gpu_s(one) / max(1, len(one.nodes)) for one in leaving[DRAINED])
        return (moved, int(lost), node.capacity.gpus)

    def _over_domains(self, nodes: Sequence[Node]) -> tuple[str, ...] | None:
        """Return nodes in as few domains as will do, the largest first; None when they would be too many."""
        best: tuple[int, tuple[str, ...]] | None = None
        for kind in placement.uniform(nodes):
            domains = sorted(placement.domains(kind, self.depth).items(), key=lambda one: (-len(one[1]), one[0]))
            taken: list[str] = []
            for number, (_, there) in enumerate(domains[: self._most_domains()], start=1):
                part = placement.place(there, min(len(there), self.ask.count - len(taken)), self.depth, self._tightness)
                taken += part or ()
                if len(taken) == self.ask.count:
                    best = min(filter(None, (best, (number, tuple(taken)))))
                    break
        return None if best is None else best[1]

    def _in_best_domain(self, blocked: Sequence[Site]) -> list[Site]:
        """Return those of the nodes that lie in the domain that has the most that can be used."""
        usable: dict[object, int] = defaultdict(int)
        for site in self.sites.values():
            if len(site.node.domains) >= self.depth:
                usable[site.node.block(self.depth)] += site.usable
        best = max(sorted(usable, key=str), key=lambda one: usable[one], default=None)
        return [site for site in blocked if site.node.block(self.depth) == best]


def _with(workload: Workload, shape: Shape) -> Workload:
    """Return the workload with what it has on one node; a slice keeps the whole card from others (V1)."""
    if workload.slice is not None:
        return replace(workload, shape=shape + Shape(gpus=1))
    return replace(workload, shape=shape) if workload.groups else workload


def can_move(ledger: Ledger, workload: Workload) -> bool:
    """Return whether committed work can be moved in time: it hears that it is to, and saves often enough (C5).

    Its last checkpoint, or its start, is no older than the policy's lead for moves.
    """
    saved = workload.saved_at if workload.saved_at is not None else workload.admitted_at
    since = ledger.now if saved is None else saved
    return workload.moving or (workload.movable and ledger.now - since <= ledger.policy.calendar.move_lead_s)


_ORDER = {"": 0, MOVED: 1, DRAINED: 2, ENDS: 3}


def _keeps_first(occupant: tuple[Workload, str, float]) -> tuple[int, int, str]:
    """Return in which order occupants keep their place beside a booking: first who cannot leave, last who will."""
    workload, how, _ = occupant
    return (_ORDER[how], -workload.priority, workload.name)


def _difficulty(site: Site) -> tuple[float, int, str]:
    return (max(site.clear_at, default=math.inf), len(site.blocked_by), site.node.name)
