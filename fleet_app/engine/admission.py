"""Who starts: queued gangs and backfill, in order, on exact nodes or not at all (rules O1 to O7, P1 to P7, C1).

Knows the queue and the ledger. Does not know services.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fleet_app.engine import (
    capped,
    capping,
    elastic,
    giving,
    inside,
    mixed,
    notices,
    overstaying,
    placement,
    reclaim,
    refusal,
    reserving,
)
from fleet_app.engine.eligibility import asker, depth, eligible, passed, unbooked, unreserved
from fleet_app.engine.fullness import tightness
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lines import Line
from fleet_app.engine.plan import Action, Alike, DomainRoom, Part, Reason, Wait
from fleet_app.engine.pulls import Gate
from fleet_app.engine.rooms import rooms_of
from fleet_app.engine.spares import is_barred
from fleet_app.engine.turns import in_turn
from fleet_app.engine.uplinks import uplinks
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload

Answer = Iterator[Action | Wait]

HOPELESS = {Reason.UNKNOWN_TEAM, Reason.TOO_LARGE_FOR_FLEET, Reason.TOO_LARGE_FOR_QUOTA, Reason.CONTRACT_BROKEN}
"""What no wait ends: it is in nobody's way (O3)."""

ITS_OWN = {Reason.DRAIN_UNDER_WAY, Reason.PULLING}
"""What somebody waits for that another who asks for the same may not have to."""


def step(ledger: Ledger, watch: str | None = None, gate: Gate | None = None) -> Iterator[Part]:
    """Yield an admission or a wait for every queued workload, and the drains that make room.

    The room that is left only shrinks, so what was refused once is refused to all that ask for the same. Where a
    team's queue is strict, nobody passes the first of it that waits (O6).
    `watch` names the workload whose wait is to say what each domain has. Whoever may start goes through the `gate` of
    what has to be pulled first, where there is one.
    """
    refused: dict[object, Wait] = {}
    first: dict[str, list[Workload]] = {}
    for line in in_turn(ledger, watch):
        workload = line.first
        ahead = _ahead(first, workload) if first else None
        question = _asked(ledger, line.asked, workload) if ahead is None else (workload.team, ahead)
        known = refused.get(question)
        if known is not None and workload.name != watch:
            yield from _to_all(line, known.of(workload.name))
            continue
        for part in _answer(ledger, workload, gate, ahead, watched=workload.name == watch):
            if not isinstance(part, Wait):
                yield part
                continue
            strict = workload.team in ledger.tree.strict and ahead is None and part.reason not in HOPELESS
            if strict:
                first.setdefault(workload.team, []).append(workload)
            if part.reason not in ITS_OWN:
                refused[question] = part
            yield from (part,) if strict or part.reason in ITS_OWN else _to_all(line, part)


def _to_all(line: Line, wait: Wait) -> Sequence[Wait | Alike]:
    """Return the refusal of the first of a line, and that all who ask for the same are refused as well."""
    names = line.refuse()
    return (wait, Alike(wait.workload, names)) if names else (wait,)


def _ahead(first: Mapping[str, Sequence[Workload]], workload: Workload) -> str | None:
    """Return whom the workload is behind in a strict queue; who asks for another accelerator may be passed (O6)."""
    for one in first.get(workload.team, ()):
        if workload.accelerator is None or one.accelerator in {None, workload.accelerator}:
            return one.name
    return None


def _asked(ledger: Ledger, asked: int, workload: Workload) -> object:
    """Return what the answer depends on; whether it was torn down only where spares are kept for such (P8)."""
    return (asked, passed(ledger, workload), is_barred(ledger, workload))


def _answer(ledger: Ledger, workload: Workload, gate: Gate | None, ahead: str | None, *, watched: bool) -> Answer:
    """Return what becomes of a workload; `ahead` is the first that waits of a team whose queue is strict (O6)."""
    if ahead is not None:
        return iter([refusal.behind(workload, ahead)])
    return _consider(ledger, workload, gate, watched=watched)


