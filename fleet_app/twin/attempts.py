"""What happens to one workload: it comes, starts, saves, is asked to leave, leaves, ends.

Each function lets one thing happen in a world at its `now`. Knows how jobs behave. Decides nothing: who starts and who
is to leave is read from the plan, in `carry`.
"""

from __future__ import annotations

from dataclasses import replace
from math import floor

from fleet_app.engine import life
from fleet_app.engine.ends import limit_at
from fleet_app.engine.failures import Cause as FailureCause
from fleet_app.engine.failures import Failure
from fleet_app.engine.lifecycle import Event, Phase, after
from fleet_app.engine.workload import Kind, Workload
from fleet_app.twin.clock import What
from fleet_app.twin.pulling import pull_s
from fleet_app.twin.record import Admitted, Cause, Ended, Left, Outcome, Shrunk, Started, Submitted
from fleet_app.twin.work import Job
from fleet_app.twin.world import Doing, World

EXACT = 1e-9
"""What a number of steps may be off before one that is done counts as begun."""


def submitted(world: World, job: Job) -> None:
    """Let a job come into the queue."""
    one = job.workload
    world.doing[one.name] = Doing(job=job, queued_at=world.now, saves=world.may_be_cut_short(job))
    world.fleet.put(one)
    world.tell(
        Submitted(
            at=world.now,
            workload=one.name,
            team=one.team,
            kind=one.kind,
            priority=one.priority,
            gpus=one.gpus,
            bundles=one.bundles,
            run_s=job.run_s,
            sm_active=job.sm_active,
            tflops=job.tflops,
        )
    )


def admitted(world: World, one: Workload, nodes: tuple[str, ...], card: int | None = None) -> None:
    """Let a workload have its nodes; it starts once all is pulled and its ranks are up, at once if that takes none."""
    now, doing = world.now, world.doing[one.name]
    waited_s = now - doing.queued_at
    doing.mark += 1
    doing.queued_s += waited_s
    doing.held_since = now
    if doing.first_admitted_at is None:
        doing.first_admitted_at = now
    delay_s = _start_s(doing.job, one.attempt) + (pull_s(world, one.artifacts, nodes) if one.artifacts else 0.0)
    at_once = delay_s <= 0.0 and card is None
    new = life.at_work(one, nodes, now) if at_once else life.admitted(one, nodes, now, card)
    world.fleet.put(new)
    world.tell(Admitted(at=now, workload=one.name, attempt=one.attempt, nodes=nodes, gpus=new.gpus, waited_s=waited_s))
    if at_once:
        _at_work(world, new, doing)
    else:
        world.agenda.put(now + delay_s, What.STARTED, one.name, doing.mark)
        world.due(limit_at(new))


def _start_s(job: Job, attempt: int) -> float:
    known_s = job.of(attempt).start_s if job.known else None
    if known_s is not None:
        return known_s
    return job.start_s + job.resume_s if attempt > 1 else job.start_s


def started(world: World, name: str) -> None:
    """Let the ranks of a workload run; one that was told to leave meanwhile has nothing to save and does not begin."""
    one = world.fleet.workloads[name]
    if one.phase is Phase.ADMITTED and not one.killed:
        world.fleet.put(life.started(one, world.now))
        _at_work(world, world.fleet.workloads[name], world.doing[name])


def _at_work(world: World, one: Workload, doing: Doing) -> None:
    now = world.now
    doing.since = now
    doing.rate = _rate(one)
    world.tell(Started(at=now, workload=one.name, attempt=one.attempt, resumed_s=doing.safe_s))
    ends_at = _goes_on(world, one, doing)
    limit = limit_at(one)
    if limit is not None and limit < ends_at:
        world.due(limit)
    if one.attempt > 1 and world.policy.drain.min_run_s > 0.0:
        world.due(now + world.policy.drain.min_run_s)


def _goes_on(world: World, one: Workload, doing: Doing) -> float:
    """Put down what comes of an attempt as it goes on now: when it saves, breaks and is done; return the last."""
    now, every_s, mean_s = world.now, doing.job.save_every_s, world.scenario.faults.rank_mean_gpu_s
    left_s = max(0.0, doing.job.run_s - doing.safe_s - doing.fresh_s)
    ends_at = now + (left_s if doing.rate == 1.0 else left_s / doing.rate)
    world.agenda.put(ends_at, What.ENDED, one.name, doing.mark)
    if doing.saves and every_s is not None:
        world.agenda.put(now + every_s, What.SAVED, one.name, doing.mark)
    if mean_s is not None:
        dies_s = world.chance.until(mean_s / max(1, one.gpus), "dies", one.name, doing.mark)
        world.agenda.put(now + dies_s, What.RANK_DIED, one.name, doing.mark)
    return ends_at


