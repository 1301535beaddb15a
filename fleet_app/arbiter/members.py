"""The members of elastic attempts in the book: who is asked to leave, who has left, who joins (rule R8). Pure.

Every member has a placement group of its own, with one bundle. Ray's groups neither shrink nor grow, so what may leave
alone has to be held alone; one group for the minimum would not do, because which members leave is decided later, by
who needs which node. The price is that the groups of an admission are made one by one: the job starts when all of
them stand, and when they do not in time, they all go back.

A member has left when its job said so and the last process that names the member in its environment is gone; or when
its group is gone, after its deadline, and with it those processes. Then its node is no longer the workload's, and no
longer charged. One that goes without being asked ends the whole attempt, as in any gang. Members that joined and that
the job does not use stay its own, and charged, until they are asked to leave or the job ends.

The driver is no member: it stays on the node that it was started on, without GPUs, also when that member leaves.
Knows records and facts. Chooses nobody: that is decided in the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fleet_app.arbiter.book import Book, News
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.failing import failure
from fleet_app.arbiter.notes import Note, What
from fleet_app.arbiter.ports import Seat
from fleet_app.arbiter.records import Member, Record
from fleet_app.engine.failures import Cause
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Grow, Shrink
from fleet_app.worker import contract

ROOM_WITHIN_S = 10.0
"""How long members that are to join wait for their room to be free in Ray, before they are given up."""

Step = tuple[Record, tuple[News, ...]]


# What is decided.


def resize(book: Book, action: Shrink | Grow, now: float) -> None:
    """Ask members to leave, or give some; what no longer fits the book changes nothing, nor what is below a minimum."""
    record = book.records.get(action.workload)
    if record is not None and isinstance(action, Shrink) and _may_shrink(record, action.nodes):
        _shrink(book, record, action, now)
    elif record is not None and isinstance(action, Grow) and _may_grow(record, action.nodes):
        _grow(book, record, action, now)


def _shrink(book: Book, record: Record, action: Shrink, now: float) -> None:
    workload = record.workload
    for node in action.nodes:
        told = replace(record.member_on(node), leaves_by=action.deadline_at, why=action.why)
        record = _with(record, told)
    going_by = max(action.deadline_at, workload.going_by or 0.0)
    going = (*workload.going, *action.nodes)
    leaving = replace(workload, going=going, going_by=going_by, going_for=action.beneficiary)
    book.put(replace(record, workload=leaving))
    detail = {"nodes": list(action.nodes), "deadline_at": action.deadline_at, "beneficiary": action.beneficiary}
    book.note(now, What.SHRINKING, record.name, attempt=workload.attempt, **detail, why=action.why)


def _may_shrink(record: Record, nodes: tuple[str, ...]) -> bool:
    workload = record.workload
    staying = set(workload.nodes) - set(workload.going)
    stays = workload.holding and not workload.leaving and workload.minimum is not None
    return stays and staying.issuperset(nodes) and len(staying) - len(nodes) >= (workload.minimum or 0)


def _grow(book: Book, record: Record, action: Grow, now: float) -> None:
    workload = replace(record.workload, nodes=(*record.workload.nodes, *action.nodes), grown_at=now)
    book.put(replace(record, workload=workload))
    detail = {"nodes": list(action.nodes), "why": action.why}
    book.note(now, What.GROWING, record.name, attempt=workload.attempt, **detail)


def _may_grow(record: Record, nodes: tuple[str, ...]) -> bool:
    workload = record.workload
    runs = workload.phase is Phase.RUNNING and not workload.killed and workload.minimum is not None
    fits = len(workload.nodes) + len(nodes) <= workload.bundles
    return runs and fits and not workload.going and not set(nodes) & set(workload.nodes)


# What the world shows.


def placed(record: Record, facts: Facts) -> Step:
    """Take over the groups that stand where the members should be; a member whose group broke unasked ends all (D3).

    So does the loss of the driver's node, which need not be a member's any more.
    """
    found: list[News] = []
    for node in record.workload.nodes:
        record, news = _placed_on(record, node, facts)
        found += news
    record = _ready(record)
    first = facts.nodes.get(record.workload.nodes[0])
    if record.job_submitted and record.driver_on is None and first is not None:
        record = replace(record, driver_on=first.node_id)
    lost_on, why = _broken(record, facts)
    if record.workload.killed or not why:
        return record, tuple(found)
    ended = replace(record, workload=replace(record.workload, killed=True), message=why)
    dead = lost_on is not None and lost_on not in facts.names.values()
    lost = failure(record, facts.now, Cause.NODE, why, lost_on) if dead else ()
    return ended, (*found, _note(record, facts, What.LOST, why=why), *lost)


def _placed_on(record: Record, node: str, facts: Facts) -> Step:
    """Take over a member's group if it stands; before the job is there, one that is gone is made again."""
    member = record.member_on(node)
    group = facts.groups.get(contract.member_group(record.job_id, node))
    if group is not None and facts.ready(group) and facts.places(group) == (node,):
        return joined(record, node, group.group_id, facts.now) if member.group_id != group.group_id else (record, ())
    unknown = record.job_submitted or facts.status(record) is not None or not facts.jobs_seen
    if member.group_id is None or unknown or (group is not None and facts.in_doubt(group)):
        return record, ()
    return _with(record, replace(member, group_id=None)), ()