def _consider(ledger: Ledger, workload: Workload, gate: Gate | None, *, watched: bool) -> Answer:
    if workload.groups:
        yield from mixed.consider(ledger, workload, gate, watched=watched)
        return
    if workload.minimum is not None:
        workload = elastic.sized(ledger, workload)
    refused = refusal.impossible(ledger, workload) or refusal.over_quota(ledger, workload)
    if refused is not None and ledger.caps is not None and _waits_for_cap(ledger, workload, refused):
        yield from capping.wait_for(ledger, workload, refused)
        return
    if refused is not None:
        yield (
            reserving.keep(ledger, workload, refused, for_room=False) if _keeps(ledger, workload, refused) else refused
        )
        return
    booked = list(inside.place(ledger, workload, gate))
    if booked:
        yield from booked
        return
    nodes = eligible(ledger, workload)
    rooms = refusal.rooms(ledger, workload, unbooked(ledger, workload, nodes)) if watched else ()
    chosen = _now(ledger, workload, nodes)
    pulling = gate.refusal(workload, chosen) if gate is not None and chosen is not None else None
    if pulling is not None:
        firm = not ledger.class_of(workload).yields
        yield reserving.keep(ledger, workload, pulling, for_room=True) if firm else pulling
    elif chosen is not None:
        where = placement.where([ledger.nodes[name] for name in chosen])
        yield giving.admitted(ledger, workload, chosen, where, gate)
    elif ledger.class_of(workload).yields:
        yield refusal.no_room(ledger, workload, nodes, rooms)
    else:
        yield from _make_room(ledger, workload, nodes, rooms)


def _waits_for_cap(ledger: Ledger, workload: Workload, refused: Wait) -> bool:
    return capped.is_cap(refused) and not ledger.class_of(workload).yields


def _keeps(ledger: Ledger, workload: Workload, refused: Wait) -> bool:
    """Return whether one that its quota refuses keeps nominal: not where its own team's booking will bring enough."""
    waits = refused.reason is Reason.QUOTA_USED and not refused.blocked_by
    return waits and not ledger.class_of(workload).yields


def _now(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> tuple[str, ...] | None:
    if ledger.available(workload.team) < workload.gpus:
        return None
    fitting = unreserved(ledger, workload, rooms_of(ledger, workload.shape, nodes).now())
    used = uplinks(ledger, workload.bundles)
    return placement.place(fitting, workload.bundles, depth(ledger, workload), tightness(ledger, workload.shape), used)


def _make_room(ledger: Ledger, workload: Workload, nodes: Sequence[Node], rooms: tuple[DomainRoom, ...]) -> Answer:
    """Wait for room that is coming; else ask victims to leave; else reserve, so that smaller ones do not pass (O4)."""
    seeks = asker(ledger, workload)
    found = reclaim.find(ledger, seeks, nodes, reserving.is_free(ledger, workload))
    if found is not None and not found.victims:
        first = reserving.soonest(ledger, workload, nodes)
        found = found if first is None else reclaim.find(ledger, seeks, nodes, lambda node: node.name in first)
    if found is None and ledger.caps is not None:
        found = capping.eviction(ledger, workload, reserving.is_free(ledger, workload))
    if found is None or not notices.may_ask_now(ledger, found.victims):
        if found is None:
            yield from overstaying.moves(ledger, workload, nodes)
        wait = refusal.no_room(ledger, workload, nodes, rooms)
        if found is not None:
            wait = refusal.too_many(ledger, workload, found.victims)
        yield reserving.keep(ledger, workload, wait, for_room=True)
        return
    why = f"{workload.name} needs {workload.bundles} x {workload.shape.gpus} GPUs inside its team's nominal"
    yield from giving.coming(ledger, workload, found, why, rooms)