def _rate(one: Workload) -> float:
    """Return how many seconds of its work a workload does in one: an elastic one as its members allow."""
    return 1.0 if one.minimum is None else len(one.nodes) / one.bundles


def saved(world: World, name: str) -> None:
    """Let a workload save its work, and do so again later."""
    one, doing = world.fleet.workloads[name], world.doing[name]
    if one.phase is not Phase.RUNNING and not one.moving:
        return
    _save(world, doing, world.now)
    world.fleet.put(replace(one, saved_at=world.now))
    if doing.job.save_every_s is not None:
        world.agenda.put(world.now + doing.job.save_every_s, What.SAVED, name, doing.mark)
    if one.moving and not doing.job.clings:
        left(world, name)


def _save(world: World, doing: Doing, at: float) -> None:
    """Let what was done until a moment, now or a little before, be safe, and nothing more have been done."""
    done_s, step_s = doing.done_s(at), doing.job.step_s
    doing.safe_s = done_s if step_s <= 0.0 else floor(done_s / step_s + EXACT) * step_s
    doing.fresh_s = done_s - doing.safe_s
    doing.since = None if doing.since is None else world.now
    doing.restarts = 0


def asked_to_leave(world: World, one: Workload, cause: Cause) -> None:
    """Let a workload that has just been given notice do as it does: what has not begun goes at once."""
    doing = world.doing[one.name]
    if doing.asked_at is None:
        doing.asked_at = world.now
    doing.cause = cause
    if doing.since is None:
        killed(world, replace(one, killed=True))
    elif not doing.job.clings and not one.moving:
        leaves_s = _leaves_s(world, doing.job, one)
        world.agenda.put(max(world.now, doing.asked_at + leaves_s), What.LEFT, one.name, doing.mark)


def _leaves_s(world: World, job: Job, one: Workload) -> float:
    known_s = job.of(one.attempt).leaves_s if job.known else None
    return world.chance.seconds(job.leaves, "leaves", one.name, one.attempt) if known_s is None else known_s


def killed(world: World, one: Workload) -> None:
    """Let a workload be gone without having saved anything more; it is put as given."""
    doing = world.doing[one.name]
    doing.fresh_s, doing.since = doing.done_s(world.now) - doing.safe_s, None
    doing.mark += 1
    world.fleet.put(one)
    world.agenda.put(world.now + world.scenario.dies_s, What.LEFT, one.name, doing.mark)


def left(world: World, name: str) -> None:
    """Let the last process of a workload that was told to end be gone; one that was not killed has saved its work."""
    one, doing = world.fleet.workloads[name], world.doing[name]
    if not one.killed:
        _save(world, doing, _saved_at(world, one, doing))
    _cut_short(world, one, life.gone(one), broke=one.killed and doing.cause in _ASKED and one.started_at is not None)


def _saved_at(world: World, one: Workload, doing: Doing) -> float:
    """Return when a workload that leaves had saved its work: as it exits, if nothing else is said."""
    job = doing.job
    known_s = job.of(one.attempt).saves_s if job.known else None
    saves_s = job.saves_s if known_s is None else known_s
    if saves_s is None or doing.asked_at is None or doing.since is None:
        return world.now
    return min(world.now, max(doing.since, doing.asked_at + saves_s))


_ASKED = {Cause.DRAINED, Cause.EXPIRED, Cause.MOVED}


def rank_died(world: World, name: str) -> None:
    """Let a rank of a running workload die, and so all of it: it starts again, unless that happens too often (H2)."""
    one, doing = world.fleet.workloads[name], world.doing[name]
    if doing.since is None:
        return
    doing.fresh_s, doing.since = doing.done_s(world.now) - doing.safe_s, None
    node = one.nodes[world.chance.of("rank", name, one.attempt).randrange(len(one.nodes))]
    failed(world, one, FailureCause.RANK, node)
    doing.cause, doing.restarts, doing.asked_at = Cause.RANK, doing.restarts + 1, None
    if doing.restarts > world.policy.health.restarts:
        ended(world, name, Outcome.FAILED)
    else:
        _cut_short(world, one, life.requeued(one), broke=False)


