"""What became of a workload: its record after a look at the world. Pure.

Knows the lifecycle, the drain contract and how Ray's jobs end. Chooses nothing: who starts and who leaves is decided in
the engine. How an exit is read:

* A job that was not asked to leave: SUCCEEDED and FAILED are what they say; STOPPED was somebody with Ray's own means.
* One that was asked to leave goes back to the queue, unless it said `done`, or nothing can have told it to leave:
  SUCCEEDED without an acknowledgement, where a notice would have come as a signal (Ray then says STOPPED).
* One that was asked to move (D6) goes back to the queue when it left with its work saved; else it is as if nobody had
  asked: it may have gone on for hours.
* One whose maximum run time is over (D5) is stopped where another would go back to the queue.
* A workload that was cancelled is stopped, however its job ended.

* A gang that failed because a rank died by no doing of its own is started again, so often in a row as the policy says.

It has ended when its last process is gone, which may be before Ray says so.
"""

from __future__ import annotations

from dataclasses import replace

from fleet_app.arbiter import members
from fleet_app.arbiter.book import News
from fleet_app.arbiter.facts import ENDED, Facts
from fleet_app.arbiter.failing import failure
from fleet_app.arbiter.notes import Note, What
from fleet_app.arbiter.ports import GroupView
from fleet_app.arbiter.records import Checkpoint, Notice, Record, attempt_id
from fleet_app.engine.failures import Cause
from fleet_app.engine.lifecycle import TERMINAL, Event, Phase, after
from fleet_app.engine.policy import Health
from fleet_app.engine.workload import Kind
from fleet_app.worker import contract

DOUBT_S = 15.0
"""How long Ray takes to see that a node died, by default; the jobs on it fail at once."""

LINGER_S = 10.0
"""How long processes may outlive a job that ended by itself, before they are killed."""

PLACE_WITHIN_S = 10.0
"""How long an admitted workload waits for its room to be free in Ray, before it is decided anew."""

UNNAMED = "it waits until Kubernetes has taken in that its pods hold it"

Step = tuple[Record, tuple[News, ...]]


def followed(record: Record, facts: Facts, health: Health | None = None) -> Step:
    """Return the record as the world makes it, and what happened; `health` says how often a gang starts again."""
    if record.workload.phase is Phase.QUEUED:
        return _renumbered(record, facts), ()
    told: list[News] = []
    for step in (_heard, _placed, _launched, _overdue, members.parted):
        if not record.workload.holding:
            break
        record, news = step(record, facts)
        told += news
    if record.workload.holding:
        record, news = _ended(record, facts, health or Health())
        told += news
    return record, tuple(told)


def _renumbered(record: Record, facts: Facts) -> Record:
    """Skip an attempt whose id Ray knows already, from a submission that got through after we gave it up."""
    attempt = record.workload.attempt
    while attempt_id(record.name, attempt) in facts.jobs:
        attempt += 1
    if attempt == record.workload.attempt:
        return record
    return replace(record, workload=replace(record.workload, attempt=attempt))


def _heard(record: Record, facts: Facts) -> Step:
    """Take over what the attempt reported: its last step, and its checkpoint if that is further than what we have."""
    notes: list[Note] = []
    beat = facts.beats.get(record.job_id)
    if beat is not None:
        record = replace(record, step=beat.step, step_at=beat.at)
    ack = facts.acks.get(record.job_id)
    if ack is None:
        return record, ()
    known = record.checkpoint
    if known is None or (ack.step, ack.at) > (known.step, known.at):
        checkpoint = Checkpoint(uri=ack.uri, step=ack.step, at=ack.at, attempt=record.workload.attempt)
        saved_at = max(record.workload.started_at or 0.0, min(ack.at, facts.now))
        workload = replace(record.workload, saved_at=saved_at)
        record = replace(record, checkpoint=checkpoint, saves=record.saves + 1, workload=workload, restarts=0)
        if record.workload.phase is Phase.DRAINING:
            notes.append(_note(record, facts, What.ACKNOWLEDGED, step=ack.step, uri=ack.uri))
    return record, tuple(notes)


