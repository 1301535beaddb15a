"""Histories as streams: which jobs of theirs come, when, how often, and what each asks for."""

from __future__ import annotations

from collections import Counter

import pytest

from fleet_app.engine.values import Shape
from fleet_app.twin.chance import Chance
from fleet_app.twin.readers.row import Row
from fleet_app.twin.scenarios.histories import Drawn, came
from fleet_app.twin.scenarios.schema import Work
from fleet_app.twin.scenarios.sources import History
from fleet_app.twin.scenarios.streams import Streams

DAY = 86_400.0
BEGAN = 1_500_000_000.0
DRAWN = Drawn(value=50_000, per_node=8, chance=Chance(1), lasts_s=2 * DAY)


def row(name: str, **changes: object) -> Row:
    dull: dict[str, object] = {"team": "vision", "submitted_at": BEGAN, "run_s": 600.0, "gpus": 1}
    return Row(name=name, **{**dull, **changes})


ROWS = (
    row("one"),
    row("small", submitted_at=BEGAN + 60.0, gpus=4, team="speech", queue="short"),
    row("big", submitted_at=BEGAN + DAY + 3600.0, gpus=12, failed=True),
)


def work(**history: object) -> Work:
    arrives = {"source": "philly", "file": "jobs.csv", **history}
    return Work.model_validate({"name": "w", "team": "models", "priority": "training-committed", "arrives": arrives})


def coming(rows=ROWS, drawn=DRAWN, **history: object):
    one = work(**history)
    assert isinstance(one.arrives, History)
    return [workload for workload, _ in came(one, one.arrives, rows, drawn)]


COME = {
    "all of a history come where nothing else is said": ({}, ["one", "small", "big"]),
    "those of one GPU": ({"only": {"gpus": {"most": 1}}}, ["one"]),
    "those of several": ({"only": {"gpus": {"least": 2, "most": 8}}}, ["small"]),
    "those of some teams": ({"only": {"teams": ["speech"]}}, ["small"]),
    "those of some queues": ({"only": {"queues": ["short"]}}, ["small"]),
    "those that were submitted after what is skipped": ({"skips": "1m"}, ["small", "big"]),
}


@pytest.mark.parametrize(("history", "want"), COME.values(), ids=COME)
def test_which_come(history, want):
    assert [one.name.removeprefix("w-") for one in coming(**history)] == want


def test_moments_count_from_the_first_job_of_the_history_whoever_comes():
    assert [one.submitted_at for one in coming(only={"gpus": {"least": 2}})] == [60.0, DAY + 3600.0]
    assert [one.submitted_at for one in coming(skips="1m")] == [0.0, DAY + 3540.0]


def test_what_comes_after_the_end_of_the_run_does_not():
    assert [one.name for one in coming(drawn=Drawn(value=1, per_node=8, chance=Chance(1), lasts_s=60.0))] == ["w-one"]


def test_the_second_time_is_a_day_later_round_the_end_of_the_history():
    twice = {one.name: one.submitted_at for one in coming(scale=2)}
    assert (twice["w-one"], twice["w-one.1"], twice["w-big"], twice["w-big.1"]) == (0.0, DAY, DAY + 3600.0, 3600.0)


def test_a_part_comes_by_luck_of_its_own():
    many = tuple(row(f"job-{number}") for number in range(400))
    half, more = ({one.name for one in coming(many, scale=scale)} for scale in (0.5, 1.5))
    assert 150 < len(half) < 250
    assert more == {f"w-job-{number}" for number in range(400)} | {f"{name}.1" for name in half}
    assert {one.name for one in coming(many[:100], scale=0.5)} == {f"w-job-{n}" for n in range(100)} & half


LIES = {
    "whole nodes, and one more for the rest": (row("a", gpus=12), [(8, 1), (4, 1)]),
    "as on their nodes where those were as large as ours": (row("a", gpus=12, nodes=3), [(4, 3)]),
    "on ours where theirs were larger": (row("a", gpus=16, nodes=1), [(8, 2)]),
    "on ours where theirs had different parts": (row("a", gpus=9, nodes=2), [(8, 1), (1, 1)]),
}


@pytest.mark.parametrize(("one", "want"), LIES.values(), ids=LIES)
def test_how_a_job_lies_on_nodes(one, want):
    (found,) = coming([one])
    groups = found.groups or (found,)
    assert [(group.shape.gpus, group.bundles) for group in groups] == want
    assert found.gpus == one.gpus


def test_cpus_and_memory_are_the_stream_s_for_each_gpu():
    _, small, _ = coming()
    assert small.shape == Shape(gpus=4, cpu_milli=32_000, memory_mib=4 * 64 * 1024)


def test_teams_of_theirs_are_teams_of_ours_where_that_is_said():
    assert [one.team for one in coming(teams={"speech": "post-training"})] == ["models", "post-training", "models"]


def test_a_job_declares_its_limit_or_how_long_it_ran_if_it_is_to():
    limited = (row("a", limit_s=900.0), row("b"))
    assert [one.max_run_s for one in coming(limited, declares=True)] == [900.0, 600.0]
    assert [one.max_run_s for one in coming(limited)] == [None, None]


def test_as_jobs_they_run_as_long_as_they_did_and_fail_where_they_did():
    streams = Streams(streams=(work(),), drawn=(DRAWN,), rows=(ROWS,))
    assert [(job.run_s, job.fails) for job in streams] == [(600.0, False), (600.0, False), (600.0, True)]
    assert Counter(job.workload.name for job in streams) == {"w-one": 1, "w-small": 1, "w-big": 1}
