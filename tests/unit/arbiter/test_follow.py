"""What becomes of a workload, by what the world shows: how exits are read, and when something is really over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.follow import LINGER_S, PLACE_WITHIN_S, followed, lingers
from fleet_app.arbiter.notes import Note, What
from fleet_app.arbiter.ports import Ack, Beat, BoardView, BundleView, Death, GroupView, JobView, NodeView
from fleet_app.arbiter.records import Checkpoint, Job, Notice, Record
from fleet_app.engine.failures import Cause, Failure
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.workload import Kind
from tests.builders import backfill, shape

NOW = 100.0
NOTICED = 90.0
LATER = 1e6
GROUP = GroupView(
    group_id="g", name="fleet/w/job", state="CREATED", bundles=(BundleView(node_id="id1", shape=shape(1)),)
)
NODE = NodeView(
    node_id="id1",
    labels={"fleet/node": "n1", "fleet/class": "training"},
    alive=True,
    draining=False,
    total=shape(8),
    available=shape(7),
)


def record(
    phase: Phase = Phase.RUNNING,
    *,
    notice: Notice = Notice.LIBRARY,
    killed: bool = False,
    submitted: bool = True,
    seen: bool = False,
    sent: bool = False,
    checkpoint: Checkpoint | None = None,
    deadline_at: float | None = None,
    group_id: str | None = "g",
    expired: bool = False,
    moving: bool = False,
) -> Record:
    asked = phase in {Phase.DRAINING, Phase.STOPPING}
    if asked and deadline_at is None and not moving:
        deadline_at = LATER
    workload = backfill("job", on=("n1",), phase=phase, started_at=50.0, deadline_at=deadline_at)
    return Record(
        workload=replace(workload, killed=killed, expired=expired, admitted_at=NOW - 1),
        job=Job(entrypoint="true", notice=notice),
        group_id=group_id,
        job_submitted=submitted,
        noticed_at=NOTICED if asked else None,
        notified=asked,
        seen_alive=seen,
        kill_sent=sent,
        checkpoint=checkpoint,
    )


def facts(
    status: str | None = "RUNNING",
    *,
    left: int | None = None,
    ack: Ack | None = None,
    done: bool = False,
    group: GroupView | None = GROUP,
    beat: Beat | None = None,
) -> Facts:
    return Facts(
        now=NOW,
        nodes={"n1": NODE},
        names={"id1": "n1"},
        groups={} if group is None else {group.name: group},
        ids={} if group is None else {group.group_id: group},
        jobs={} if status is None else {"job": JobView(job_id="job", status=status, message="Ray's words")},
        left={} if left is None else {"job": left},
        board=BoardView(
            acks=() if ack is None else (ack,),
            beats=() if beat is None else (beat,),
            done=frozenset({"job"} if done else ()),
        ),
    )


def acked(step: int = 7, at: float = 95.0) -> Ack:
    return Ack(attempt="job", uri="file:///c", step=step, at=at)


R, D, S, A = Phase.RUNNING, Phase.DRAINING, Phase.STOPPING, Phase.ADMITTED
Q = Phase.QUEUED
SIGNAL = Notice.SIGNAL

ENDS = {
    # Nobody asked.
    "a job that runs goes on": (record(R), facts(), R),
    "a job that succeeded has succeeded": (record(R), facts("SUCCEEDED", left=0), Phase.SUCCEEDED),
    "a job that failed has failed": (record(R), facts("FAILED", left=0), Phase.FAILED),
    "a job that somebody stopped in Ray is stopped": (record(R), facts("STOPPED", left=0), Phase.STOPPED),
    "a job is not over while a process of it lives": (record(R), facts("SUCCEEDED", left=1), R),
    "a job is not over before its processes were counted": (record(R), facts("SUCCEEDED"), R),
    "a job that Ray lost is tried again": (record(R), facts(None, left=0), Q),
    "a job that Ray lost is not tried again while a process lives": (record(R), facts(None, left=1), R),
    "a killed job that failed was killed": (record(R, killed=True), facts("FAILED", left=0), Q),
    "a killed job that was done just before is done": (
        record(R, killed=True),
        facts("SUCCEEDED", left=0),
        Phase.SUCCEEDED,
    ),
    "a killed job is over when the kill went out, whatever Ray says": (
        record(R, killed=True, sent=True),
        facts("RUNNING", left=0),
        Q,
    ),
    "no processes prove nothing before a kill went out": (record(R, killed=True), facts("RUNNING", left=0), R),
    # Its maximum run time is over.
    "who saved its work when its time was over is stopped": (
        record(D, expired=True),
        facts("SUCCEEDED", left=0, ack=acked()),
        Phase.STOPPED,
    ),
    "who was done just then has succeeded": (
        record(D, expired=True),
        facts("SUCCEEDED", left=0, done=True),
        Phase.SUCCEEDED,
    ),
    "who had to be killed for it is stopped too": (
        record(D, expired=True, killed=True),
        facts("FAILED", left=0),
        Phase.STOPPED,
    ),
    "and who never ran": (record(D, expired=True, submitted=False), facts(None, left=0), Phase.STOPPED),
    # Asked to leave by the board only.
    "a library job that acknowledged and left waits again": (record(D), facts("SUCCEEDED", left=0, ack=acked()), Q),
    "a library job that left without a word waits again": (record(D), facts("SUCCEEDED", left=0), Q),
    "a library job that said done has succeeded": (record(D), facts("SUCCEEDED", left=0, done=True), Phase.SUCCEEDED),
    "done counts before Ray knows": (record(D, seen=True), facts("RUNNING", left=0, done=True), Phase.SUCCEEDED),
    "an acknowledged exit counts before Ray knows": (record(D, seen=True), facts("RUNNING", left=0, ack=acked()), Q),
    "an exit that was not acknowledged waits for Ray's word": (record(D, seen=True), facts("RUNNING", left=0), D),
    "an acknowledgement from before the notice is no exit": (
        record(D, seen=True),
        facts("RUNNING", left=0, ack=acked(at=80.0)),
        D,
    ),
    "no process yet is no exit": (record(D), facts("RUNNING", left=0, ack=acked()), D),
    "a job that acknowledged stays while a process lives": (
        record(D, seen=True),
        facts("RUNNING", left=1, ack=acked()),
        D,
    ),
    "a job that failed under notice waits again": (record(D), facts("FAILED", left=0), Q),
    "a job that was killed at its deadline waits again": (record(D, killed=True), facts("FAILED", left=0), Q),
    # Asked to move.
    "who saved its work and left waits again": (
        record(D, moving=True),
        facts("SUCCEEDED", left=0, ack=acked()),
        Q,
    ),
    "who goes on saving goes on": (record(D, moving=True, seen=True), facts("RUNNING", ack=acked()), D),
    "who came to its end saying so has succeeded": (
        record(D, moving=True),
        facts("SUCCEEDED", left=0, ack=acked(), done=True),
        Phase.SUCCEEDED,
    ),
    "who came to its end without having saved since has succeeded": (
        record(D, moving=True),
        facts("SUCCEEDED", left=0, ack=acked(at=80.0)),
        Phase.SUCCEEDED,
    ),
    "who failed meanwhile has failed": (record(D, moving=True), facts("FAILED", left=0), Phase.FAILED),
    "who lost its node meanwhile waits again": (record(D, moving=True, killed=True), facts("FAILED", left=0), Q),
    "what is moved before it had a job waits again": (record(D, moving=True, submitted=False), facts(None), Q),
    # Asked by a signal.
    "a signalled job that stopped waits again": (record(D, notice=SIGNAL), facts("STOPPED", left=0), Q),
    "a signalled job that ended before the signal has succeeded": (
        record(D, notice=SIGNAL),
        facts("SUCCEEDED", left=0),
        Phase.SUCCEEDED,
    ),
    "a signalled job that read the board first waits again": (
        record(D, notice=SIGNAL),
        facts("SUCCEEDED", left=0, ack=acked()),
        Q,
    ),
    # Cancelled.
    "a cancelled job is stopped however it ended": (record(S), facts("SUCCEEDED", left=0), Phase.STOPPED),
    "a cancelled job is stopped when its processes are gone": (record(S, seen=True), facts(left=0), Phase.STOPPED),
    "a cancelled job is not stopped before": (record(S, seen=True), facts(left=1), S),
    # Never ran.
    "what is drained before it had a job waits again": (record(D, submitted=False), facts(None), Q),
    "what is cancelled before it had a job is stopped": (record(S, submitted=False), facts(None), Phase.STOPPED),
    "what lost its node before it had a job waits again": (record(A, killed=True, submitted=False), facts(None), Q),
    "what has its group waits for its job": (record(A, submitted=False), facts(None), A),
    "a job that Ray has although we did not hear counts": (record(D, submitted=False), facts("RUNNING", left=1), D),
}


@pytest.mark.parametrize(("known", "seen", "want"), ENDS.values(), ids=ENDS)
def test_phase_after_a_look(known: Record, seen: Facts, want: Phase) -> None:
    assert followed(known, seen)[0].workload.phase is want


def test_a_requeued_workload_keeps_its_place_and_its_checkpoint_and_gets_a_new_attempt() -> None:
    before = record(D, deadline_at=120.0)
    after, notes = followed(before, facts("STOPPED", left=0, ack=acked()))
    want = replace(
        before.workload,
        phase=Q,
        attempt=2,
        nodes=(),
        requeued=True,
        admitted_at=None,
        started_at=None,
        saved_at=None,
        deadline_at=None,
    )
    checkpoint = Checkpoint(uri="file:///c", step=7, at=95.0, attempt=1)
    assert after == Record(workload=want, job=before.job, checkpoint=checkpoint, saves=1)
    assert [note.kind for note in notes] == [What.ACKNOWLEDGED, What.REQUEUED]


LATE = record(D, deadline_at=NOW)
BROKEN = {
    "failed before its deadline": (record(D, deadline_at=NOW + 9), facts("FAILED", left=0), 1),
    "failed, but its work was safe": (record(D), facts("FAILED", left=0, ack=acked()), 0),
    "left in time with nothing to save": (record(D, deadline_at=NOW + 9), facts("STOPPED", left=0), 0),
    "was ended by Ray at its deadline": (LATE, facts("STOPPED", left=0), 1),
    "was ended by Ray, but its work was safe": (LATE, facts("STOPPED", left=0, ack=acked()), 0),
    "was killed by the arbiter, which counted it then": (
        record(D, killed=True, sent=True, deadline_at=NOW),
        facts("STOPPED", left=0),
        0,
    ),
    "was killed for something else": (record(R, killed=True, sent=True), facts("FAILED", left=0), 0),
}


@pytest.mark.parametrize(("known", "seen", "want"), BROKEN.values(), ids=BROKEN)
def test_a_drain_that_broke_the_contract_is_counted_once(known: Record, seen: Facts, want: int) -> None:
    after, _ = followed(known, seen)
    assert after.workload.phase is Q
    assert after.workload.broken_drains == want


CHECKPOINTS = {
    "the first one counts": (None, acked(3), 3),
    "a further one counts": (3, acked(5), 5),
    "a nearer one does not": (7, acked(5), 7),
}


@pytest.mark.parametrize(("had", "ack", "want"), CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_a_checkpoint_never_goes_back(had: int | None, ack: Ack, want: int) -> None:
    known = None if had is None else Checkpoint(uri="file:///old", step=had, at=60.0, attempt=1)
    after = followed(record(checkpoint=known), facts(ack=ack))[0]
    assert after.checkpoint is not None
    assert after.checkpoint.step == want


def test_work_is_safe_up_to_the_acknowledgement_but_never_from_the_future() -> None:
    assert followed(record(), facts(ack=acked(at=95.0)))[0].workload.saved_at == 95.0
    assert followed(record(), facts(ack=acked(at=1e9)))[0].workload.saved_at == NOW


def test_a_beat_is_taken_over() -> None:
    after = followed(record(), facts(beat=Beat(attempt="job", step=12, at=99.0)))[0]
    assert (after.step, after.step_at) == (12, 99.0)


def test_a_workload_starts_when_ray_runs_its_job_and_not_before() -> None:
    assert followed(record(A), facts("PENDING"))[0].workload.phase is A
    started = followed(record(A), facts("RUNNING"))[0].workload
    assert (started.phase, started.started_at, started.saved_at) == (R, NOW, NOW)


BROKEN_GROUPS = {
    "a group that is gone": None,
    "a group that lost a node": replace(GROUP, state="RESCHEDULING"),
    "a group whose node died": replace(
        GROUP, state="RESCHEDULING", bundles=(BundleView(node_id=None, shape=shape(1)),)
    ),
}


@pytest.mark.parametrize("group", BROKEN_GROUPS.values(), ids=BROKEN_GROUPS)
def test_a_running_workload_does_not_survive(group: GroupView | None) -> None:
    after, notes = followed(record(R), facts("RUNNING", group=group))
    assert after.workload.killed
    assert [note.kind for note in notes if isinstance(note, Note)] == [What.LOST]


def test_a_node_that_a_group_lost_is_at_fault_also_under_backfill() -> None:
    _, [_, failed] = followed(record(R), facts("RUNNING", group=BROKEN_GROUPS["a group whose node died"]))
    assert isinstance(failed, Failure)
    assert (failed.workload, failed.node, failed.cause) == ("job", "n1", Cause.NODE)


def test_a_group_that_ray_shows_as_whole_on_a_node_that_is_away_is_left_alone() -> None:
    away = replace(GROUP, bundles=(BundleView(node_id="id9", shape=shape(1)),))
    after, notes = followed(record(R), facts("RUNNING", group=away))
    assert (after.workload.killed, notes) == (False, ())


DIED = Death(node_id="id1", why="SIGKILL")

GANGS_THAT_FAILED = {
    "with a rank that died it starts again": (0, {"job": DIED}, (Q, 2, 1, Cause.RANK, "n1")),
    "as often as the policy says": (2, {"job": DIED}, (Q, 2, 3, Cause.RANK, "n1")),
    "and no more": (3, {"job": DIED}, (Phase.FAILED, 1, 3, Cause.RANK, "n1")),
    "on a node that is gone too, nobody is blamed": (
        0,
        {"job": Death(node_id="x", why="y")},
        (Q, 2, 1, Cause.RANK, None),
    ),
    "by itself it has failed": (0, {"job": None}, (Phase.FAILED, 1, 0, Cause.JOB, None)),
    "while nobody can say, it is waited for": (0, {}, (R, 1, 0, None, None)),
}


@pytest.mark.parametrize(("restarts", "deaths", "want"), GANGS_THAT_FAILED.values(), ids=GANGS_THAT_FAILED)
def test_a_gang_that_failed(restarts: int, deaths: dict[str, Death | None], want: tuple[object, ...]) -> None:
    began = record(R)
    gang_record = replace(began, workload=replace(began.workload, kind=Kind.GANG), restarts=restarts)
    after, told = followed(gang_record, replace(facts("FAILED", left=0), deaths=deaths))
    failed = next((one for one in told if isinstance(one, Failure)), None)
    cause, node = (None, None) if failed is None else (failed.cause, failed.node)
    assert (after.workload.phase, after.workload.attempt, after.restarts, cause, node) == want
    assert after.workload.requeued == (after.workload.phase is Q)


def test_a_new_checkpoint_makes_good_for_restarts() -> None:
    assert followed(replace(record(R), restarts=2), facts(ack=acked()))[0].restarts == 0


def test_a_group_that_broke_before_the_job_is_made_again() -> None:
    assert followed(record(A, submitted=False), facts(None, group=None))[0].group_id is None


def test_a_group_that_was_made_just_before_a_crash_is_found_again() -> None:
    after, notes = followed(record(A, submitted=False, group_id=None), facts(None))
    assert after.group_id == "g"
    assert [note.kind for note in notes] == [What.PLACED]


def test_room_that_does_not_come_free_is_given_back_without_counting_an_attempt() -> None:
    waiting = record(A, submitted=False, group_id=None)
    late = replace(waiting, workload=replace(waiting.workload, admitted_at=NOW - PLACE_WITHIN_S - 1))
    assert followed(waiting, facts(None, group=None))[0].workload.phase is A
    after = followed(late, facts(None, group=None))[0].workload
    assert (after.phase, after.attempt, after.requeued) == (Q, 1, False)


@pytest.mark.parametrize("phase", [D, S])
def test_what_has_not_begun_need_not_be_waited_for(phase: Phase) -> None:
    assert followed(record(phase, deadline_at=999.0), facts("PENDING", left=0))[0].workload.killed


def test_a_cancelled_workload_is_killed_at_its_deadline() -> None:
    assert followed(record(S, deadline_at=NOW), facts(left=1))[0].workload.killed
    assert not followed(record(S, deadline_at=NOW + 1), facts(left=1))[0].workload.killed


def test_what_outlives_its_job_is_given_a_while() -> None:
    first = followed(record(R), facts("SUCCEEDED", left=1))[0]
    assert first.noticed_at == NOW
    assert not lingers(first, facts("SUCCEEDED", left=1))
    assert lingers(replace(first, noticed_at=NOW - LINGER_S - 1), facts("SUCCEEDED", left=1))


def test_an_attempt_that_ray_knows_already_is_skipped() -> None:
    waiting = Record(workload=backfill("job"), job=Job(entrypoint="true"))
    assert followed(waiting, facts("RUNNING"))[0].job_id == "job.2"