def _placed(record: Record, facts: Facts) -> Step:
    """See whether the attempt's group stands where it should; one that broke under a job ends the attempt.

    What Ray took apart never comes back: a node that returns is another one to it. So only a group that Ray shows as
    whole is left to itself for as long as the policy tolerates (H1). An elastic one has a group for each member (R8).
    """
    if record.workload.minimum is not None:
        return members.placed(record, facts)
    group = facts.groups.get(contract.workload_group(record.job_id))
    if group is not None and facts.ready(group) and facts.places(group) == record.workload.nodes:
        if record.group_id == group.group_id:
            return record, ()
        record = replace(record, group_id=group.group_id)
        return record, (_note(record, facts, What.PLACED, group=group.group_id, nodes=list(record.workload.nodes)),)
    if record.group_id is None or record.workload.killed or (group is not None and facts.in_doubt(group)):
        return _unnamed(record, facts), ()
    if not record.job_submitted:
        known = facts.status(record) is not None or not facts.jobs_seen
        return (record if known else replace(record, group_id=None)), ()
    why = "its placement group is gone" if group is None else "its placement group lost a node"
    ended, notes = _killed(record, facts, What.LOST, why)
    lost = () if group is None else _lost_nodes(record, facts, group)
    failures = [one for node in lost for one in failure(record, facts.now, Cause.NODE, why, node)]
    return ended, (*notes, *failures)


def _unnamed(record: Record, facts: Facts) -> Record:
    """Say of a workload what it waits for while it is not published that its pods hold it."""
    if record.workload.phase is Phase.ADMITTED and not facts.named(record.workload.nodes):
        return replace(record, message=UNNAMED)
    return replace(record, message="") if record.message == UNNAMED else record


def _lost_nodes(record: Record, facts: Facts, group: GroupView) -> tuple[str, ...]:
    """Return the nodes of which a broken group has no bundle any more."""
    pairs = zip(record.workload.nodes, group.bundles, strict=False)
    return tuple(node for node, bundle in pairs if bundle.node_id not in facts.names)


def _launched(record: Record, facts: Facts) -> Step:
    """See that Ray has the job, and that it runs."""
    status = facts.status(record)
    if status is None:
        return record, ()
    if record.group_id is None and not record.job_submitted:
        return _renumbered(record, facts), ()  # we submit nothing without a group
    record = replace(record, job_submitted=True)
    if record.workload.phase is not Phase.ADMITTED or status == "PENDING":
        return record, ()
    phase = after(record.workload.phase, Event.START)
    workload = replace(record.workload, phase=phase, started_at=facts.now, saved_at=facts.now)
    record = replace(record, workload=workload)
    resumed = None if record.checkpoint is None else record.checkpoint.step
    return record, (_note(record, facts, What.STARTED, nodes=list(workload.nodes), resumed_step=resumed),)


def _overdue(record: Record, facts: Facts) -> Step:
    """End what was asked to go and has nothing to save yet, or was cancelled and is still here at its deadline.

    For a job that ended by itself the moment is noted: what lingers longer is killed.
    """
    workload = record.workload
    if facts.left.get(record.job_id, 0) > 0:
        record = replace(record, seen_alive=True)
    if workload.killed:
        return record, ()
    if workload.phase not in {Phase.DRAINING, Phase.STOPPING}:
        ended = facts.status(record) in ENDED and record.noticed_at is None
        return (replace(record, noticed_at=facts.now) if ended else record), ()
    if facts.status(record) == "PENDING":
        return _killed(record, facts, What.KILLED, "it had not begun")
    if workload.phase is Phase.STOPPING and workload.deadline_at is not None and workload.deadline_at <= facts.now:
        return _killed(record, facts, What.KILLED, "it was cancelled and did not end in time")
    return record, ()


def _killed(record: Record, facts: Facts, what: What, why: str) -> Step:
    record = replace(record, workload=replace(record.workload, killed=True), message=why)
    return record, (_note(record, facts, what, why=why),)


