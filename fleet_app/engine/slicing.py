"""Slices given out: replicas first, then jobs in turn, and who yields to them (rules V3 to V6; S1, S3, S6, O5, O6).

Gangs never come here: they have whole nodes. Knows the slices and who asks. Does not change layouts.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby

from fleet_app.engine import notices, yielding
from fleet_app.engine.apart import barred, crowds
from fleet_app.engine.deck import Place, grant_name
from fleet_app.engine.needs import Need, Spare, spare, surplus
from fleet_app.engine.ordering import queue, ranking
from fleet_app.engine.plan import Action, AdmitSlice, Drain, GiveSlice, Reason, Shrink, TakeGrant, Wait
from fleet_app.engine.pulls import Gate
from fleet_app.engine.slices import Ask, Slices, due_of, of_job, of_service
from fleet_app.engine.workload import Grant, Kind, Workload

Answer = Iterator[Action | Wait]

HOPELESS = {Reason.UNKNOWN_TEAM, Reason.TOO_LARGE_FOR_FLEET, Reason.TOO_LARGE_FOR_QUOTA}
"""What no wait ends: it is in nobody's way (O3)."""


def serve(slices: Slices, needs: Sequence[Need]) -> Answer:
    """Yield grants of slices given and taken back, drains, and a wait for each service that is left short.

    `needs` are those for slices, first to be served first. Floors come first, and then one replica each in turn (S3).
    """
    for need in needs:
        yield from _take_surplus(slices, need)
    for need in needs:
        yield from _raise(slices, needs, need, need.floor)
    short = list(needs)
    while short:
        still = []
        for need in short:
            before = len(need.kept)
            yield from _raise(slices, needs, need, min(before + 1, need.wanted))
            if len(need.kept) > before:
                still.append(need)
        short = still


def admit(slices: Slices, gate: Gate | None = None) -> Answer:
    """Yield an admission or a wait for every job that waits for a slice.

    What was refused once is refused to all that ask for the same: room and quota only shrink. In a strict queue nobody
    passes the first that waits for the same flavor; who waits for another may (O6, V5). Whoever may start goes through
    the `gate` of what has to be pulled first, where there is one (G1).
    """
    yield from _give_nominal_back(slices)
    refused: dict[object, Wait] = {}
    first: dict[object, str] = {}
    for job in _in_turn(slices):
        line = (job.team, job.slice, job.accelerator)
        if line in first:
            yield _wait(job.name, Reason.BEHIND, 1, 0, (first[line],))
            continue
        question = (*line, job.priority, job.kind, job.bundles, job.shape, job.broken_drains)
        known = refused.get(question)
        for part in [_for(slices, job, known)] if known is not None else list(_consider(slices, job, gate)):
            if isinstance(part, Wait):
                if part.reason is not Reason.PULLING:
                    refused[question] = part
                if part.reason not in HOPELESS and job.team in slices.ledger.tree.strict:
                    first[line] = job.name
            yield part


def _take_surplus(slices: Slices, need: Need) -> Iterator[TakeGrant]:
    service = need.service
    gone, beyond = surplus(need)
    for grant in gone:
        yield _take(slices, need, grant, f"{grant.node} takes no new replicas")
    for grant in beyond:
        yield _take(slices, need, grant, f"{service.name} wants {service.wanted}")


def _raise(slices: Slices, needs: Sequence[Need], need: Need, target: int) -> Answer:
    """Find slices for replicas one by one up to the target; stop at the first that finds none."""
    while len(need.kept) < target:
        before = len(need.kept)
        yield from _one(slices, needs, need)
        if len(need.kept) == before:
            return


def _one(slices: Slices, needs: Sequence[Need], need: Need) -> Answer:
    """Yield what it takes to give one more replica its slice: a grant, a wait for what is coming, drains, or a no."""
    service = need.service
    if service.team not in slices.ledger.tree.entries:
        yield _wait(service.name, Reason.UNKNOWN_TEAM, 1, 0)
        return
    ask = of_service(slices, service, barred(need))
    crowds = _crowds(slices, need, ask)
    place = slices.now(ask, crowds)
    if place is not None:
        number = len(need.kept)
        slices.give(ask, place, who=grant_name(service.name, f"new-{number}"))
        slices.ledger.replicas[place.node] += 1
        need.kept.append(Grant(name="", node=place.node, card=place.card))
        why = f"{service.name} wants {service.wanted}: {ask.slice.text} on card {place.card} of {place.node}"
        yield GiveSlice(
            service=service.name, node=place.node, card=place.card, slice=ask.slice, shape=ask.shape, why=why
        )
        return
    yield from _make_room(slices, ask, crowds, need, spare(needs, need))


