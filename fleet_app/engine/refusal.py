"""Why not now: the first thing that would have to change for a workload to start (rules O3, Q2, Q3, C1, C4).

Knows the ledger and where a workload may run. Changes nothing and chooses nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fleet_app.engine import capped, placement, reclaim
from fleet_app.engine.eligibility import (
    asker,
    booked_ahead,
    depth,
    distrusted,
    may_use_headroom,
    unbooked,
    unreserved,
)
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import DomainRoom, Reason, Wait
from fleet_app.engine.rooms import rooms_of
from fleet_app.engine.spares import is_barred, spares_of
from fleet_app.engine.values import Block, Condition, Node, NodeClass
from fleet_app.engine.workload import Workload


def impossible(ledger: Ledger, workload: Workload) -> Wait | None:
    """Return the refusal of what no state of this fleet and its policy could hold (O3): it blocks nobody."""
    if workload.team not in ledger.tree.entries:
        return Wait(workload=workload.name, reason=Reason.UNKNOWN_TEAM, asked=workload.gpus, available=0)
    best = _most_ever(ledger, workload)
    return None if best >= workload.bundles else _rooms_wait(workload, Reason.TOO_LARGE_FOR_FLEET, best)


def over_quota(ledger: Ledger, workload: Workload) -> Wait | None:
    """Return the refusal of what its team may not take now, whoever yields (Q2, Q3, D4, V9).

    That a contract was broken is the reason only of what is more than its team's nominal: what waits for that comes to
    its turn as any other.
    """
    rules, broken, gpus = ledger.class_of(workload), distrusted(ledger, workload), workload.gpus
    may_borrow = rules.borrows and not broken
    most, left = _lent(ledger, workload.team, may_borrow=may_borrow) if rules.yields else _own(ledger, workload)
    if gpus > most:
        later = () if ledger.calendar is None else ledger.calendar.gaining(workload.team, gpus - most)
        if later:
            return _quota_wait(workload, Reason.QUOTA_USED, left, later)
        lost = broken and rules.borrows and rules.yields
        return _quota_wait(workload, Reason.CONTRACT_BROKEN if lost else Reason.TOO_LARGE_FOR_QUOTA, most)
    if gpus > left:
        return _quota_wait(workload, Reason.QUOTA_USED, left)
    ahead = () if rules.yields else booked_ahead(ledger, workload)
    left -= sum([one.gpus for one in ahead])
    if ahead and gpus > left:
        return _quota_wait(workload, Reason.RESERVED, left, tuple([one.name for one in ahead]))
    return None if ledger.caps is None else capped.refusal(ledger, workload)


def behind(workload: Workload, first: str) -> Wait:
    """Return the wait of what is behind another in a queue that is taken strictly in order (O6)."""
    return _quota_wait(workload, Reason.BEHIND, 0, (first,))


def in_turn(workload: Workload, first: str) -> Wait:
    """Return the wait of one whose room is kept for it until those ahead of it in a strict queue have started (O12)."""
    gpus = workload.gpus
    return Wait(workload=workload.name, reason=Reason.ITS_TURN, asked=gpus, available=gpus, blocked_by=(first,))


def too_many(ledger: Ledger, workload: Workload, victims: Sequence[Workload]) -> Wait:
    """Return the wait of one for whom more would have to leave than gangs may still ask in this cycle (R9)."""
    most = ledger.policy.drain.most_per_cycle or 0
    return Wait(
        workload=workload.name,
        reason=Reason.DRAINS_LIMITED,
        asked=len(victims),
        available=max(0, most - ledger.memo.asked),
        level=workload.within,
        blocked_by=ledger.members.names_of(victims),
    )


def no_room(ledger: Ledger, workload: Workload, nodes: Sequence[Node], rooms: tuple[DomainRoom, ...]) -> Wait:
    """Return the wait of what fits nowhere: kept for others, short of what is lent out, or short of nodes."""
    fitting = rooms_of(ledger, workload.shape, nodes).now()
    levels = depth(ledger, workload)
    open_to_it = placement.most(unreserved(ledger, workload, fitting), levels)
    if open_to_it >= workload.bundles:
        return _quota_wait(workload, Reason.QUOTA_USED, ledger.available(workload.team))
    booked = None if ledger.calendar is None else _booked(ledger, workload, nodes, fitting)
    if booked is not None:
        return booked
    if placement.most(fitting, levels) >= workload.bundles:
        ahead = sorted({ledger.reserved[node.name].name for node in fitting if node.name in ledger.reserved})
        return _rooms_wait(workload, Reason.RESERVED, open_to_it, rooms, tuple(ahead))
    return _rooms_wait(workload, Reason.NO_ROOM, open_to_it, rooms)


def _booked(ledger: Ledger, workload: Workload, nodes: Sequence[Node], fitting: Sequence[Node]) -> Wait | None:
    """Return the wait of what would start but for bookings, or could not even if all work had ended (C1, C2)."""
    assert ledger.calendar is not None
    able = [node for node in nodes if workload.shape.fits(ledger.empty[node.name])]
    levels = depth(ledger, workload)
    for some in (fitting, able):
        left = placement.most(unbooked(ledger, workload, some), levels)
        if placement.most(some, levels) >= workload.bundles > left:
            yields = ledger.class_of(workload).yields
            by = ledger.calendar.blocking(workload, [node.name for node in some], yields=yields)
            return _rooms_wait(workload, Reason.BOOKED, left, ahead=by)
    return None


def rooms(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> tuple[DomainRoom, ...]:
    """Return what each domain has for the workload, at the level that it asked for or else the outermost."""
    level = max(1, depth(ledger, workload))
    found, kept_out = placement.domains(nodes, level), placement.domains(_kept_out(ledger, workload), level)
    return tuple(
        _room(ledger, workload, "/".join(key), found.get(key, ()), kept_out.get(key, ()))
        for key in sorted({*found, *kept_out})
    )


def _most_ever(ledger: Ledger, workload: Workload) -> int:
    """Return how many bundles one domain of the empty fleet would hold, on nodes of one class (P12).

    The same for all that are alike in this.
    """
    headroom = may_use_headroom(ledger, workload)
    question = (headroom, workload.accelerator, workload.shape.parts)
    most = ledger.memo.most_ever.get(question)
    if most is None:
        able = [(node, alike) for node, alike in ledger.alike() if _would_hold(node, workload, headroom=headroom)]
        most = [_in_best_domain(able, level) for level in range(len(ledger.policy.levels) + 1)]
        ledger.memo.most_ever[question] = most
    return most[depth(ledger, workload)]


def _in_best_domain(able: Sequence[tuple[Node, int]], level: int) -> int:
    counts: dict[tuple[Block, NodeClass], int] = defaultdict(int)
    for node, alike in able:
        if len(node.domains) >= level:
            counts[node.block(level), node.node_class] += alike
    return max(counts.values(), default=0)


def _would_hold(node: Node, workload: Workload, *, headroom: bool) -> bool:
    """Return whether a node would hold a bundle of it if it were sound and empty."""
    return (
        workload.slice is None
        and workload.shape.fits(node.capacity)
        and (headroom or node.node_class is NodeClass.TRAINING)
        and (workload.accelerator is None or node.accelerator == workload.accelerator)
    )


def _kept_out(ledger: Ledger, workload: Workload) -> list[Node]:
    """Return the nodes that only their quarantine, or that they are spares, keeps it off, full or not (H4, P8)."""
    headroom = may_use_headroom(ledger, workload)
    quarantined = (node for node in ledger.nodes.values() if node.condition is Condition.QUARANTINED)
    found = [node for node in quarantined if _would_hold(node, workload, headroom=headroom)]
    spares = sorted(spares_of(ledger)) if is_barred(ledger, workload) else []
    return found + [node for name in spares if _would_hold(node := ledger.nodes[name], workload, headroom=headroom)]


def _room(
    ledger: Ledger, workload: Workload, name: str, domain: Sequence[Node], kept_out: Sequence[Node]
) -> DomainRoom:
    shape = workload.shape
    seeks = asker(ledger, workload)
    free = [node for node in domain if shape.fits(ledger.free[node.name])]
    soon = [node for node in domain if shape.fits(ledger.soon(node.name))]
    able = (
        []
        if ledger.class_of(workload).yields
        else [node for node in domain if node not in soon and shape.fits(reclaim.most_room(ledger, seeks, node))]
    )
    lodgers = ledger.lodging(node.name for node in able)
    return DomainRoom(
        domain=name,
        free_nodes=len(free),
        draining_nodes=len(soon) - len(free),
        drainable_nodes=len(able),
        total_nodes=sum(shape.fits(node.capacity) for node in domain),
        drainable=tuple(one.name for one in reclaim.candidates(ledger, seeks, lodgers)),
        quarantined=tuple(sorted(node.name for node in kept_out if not node.placeable)),
        spares=tuple(sorted(node.name for node in kept_out if node.placeable)),
    )


def _own(ledger: Ledger, workload: Workload) -> tuple[int, int]:
    """Return the most GPUs its team could ever take for what never yields, and what is left of that now."""
    lends = 0 if ledger.calendar is None else ledger.calendar.lends(workload)
    return ledger.tree.nominal(workload.team), ledger.firm_left(workload.team) - lends


def _lent(ledger: Ledger, team: str, *, may_borrow: bool) -> tuple[int, int]:
    """Return the most GPUs a team could ever take for what yields, and what is left of that now."""
    left = ledger.available(team)
    if may_borrow:
        return ledger.largest(team), left
    nominal = ledger.tree.nominal(team)
    return nominal, min(left, nominal - ledger.used.get(team, 0))


def _quota_wait(workload: Workload, reason: Reason, left: int, ahead: tuple[str, ...] = ()) -> Wait:
    return Wait(workload=workload.name, reason=reason, asked=workload.gpus, available=max(0, left), blocked_by=ahead)


def _rooms_wait(
    workload: Workload, reason: Reason, best: int, rooms: tuple[DomainRoom, ...] = (), ahead: tuple[str, ...] = ()
) -> Wait:
    return Wait(
        workload=workload.name,
        reason=reason,
        asked=workload.bundles,
        available=best,
        level=workload.within,
        rooms=rooms,
        blocked_by=ahead,
    )