def _ended(record: Record, facts: Facts, health: Health) -> Step:
    event = _event(record, facts)
    if event is None:
        return record, ()
    if event is Event.REQUEUE and record.workload.expired:
        event = Event.CANCEL
    if event is Event.REQUEUE:
        return _requeued(record, facts)
    if event is Event.FAIL:
        return _failed(record, facts, health)
    return _closed(record, facts, event)


def _failed(record: Record, facts: Facts, health: Health) -> Step:
    """End what failed, or start it again: a gang of which a rank died, unless that happened too often in a row (H2)."""
    death = facts.deaths.get(record.job_id)
    if death is None:
        ended, notes = _closed(record, facts, Event.FAIL)
        return ended, (*notes, *failure(record, facts.now, Cause.JOB, ended.message))
    node = facts.names.get(death.node_id)
    failures = failure(record, facts.now, Cause.RANK, death.why, node)
    why = f"a rank died on {node or death.node_id}: {death.why}"
    if record.restarts >= health.restarts:
        given_up = f"{why}; it was started again {record.restarts} times without a new checkpoint"
        ended, notes = _closed(record, facts, Event.FAIL, given_up)
    else:
        ended, notes = _requeued(replace(record, message=why, restarts=record.restarts + 1), facts)
    return ended, (*notes, *failures)


def _event(record: Record, facts: Facts) -> Event | None:
    """Return what the end of the attempt means; None while it has not ended."""
    workload = record.workload
    if not record.job_submitted:
        # Ray may have it all the same, from an arbiter that died before it could note that.
        return _never_ran(record, facts) if facts.jobs_seen else None
    if not _gone(record, facts):
        return None
    if workload.phase is Phase.STOPPING:
        return Event.GONE
    if workload.moving:
        return Event.REQUEUE if _moved(record, facts) else _unasked(record, facts)
    if workload.phase is Phase.DRAINING:
        return Event.SUCCEED if _finished(record, facts) else Event.REQUEUE
    return _unasked(record, facts)


def _moved(record: Record, facts: Facts) -> bool:
    """Return whether an attempt that was asked to move saved its work and left, with more of it to be done."""
    saved = facts.status(record) == "SUCCEEDED" and _acked_since_notice(record, facts)
    return saved and not _done(record, facts)


def _unasked(record: Record, facts: Facts) -> Event | None:
    """Return what it means that an attempt ended which nobody asked to leave; what Ray lost is tried again."""
    status = facts.status(record)
    if not facts.jobs_seen:
        return None
    if status == "SUCCEEDED":
        return Event.SUCCEED
    if record.workload.killed or status is None:
        return Event.REQUEUE
    if status == "FAILED" and _in_doubt(record, facts):
        return None
    return Event.FAIL if status == "FAILED" else Event.CANCEL


def _in_doubt(record: Record, facts: Facts) -> bool:
    """Return whether what failed may have failed for a rank or a node of which nobody knows yet."""
    if facts.deaths.get(record.job_id) is not None or _sure(record, facts):
        return False
    unasked = record.workload.kind is Kind.GANG and record.job_id not in facts.deaths
    return unasked or record.workload.bundles > 1


def _sure(record: Record, facts: Facts) -> bool:
    """Return whether a gang that failed cannot have failed because of a node: Ray would have missed that by now."""
    return record.noticed_at is not None and facts.now - record.noticed_at >= DOUBT_S


def _never_ran(record: Record, facts: Facts) -> Event | None:
    """Return how an attempt ends that has no job: at once if it is to end, else when its room does not come free."""
    workload = record.workload
    if workload.phase is Phase.STOPPING:
        return Event.GONE
    if workload.phase is Phase.DRAINING or workload.killed:
        return Event.REQUEUE
    late = facts.now - (workload.admitted_at or 0.0) > PLACE_WITHIN_S and facts.named(workload.nodes)
    return Event.REQUEUE if late and record.group_id is None else None