def joined(record: Record, node: str, group_id: str, now: float) -> Step:
    """Return the record once a member's group stands."""
    record = _ready(_with(record, replace(record.member_on(node), group_id=group_id)))
    what = What.GROWN if record.job_submitted else What.PLACED
    detail = {"attempt": record.workload.attempt, "group": group_id, "nodes": [node]}
    return record, (Note(at=now, kind=what, subject=record.name, detail=detail),)


def _ready(record: Record) -> Record:
    """Return the record with the group that its job needs to start: the first member's, if all have theirs."""
    if record.job_submitted:
        return record
    groups = [record.member_on(node).group_id for node in record.workload.nodes]
    return replace(record, group_id=None if None in groups else groups[0])


def _broken(record: Record, facts: Facts) -> tuple[str | None, str]:
    """Return on which node the attempt lost what it cannot be without, and what that is; nothing when it has it all."""
    if not record.job_submitted:
        return None, ""
    for node in record.workload.nodes:
        member = record.member_on(node)
        group = facts.ids.get(member.group_id or "")
        asked = node in record.workload.going
        if member.group_id is None or asked or (group is not None and (facts.ready(group) or facts.in_doubt(group))):
            continue
        return node, f"the placement group of its member on {node} is {'gone' if group is None else 'broken'}"
    if record.driver_on is not None and record.driver_on not in facts.names and facts.over(record):
        return None, "the node that its driver was on is gone"  # one that is only away for a moment ends no job
    return None, ""


def parted(record: Record, facts: Facts) -> Step:
    """Let go of the members that have left, and end those that are past their deadline (D2).

    Also of members that were to join and whose room did not come free, unless the workload needs them for its minimum.
    """
    workload = record.workload
    if workload.minimum is None or workload.killed:
        return record, ()
    left = [node for node in workload.going if _has_left(record, node, facts)]
    record, notes = _without(record, left, facts, "they were asked to leave")
    record, given_up = _given_up(_late(record, facts), facts)
    return record, (*notes, *given_up)


def _has_left(record: Record, node: str, facts: Facts) -> bool:
    if not record.job_submitted:
        # Ray may have the job all the same, from an arbiter that died before it could note that.
        return facts.jobs_seen and facts.status(record) is None
    group_id = record.member_on(node).group_id
    if group_id is None:
        return True
    member = contract.member_id(record.job_id, group_id)
    return facts.left.get(member) == 0 and (member in facts.board.gone or group_id not in facts.ids)


