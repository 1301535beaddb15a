"""Requests from the inbox into the book: accepted, or refused with a reason that a user finds.

Knows what each request may change. The gateway refuses most nonsense before it gets here; what is checked here holds
whoever posted it. Does not know files or Ray.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import assert_never

from fleet_app.arbiter import bookings, crossing, failing, intend
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.inbox import (
    AboutBooking,
    AboutNodes,
    ApproveBooking,
    Cancel,
    CancelBooking,
    Drain,
    ExtendBooking,
    Forget,
    MakeBooking,
    Move,
    MoveBoundary,
    Order,
    Pause,
    Quarantine,
    Release,
    Request,
    Resume,
    SetPolicy,
    StayBoundary,
    Submit,
    Unreadable,
)
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.records import Job, Notice, Record
from fleet_app.arbiter.rules import Rules
from fleet_app.engine import plan
from fleet_app.engine.errors import ConflictError, NotFoundError, RequestError
from fleet_app.engine.failures import Quarantined
from fleet_app.engine.lifecycle import TERMINAL, Event, Phase, after
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import NOTHING
from fleet_app.engine.workload import Kind, Workload
from fleet_app.policy.specs import spec_from_mapping, to_workload
from fleet_app.policy.units import NAME_PATTERN

ARBITER = "arbiter"
LONGEST_SUBJECT = 100

Look = Callable[[], FleetState]
"""The fleet as it is now, for those few requests that are answered from it."""


def ingest(book: Book, request: Request | Unreadable, facts: Facts, rules: Rules, look: Look) -> bool:
    """Do in the book what a request asks for; return whether it was accepted.

    A refusal is a note, and for a submission also a workload that failed.

    Raises FaultError when a policy cannot be written; the request may then be tried again.
    """
    try:
        if isinstance(request, AboutBooking):
            bookings.ingest(book, request, bookings.Desk(state=look(), rules=rules, now=facts.now))
        else:
            _ingest(book, request, facts, rules)
    except RequestError as error:
        name, told = _name(request), _told(request, error)
        book.note(facts.now, What.REFUSED, name[:LONGEST_SUBJECT] or ARBITER, why=error.sentence(), **told)
        if isinstance(request, Submit) and re.match(NAME_PATTERN, name) and book.find(name) is None:
            book.put(_refused(request, name, facts.now, error.sentence()))
        return False
    return True


def _ingest(book: Book, request: Order | Unreadable, facts: Facts, rules: Rules) -> None:
    match request:
        case Submit():
            _submit(book, request, facts, rules)
        case Cancel(name=name):
            _cancel(book, _known(book, name), facts)
        case Drain():
            _drain(book, request, facts, rules)
        case Move(name=name):
            _move(book, _known(book, name), facts)
        case Forget(name=name):
            _forget(book, _known(book, name))
        case Pause() | Resume():
            _pause(book, facts, pausing=isinstance(request, Pause))
        case Quarantine() | Release() | MoveBoundary() | StayBoundary():
            _on_nodes(book, request, facts, rules)
        case SetPolicy():
            changes = [asdict(change) for change in rules.replace(request.text)]
            book.note(facts.now, What.POLICY, ARBITER, who=request.who, changes=changes)
        case Unreadable(why=why):
            raise RequestError(f"a file in the inbox is no request: {why}", fix="See inbox/refused")
        case _:
            assert_never(request)


def _submit(book: Book, request: Submit, facts: Facts, rules: Rules) -> None:
    spec = spec_from_mapping(request.spec, rules.file)
    if book.find(spec.name) is not None or spec.name in facts.jobs:
        raise ConflictError(f"{spec.name} exists already", where="name", fix="Choose another name")
    # The queue is ordered by this moment, so nobody may set it ahead; it is never after the admission.
    workload = to_workload(spec, rules.file, min(request.at, facts.now))
    job = Job(
        entrypoint=request.entrypoint,
        runtime_env=request.runtime_env,
        metadata=request.metadata,
        notice=Notice(spec.notice),
    )
    book.put(Record(workload=workload, job=job))
    detail = {"team": workload.team, "kind": workload.kind, "bundles": workload.bundles, "gpus": workload.shape.gpus}
    if workload.groups:
        detail["groups"] = {group.name: [group.bundles, group.shape.gpus] for group in workload.groups}
    book.note(facts.now, What.SUBMITTED, spec.name, submitted_at=workload.submitted_at, **detail)


def _cancel(book: Book, record: Record, facts: Facts) -> None:
    if not intend.cancel(book, record, facts.now) and record.workload.phase is not Phase.STOPPING:
        raise _not_now(record, "be cancelled")


def _forget(book: Book, record: Record) -> None:
    if record.workload.phase not in TERMINAL:
        raise _not_now(record, "be forgotten")
    book.unarchive(record)
    book.put(replace(record, forgotten=True))


def _drain(book: Book, request: Drain, facts: Facts, rules: Rules) -> None:
    record = _known(book, request.name)
    asked = record.workload.grace_s if request.grace_s is None else request.grace_s
    action = plan.Drain(
        workload=record.name,
        beneficiary="whoever asked",
        deadline_at=facts.now + min(asked, rules.engine.drain.longest_grace_s),
        why="drained on request",
    )
    if not intend.drain(book, action, facts.now):
        raise _not_now(record, "be drained")


def _move(book: Book, record: Record, facts: Facts) -> None:
    if record.job.notice is not Notice.LIBRARY:
        raise ConflictError(
            "it is told to leave by a signal, so it cannot be asked to move",
            where=record.name,
            fix="Drain it, or submit it with `--notice library`",
        )
    action = plan.Move(workload=record.name, beneficiary="whoever asked", why="asked to move on request")
    if not record.workload.moving and not intend.move(book, action, facts.now):
        raise _not_now(record, "be moved")


def _pause(book: Book, facts: Facts, *, pausing: bool) -> None:
    book.pause(paused=pausing)
    book.note(facts.now, What.PAUSED if pausing else What.RESUMED, ARBITER)


def _on_nodes(book: Book, request: AboutNodes, facts: Facts, rules: Rules) -> None:
    match request:
        case Quarantine():
            _quarantine(book, request, facts, rules)
        case Release(node=node, who=who):
            failing.release(book, node, facts.now, "on request", who)
        case MoveBoundary():
            crossing.ask(book, request, facts, rules.engine.boundary)
        case StayBoundary():
            crossing.call_off(book, request, facts.now)


def _quarantine(book: Book, request: Quarantine, facts: Facts, rules: Rules) -> None:
    if request.node not in facts.nodes and request.node not in book.quarantines:
        raise NotFoundError("no node of that name", where=request.node[:LONGEST_SUBJECT], fix="See `fleet nodes`")
    for_s = rules.engine.health.quarantine_s if request.for_s is None else request.for_s
    told = Quarantined(
        node=request.node, reason=request.reason, owner=request.who, since=facts.now, until=facts.now + for_s
    )
    failing.quarantine(book, told)


def _known(book: Book, name: str) -> Record:
    record = book.find(name)
    if record is None:
        raise NotFoundError("no workload of that name", where=name[:LONGEST_SUBJECT], fix="See `fleet queue`")
    return record


def _not_now(record: Record, what: str) -> ConflictError:
    return ConflictError(f"a workload that is {record.workload.phase} cannot {what}", where=record.name)


def _name(request: Request | Unreadable) -> str:
    match request:
        case Submit(spec=spec) | MakeBooking(spec=spec):
            return str(spec.get("name", ""))
        case Cancel(name=name) | Drain(name=name) | Move(name=name) | Forget(name=name):
            return name
        case ApproveBooking(name=name) | ExtendBooking(name=name) | CancelBooking(name=name):
            return name
        case Quarantine(node=node) | Release(node=node):
            return node
        case MoveBoundary(nodes=nodes) | StayBoundary(nodes=nodes):
            return nodes[0]
        case _:
            return ""


def _told(request: Request | Unreadable, error: RequestError) -> dict[str, object]:
    """Return what whoever waits for the answer to a request about a booking is told."""
    if not isinstance(request, AboutBooking) or not request.ref:
        return {}
    said = {"what": error.what, "where": error.where, "fix": error.fix, "status": error.http_status}
    return {"ref": request.ref, "error": said}


def _refused(request: Submit, name: str, now: float, why: str) -> Record:
    """Return a workload that failed before it began, so that whoever submitted it finds out why."""
    workload = Workload(
        name=name,
        kind=Kind.BACKFILL,
        team=str(request.spec.get("team", "")),
        priority=0,
        shape=NOTHING,
        submitted_at=request.at,
        phase=after(Phase.QUEUED, Event.REFUSE),
    )
    job = Job(entrypoint=request.entrypoint, metadata=request.metadata)
    return Record(workload=workload, job=job, ended_at=now, message=why)
