"""What a run tells: small stories, every moment of which can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.artifacts import Artifact
from fleet_app.engine.policy import Headroom, Health, Pulls, Source
from fleet_app.engine.values import NodeClass
from fleet_app.twin.chance import Spread
from fleet_app.twin.record import (
    Admitted,
    Booked,
    Cause,
    ClassSpan,
    Ended,
    Grown,
    KeptOut,
    Left,
    NodeBack,
    NodeLost,
    Noticed,
    Outcome,
    ReplicaReady,
    ServiceSpan,
    Shrunk,
    Started,
    TeamSpan,
    Waiting,
)
from fleet_app.twin.work import Asked, Faults, Known
from tests.builders import backfill, booking_ask, gang, node, nodes, policy, service, team
from tests.twins import job, of, ran, scenario, story, told, traffic

TEN_SECONDS = Spread(median_s=10.0)


def test_a_job_comes_starts_and_ends():
    records = told(scenario(policy(), [node("n1")], [job(gang("g"), 100.0, at=10.0, start_s=5.0)]))
    assert story(records) == [
        (10.0, "Submitted", "g"),
        (10.0, "Admitted", "g"),
        (15.0, "Started", "g"),
        (115.0, "Ended", "g"),
    ]


def test_who_does_not_fit_waits_for_who_ends():
    jobs = [job(gang("first"), 100.0), job(gang("second"), 50.0, at=20.0)]
    records = told(scenario(policy(), [node("n1")], jobs))
    assert [(one.workload, one.at, one.waited_s) for one in of(records, Admitted)] == [
        ("first", 0.0, 0.0),
        ("second", 100.0, 80.0),
    ]
    ended = of(records, Ended)[-1]
    assert (ended.at, ended.queued_s, ended.held_gpu_s) == (150.0, 80.0, 400.0)


def test_at_one_moment_an_end_makes_room_for_who_is_submitted_then():
    jobs = [job(gang("first"), 100.0), job(gang("second"), at=100.0)]
    assert of(told(scenario(policy(), [node("n1")], jobs)), Admitted)[1].at == 100.0


def test_backfill_leaves_within_its_notice_and_goes_on_where_it_saved():
    jobs = [
        job(backfill("lent", gpus=8), 1000.0, leaves_s=30.0, save_every_s=300.0),
        job(gang("owner"), 100.0, at=400.0),
    ]
    records = told(scenario(policy(), [node("n1")], jobs))
    (notice,) = of(records, Noticed)
    assert (notice.at, notice.cause, notice.beneficiary, notice.deadline_at) == (400.0, Cause.DRAINED, "owner", 520.0)
    (left,) = of(records, Left)
    assert (left.at, left.done_s, left.lost_s, left.broke) == (430.0, 430.0, 0.0, False)
    assert [(one.workload, one.at, one.resumed_s) for one in of(records, Started)] == [
        ("lent", 0.0, 0.0),
        ("owner", 430.0, 0.0),
        ("lent", 530.0, 430.0),
    ]
    assert of(records, Ended)[-1].at == 1100.0


def left_at(**manners: object) -> tuple[float, float, float]:
    """Return when backfill that was asked to leave at 400 s left, what it had saved, and what of it was lost."""
    jobs = [job(backfill("lent", gpus=8), 1000.0, leaves_s=30.0, **manners), job(gang("owner"), 100.0, at=400.0)]
    (left,) = of(told(scenario(policy(), [node("n1")], jobs)), Left)
    return (left.at, left.done_s, left.lost_s)


MANNERS = {
    "it works until it exits": ({}, (430.0, 430.0, 0.0)),
    "it works until it has saved": ({"saves_s": 12.0}, (430.0, 412.0, 0.0)),
    "it saves whole steps": ({"step_s": 100.0}, (430.0, 400.0, 30.0)),
    "it saves the steps that it had done by then": ({"saves_s": 12.0, "step_s": 4.0}, (430.0, 412.0, 0.0)),
    "how it left then is known": (
        {"saves_s": 12.0, "known": (Known(attempt=1, leaves_s=20.0, saves_s=5.0),)},
        (420.0, 405.0, 0.0),
    ),
    "what is known of another attempt says nothing": (
        {"known": (Known(attempt=2, leaves_s=20.0),)},
        (430.0, 430.0, 0.0),
    ),
}


@pytest.mark.parametrize(("manners", "want"), MANNERS.values(), ids=MANNERS)
def test_what_is_saved_by_who_is_asked_to_leave(manners, want):
    assert left_at(**manners) == want


def test_each_attempt_starts_as_it_is_known_to_and_others_as_usual():
    known = (Known(attempt=1, start_s=7.0), Known(attempt=2))
    jobs = [job(backfill("lent", gpus=8), 500.0, start_s=3.0, known=known), job(gang("owner"), 100.0, at=100.0)]
    starts = [one.at for one in of(told(scenario(policy(), [node("n1")], jobs)), Started) if one.workload == "lent"]
    assert starts == [7.0, 203.0]


def test_who_clings_is_killed_at_the_deadline_and_loses_what_it_did_since_it_last_saved():
    jobs = [
        job(backfill("lent", gpus=8), 1000.0, clings=True, save_every_s=300.0),
        job(gang("owner"), 100.0, at=400.0),
    ]
    records = told(scenario(policy(), [node("n1")], jobs, dies_s=2.0))
    (left,) = of(records, Left)
    assert (left.at, left.broke, left.done_s, left.lost_s, left.lost_gpu_s) == (522.0, True, 300.0, 220.0, 1760.0)
    assert of(records, Admitted)[1].at == 522.0
    assert of(records, Ended)[-1].at == 522.0 + 100.0 + 700.0


def test_what_has_not_begun_yet_goes_at_once_when_it_is_asked():
    jobs = [job(backfill("lent", gpus=8), start_s=60.0), job(gang("owner"), at=30.0)]
    records = told(scenario(policy(), [node("n1")], jobs))
    assert of(records, Left)[0].at == 30.0
    assert of(records, Left)[0].attempt == 1
    assert not of(records, Left)[0].broke


def test_what_has_run_for_its_maximum_time_ends_for_good():
    records = told(scenario(policy(), [node("n1")], [job(gang("g", max_run_s=50.0), 100.0, leaves_s=10.0)]))
    assert of(records, Noticed)[0].cause is Cause.EXPIRED
    (ended,) = of(records, Ended)
    assert (ended.at, ended.outcome) == (60.0, Outcome.STOPPED)


def test_a_lost_node_ends_the_gang_on_it_which_starts_again_elsewhere():
    faults = Faults(node_mean_s=3_000.0, repair=Spread(median_s=500.0))
    jobs = [job(gang("g", nodes=2), 5_000.0, save_every_s=100.0)]
    records = told(scenario(policy(health=Health(tolerance_s=30.0)), nodes(3), jobs, faults=faults, seed=3))
    lost, left = of(records, NodeLost)[0], of(records, Left)[0]
    assert left.cause is Cause.NODE
    assert left.at == lost.at + 30.0
    assert 0.0 <= left.lost_s < 130.0
    assert of(records, KeptOut)[0].node == lost.node
    assert of(records, NodeBack)[0].at == lost.back_at
    assert of(records, Ended)[0].outcome is Outcome.SUCCEEDED


def test_a_gang_whose_ranks_die_too_often_without_saving_fails():
    faults = Faults(rank_mean_gpu_s=400.0)
    jobs = [job(gang("g"), 1e6)]
    rules = policy(health=Health(restarts=2, quarantine_s=0.0))
    records = told(scenario(rules, nodes(4), jobs, faults=faults))
    assert [one.cause for one in of(records, Left)] == [Cause.RANK, Cause.RANK]
    assert of(records, Ended)[0].outcome is Outcome.FAILED


def test_replicas_start_as_traffic_grows_and_end_as_it_falls():
    given = scenario(
        policy(),
        [node("s1", serving=True)],
        traffic=[traffic(service("chat", gpus=2), (0.0, 1.0), (100.0, 3.0), (200.0, 1.0), start_s=TEN_SECONDS)],
        ends_at=300.0,
    )
    records = told(given)
    assert [(one.at, one.waited_s) for one in of(records, ReplicaReady)] == [(10.0, 10.0), (110.0, 10.0), (110.0, 10.0)]
    spans = [(one.began_at, one.at, one.wanted, one.granted, one.ready) for one in of(records, ServiceSpan)]
    assert spans == [
        (0.0, 10.0, 1, 1, 0),
        (10.0, 100.0, 1, 1, 1),
        (100.0, 110.0, 3, 3, 1),
        (110.0, 200.0, 3, 3, 3),
        (200.0, 300.0, 1, 1, 1),
    ]
    assert of(records, ServiceSpan)[0].late == of(records, ServiceSpan)[0].requests == 10.0


def test_a_replica_that_is_to_end_has_its_gpus_until_it_is_gone():
    given = scenario(
        policy(),
        [node("s1", serving=True)],
        [job(backfill("waits", gpus=8), 50.0, at=20.0)],
        traffic=[traffic(service("chat", gpus=8), (0.0, 1.0), (100.0, 0.0), stops_s=15.0)],
        ends_at=2_000.0,
    )
    (admitted,) = of(told(given), Admitted)
    assert admitted.at == 115.0


def test_a_replica_that_is_wanted_again_starts_where_another_is_about_to_be_gone():
    chat = traffic(service("chat", gpus=8), (0.0, 1.0), (100.0, 0.0), (105.0, 1.0), stops_s=15.0)
    records = told(scenario(policy(), [node("s1", serving=True)], traffic=[chat], ends_at=300.0))
    assert [(one.at, one.waited_s) for one in of(records, ReplicaReady)] == [(0.0, 0.0), (115.0, 10.0)]


def test_requests_that_nobody_knows_are_not_counted():
    chat = traffic(service("chat"), (0.0, 1.0), objective_s=None)
    records = told(scenario(policy(), [node("s1", serving=True)], traffic=[chat], ends_at=300.0))
    assert {(one.requests, one.late) for one in of(records, ServiceSpan)} == {(0.0, 0.0)}


def test_what_came_before_the_run_is_there_when_it_begins():
    given = scenario(policy(), [node("n1")], [job(gang("g"), at=5.0)], begins_at=1_000.0)
    assert [one.at for one in of(told(given), Admitted)] == [1_000.0]


def test_fewer_replicas_are_wanted_only_once_that_was_enough_for_a_while():
    rates = [(0.0, 3.0), (100.0, 1.0), (150.0, 2.0), (160.0, 1.0)]
    one = traffic(service("chat"), *rates, keeps_s=60.0)
    records = told(scenario(policy(), [node("s1", serving=True)], traffic=[one], ends_at=400.0))
    wanted = [(span.began_at, span.wanted) for span in of(records, ServiceSpan)]
    changes = [new for old, new in zip([(0.0, 0), *wanted], wanted, strict=False) if old[1] != new[1]]
    assert changes == [(0.0, 3), (160.0, 2), (220.0, 1)]


def test_the_immediate_tier_follows_the_forecast_of_traffic():
    rates = [(600.0 * step, 3.0 if step % 6 == 0 else 1.0) for step in range(600)]
    rules = replace(policy(), headroom=Headroom(quantile=0.99, startup_s=600.0, maximum_gpus=4))
    given = scenario(rules, [node("s1", serving=True)], traffic=[traffic(service("chat"), *rates)], ends_at=360_000.0)
    held = {one.at: one.held_gpu_s for one in of(told(given), ClassSpan) if one.node_class is NodeClass.SERVING}
    assert held[3_600.0] == 0.0
    assert held[356_400.0] > 3_600.0


def test_a_replica_waits_for_backfill_to_leave():
    given = scenario(
        policy(),
        [node("s1", serving=True)],
        [job(backfill("lent", gpus=8), 1_000.0, leaves_s=20.0)],
        traffic=[traffic(service("chat", gpus=4), (0.0, 0.0), (100.0, 1.0), start_s=Spread(median_s=5.0))],
        ends_at=2_000.0,
    )
    (ready,) = of(told(given), ReplicaReady)
    assert (ready.at, ready.waited_s, ready.drained) == (125.0, 25.0, True)


def test_a_replica_without_a_place_is_overdue_once_what_was_asked_to_leave_should_be_gone():
    given = scenario(
        policy(),
        [node("s1", serving=True)],
        traffic=[traffic(service("chat", gpus=8), (0.0, 1.0), (100.0, 3.0), (300.0, 2.0), (500.0, 1.0))],
        ends_at=600.0,
    )
    spans = [(one.began_at, one.at, one.overdue_s) for one in of(told(given), ServiceSpan) if one.overdue_s]
    grace_s, gone_s = 120.0, 5.0
    assert spans == [(100.0, 300.0, 2 * (200.0 - grace_s - gone_s)), (300.0, 500.0, 200.0)]


def test_what_a_service_gives_up_is_decided_about_in_the_next_cycle():
    given = scenario(
        policy(),
        [node("s1", serving=True)],
        [job(backfill("waits", gpus=8), 50.0, at=20.0)],
        traffic=[traffic(service("chat", gpus=8), (0.0, 1.0), (100.0, 0.0), start_s=Spread(median_s=1_000.0))],
        ends_at=2_000.0,
    )
    (admitted,) = of(told(given), Admitted)
    assert (admitted.at, admitted.waited_s) == (100.0, 80.0)


def test_a_lost_node_takes_its_replicas_along_and_others_start_elsewhere():
    given = scenario(
        policy(),
        nodes(2, serving=True),
        traffic=[traffic(service("chat", gpus=8), (0.0, 1.0), start_s=Spread(median_s=5.0))],
        faults=Faults(node_mean_s=10_000.0),
        ends_at=100_000.0,
    )
    records = told(given)
    lost = of(records, NodeLost)
    ready = [one.at for one in of(records, ReplicaReady)]
    assert ready[0] == 5.0
    assert {at - 5.0 for at in ready[1:]} <= {one.at for one in lost} | {one.at for one in of(records, NodeBack)}


def test_what_has_to_be_pulled_delays_the_start_once():
    weights = Artifact(name="weights", size_mib=1024, source="store")
    rules = replace(policy(), pulls=Pulls(sources=(Source(name="store", most_at_once=4, gbit_per_s=1),)))
    jobs = [
        job(gang("first", artifacts=[weights]), 100.0),
        job(gang("second", artifacts=[weights]), 100.0, at=500.0),
    ]
    records = told(scenario(rules, [node("n1")], jobs))
    assert [one.at for one in of(records, Started)] == [pytest.approx(8.59, abs=0.01), 500.0]


def test_an_elastic_gang_shrinks_for_another_and_works_slower_meanwhile():
    jobs = [
        job(backfill("wide", gpus=8, minimum=1, at_most=2), 1_000.0, leaves_s=10.0),
        job(gang("owner"), 100.0, at=100.0),
    ]
    records = told(scenario(policy(), nodes(2), jobs))
    assert [(one.at, one.gpus) for one in of(records, Shrunk)] == [(110.0, 8)]
    assert [(one.at, one.gpus) for one in of(records, Grown)] == [(210.0, 8)]
    assert of(records, Ended)[-1].at == 110.0 + 100.0 + (1_000.0 - 110.0 - 50.0)


def test_a_booking_is_asked_for_and_kept_clear():
    ask = booking_ask("block", team="research", count=1, gpus=8, start_at=1_000.0, end_at=2_000.0)
    jobs = [job(backfill("lent", gpus=8), 5_000.0, leaves_s=30.0)]
    records = told(scenario(policy(), [node("n1")], jobs, bookings=(Asked(at=10.0, ask=ask),), ends_at=4_000.0))
    assert [one.what for one in of(records, Booked)][:1] == ["taken"]
    assert of(records, Noticed) == [] or of(records, Noticed)[0].at <= 1_000.0


def test_what_everybody_had_adds_up():
    jobs = [job(backfill("lent", gpus=8, team="batch"), 3_600.0), job(gang("g", gpus=4), 1_800.0)]
    rules = policy(team("research", nominal=16), team("batch", nominal=0))
    records = told(scenario(rules, [node("n1"), node("s1", serving=True)], jobs, ends_at=3_600.0))
    spans = {one.node_class: one for one in of(records, ClassSpan) if one.at == 3_600.0 and one.began_at == 0.0}
    serving, training = spans[NodeClass.SERVING], spans[NodeClass.TRAINING]
    assert (serving.allocated_gpu_s, serving.lent_gpu_s, serving.idle_gpu_s) == (28_800.0, 28_800.0, 0.0)
    assert (training.allocated_gpu_s, training.idle_gpu_s, training.total_gpu_s) == (7_200.0, 21_600.0, 28_800.0)
    teams = {one.team: one for one in of(records, TeamSpan) if one.began_at == 0.0 and one.at == 3_600.0}
    assert teams["batch"].borrowed_gpu_s == 28_800.0
    assert (teams["research"].own_gpu_s, teams["research"].lent_gpu_s) == (7_200.0, 28_800.0)
    assert teams["research"].unused_gpu_s == 16 * 3_600.0 - 7_200.0 - 28_800.0


def test_who_waits_at_the_end_is_named_with_the_reason():
    jobs = [job(gang("large", nodes=9), 10.0), job(gang("small"), 10.0)]
    records = told(scenario(policy(), [node("n1")], jobs, ends_at=100.0))
    assert [(one.workload, one.reason) for one in of(records, Waiting)] == [("large", "too-large-for-fleet")]


def test_equal_scenarios_tell_equal_records():
    faults = Faults(node_mean_s=5_000.0, rank_mean_gpu_s=50_000.0)
    jobs = [job(gang(f"g{number}", gpus=4), 700.0, at=90.0 * number, save_every_s=200.0) for number in range(30)]
    given = scenario(policy(), nodes(3), jobs, faults=faults, seed=5, ends_at=20_000.0)
    assert told(given) == told(given)


def test_a_run_counts_its_events_and_decisions():
    run, _ = ran(scenario(policy(), [node("n1")], [job(gang("g")), job(gang("h"))]))
    assert (run.events, run.decisions) == (4, 2)