def _late(record: Record, facts: Facts) -> Record:
    """Mark those whose deadline has passed: their groups go. Who has processes then broke the contract (D4)."""
    for node in record.workload.going:
        member = record.member_on(node)
        if member.killed or member.leaves_by is None or member.leaves_by > facts.now:
            continue
        runs = facts.left.get(contract.member_id(record.job_id, member.group_id or ""), 0) > 0
        broken = record.workload.broken_drains + runs
        record = _with(record, replace(member, killed=True))
        record = replace(record, workload=replace(record.workload, broken_drains=broken))
    return record


def _given_up(record: Record, facts: Facts) -> Step:
    """Give up members that were to join when their room has not come free in time."""
    workload = record.workload
    if workload.grown_at is None or facts.now - workload.grown_at <= ROOM_WITHIN_S:
        return record, ()
    staying = [node for node in workload.nodes if node not in workload.going]
    missing = [node for node in staying if record.member_on(node).group_id is None]
    spare = max(0, len(staying) - (workload.minimum or 0))
    return _without(record, missing[:spare], facts, "their room did not come free in time")


def _without(record: Record, nodes: list[str], facts: Facts, why: str) -> Step:
    """Return the record without its members on some nodes, which are free from now on."""
    if not nodes:
        return record, ()
    workload = record.workload
    going = tuple(node for node in workload.going if node not in nodes)
    rest = replace(
        workload,
        nodes=tuple(node for node in workload.nodes if node not in nodes),
        going=going,
        going_by=workload.going_by if going else None,
        going_for=workload.going_for if going else None,
    )
    killed = [node for node in nodes if record.member_on(node).killed]
    record = replace(record, workload=rest, members=tuple(one for one in record.members if one.node not in nodes))
    note = _note(record, facts, What.SHRUNK, nodes=nodes, why=why, killed=killed, left=list(rest.nodes))
    return _ready(record), (note,)


# What is to be done.


def untold(record: Record) -> Iterator[Member]:
    """Yield the members that were asked to leave and do not know it yet."""
    for node in record.workload.going:
        member = record.member_on(node)
        if member.group_id is not None and not member.told:
            yield member


def told(record: Record, member: Member) -> Record:
    """Return the record once a member knows that it has to leave."""
    return _with(record, replace(member, told=True))


def outliving(record: Record, facts: Facts) -> Iterator[str]:
    """Yield the ids of members that are past their deadline, and have processes although their group is gone."""
    for node in record.workload.going:
        member = record.member_on(node)
        if member.killed and member.group_id is not None and member.group_id not in facts.ids:
            name = contract.member_id(record.job_id, member.group_id)
            if facts.left.get(name, 0) > 0:
                yield name


def kept_groups(record: Record) -> Iterator[str | None]:
    """Yield the ids of the groups that a workload needs: all but those of members that are past their deadline."""
    if record.workload.minimum is None:
        yield record.group_id
    for member in record.members:
        if member.node in record.workload.nodes and not member.killed:
            yield member.group_id


def missing(record: Record, facts: Facts) -> tuple[str, ...]:
    """Return the nodes whose member has no group yet, and should have one."""
    workload = record.workload
    starts = workload.phase is Phase.ADMITTED or (workload.phase is Phase.RUNNING and not facts.over(record))
    if workload.minimum is None or workload.killed or not starts:
        return ()
    lacking = (node for node in workload.nodes if node not in workload.going)
    return tuple(node for node in lacking if record.member_on(node).group_id is None)


def seats(record: Record) -> tuple[Seat, ...]:
    """Return the members of a workload as its job is to see them, those that joined last at the end."""
    workload = record.workload
    found = (record.member_on(node) for node in workload.nodes)
    return tuple(
        Seat(node=member.node, group_id=member.group_id, leaving=member.node in workload.going)
        for member in found
        if member.group_id is not None
    )


def _with(record: Record, member: Member) -> Record:
    others = tuple(one for one in record.members if one.node != member.node)
    return replace(record, members=(*others, member))


def _note(record: Record, facts: Facts, what: What, **detail: object) -> Note:
    return Note(at=facts.now, kind=what, subject=record.name, detail={"attempt": record.workload.attempt, **detail})