def _cut_short(world: World, one: Workload, new: Workload, *, broke: bool) -> None:
    """Take a workload's nodes away: back to the queue, or ended for good."""
    now, doing = world.now, world.doing[one.name]
    lost_s, gpus = doing.fresh_s, one.gpus
    record = Left(
        at=now,
        workload=one.name,
        attempt=one.attempt,
        cause=doing.cause,
        asked_at=doing.asked_at,
        broke=broke,
        gpus=gpus,
        done_s=doing.safe_s,
        lost_s=lost_s,
        lost_gpu_s=lost_s * gpus,
    )
    doing.charge(now, gpus)
    doing.mark += 1
    doing.fresh_s, doing.since, doing.asked_at, doing.queued_at = 0.0, None, None, now
    world.tell(record)
    if new.phase is Phase.QUEUED:
        world.fleet.put(new)
    else:
        _gone(world, one, doing, Outcome.STOPPED)


def ended(world: World, name: str, outcome: Outcome | None = None) -> None:
    """Let a workload come to its own end."""
    one, doing = world.fleet.workloads[name], world.doing[name]
    found = outcome or (Outcome.FAILED if doing.job.fails else Outcome.SUCCEEDED)
    after(one.phase, Event.SUCCEED if found is Outcome.SUCCEEDED else Event.FAIL)
    if found is Outcome.FAILED and outcome is None:
        failed(world, one, FailureCause.JOB)
    doing.charge(world.now, one.gpus)
    _gone(world, one, doing, found)


def _gone(world: World, one: Workload, doing: Doing, outcome: Outcome) -> None:
    world.fleet.drop(one.name)
    del world.doing[one.name]
    world.tell(
        Ended(
            at=world.now,
            workload=one.name,
            team=one.team,
            kind=one.kind,
            gpus=one.gpus if one.minimum is None else one.shape.gpus * one.bundles,
            outcome=outcome,
            submitted_at=doing.job.workload.submitted_at,
            first_admitted_at=world.now if doing.first_admitted_at is None else doing.first_admitted_at,
            queued_s=doing.queued_s,
            attempts=one.attempt,
            held_gpu_s=doing.held_gpu_s,
        )
    )


def failed(world: World, one: Workload, cause: FailureCause, node: str | None = None) -> None:
    """Note a failure, if it counts: backfill's own faults do not."""
    if one.kind is Kind.GANG or cause is FailureCause.NODE:
        why = f"its {cause} failed"
        told = Failure(workload=one.name, nodes=one.nodes, at=world.now, cause=cause, node=node, why=why)
        since = world.now - world.policy.health.window_s
        world.fleet.failures = [known for known in world.fleet.failures if known.at > since] + [told]


# --- members of elastic workloads -----------------------------------------------------------------------------------


def members_changed(world: World, one: Workload) -> None:
    """Let an elastic workload go on with the members that it has now."""
    doing = world.doing[one.name]
    if doing.since is None:
        return
    done = doing.done_s(world.now)
    doing.fresh_s, doing.since, doing.rate = done - doing.safe_s, world.now, _rate(one)
    doing.mark += 1
    _goes_on(world, one, doing)
    if one.going:
        world.agenda.put(world.now + _members_leave_s(world, one), What.MEMBERS_LEFT, one.name, doing.mark)


def _members_leave_s(world: World, one: Workload) -> float:
    doing = world.doing[one.name]
    most = max(0.0, (one.going_by or world.now) - world.now)
    leaves_s = world.chance.seconds(doing.job.leaves, "members", one.name, world.now)
    return most if doing.job.clings else min(most, leaves_s)


def members_left(world: World, name: str) -> None:
    """Let the members that were asked to leave be gone: nothing is lost, the rest goes on."""
    one = world.fleet.workloads[name]
    if not one.going:
        return
    new = life.without_members(one)
    doing = world.doing[name]
    gpus = one.gpus - new.gpus
    doing.charge(world.now, one.gpus)
    world.fleet.put(new)
    world.tell(Shrunk(at=world.now, workload=name, nodes=one.going, gpus=gpus, asked_at=doing.members_asked_at))
    members_changed(world, new)
