"""What GPU-hours were used for: computing time, FLOPs, and what these cost, each worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.values import NodeClass
from fleet_app.twin.report.effort import EffortCount, Held
from fleet_app.twin.report.tally import About, Tally
from fleet_app.twin.run import run
from tests.builders import backfill, gang, node, policy, service
from tests.twins import job, scenario, traffic

HOUR = 3600.0
HELD = Held(held=7200.0, ran=5400.0, useful=3600.0)


def test_computing_time_is_a_part_of_what_ran():
    count = EffortCount()
    count.work(HELD, 0.5, None)
    found = count.figures(1000.0, 2.0)
    assert (found.measured_gpu_h, found.used_gpu_h, found.counted_gpu_h) == (2.0, 0.75, 0.0)
    assert (found.mfu, found.money_per_exaflop) == (None, None)


def test_useful_flops_are_held_against_the_peak_of_all_time_that_was_held():
    count = EffortCount()
    count.work(HELD, None, 400.0)
    found = count.figures(1000.0, 2.0)
    assert found.mfu == pytest.approx(0.2)
    assert found.useful_exaflop == pytest.approx(1.44)
    assert found.money_per_exaflop == pytest.approx(4.0 / 1.44)


def test_without_a_peak_there_is_no_utilisation_but_a_price():
    count = EffortCount()
    count.served(HELD, None, 1_000_000.0)
    found = count.figures(None, 2.0)
    assert (found.mfu, found.money_per_exaflop) == (None, 4.0)


def test_nothing_is_known_of_what_nobody_measures_or_states():
    count = EffortCount()
    count.work(HELD, None, None)
    assert not count.figures(1000.0, 2.0).known


def test_a_run_counts_for_the_team_and_the_class_whose_nodes_it_was_on():
    """A gang of 8 GPUs starts for 900 s and works for 2700 s; a replica of 2 GPUs answers a request a second."""
    jobs = [
        job(gang("own"), 2700.0, start_s=900.0, tflops=400.0, sm_active=0.5),
        job(backfill("lent", gpus=4), 9000.0, tflops=100.0),
    ]
    chat = replace(traffic(service("chat", gpus=2), (0.0, 1.0)), tflop_a_request=720.0)
    given = scenario(policy(), [node("t1"), node("s1", serving=True)], jobs, traffic=[chat], ends_at=HOUR, span_s=600.0)
    about = About(
        name="test",
        lasted_s=HOUR,
        gpus=16,
        price_per_gpu_hour=2.0,
        team_of_service={"chat": "serving"},
        class_of_node={"t1": NodeClass.TRAINING, "s1": NodeClass.SERVING},
        effort_of_service={"chat": (None, 720.0)},
        peak_tflops=1000.0,
    )
    tally = Tally(about)
    run(given, tally.tell)
    found = tally.figures()
    teams = {one.team: one.effort for one in found.teams}
    classes = {one.node_class: one.effort for one in found.classes}
    assert teams["research"].mfu == pytest.approx((8 * 2700 * 400 + 4 * 3600 * 100) / (12 * 3600 * 1000))
    assert (teams["research"].measured_gpu_h, teams["research"].used_gpu_h) == (8.0, 3.0)
    assert classes["training"].mfu == pytest.approx(0.75 * 0.4)
    assert classes["serving"].counted_gpu_h == pytest.approx(4.0 + teams["serving"].counted_gpu_h)
    assert teams["serving"].mfu == pytest.approx(0.36)
    assert found.effort.counted_gpu_h == pytest.approx(sum(one.counted_gpu_h for one in classes.values()))
