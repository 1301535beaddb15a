"""What runs come to: small stories whose every number can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.twin.record import Cause
from fleet_app.twin.report.figures import Figures
from fleet_app.twin.report.tally import About, Tally
from fleet_app.twin.run import run
from fleet_app.twin.work import Job, Scenario
from tests.builders import backfill, gang, node, policy, service, team
from tests.twins import job, scenario, traffic

HOUR = 3600.0


def figures(given: Scenario, lasted_s: float, price: float = 36.0) -> Figures:
    """Return a run's figures at a cent a GPU-second, if nothing else is said."""
    about = About(
        name="test",
        lasted_s=lasted_s,
        gpus=8,
        price_per_gpu_hour=price,
        team_of_service={one.service.name: one.service.team for one in given.traffic},
    )
    tally = Tally(about)
    run(replace(given, ends_at=lasted_s), tally.tell)
    return tally.figures()


def drained() -> Figures:
    """An hour: backfill has a node from the start, for 400 s; its owner has it for 100 s, then it comes back."""
    jobs = [
        job(backfill("lent", gpus=8), 9000.0, leaves_s=30.0, save_every_s=300.0, start_s=20.0),
        job(gang("owner"), 100.0, at=400.0),
    ]
    return figures(scenario(policy(), [node("n1")], jobs), HOUR)


def test_a_drain_costs_the_time_to_leave_and_the_time_to_come_back():
    (one,) = drained().interrupted
    assert (one.cause, one.count) == (Cause.DRAINED, 1)
    assert one.lost_gpu_h == 0.0
    assert one.leaving_gpu_h * HOUR == pytest.approx(30.0 * 8)
    assert one.restarting_gpu_h * HOUR == pytest.approx(20.0 * 8)
    assert one.cost_gpu_h * HOUR == pytest.approx(400.0)


def test_who_was_asked_and_for_whom():
    found = drained()
    (given_back, named) = found.given_back, {one.team: one for one in found.teams}
    assert (given_back.count, given_back.longest_s) == (1, 30.0)
    assert sum(one.asked for one in named.values()) == 1
    assert sum(one.reclaimed_gpus for one in named.values()) == 8
    assert sum(one.breaks for one in named.values()) == 0


LENT = job(backfill("lent", gpus=8), 9_000.0, leaves_s=30.0, save_every_s=300.0, start_s=20.0)
WIDE = job(backfill("wide", gpus=8, minimum=1, at_most=2), 9_000.0, leaves_s=10.0)
TAKEN_BACK = {
    # gone at 430, back when the owner has had its 100 s
    "until it has them again": (1, LENT, 100.0, HOUR, 100.0 * 8),
    "to the end of the run, where it waits still": (1, LENT, 9_000.0, HOUR, (HOUR - 430.0) * 8),
    # a member is gone at 410, and there again once the owner has had its 100 s
    "of an elastic one, by members": (2, WIDE, 100.0, HOUR, 100.0 * 8),
    "of nobody, where nobody had to go": (2, LENT, 100.0, HOUR, 0.0),
}


@pytest.mark.parametrize(("nodes", "lent", "owner_s", "lasted_s", "want"), TAKEN_BACK.values(), ids=TAKEN_BACK)
def test_what_was_taken_back_is_what_those_lacked_who_gave_it(
    nodes: int, lent: Job, owner_s: float, lasted_s: float, want: float
) -> None:
    fleet = [node(f"n{number}") for number in range(nodes)]
    found = figures(scenario(policy(), fleet, [lent, job(gang("owner"), owner_s, at=400.0)]), lasted_s)
    assert sum(one.reclaimed_gpu_h for one in found.teams) * HOUR == pytest.approx(want)
    assert sum(one.reclaimed_gpu_h for one in found.classes) * HOUR == pytest.approx(want)


def test_useful_work_is_what_was_computed_and_neither_lost_nor_spent_on_leaving():
    # lent: 20..400 and, after 30 s of leaving, the owner's 100 s and 20 s of starting, 550..3600; owner: 100
    found = sum(one.useful_gpu_h for one in drained().teams) * HOUR
    assert found == pytest.approx((380.0 + 3050.0 + 100.0) * 8)


def test_waits_are_told_by_size_and_of_each_time():
    (eight,) = drained().waits
    assert (eight.size, eight.waited.count) == ("8", 3)
    assert eight.waited.longest_s == 100.0  # lent, once it was back in the queue


def test_bars_are_the_attempts_of_each_workload():
    assert [(bar.workload, bar.began_at, bar.ended_at, bar.ended) for bar in drained().bars] == [
        ("lent", 0.0, 430.0, "drained"),
        ("lent", 530.0, HOUR, "runs on"),
        ("owner", 430.0, 530.0, "succeeded"),
    ]


def test_one_that_does_not_leave_breaks_the_contract_and_loses_its_work():
    jobs = [
        job(backfill("lent", gpus=8), 9000.0, clings=True, save_every_s=300.0),
        job(gang("owner"), 100.0, at=400.0),
    ]
    found = figures(scenario(policy(), [node("n1")], jobs), HOUR)
    (one,) = found.interrupted
    assert sum(each.breaks for each in found.teams) == 1
    assert one.lost_gpu_h * HOUR == pytest.approx((520.0 - 300.0) * 8)


def lending() -> Figures:
    """Two hours: 16 GPUs are serving's, which wants 8 of them; 8 are lent from the beginning."""
    rules = policy(
        team("serving", nominal=16),
        team("batch", nominal=0, borrowing=16),
    )
    served = traffic(service("chat", team="serving", gpus=8), (0.0, 1.0))
    nodes = [node("s1", serving=True), node("s2", serving=True)]
    work = [job(backfill("lent", team="batch", gpus=8), 90_000.0)]
    return figures(scenario(rules, nodes, work, traffic=(served,), span_s=HOUR), 2 * HOUR, price=1.0)


def test_money_adds_up_to_what_serving_s_nodes_are_worth():
    money = lending().money
    assert money.total == pytest.approx(32.0)
    assert money.serving + money.idle_unlent + money.down == pytest.approx(money.total)
    assert (money.serving, money.lent, money.tax) == (pytest.approx(16.0), pytest.approx(16.0), 0.0)


def test_a_moment_s_parts_add_up_to_the_fleet():
    found = lending()
    assert len(found.moments) == 2
    for one in found.moments:
        parts = (one.serving_gpus, one.training_gpus, one.lent_gpus, one.draining_gpus, one.held_gpus)
        assert sum(parts) + one.idle_gpus + one.down_gpus == pytest.approx(16.0)


def test_teams_lend_and_borrow_the_same():
    found = {one.team: one for one in lending().teams}
    assert found["serving"].lent_gpu_h == pytest.approx(found["batch"].borrowed_gpu_h) == pytest.approx(16.0)
    serving = found["serving"]
    parts = serving.own_gpu_h + serving.lent_gpu_h + serving.unused_gpu_h
    assert parts == pytest.approx(serving.nominal_gpu_h) == pytest.approx(32.0)
