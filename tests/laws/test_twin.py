"""Runs of the twin, whatever comes: the laws of one decision hold at every moment, and what it tells adds up."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.arbiter import codec
from fleet_app.engine.lifecycle import LEAVING
from fleet_app.engine.policy import Ordering
from fleet_app.engine.values import NodeClass
from fleet_app.twin.chance import Spread
from fleet_app.twin.meter import ALLOCATED, DOWN, DRAINING, HELD, TOTAL
from fleet_app.twin.record import (
    Admitted,
    ClassSpan,
    Ended,
    Left,
    Record,
    ReplicaReady,
    ServiceSpan,
    Started,
    Submitted,
    TeamSpan,
    Waiting,
)
from fleet_app.twin.run import Run, run
from fleet_app.twin.saved import Standing, continued, standing
from fleet_app.twin.work import Asked, Faults, Job, Known, Scenario, Traffic
from fleet_app.twin.world import World
from tests.builders import COMMITTED, backfill, gang, nodes, policy, team
from tests.laws.effort import tries
from tests.laws.reference import case_of, check
from tests.strategies import asked_to_book, new_fleets, workloads
from tests.twins import job, of, told
from tests.virtual import Fleet

SECONDS = st.sampled_from([0.0, 1.0, 20.0, 150.0])


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Return what happens to a small fleet: jobs of every manner, traffic that comes and goes, faults and bookings."""
    new = draw(new_fleets())
    queued = [*new.workloads, *(draw(workloads(f"z{number}", new.policy.levels)) for number in range(3))]
    at, jobs = new.now, []
    for one in queued:
        at += draw(st.sampled_from([0.0, 0.0, 10.0, 130.0]))
        jobs.append(draw(behaving(replace(one, submitted_at=at))))
    faults = draw(st.sampled_from([Faults(), Faults(), Faults(node_mean_s=3e3, repair=Spread(median_s=200.0))]))
    faults = replace(faults, rank_mean_gpu_s=draw(st.sampled_from([None, None, 5e3])))
    asks = [
        asked_to_book(new, which, amount)
        for which, amount in draw(st.lists(st.tuples(*[st.integers(0, 5)] * 2), max_size=1))
    ]
    return Scenario(
        policy=replace(new.policy, drain=replace(new.policy.drain, min_run_s=draw(st.sampled_from([0.0, 100.0])))),
        nodes=new.nodes,
        jobs=tuple(jobs),
        traffic=tuple(draw(loaded(service, new.now)) for service in new.services),
        bookings=tuple(Asked(at=new.now + 20.0, ask=ask) for ask in asks),
        faults=faults,
        begins_at=new.now,
        ends_at=new.now + 3_000.0,
        dies_s=draw(st.sampled_from([0.0, 0.25])),
        span_s=700.0,
        commits_at=draw(st.sampled_from([None, None, COMMITTED])),
    )


@st.composite
def behaving(draw: st.DrawFn, one) -> Job:
    """Return a job of a workload that behaves in some way."""
    return Job(
        workload=one,
        run_s=draw(st.sampled_from([5.0, 200.0, 900.0])),
        start_s=draw(SECONDS),
        resume_s=draw(SECONDS),
        save_every_s=draw(st.sampled_from([None, 7.0, 100.0])),
        leaves=Spread(median_s=draw(SECONDS), sigma=draw(st.sampled_from([0.0, 0.5]))),
        saves_s=draw(st.sampled_from([None, None, 0.0, 10.0])),
        step_s=draw(st.sampled_from([0.0, 0.0, 3.0])),
        known=draw(st.sampled_from([(), (), (Known(attempt=1, start_s=2.0, leaves_s=9.0, saves_s=4.0),)])),
        clings=draw(st.sampled_from([False, False, False, True])),
        fails=draw(st.sampled_from([False, False, True])),
    )


@st.composite
def loaded(draw: st.DrawFn, service, now: float) -> Traffic:
    """Return the traffic of a service."""
    rates = [(now + 200.0 * step, float(draw(st.integers(0, 4)))) for step in range(8)]
    return Traffic(
        service=replace(service, wanted=0),
        rates=tuple(rates),
        slot_rate=1.0,
        busy=1.0,
        keeps_s=draw(st.sampled_from([0.0, 90.0])),
        start_s=Spread(median_s=draw(SECONDS)),
        stops_s=draw(st.sampled_from([0.0, 0.0, 30.0])),
    )