def _crowds(slices: Slices, need: Need, ask: Ask) -> dict[str, tuple[int, ...]]:
    """Return by node how many replicas its domain has, and it has itself, where they are to be spread (S2, S8)."""
    domains = crowds(need, slices.ledger.nodes, ask.nodes)
    own = Counter(grant.node for grant in need.kept) if need.service.spread else Counter[str]()
    return {node.name: (domains.get(node.name, 0), own[node.name]) for node in ask.nodes} if domains or own else {}


def _make_room(
    slices: Slices, ask: Ask, crowds: Mapping[str, tuple[int, ...]], need: Need, others: Sequence[Spare]
) -> Answer:
    """Wait for what is coming free, else take another's spare idle grant, else ask jobs to leave (S6)."""
    place = slices.soon(ask, crowds)
    if place is None:
        yield from _take_spare(slices, ask, others)
        place = slices.soon(ask, crowds)
    if place is None:
        found = yielding.find(slices, ask)
        if found is None:
            yield _refusal(slices, ask) if not barred(need) else _apart(slices, need, ask)
            return
        place = found.place
        yield from _leave(slices, found.victims, ask.name, f"{ask.name} needs {ask.slice.text} on {place.node}")
    slices.wait_for(ask, place)
    need.kept.append(Grant(name="", node=place.node, card=place.card))
    yield _wait(ask.name, Reason.DRAIN_UNDER_WAY, 1, 0)


def _apart(slices: Slices, need: Need, ask: Ask) -> Wait:
    """Return the refusal of a replica to which some nodes are closed (S8); elsewhere a card may be cut for it."""
    anywhere = _why(slices, of_service(slices, need.service))
    if anywhere.reason is not Reason.NO_ROOM:
        return anywhere
    slices.unmet.append(ask)
    return _wait(ask.name, Reason.APART, 1, 0)


def _take_spare(slices: Slices, ask: Ask, others: Sequence[Spare]) -> Iterator[TakeGrant]:
    """Take one idle grant of a service with which the ask fits on its card, if there is one."""
    able = set(slices.deck.places(ask.nodes))
    for other, grant in others:
        place = Place(grant.node, -1 if grant.card is None else grant.card)
        if place not in able:
            continue
        name = grant_name(other.service.name, grant.name)
        enough = slices.deck.fits(place, ask.slice, {*slices.deck.leaving(place), name})
        if enough and slices.allows(ask, place, soon=True):  # else the other would have it back in the next cycle
            yield _take(slices, other, grant, f"{ask.name} needs the room")
            return


def _take(slices: Slices, need: Need, grant: Grant, why: str) -> TakeGrant:
    service, ledger = need.service, slices.ledger
    ledger.take_back(service.team, grant.node, of_service(slices, service).shape)
    slices.deck.returned.add(grant_name(service.name, grant.name))
    node = ledger.nodes.get(grant.node)
    slices.dues.leave(of_service(slices, service).due, "unknown" if node is None else node.accelerator)
    if grant in need.kept:
        need.kept.remove(grant)
    return TakeGrant(service=service.name, grant=grant.name, why=why)


def _leave(slices: Slices, victims: Sequence[Workload], beneficiary: str, why: str) -> Iterator[Drain | Shrink]:
    """Ask victims to leave, and count their slices as coming free."""
    yield from notices.asked(slices.ledger, victims, beneficiary, why)
    for victim in victims:
        node = slices.ledger.nodes.get(victim.nodes[0])
        if victim.slice is not None:
            due = due_of(slices.ledger, victim, victim.slice)
            slices.dues.leave(due, "unknown" if node is None else node.accelerator)


def _give_nominal_back(slices: Slices) -> Iterator[Drain | Shrink]:
    """Let jobs on slices leave for their own team's committed work that waits for nominal only (V6)."""
    for team in sorted(slices.ledger.booked):
        for first in slices.ledger.booked[team][:1]:
            why = f"{first.name} needs {first.gpus} GPUs of its team's nominal"
            yield from _leave(slices, yielding.for_own(slices, first), first.name, why)


