"""The answer to "why?": a wait, a phase or a drain as a sentence with its numbers.

Runs the same decision as the arbiter and reads it; decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet_app.engine import cardless, headroom, saving
from fleet_app.engine.ahead import Ahead, watched
from fleet_app.engine.calendar import Booking
from fleet_app.engine.cards import Slice
from fleet_app.engine.decide import steps
from fleet_app.engine.ends import over, spoken
from fleet_app.engine.errors import NotFoundError
from fleet_app.engine.expected import Expected, expected
from fleet_app.engine.holders import holders_of
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.ordering import class_of
from fleet_app.engine.plan import Admit, AdmitSlice, DomainRoom, Plan, Reason, Wait
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.workload import Group, Service, Workload

SHOWN = 5
"""How many domains or names a sentence lists; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One workload or service, why it is as it is, and who is ahead of it in the queue."""

    name: str
    sentence: str
    wait: Wait | None = None
    ahead: tuple[Ahead, ...] = ()
    """Who is considered before it, first to be considered first."""
    expected: Expected | None = None
    """When it may start, an estimate; None where it does not wait, or no wait will start it (O9)."""


def explain(state: FleetState, policy: Policy, now: float, name: str) -> Explanation:
    """Return why the workload or service is as it is.

    Raises NotFoundError when nothing of that name has not ended.
    """
    workload = next((one for one in state.workloads if one.name == name), None)
    service = next((one for one in state.services if one.name == name), None)
    if workload is None and service is None:
        raise NotFoundError(f"nothing called {name!r} waits or runs", where="explain", fix="See `fleet queue`")
    plan, ahead = watched(state, policy, now, name)
    wait = plan.wait_of(name)
    if workload is None:
        assert service is not None
        if service.slice is not None:
            sentence = _of_slices(state, service, service.slice, wait)
        else:
            sentence = _of_service(service, wait) + _held(state, policy, service, wait)
        free = headroom.sentence(policy.headroom, state.growth_gpus)
        estimate = None if wait is None else expected(state, policy, now, name)
        about = f"{sentence}; {free}" if free else sentence
        return Explanation(name=name, sentence=about, wait=wait, expected=estimate)
    if workload.phase is not Phase.QUEUED:
        leaves_for = () if workload.drained_for is None else (workload.drained_for,)
        sentence = _of_running(workload, now) + _put_off(state, policy, now, workload)
        return Explanation(name=name, sentence=sentence + _booked(state, leaves_for, now))
    if wait is None:
        sentence = _of_admitted(plan, name)
    elif workload.slice is not None and wait.reason is not Reason.PULLING:
        leaving = _listed(_draining(state, wait))
        sentence = cardless.sentence(wait, workload.team, workload.slice, leaving, state)
    else:
        sentence = sentence_of(wait, workload, _draining(state, wait), now=now, whole=_whole(state, workload))
        sentence += (
            _one_class(state, policy, workload, wait)
            + _lost(policy, workload, wait)
            + _moving(state, name)
            + _booked(state, wait.blocked_by, now)
        )
    estimate = None if wait is None else expected(state, policy, now, name)
    return Explanation(name=name, sentence=sentence, wait=wait, ahead=ahead, expected=estimate)


def sentence_of(
    wait: Wait, workload: Workload, leaving: tuple[str, ...] = (), *, now: float, whole: bool = False
) -> str:
    """Return a workload's wait as a sentence: what it needs, what there is, what would have to change, and when.

    `leaving` names whose exit it waits for; `now` is in seconds; `whole` is whether a bundle takes a node's every GPU.
    """
    if workload.slice is not None and wait.reason is not Reason.PULLING:
        return cardless.sentence(wait, workload.team, workload.slice, _listed(leaving))
    if wait.reason in {Reason.BEHIND, Reason.ITS_TURN}:
        kept = f"; its {wait.asked} GPUs are kept for it" if wait.reason is Reason.ITS_TURN else ""
        ahead = ", ".join(wait.blocked_by)
        return f"team {workload.team} takes its queue strictly in order; {ahead} is ahead of it{kept}"
    if wait.reason in {Reason.QUOTA_USED, Reason.TOO_LARGE_FOR_QUOTA, Reason.CONTRACT_BROKEN, Reason.UNKNOWN_TEAM}:
        why = _about_quota(wait, workload)
    elif wait.reason is Reason.PULLING:
        pulls = f"{wait.asked} pull{'s' if wait.asked > 1 else ''} would begin for it at {wait.level}"
        why = f"{pulls}, where {wait.available} more may now; {_listed(wait.blocked_by)} is first"
    else:
        short = f"for {wait.group} " if wait.group else ""
        why = f"needs {_bundles(workload, whole=whole)}; {short}{_about_room(wait, leaving)}"
    if wait.planned_at is None:
        return why
    return f"{why}; planned start in {spoken(wait.planned_at - now)}, when {wait.planned_after} has ended"


def _about_quota(wait: Wait, workload: Workload) -> str:
    team, short = workload.team, wait.asked - wait.available
    match wait.reason:
        case Reason.UNKNOWN_TEAM:
            return f"team {team} is not in the policy; add it, or submit for a team that is"
        case Reason.TOO_LARGE_FOR_QUOTA:
            of = f" of {wait.level}" if wait.level else ""
            return f"needs {wait.asked} GPUs; team {team} may never have more than {wait.available}{of}"
        case Reason.CONTRACT_BROKEN:
            lost = f"broke the drain contract {workload.broken_drains} times and lost the right to lent capacity"
            return f"{lost}; needs {wait.asked} GPUs, team {team} has no more than {wait.available} of its own"
    more = f"{', '.join(wait.blocked_by)} will bring more" if wait.blocked_by else f"{short} more would do"
    return f"needs {wait.asked} GPUs; team {team} has {wait.available} left of its {wait.level or 'quota'}: {more}"


def _about_room(wait: Wait, leaving: tuple[str, ...]) -> str:
    match wait.reason:
        case Reason.TOO_LARGE_FOR_FLEET:
            where = f"one {wait.level}" if wait.level else "the fleet"
            return f"{where} could never fit more than {wait.available}: make it smaller, or add nodes"
        case Reason.RESERVED:
            return f"what would do is kept for {', '.join(wait.blocked_by)}, ahead of it"
        case Reason.BOOKED:
            return f"{wait.available} are open to it, what else would do is booked: {', '.join(wait.blocked_by)}"
        case Reason.DRAINS_LIMITED:
            who = f"{', '.join(wait.blocked_by)} would have to leave, {wait.asked} in all"
            return f"{who}, and {wait.available} more may be asked in this cycle"
        case Reason.DRAIN_UNDER_WAY:
            who = ", ".join(leaving) or "what is leaving"
            return f"{wait.available} are free, the rest is coming: waiting for {who} to exit"
    return _obstacle(wait)


def _of_slices(state: FleetState, service: Service, wanted: Slice, wait: Wait | None) -> str:
    occupied = sum(grant.occupied for grant in service.grants)
    has = f"wants {service.wanted} replicas, each with {wanted.text}, has {occupied} running"
    if wait is None:
        return f"{has} and {len(service.grants) - occupied} granted"
    return f"{has}; {cardless.sentence(wait, service.team, wanted, _listed(_draining(state, wait)), state)}"


def _of_service(service: Service, wait: Wait | None) -> str:
    occupied = sum(grant.occupied for grant in service.grants)
    has = f"wants {service.wanted} replicas of {service.shape.gpus} GPUs, has {occupied} running"
    ready = len(service.grants) - occupied
    if wait is None:
        return f"{has} and {ready} granted"
    match wait.reason:
        case Reason.DRAIN_UNDER_WAY:
            return f"{has}; room is coming free from a drain"
        case Reason.QUOTA_USED:
            left = f"team {service.team} has {wait.available} GPUs left of its {wait.level or 'nominal'}"
            return f"{has}; {left}, a replica needs {wait.asked}"
        case Reason.APART:
            return f"{has}; on every serving node that could have room it would be beside what it is kept apart from"
        case Reason.UNKNOWN_TEAM:
            return f"{has}; team {service.team} is not in the policy: add it, or name a team that is"
    return f"{has}; no serving node has room for one more, and nothing that can be drained there would make it"


def _held(state: FleetState, policy: Policy, service: Service, wait: Wait | None) -> str:
    """Return who holds what a service waits for, as the end of a sentence."""
    if wait is None or wait.reason is Reason.UNKNOWN_TEAM:
        return ""
    named = holders_of(state, policy, service, wait.reason)
    where = f"its team's nominal is used by {_listed(named)}" if wait.reason is Reason.QUOTA_USED else _listed(named)
    if wait.reason is Reason.DRAIN_UNDER_WAY:
        where = f"it waits for {where}"
    elif wait.reason is not Reason.QUOTA_USED:
        where = f"serving's nodes are held by {where}"
    return f"; {where}" if named else ""


def _of_running(workload: Workload, now: float) -> str:
    where = ", ".join(workload.nodes)
    if workload.slice is not None:
        where = f"card {workload.card} of {where}, with {workload.slice.text}"
    if workload.minimum is not None:
        where = f"{where} ({len(workload.nodes)} of {workload.minimum}..{workload.bundles} members)"
    if workload.phase is Phase.DRAINING:
        if workload.moving:
            who = workload.drained_for or "whoever asked"
            return f"is asked to move at its next checkpoint, for {who}: no deadline; until then on {where}"
        left = max(0.0, (workload.deadline_at or now) - now)
        why = over(workload) if workload.expired else f"is draining for {workload.drained_for or 'whoever asked'}"
        return f"{why}: {left:.0f} s left on {where}"
    if workload.going:
        left = max(0.0, (workload.going_by or now) - now)
        members = f"its members on {', '.join(workload.going)} leave for {workload.going_for}, within {left:.0f} s"
        return f"is {workload.phase} on {where}; {members}"
    return f"is {workload.phase} on {where}"


def _put_off(state: FleetState, policy: Policy, now: float, workload: Workload) -> str:
    """Return for whom a workload that stays is to leave by plan, once fewer save at once (D7)."""
    most = policy.drain.most_at_once
    if most is None or workload.leaving or workload.moving:
        return ""
    ledger = Ledger(state, policy, now)
    for _ in steps(ledger, state):
        pass
    whom = ledger.memo.put_off.get(workload.name)
    if whom is None:
        return ""
    return f"; it is to leave for {whom}, once fewer do: {saving.under_way(ledger)} leave or move, {most} may at once"


def _of_admitted(plan: Plan, name: str) -> str:
    for action in plan.actions:
        if isinstance(action, AdmitSlice) and action.workload == name:
            return f"starts in the next cycle on {action.node}: {action.why}"
        if isinstance(action, Admit) and action.workload == name:
            return f"starts in the next cycle on {', '.join(action.nodes)}: {action.why}"
    return "is about to be considered"


def _draining(state: FleetState, wait: Wait) -> tuple[str, ...]:
    already = (one.name for one in state.workloads if _leaves_for(one, wait.workload))
    return tuple(sorted({*wait.blocked_by, *already}))


def _one_class(state: FleetState, policy: Policy, workload: Workload, wait: Wait) -> str:
    """Return how many of its nodes one class has, for what may be on nodes of either but not of both (P12)."""
    either = wait.asked > 1 and not wait.group and class_of(policy, workload).yields
    if not either or wait.reason is not Reason.NO_ROOM or len({node.node_class for node in state.nodes}) == 1:
        return ""
    return f"; its nodes have to be of one class, and neither has more than {wait.available} of {wait.asked} for it"


def _lost(policy: Policy, workload: Workload, wait: Wait) -> str:
    """Return that lent capacity is closed to a workload that yields, where that is not the reason already (D4)."""
    lost = class_of(policy, workload).yields and workload.broken_drains >= policy.drain.max_broken
    if not lost or wait.reason is Reason.CONTRACT_BROKEN:
        return ""
    return f"; it broke the drain contract {workload.broken_drains} times and lost the right to lent capacity"


def _moving(state: FleetState, name: str) -> str:
    """Return who was asked to move for a workload: it waits for none of them (D6)."""
    asked = sorted(one.name for one in state.workloads if one.drained_for == name and one.moving)
    return f"; {_listed(asked)} was asked to move for it at its next checkpoint" if asked else ""


def _booked(state: FleetState, names: Sequence[str], now: float) -> str:
    """Return for whom those of the names that are bookings are, and from when to when."""
    known = {one.name: one for one in state.bookings}
    return "".join(f"; {_for_whom(known[name], now)}" for name in names if name in known)


def _for_whom(booking: Booking, now: float) -> str:
    whose = f"{booking.name} is for {booking.team or 'maintenance'}"
    if booking.at(now):
        return f"{whose}, for {spoken(booking.end_at - now)} more"
    return f"{whose}, from in {spoken(booking.start_at - now)} for {spoken(booking.end_at - booking.start_at)}"


def _leaves_for(one: Workload, beneficiary: str) -> bool:
    """Return whether a workload, or members of it, were told to leave for somebody."""
    return (one.leaving and one.drained_for == beneficiary) or (bool(one.going) and one.going_for == beneficiary)


def _whole(state: FleetState, workload: Workload) -> bool:
    sizes = [node.capacity.gpus for node in state.nodes if workload.shape.fits(node.capacity)]
    return 0 < workload.shape.gpus == max(sizes, default=0)


def _bundles(workload: Workload, *, whole: bool) -> str:
    if workload.groups:
        parts = " and ".join(map(_group, workload.groups))
        return f"{parts} together{f' on one {workload.within}' if workload.within else ''}"
    count = workload.bundles if workload.minimum is None else workload.minimum
    more = f" or up to {workload.bundles}" if count < workload.bundles else ""
    nodes = f"{count} {'whole ' if whole else ''}{'node' if count == 1 else 'nodes'}"
    each = "" if whole else f" with {workload.shape.gpus} free GPUs{'' if count == 1 else ' each'}"
    return f"{nodes}{each}{more}{f' on one {workload.within}' if workload.within else ''}"


def _group(group: Group) -> str:
    """Return what a group needs, such as `4 nodes with 8 free GPUs each (actors)`; CPUs where it asks for no GPU."""
    shape, count = group.shape, group.bundles
    asks = f"{shape.gpus} free GPUs" if shape.gpus else f"{shape.cpu_milli / 1000:g} free CPUs"
    return f"{count} node{'' if count == 1 else 's'} with {asks}{'' if count == 1 else ' each'} ({group.name})"


def _obstacle(wait: Wait) -> str:
    """Return what each domain has, and how much more the nearest would need."""
    if not wait.rooms:
        where = f"the best {wait.level}" if wait.level else "the fleet"
        return f"{where} has {wait.available} free: {wait.asked - wait.available} more would do"
    ordered = sorted(wait.rooms, key=lambda room: (-room.free_nodes - room.draining_nodes, room.domain))
    has = ", ".join(
        f"{room.domain} has {room.free_nodes}{' free' if not i else ''}" for i, room in enumerate(ordered[:SHOWN])
    )
    near = ordered[:1] if wait.level else ordered
    missing = wait.asked - sum(room.free_nodes for room in near)
    where = f" on {near[0].domain}" if wait.level else ""
    more = f", {len(ordered) - SHOWN} others no more" if len(ordered) > SHOWN else ""
    level = f"{wait.level} " if wait.level else ""
    return f"{level}{has}{more}: {max(1, missing)} more{where} would do; {_leaving(near)}"


def _leaving(rooms: Sequence[DomainRoom]) -> str:
    """Return what is draining in the domains, who could be drained, and what is kept out there (H4)."""
    draining = sum(room.draining_nodes for room in rooms)
    names = sorted({name for room in rooms for name in room.drainable})
    kept_out = sorted({name for room in rooms for name in room.quarantined})
    quarantined = f"; quarantined there: {_listed(kept_out)}" if kept_out else ""
    spares = sorted({name for room in rooms for name in room.spares})
    quarantined += f"; kept as spares there: {_listed(spares)}" if spares else ""
    coming = f"draining there: {draining}; " if draining else ""
    return f"{coming}drainable there: {_listed(names) or 'nobody'}{quarantined}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
