"""A plan to intents in the book: what is decided becomes what is to be, before anything is done about it. Pure.

An action that no longer fits the book changes nothing: the next cycle decides anew. Does not touch Ray.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from fleet_app.arbiter import calendar, crossing, failing, members
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.cards import free_slot
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.records import GrantRecord, Notice, Record
from fleet_app.engine.errors import ConflictError
from fleet_app.engine.failures import Cause, Quarantined
from fleet_app.engine.lifecycle import TABLE, Event, Phase, after
from fleet_app.engine.plan import (
    Action,
    Admit,
    AdmitSlice,
    Drain,
    Expire,
    GiveGrant,
    GiveSlice,
    Grow,
    Kill,
    Lose,
    Move,
    Plan,
    Quarantine,
    Rebook,
    Relabel,
    Release,
    Repartition,
    Shrink,
    TakeGrant,
)
from fleet_app.engine.workload import Workload

NOBODY: Mapping[str, str] = {}


def intend(book: Book, plan: Plan, now: float, chosen: Mapping[str, str] = NOBODY) -> None:
    """Write the plan's actions into the book; while paused only those that start nothing and ask nobody to leave.

    `chosen` says of who is drained why it was, and not another.
    """
    for action in plan.actions:
        if not book.paused or isinstance(action, Kill | Lose | Quarantine | Rebook | Release):
            _one(book, action, now, chosen)


def _one(book: Book, action: Action, now: float, chosen: Mapping[str, str]) -> None:
    match action:
        case Admit() | AdmitSlice():
            _admit(book, action, now)
        case Drain() | Expire():
            drain(book, action, now, chosen.get(action.workload, ""))
        case Move():
            move(book, action, now)
        case Kill() | Lose():
            _end(book, action, now)
        case GiveGrant() | GiveSlice():
            _give(book, action, now)
        case TakeGrant():
            _take(book, action, now)
        case Quarantine() | Release() | Relabel() | Repartition():
            _on_node(book, action, now)
        case Shrink() | Grow():
            members.resize(book, action, now)
        case Rebook():
            calendar.rebook(book, action, now)
        case _:
            assert_never(action)


def _end(book: Book, action: Kill | Lose, now: float) -> None:
    if isinstance(action, Kill):
        _kill(book, action, now)
    else:
        _lose(book, action, now)


def _on_node(book: Book, action: Quarantine | Release | Relabel | Repartition, now: float) -> None:
    match action:
        case Quarantine(node=node, until=until, owner=owner, why=why):
            failing.quarantine(book, Quarantined(node=node, reason=why, owner=owner, since=now, until=until))
        case Release(node=node, why=why):
            with contextlib.suppress(ConflictError):  # somebody was faster
                failing.release(book, node, now, why)
        case Relabel():
            crossing.done(book, action, now)
        case Repartition():
            pass  # all of a node at once, and only where somebody can: see `recuts`


def _admit(book: Book, action: Admit | AdmitSlice, now: float) -> None:
    record = book.records.get(action.workload)
    if record is None or record.workload.phase is not Phase.QUEUED:
        return
    phase = after(record.workload.phase, Event.ADMIT)
    nodes, card = (action.nodes, None) if isinstance(action, Admit) else ((action.node,), action.card)
    workload = replace(record.workload, phase=phase, nodes=nodes, card=card, admitted_at=now)
    slot = free_slot(book, action.node, action.slice) if isinstance(action, AdmitSlice) else None
    book.put(replace(record, workload=workload, message="", slot=slot))
    book.note(now, What.ADMITTED, record.name, attempt=workload.attempt, nodes=list(nodes), why=action.why)


def drain(book: Book, action: Drain | Expire, now: float, chosen: str = "") -> bool:
    """Ask a workload to leave, for good where its time is over; return False when it is not one that can be asked.

    One that was asked to move gets a deadline now. `chosen` says why it was asked, and not another.
    """
    record = _stays(book, action.workload)
    if record is None:
        return False
    beneficiary = action.beneficiary if isinstance(action, Drain) else None
    workload = replace(
        record.workload,
        phase=after(record.workload.phase, Event.DRAIN),
        deadline_at=action.deadline_at,
        drained_for=beneficiary,
        expired=isinstance(action, Expire),
    )
    book.put(replace(record, workload=workload, noticed_at=now, notified=False, message=action.why))
    detail = {"deadline_at": action.deadline_at, "beneficiary": beneficiary, "why": action.why}
    detail |= {"chosen": chosen} if chosen else {}
    book.note(now, What.DRAINING, record.name, attempt=workload.attempt, **detail)
    return True


def move(book: Book, action: Move, now: float) -> bool:
    """Ask a workload to leave at its next checkpoint boundary; return False when it is not one that can be asked (D6).

    Only one that is told by the fleet's library: where notice is a signal Ray stops the job, and kills it when its own
    wait is over, so that would be a deadline.
    """
    record = _stays(book, action.workload)
    if record is None or record.workload.moving or record.job.notice is not Notice.LIBRARY:
        return False
    phase = after(record.workload.phase, Event.DRAIN)
    workload = replace(record.workload, phase=phase, deadline_at=None, drained_for=action.beneficiary)
    book.put(replace(record, workload=workload, noticed_at=now, notified=False, message=action.why))
    detail = {"beneficiary": action.beneficiary, "why": action.why}
    book.note(now, What.MOVING, record.name, attempt=workload.attempt, **detail)
    return True


def _stays(book: Book, name: str) -> Record | None:
    """Return the record of a workload that has its nodes, and was not yet told by when to leave them."""
    record = book.records.get(name)
    if record is None or record.workload.leaving or (record.workload.phase, Event.DRAIN) not in TABLE:
        return None
    return record


def cancel(book: Book, record: Record, now: float) -> bool:
    """End a workload for good, at once if it waits, else within its grace; False when it has ended or is ending."""
    workload = record.workload
    if (workload.phase, Event.CANCEL) not in TABLE:
        return False
    phase = after(workload.phase, Event.CANCEL)
    if phase is Phase.STOPPED:
        book.put(replace(record, workload=replace(workload, phase=phase), ended_at=now, message="cancelled"))
        book.note(now, What.STOPPED, record.name, attempt=workload.attempt, message="cancelled while it waited")
        return True
    # A drain's deadline stays if it is the earlier: a cancel gives nobody more time.
    deadline_at = min(now + workload.grace_s, workload.deadline_at or float("inf"))
    stopping = replace(workload, phase=phase, deadline_at=deadline_at)
    book.put(replace(record, workload=stopping, noticed_at=now, notified=False, message="cancelled"))
    book.note(now, What.STOPPING, record.name, attempt=workload.attempt, deadline_at=deadline_at)
    return True


def _kill(book: Book, action: Kill, now: float) -> None:
    record, workload = book.records.get(action.workload), _ending(book, action.workload)
    if record is None or workload is None:
        return
    # Whose time is over, and who saved its work meanwhile, kept what it promised: nobody counted on more.
    kept = workload.expired and _saved_since_notice(record)
    broken = workload.broken_drains + (workload.phase is Phase.DRAINING and not kept)
    _end_at_once(book, replace(workload, killed=True, broken_drains=broken), action.why)
    detail = {"attempt": workload.attempt, "deadline_at": workload.deadline_at, "broken": broken, "why": action.why}
    book.note(now, What.KILLED, workload.name, **detail)


def _saved_since_notice(record: Record) -> bool:
    saved_at, noticed_at = record.workload.saved_at, record.noticed_at
    return saved_at is not None and noticed_at is not None and saved_at >= noticed_at


def _lose(book: Book, action: Lose, now: float) -> None:
    workload = _ending(book, action.workload)
    record = book.records.get(action.workload)
    if workload is not None and record is not None:
        book.put(record, failing.failure(record, now, Cause.NODE, action.why, action.node))
        _end_at_once(book, replace(workload, killed=True), action.why)
        book.note(now, What.LOST, workload.name, attempt=workload.attempt, node=action.node, why=action.why)


def _ending(book: Book, name: str) -> Workload | None:
    record = book.records.get(name)
    held = record is not None and record.workload.holding and not record.workload.killed
    return record.workload if record is not None and held else None


def _end_at_once(book: Book, workload: Workload, why: str) -> None:
    record = book.records.get(workload.name)
    if record is not None:
        book.put(replace(record, workload=workload, message=why))


def _give(book: Book, action: GiveGrant | GiveSlice, now: float) -> None:
    tag = book.next_tag()
    grant = GrantRecord(name=tag, service=action.service, node=action.node, shape=action.shape, made_at=now)
    if isinstance(action, GiveSlice):
        slot = free_slot(book, action.node, action.slice)
        grant = replace(grant, slice=action.slice, card=action.card, slot=slot)
    book.grants.put(tag, grant)
    book.note(now, What.GRANTED, action.service, grant=tag, node=action.node, why=action.why)


def _take(book: Book, action: TakeGrant, now: float) -> None:
    grant = book.grants.get(action.grant)
    if grant is None or grant.taken or grant.occupied:
        return
    if grant.group_id is None:
        book.grants.drop(grant.name)
    else:
        book.grants.put(grant.name, replace(grant, taken=True))
    book.note(now, What.GRANT_TAKEN, action.service, grant=grant.name, node=grant.node, why=action.why)