def _in_turn(slices: Slices) -> Iterator[Workload]:
    """Yield every job that waits for a slice once, next the one whose turn it is (O1, O5, O8)."""
    rank = ranking(slices.ledger.policy, slices.ledger.now)
    for _, alike in groupby(queue(slices.jobs, rank), key=lambda one: (rank(one), one.requeued)):
        waiting = list(alike)
        if all(slices.ledger.class_of(one).borrows for one in waiting):
            yield from _by_share(slices, waiting)
        else:
            yield from waiting


def _by_share(slices: Slices, waiting: Sequence[Workload]) -> Iterator[Workload]:
    """Yield next whose team would have the smallest dominant share; a turn changes its own team's alone (O5)."""
    place = {one.name: number for number, one in enumerate(waiting)}
    lines: dict[str, deque[Workload]] = {}
    for one in waiting:
        lines.setdefault(one.team, deque()).append(one)

    def turn(team: str) -> tuple[Fraction, int]:
        first = lines[team][0]
        ask = of_job(slices, first)
        return (slices.dues.share(ask.due, slices.accelerators(ask)), place[first.name])

    turns = {team: turn(team) for team in lines}
    while turns:
        team = min(turns, key=turns.__getitem__)
        yield lines[team].popleft()
        if lines[team]:
            turns[team] = turn(team)
        else:
            del turns[team]


def _consider(slices: Slices, job: Workload, gate: Gate | None) -> Answer:
    if job.team not in slices.ledger.tree.entries:
        yield _wait(job.name, Reason.UNKNOWN_TEAM, 1, 0)
        return
    if job.kind is Kind.GANG or job.bundles > 1:
        yield _wait(job.name, Reason.TOO_LARGE_FOR_FLEET, job.bundles, 0)
        return
    ask = of_job(slices, job)
    place = slices.now(ask, {})
    if place is None:
        yield _refusal(slices, ask)
        return
    pulling = None if gate is None else gate.refusal(job, (place.node,))
    if pulling is not None:
        yield pulling
        return
    slices.give(ask, place, who=job.name, lodger=job)
    about = "" if gate is None else gate.about(job, (place.node,))
    why = f"{ask.slice.text} on card {place.card} of {place.node}{about}"
    yield AdmitSlice(workload=job.name, node=place.node, card=place.card, slice=ask.slice, why=why)


def _refusal(slices: Slices, ask: Ask) -> Wait:
    """Return the first thing that would have to change for an ask to be met, in numbers; note what lacks a card."""
    wait = _why(slices, ask)
    if wait.reason is Reason.NO_ROOM:
        slices.unmet.append(ask)
    return wait


def _why(slices: Slices, ask: Ask) -> Wait:
    due, dues, able = ask.due, slices.dues, slices.accelerators(ask)
    if not able:
        return _wait(ask.name, Reason.TOO_LARGE_FOR_FLEET, 1, 0)
    most = {one: dues.most(due, one) for one in able if dues.least(due, one) <= dues.most(due, one)}
    if not most:
        return _wait(ask.name, Reason.TOO_LARGE_FOR_QUOTA, dues.least(due, able[0]), dues.most(due, able[0]))
    allowed = [one for one in most if dues.allows(due, one, soon=True) or _may_reclaim(slices, ask, one)]
    if not allowed:
        one = min(most)
        return _wait(ask.name, Reason.QUOTA_USED, dues.asked(due, one), max(0, dues.left(due, one)))
    return _wait(ask.name, Reason.NO_ROOM, 1, 0)


def _may_reclaim(slices: Slices, ask: Ask, accelerator: str) -> bool:
    """Return whether only borrowers are in the way of an ask that never yields."""
    return ask.due.firm and slices.dues.own_left(ask.due, accelerator) >= slices.dues.asked(ask.due, accelerator)


def _wait(name: str, reason: Reason, asked: int, available: int, ahead: tuple[str, ...] = ()) -> Wait:
    return Wait(workload=name, reason=reason, asked=asked, available=available, blocked_by=ahead)


def _for(slices: Slices, job: Workload, known: Wait) -> Wait:
    if known.reason is Reason.NO_ROOM:
        slices.unmet.append(of_job(slices, job))
    return _wait(job.name, known.reason, known.asked, known.available)
