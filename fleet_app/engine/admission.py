"""Who starts: queued gangs and backfill, in order, on exact nodes or not at all (rules O1 to O7, P1 to P7, C1).

Knows the queue and the ledger. Does not know services.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet_app.engine import (
    capped,
    capping,
    elastic,
    giving,
    inside,
    making,
    mixed,
    notices,
    overstaying,
    placement,
    refusal,
    reserving,
)
from fleet_app.engine.behind import Strict
from fleet_app.engine.eligibility import eligible, passed, unbooked
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lines import Line
from fleet_app.engine.plan import ROOM_COMES, Action, Alike, DomainRoom, Part, Reason, Wait
from fleet_app.engine.pulls import Gate
from fleet_app.engine.spares import is_barred
from fleet_app.engine.turns import in_turn
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload

Answer = Iterator[Action | Wait]

ITS_OWN = {*ROOM_COMES, Reason.PULLING}
"""What somebody waits for that another who asks for the same may not have to."""


def step(ledger: Ledger, watch: str | None = None, gate: Gate | None = None) -> Iterator[Part]:
    """Yield an admission or a wait for every queued workload, and the drains that make room.

    The room that is left only shrinks, so what was refused once is refused to all that ask for the same. Where a
    team's queue is strict, nobody passes the first of it that waits (O6), and who is behind may ask for room (O12).
    `watch` names the workload whose wait is to say what each domain has. Whoever may start goes through the `gate` of
    what has to be pulled first, where there is one.
    """
    refused: dict[object, Wait] = {}
    strict = Strict(ledger) if ledger.tree.strict else None
    for line in in_turn(ledger, watch):
        workload = line.first
        ahead = None if strict is None else strict.ahead_of(workload)
        if strict is not None and ahead is not None:
            yield from _each(line, strict.behind(workload, ahead))
            continue
        question = _asked(ledger, line.asked, workload)
        known = refused.get(question)
        if known is not None and workload.name != watch:
            yield from _to_all(line, known.of(workload.name))
            continue
        for part in _consider(ledger, workload, gate, watched=workload.name == watch):
            if not isinstance(part, Wait):
                yield part
                continue
            alone = strict is not None and strict.stop_at(workload, part)
            if part.reason not in ITS_OWN:
                refused[question] = part
            yield from (part,) if alone or part.reason in ITS_OWN else _to_all(line, part)


def _each(line: Line, answer: Answer) -> Iterator[Part]:
    """Yield an answer, and that a wait which is not its own is that of all who ask for the same."""
    for part in answer:
        yield from _to_all(line, part) if isinstance(part, Wait) and part.reason not in ITS_OWN else (part,)


def _to_all(line: Line, wait: Wait) -> Sequence[Wait | Alike]:
    """Return the refusal of the first of a line, and that all who ask for the same are refused as well."""
    names = line.refuse()
    return (wait, Alike(wait.workload, names)) if names else (wait,)


def _asked(ledger: Ledger, asked: int, workload: Workload) -> object:
    """Return what the answer depends on; whether it was torn down only where spares are kept for such (P8)."""
    return (asked, passed(ledger, workload), is_barred(ledger, workload))


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
    chosen = making.now(ledger, workload, nodes)
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


def _make_room(ledger: Ledger, workload: Workload, nodes: Sequence[Node], rooms: tuple[DomainRoom, ...]) -> Answer:
    """Wait for room that is coming; else ask victims to leave; else reserve, so that smaller ones do not pass (O4)."""
    found = making.eviction(ledger, workload, nodes)
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