def facts(world: World) -> Fleet:
    """Return the facts of a run as the fleet that the laws look at."""
    state = world.fleet.state()
    return Fleet(
        policy=world.policy,
        now=world.now,
        nodes=state.nodes,
        workloads=state.workloads,
        services=state.services,
        failures=state.failures,
        quarantines=state.quarantines,
        bookings=state.bookings,
    )


def counted(world: World) -> dict[NodeClass, Counter[int]]:
    """Return what each class has now, counted from the facts alone."""
    found: dict[NodeClass, Counter[int]] = {kind: Counter() for kind in NodeClass}
    busy: Counter[str] = Counter()
    for one in world.fleet.workloads.values():
        for name, shape in one.seats:
            leaves = one.killed or one.phase in LEAVING or name in one.going
            found[world.fleet.nodes[name].node_class][DRAINING if leaves else ALLOCATED] += shape.gpus
            busy[name] += shape.gpus
    for service in world.fleet.services.values():
        for grant in service.grants:
            part = ALLOCATED if grant.occupied else HELD
            found[world.fleet.nodes[grant.node].node_class][part] += service.shape.gpus
            busy[grant.node] += service.shape.gpus
    for hold in world.holds:
        found[world.fleet.nodes[hold.node].node_class][HELD] += hold.shape.gpus
        busy[hold.node] += hold.shape.gpus
    for node in world.fleet.nodes.values():
        found[node.node_class][TOTAL] += node.capacity.gpus
        found[node.node_class][DOWN] += 0 if node.placeable else node.capacity.gpus - busy[node.name]
    return found


def check_meter(world: World) -> None:
    """What is kept up to date change by change is what can be counted."""
    want = counted(world)
    for kind in NodeClass:
        has = world.meter.gpus(kind)
        assert {part: has[part] for part in (ALLOCATED, DRAINING, HELD, DOWN, TOTAL)} == {
            part: want[kind][part] for part in (ALLOCATED, DRAINING, HELD, DOWN, TOTAL)
        }


def check_lives(records: list[Record]) -> None:
    """I10: everybody came once, each attempt was admitted, then started, then left or ended; nobody is lost."""
    for sub in of(records, Submitted):
        theirs = [one for one in records if getattr(one, "workload", None) == sub.workload]
        moments = [one.at for one in theirs]
        assert moments == sorted(moments)
        assert sum(isinstance(one, Submitted | Ended) for one in theirs) <= 2
        admitted = [one.attempt for one in theirs if isinstance(one, Admitted)]
        assert admitted == sorted(admitted)
        tries_over = sum(isinstance(one, Left) for one in theirs)
        assert tries_over <= len(admitted) <= tries_over + 1
        last = theirs[-1]
        assert not isinstance(last, Left) or of(theirs, Ended)
        for one in of(theirs, Started):
            assert 0.0 <= one.resumed_s <= sub.run_s
    assert len({one.workload for one in of(records, Ended)}) == len(of(records, Ended))


def check_spans(given: Scenario, records: list[Record]) -> None:
    """What each class had adds up to its nodes, what each team had to its nominal; no part is ever negative."""
    for one in of(records, ClassSpan):
        parts = [one.allocated_gpu_s, one.draining_gpu_s, one.held_gpu_s, one.idle_gpu_s, one.down_gpu_s]
        assert min(parts) >= -1e-6
        assert abs(sum(parts) - one.total_gpu_s) < 1e-6
        assert one.lent_gpu_s <= one.allocated_gpu_s + one.draining_gpu_s + 1e-6
    for one in of(records, TeamSpan):
        parts = [one.own_gpu_s, one.lent_gpu_s, one.unused_gpu_s]
        assert min(parts) >= -1e-6
        assert abs(sum(parts) - one.nominal_gpu_s) < 1e-6
    for one in of(records, ServiceSpan):
        assert one.ready <= one.granted
        assert 0.0 <= one.late <= one.requests + 1e-9
    held = sum(one.held_gpu_s for one in of(records, Ended))
    had = sum(one.allocated_gpu_s + one.draining_gpu_s for one in of(records, ClassSpan))
    if not given.nodes[0].cards:
        assert held <= had + 1e-6


