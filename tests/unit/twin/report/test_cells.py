"""Figures as rows of text: the same words on a terminal and on a page."""

from __future__ import annotations

from dataclasses import replace

from fleet_app.cli.figures import tables
from fleet_app.twin.report import cells, page
from fleet_app.twin.report.figures import Effort, Foresight
from tests.unit.twin.report.test_tally import drained

EFFORT = Effort(
    measured_gpu_h=10.0, used_gpu_h=4.0, counted_gpu_h=20.0, useful_exaflop=30.0, mfu=0.4, money_per_exaflop=1.5
)
FORESIGHT = Foresight(
    looks=200,
    forecasts=0,
    quantile=None,
    pinball_gpus=None,
    covered_share=0.985,
    kept_gpus=16.0,
    grew_gpus=2.25,
    short_gpus=0.1,
    most_short_gpus=8,
)


def test_what_hours_were_used_for_is_said_of_those_of_whom_it_is_known():
    head, rows = cells.effort(replace(drained(), effort=EFFORT))
    assert len(head) == 7
    assert rows == [("fleet", "10 GPU-h", "40.0%", "20 GPU-h", "40.0%", "30", "1.50")]


def test_what_is_not_known_is_a_dash():
    nothing = Effort(
        measured_gpu_h=0.0, used_gpu_h=0.0, counted_gpu_h=20.0, useful_exaflop=30.0, mfu=None, money_per_exaflop=1.5
    )
    assert cells.effort(replace(drained(), effort=nothing))[1] == [("fleet", "-", "-", "20 GPU-h", "-", "30", "1.50")]


def test_a_fixed_number_kept_free_has_no_loss():
    (row,) = cells.foresight(replace(drained(), foresight=FORESIGHT))[1]
    assert row == ("fixed", "200", "16.0 GPUs", "2.2 GPUs", "98.50%", "0.10 GPUs", "8 GPUs", "-")


def test_a_forecast_is_named_by_its_quantile():
    one = replace(FORESIGHT, quantile=0.99, pinball_gpus=1.234)
    (row,) = cells.foresight(replace(drained(), foresight=one))[1]
    assert (row[0], row[-1]) == ("p99", "1.23 GPUs")


def test_waits_are_told_by_size_and_by_team():
    rows = cells.waits(drained())[1]
    assert [row[0] for row in rows] == ["8 GPUs", "research"]
    assert rows[0][1:] == rows[1][1:]


def test_over_time_there_is_a_mean_and_how_much_there_was_at_most():
    rows = {row[0]: row[1:] for row in cells.over_time(drained())[1]}
    assert list(rows) == ["stranded", "GPUs waited for", "GPUs free at once"]
    assert rows["stranded"] == ("0.0%",) * 5


def test_columns_and_headings_are_as_many():
    tables = [part(drained()) for part in (cells.classes, cells.interrupted, cells.waits, cells.over_time)]
    assert all(len(row) == len(head) for head, rows in tables for row in rows)


def test_a_page_shows_what_is_known_and_nothing_of_what_is_not():
    known = page.of_run(replace(drained(), effort=EFFORT, foresight=FORESIGHT), "", None)
    unknown = page.of_run(drained(), "", None)
    titles = ("Demand foreseen", "What the hours were used for")
    assert [(title in known, title in unknown) for title in titles] == [(True, False)] * 2


def test_a_terminal_shows_what_is_known_and_nothing_of_what_is_not():
    known = [title for title, _ in tables(replace(drained(), effort=EFFORT, foresight=FORESIGHT), None)]
    unknown = [title for title, _ in tables(drained(), None)]
    assert [title for title in known if title not in unknown] == [
        "Demand foreseen, and kept free for",
        "What the hours were used for",
    ]