def _gone(record: Record, facts: Facts) -> bool:
    """Return whether the last process is gone and no other can come.

    No processes prove nothing while Ray may still be about to start them: either Ray says that the job is over, or it
    was killed, or there were processes and the job had its reason to go.
    """
    if facts.left.get(record.job_id) != 0:
        return False
    if facts.over(record) or record.kill_sent:
        return True
    leaves = record.workload.phase is Phase.STOPPING or _acked_since_notice(record, facts) or _done(record, facts)
    return record.seen_alive and leaves


def _finished(record: Record, facts: Facts) -> bool:
    """Return whether an attempt that was asked to leave had completed its work."""
    if _done(record, facts):
        return True
    signalled = record.job.notice is Notice.SIGNAL
    return signalled and facts.status(record) == "SUCCEEDED" and not _acked_since_notice(record, facts)


def _done(record: Record, facts: Facts) -> bool:
    return record.job_id in facts.board.done


def _acked_since_notice(record: Record, facts: Facts) -> bool:
    ack = facts.acks.get(record.job_id)
    return ack is not None and record.noticed_at is not None and ack.at >= record.noticed_at


def _requeued(record: Record, facts: Facts) -> Step:
    """Put the workload back, ahead of its priority's queue; an attempt that never had a job is not counted."""
    workload = record.workload
    ran = record.job_submitted
    withdrawn = not ran and workload.phase is Phase.ADMITTED and not workload.killed
    drained = workload.phase is Phase.DRAINING and not (workload.moving or workload.killed)
    broke = ran and drained and _broke(record, facts)
    note = _note(
        record,
        facts,
        What.WITHDRAWN if withdrawn else What.REQUEUED,
        why="its room did not come free in time" if withdrawn else record.message,
        step=None if record.checkpoint is None else record.checkpoint.step,
        killed=workload.killed,
        freed=[[node, shape.gpus] for node, shape in workload.seats],
    )
    queued = replace(
        workload.without_nodes(after(workload.phase, Event.REQUEUE)),
        attempt=workload.attempt + ran,
        requeued=workload.requeued or not withdrawn,
        broken_drains=workload.broken_drains + broke,
    )
    kept = Record(
        workload=queued,
        job=record.job,
        checkpoint=record.checkpoint,
        saves=record.saves,
        step=record.step,
        step_at=record.step_at,
        restarts=record.restarts,
        forgotten=record.forgotten,
    )
    return kept, (note,)


def _broke(record: Record, facts: Facts) -> bool:
    """Return whether a drained attempt saved nothing, and failed or had to be ended by Ray at its deadline."""
    deadline_at = record.workload.deadline_at
    overdue = deadline_at is not None and facts.now >= deadline_at
    return not _acked_since_notice(record, facts) and (overdue or facts.status(record) == "FAILED")


def _closed(record: Record, facts: Facts, event: Event, why: str = "") -> Step:
    """End the workload for good. Who was stopped behind our back counts as cancelled, and is gone already."""
    phase = after(record.workload.phase, event)
    if phase not in TERMINAL:
        phase = after(phase, Event.GONE)
    job = facts.jobs.get(record.job_id)
    tells = job is not None and job.message and not (record.workload.expired and phase is Phase.STOPPED)
    message = why or (job.message if job is not None and tells else record.message)
    record = replace(record, workload=replace(record.workload, phase=phase), ended_at=facts.now, message=message)
    what = {Phase.SUCCEEDED: What.SUCCEEDED, Phase.FAILED: What.FAILED}.get(phase, What.STOPPED)
    step = None if record.checkpoint is None else record.checkpoint.step
    return record, (_note(record, facts, what, step=step, message=message),)


def lingers(record: Record, facts: Facts) -> bool:
    """Return whether processes outlive a job that ended by itself, for too long."""
    since = record.noticed_at
    return facts.status(record) in ENDED and since is not None and facts.now - since > LINGER_S


def refused(record: Record, facts: Facts, why: str) -> Step:
    """Return the record of a workload whose job Ray will never take."""
    return _closed(replace(record, message=why), facts, Event.FAIL)


def _note(record: Record, facts: Facts, what: What, **detail: object) -> Note:
    return Note(at=facts.now, kind=what, subject=record.name, detail={"attempt": record.workload.attempt, **detail})
