"""Whether a gang of several shapes starts: its groups together on exact nodes, or not at all (rules P7, O3, O4, C1).

The questions are those of every admission, asked of all groups at once: could it ever be, may its team take it, does it
fit now, who has to leave, what is kept for it meanwhile. Knows the ledger. Does not know the queue or other workloads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fleet_app.engine import (
    capped,
    capping,
    giving,
    inside,
    matching,
    mixed_reclaim,
    notices,
    overstaying,
    placement,
    reclaim,
    refusal,
    reserving,
)
from fleet_app.engine.eligibility import (
    asker,
    eligible_together,
    may_use_headroom,
    sought,
    sought_now,
    unbooked,
    unreserved,
)
from fleet_app.engine.ends import Start
from fleet_app.engine.fullness import emptiness, tightness
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.matching import Fits, Matched, Sought, Tally
from fleet_app.engine.plan import Action, DomainRoom, Reason, Wait
from fleet_app.engine.pulls import Gate
from fleet_app.engine.reclaim import Eviction
from fleet_app.engine.trial import Trial
from fleet_app.engine.values import Condition, Node, NodeClass, Shape
from fleet_app.engine.workload import Workload

Answer = Iterator[Action | Wait]


def consider(ledger: Ledger, workload: Workload, gate: Gate | None = None, *, watched: bool) -> Answer:
    """Yield the admission of a queued workload, or its wait and the drains that make room for it.

    `watched` is whether its wait is to say what each domain has. `gate` is that of what has to be pulled first.
    """
    yields = ledger.class_of(workload).yields
    refused = impossible(ledger, workload) or refusal.over_quota(ledger, workload)
    if refused is not None and capped.is_cap(refused) and not yields:
        yield from capping.wait_for(ledger, workload, refused)
        return
    if refused is not None:
        if refused.reason is Reason.QUOTA_USED and not yields and not refused.blocked_by:
            refused = _keep(ledger, workload, refused, for_room=False)
        yield refused
        return
    booked = list(inside.place(ledger, workload, gate))
    if booked:
        yield from booked
        return
    nodes = _nodes(ledger, workload)
    chosen = now(ledger, workload, nodes)
    if chosen is not None:
        yield from _started(ledger, workload, chosen, gate)
        return
    found = None if yields else eviction(ledger, workload, nodes)
    if found is not None and notices.may_ask_now(ledger, found.victims):
        sizes = " + ".join(f"{group.bundles} x {group.shape.gpus}" for group in workload.groups)
        why = f"{workload.name} needs {sizes} GPUs inside its team's nominal"
        yield from giving.coming(ledger, workload, found, why)
        return
    if found is None and not yields:
        yield from overstaying.moves(ledger, workload, nodes)
    wait = _no_room(ledger, workload, nodes)
    if found is not None:
        wait = refusal.too_many(ledger, workload, found.victims)
    if watched and wait.group:
        wait = replace(wait, rooms=_rooms(ledger, workload, nodes, wait.group))
    yield wait if yields else _keep(ledger, workload, wait, for_room=True)


def _started(ledger: Ledger, workload: Workload, chosen: Sequence[str], gate: Gate | None) -> Answer:
    """Yield the admission, or the wait for what has to be pulled first (G1)."""
    yields = ledger.class_of(workload).yields
    pulling = None if gate is None else gate.refusal(workload, chosen)
    if pulling is not None:
        yield pulling if yields else _keep(ledger, workload, pulling, for_room=True)
        return
    why = placement.where([ledger.nodes[name] for name in chosen])
    yield giving.admitted(ledger, workload, chosen, why, gate)


def _nodes(ledger: Ledger, workload: Workload) -> list[Node]:
    """Return the nodes that it may use: which accelerator they have matters only to groups that ask for GPUs."""
    return eligible_together(ledger, workload)


def _free(ledger: Ledger) -> Fits:
    return lambda name, shape: shape.fits(ledger.free[name])


def _empty(ledger: Ledger) -> Fits:
    return lambda name, shape: shape.fits(ledger.empty[name])


def impossible(ledger: Ledger, workload: Workload) -> Wait | None:
    """Return the refusal of what no state of this fleet and its policy could hold (O3), with the group in the way."""
    if workload.team not in ledger.tree.entries:
        return Wait(workload=workload.name, reason=Reason.UNKNOWN_TEAM, asked=workload.gpus, available=0)
    headroom = may_use_headroom(ledger, workload)
    able = [node for node in ledger.nodes.values() if headroom or node.node_class is NodeClass.TRAINING]

    def fits(name: str, shape: Shape) -> bool:
        return shape.fits(ledger.nodes[name].capacity)

    wants = sought(ledger, workload)
    if Tally(wants, {node.name: node for node in able}, fits).ample:
        return None
    return _short(workload, wants, Reason.TOO_LARGE_FOR_FLEET, able, fits)


def now(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> tuple[str, ...] | None:
    """Return the nodes on which its groups fit together now, in rank order; None where they do not."""
    if ledger.available(workload.team) < workload.gpus:
        return None

    able, order = unreserved(ledger, workload, nodes), tightness(ledger, workload.shape)
    return matching.place(sought_now(ledger, workload), able, _free(ledger), order, emptiness(ledger))


def eviction(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> Eviction | None:
    """Return the nodes that it waits for and who leaves them, nobody where enough comes; None where nothing helps."""
    is_free = reserving.is_free(ledger, workload)
    found = mixed_reclaim.find(ledger, asker(ledger, workload), nodes, is_free)
    return capping.eviction(ledger, workload, is_free) if found is None and ledger.caps is not None else found


def _no_room(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> Wait:
    """Return the wait of what fits nowhere: short of what is lent out, kept for others, or short of nodes."""
    wants, fits = sought_now(ledger, workload), _free(ledger)
    open_to_it = unreserved(ledger, workload, nodes)
    if Tally(wants, {node.name: node for node in open_to_it}, fits).ample:
        left = max(0, ledger.available(workload.team))
        return Wait(workload=workload.name, reason=Reason.QUOTA_USED, asked=workload.gpus, available=left)
    if not Tally(wants, {node.name: node for node in nodes}, fits).ample:
        return _short(workload, wants, Reason.NO_ROOM, open_to_it, fits)
    open_ones = unbooked(ledger, workload, nodes)
    if ledger.calendar is not None and not Tally(wants, {node.name: node for node in open_ones}, fits).ample:
        by = ledger.calendar.blocking(workload, [node.name for node in nodes], yields=ledger.class_of(workload).yields)
        return replace(_short(workload, wants, Reason.BOOKED, open_ones, fits), blocked_by=by)
    ahead = {ledger.reserved[node.name].name for node in nodes if node.name in ledger.reserved}
    wait = _short(workload, wants, Reason.RESERVED, open_to_it, fits)
    return replace(wait, blocked_by=tuple(sorted(ahead)))


def _short(workload: Workload, wants: Sought, reason: Reason, nodes: Sequence[Node], fits: Fits) -> Wait:
    """Return a wait that names the hardest group that is short of nodes where the most bundles get theirs."""
    found = matching.nearest(wants, nodes, fits)
    place = next(place for place in wants.hardest_first if len(found[place]) < wants.groups[place].bundles)
    group = wants.groups[place]
    return Wait(
        workload=workload.name,
        reason=reason,
        asked=group.bundles,
        available=len(found[place]),
        level=workload.within,
        group=group.name,
    )


def _rooms(ledger: Ledger, workload: Workload, nodes: Sequence[Node], group: str) -> tuple[DomainRoom, ...]:
    """Return what each domain has for one group beside those that are harder to place."""
    level = max(1, sought_now(ledger, workload).depth)
    parts, kept_out = placement.domains(nodes, level), placement.domains(_kept_out(ledger, workload, group), level)
    return tuple(
        replace(
            _room(ledger, workload, "/".join(key), parts.get(key, []), group),
            quarantined=tuple(sorted(node.name for node in kept_out.get(key, ()))),
        )
        for key in sorted({*parts, *kept_out})
    )


def _kept_out(ledger: Ledger, workload: Workload, name: str) -> list[Node]:
    """Return the nodes that only their quarantine keeps a group off, full or not (H4)."""
    shape = next(group.shape for group in workload.groups if group.name == name)
    bound = workload.accelerator if shape.gpus else None
    headroom = may_use_headroom(ledger, workload)
    return [
        node
        for node in ledger.nodes.values()
        if node.condition is Condition.QUARANTINED
        and shape.fits(node.capacity)
        and (headroom or node.node_class is NodeClass.TRAINING)
        and bound in {None, node.accelerator}
    ]


def _room(ledger: Ledger, workload: Workload, name: str, domain: Sequence[Node], group: str) -> DomainRoom:
    wants, seeks = sought_now(ledger, workload), asker(ledger, workload)
    place = [one.name for one in wants.groups].index(group)
    yields = ledger.class_of(workload).yields

    def count(fits: Fits) -> int:
        return len(matching.nearest(wants, domain, fits)[place])

    free = count(_free(ledger))
    soon = max(free, count(lambda node, shape: shape.fits(ledger.soon(node))))
    most = soon if yields else max(soon, count(_most(ledger, workload)))
    lodgers = ledger.lodging(node.name for node in domain) if most > soon else []
    return DomainRoom(
        domain=name,
        free_nodes=free,
        draining_nodes=soon - free,
        drainable_nodes=most - soon,
        total_nodes=count(lambda node, shape: shape.fits(ledger.nodes[node].capacity)),
        drainable=tuple(one.name for one in reclaim.candidates(ledger, seeks, lodgers)),
    )


def _most(ledger: Ledger, workload: Workload) -> Fits:
    seeks = asker(ledger, workload)
    known: dict[str, Shape] = {}

    def fits(name: str, shape: Shape) -> bool:
        if name not in known:
            known[name] = reclaim.most_room(ledger, seeks, ledger.nodes[name])
        return shape.fits(known[name])

    return fits


def _near(ledger: Ledger, workload: Workload) -> Fits:
    most, ever = _most(ledger, workload), _empty(ledger)
    return lambda name, shape: ever(name, shape) and most(name, shape)


def _keep(ledger: Ledger, workload: Workload, wait: Wait, *, for_room: bool) -> Wait:
    """Keep nodes and nominal for a workload that never yields and waits; return its wait with its planned start (O4).

    One that waits not `for_room` but for nominal keeps nodes only when its start is planned, and one that waits for a
    booking to end keeps nothing (O7, C1).
    """
    nodes, ever = _nodes(ledger, workload), _empty(ledger)
    if wait.reason is Reason.BOOKED or not _holds(ledger, workload, nodes, ever) or not reserving.may_keep(ledger):
        return wait
    able = list(filter(reserving.is_free(ledger, workload, math.inf), nodes))
    start = _plan(ledger, workload, able) if ledger.limited else None
    ledger.booked[workload.team].append(workload)
    if start is not None:
        return replace(wait, planned_at=start.at, planned_after=start.after)
    if for_room:
        _keep_nodes(ledger, workload, matching.kept(sought_now(ledger, workload), able, _near(ledger, workload), ever))
    return wait


def _holds(ledger: Ledger, workload: Workload, nodes: Sequence[Node], fits: Fits) -> bool:
    return Tally(sought_now(ledger, workload), {node.name: node for node in nodes}, fits).ample > 0


def _plan(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> Start | None:
    """Keep the nodes that all groups can have first by known ends, and return the planned start; None without one.

    Of those the ones with the least idle now, which others could use meanwhile.
    """
    trial = Trial(ledger, asker(ledger, workload), nodes)
    start = reserving.planned(ledger, workload, trial)
    if start is not None:
        ordered = sorted(trial.nodes.values(), key=lambda node: (ledger.free[node.name].gpus, node.domains, node.name))
        _keep_nodes(
            ledger, workload, matching.kept(sought_now(ledger, workload), ordered, trial.has_room, trial.has_room)
        )
    return start


def _keep_nodes(ledger: Ledger, workload: Workload, found: Matched | None) -> None:
    with_gpus = [group.shape.gpus > 0 for group in workload.groups]
    for gpus, nodes in zip(with_gpus, found or (), strict=False):
        reserving.keep_nodes(ledger, workload, nodes, gpus=gpus)