@given(scenarios())
@tries(60)
def test_every_law_holds_at_every_moment_and_all_adds_up(given):
    records: list[Record] = []
    going = Run(given, records.append, plainly=True)
    going.begin()
    cards = any(node.cards for node in given.nodes)
    while (at := going.world.agenda.next_at) is not None and at <= given.ends_at:
        going.step(at)
        if not cards:
            check(case_of(facts(going.world)))
            check_meter(going.world)
    going.world.now = given.ends_at
    going.finish()
    check_lives(records)
    if not cards:
        check_spans(given, records)
    waiting = {one.workload for one in of(records, Waiting)}
    assert waiting == {name for name, one in going.world.fleet.workloads.items() if not one.holding}
    assert all(
        one.waited_s >= 0.0 for one in [*of(records, ReplicaReady), *of(records, Admitted), *of(records, Waiting)]
    )


@given(scenarios(), st.floats(0.0, 3_000.0))
@tries(60)
def test_a_run_that_is_continued_from_a_file_tells_the_same(given, after_s):
    whole = told(given)
    parts: list[Record] = []
    first = Run(given, parts.append)
    first.begin()
    first.go(until=given.begins_at + after_s)
    again = continued(codec.load(Standing, codec.dump(standing(first))), given, parts.append)
    again.go()
    again.finish()
    assert parts == whole


def followed(given: Scenario) -> Scenario:
    """Return the scenario without what is decided from all facts every time, so that nothing hides what is left out."""
    quotas = tuple(replace(quota, flavors=()) for quota in given.policy.quotas)
    ordering = replace(given.policy.ordering, ageing_s=None)
    rules = replace(given.policy, quotas=quotas, ordering=ordering, slicing=None)
    jobs = [job for job in given.jobs if job.workload.minimum is None and job.workload.slice is None]
    traffic = tuple(one for one in given.traffic if one.service.slice is None)
    nodes = tuple(replace(node, cards=()) for node in given.nodes)
    return replace(given, policy=rules, jobs=tuple(jobs), traffic=traffic, nodes=nodes)


def strict(given: Scenario) -> Scenario:
    """Return the scenario with strict queues, without services."""
    quotas = tuple(replace(quota, strict=True) for quota in given.policy.quotas)
    return replace(given, policy=replace(given.policy, quotas=quotas), traffic=())


@st.composite
def kept_for_one(draw: st.DrawFn) -> Scenario:
    """Return a crowd that asks for few things and runs for known times, where room is kept for one at most (O11)."""
    teams = [team("research", nominal=draw(st.sampled_from([6, 16]))), team("vision", nominal=8)]
    ordering = Ordering(
        keepers=draw(st.sampled_from([0, 1, 1, 1])), shortest_first=draw(st.sampled_from([False] * 4 + [True]))
    )
    rules = replace(policy(*teams, longest_grace_s=40.0), ordering=ordering)
    at, jobs = 0.0, []
    for number in range(draw(st.integers(4, 18))):
        at += draw(st.sampled_from([0.0, 0.0, 5.0, 30.0]))
        make = draw(st.sampled_from([gang] * 9 + [backfill]))
        one = make(
            f"j{number:02}",
            nodes=draw(st.sampled_from([1, 1, 1, 2])),
            gpus=draw(st.sampled_from([1, 1, 2, 4])),
            team=draw(st.sampled_from(["research", "research", "vision"])),
            priority=draw(st.sampled_from([COMMITTED] * 6 + [COMMITTED + 1])),
            max_run_s=draw(st.sampled_from([20.0, 50.0, 90.0, 150.0, 250.0, None])),
            grace_s=draw(st.sampled_from([0.0, 0.0, 10.0, 30.0])),
            submitted_at=at,
        )
        lasts_s, leaves_s = (
            draw(st.sampled_from([15.0, 50.0, 90.0, 150.0, 240.0])),
            draw(st.sampled_from([0.0, 0.0, 20.0])),
        )
        jobs.append(job(one, lasts_s, leaves_s=leaves_s))
    sizes = draw(st.lists(st.sampled_from([2, 4, 4, 5]), min_size=1, max_size=4))
    fleet = tuple(one for number, gpus in enumerate(sizes) for one in nodes(1, first=number, gpus=gpus))
    return Scenario(
        policy=rules, nodes=fleet, jobs=tuple(jobs), ends_at=draw(st.sampled_from([200.0, 2_000.0])), span_s=700.0
    )


@given(st.one_of(scenarios(), scenarios().map(followed), scenarios().map(followed).map(strict), kept_for_one()))
@tries(160)
def test_what_is_left_out_for_speed_changes_nothing_that_is_told(given):
    plain: list[Record] = []
    run(given, plain.append, plainly=True)
    assert told(given) == plain
