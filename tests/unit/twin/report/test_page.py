"""Pages and comparisons: what is on them, and that nothing on them has to be fetched."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fleet_app.twin.report import cells, charts, page
from fleet_app.twin.report.compare import Row, compare
from tests.builders import gang, node, policy
from tests.twins import job, scenario
from tests.unit.twin.report.test_tally import drained, figures, lending


def outside(text: str) -> list[str]:
    """Return what a browser would fetch for a page."""
    return re.findall(r"""<(?:script|link|img|iframe)[^>]*(?:src|href)=["'][^"']+""", text)


def test_a_page_needs_nothing_else_and_shows_every_chart():
    text = page.of_run(drained(), "an hour", None)
    assert outside(text) == []
    assert text.count('class="plotly-graph-div"') == 8
    assert "In 1.0 hours" in text


def test_names_of_others_are_text_on_a_page():
    text = page.of_run(replace(lending(), name="<b>month</b>"), "<i>about</i>", None)
    assert "<b>month</b>" not in text
    assert "<i>about</i>" not in text


def test_two_runs_are_compared_and_both_shown():
    before, after = replace(drained(), name="old"), replace(lending(), name="new")
    text = page.of_two(before, after, compare(before, after))
    assert text.count('class="plotly-graph-div"') == 15
    assert "What changed, and for whom" in text


def test_of_a_run_and_itself_nothing_has_changed():
    assert not any(row.changed for row in compare(drained(), drained()))


def test_what_changed_says_for_whom():
    changed = {(row.what, row.whose): row.after - row.before for row in compare(lending(), drained()) if row.changed}
    assert changed["borrowed", "batch"] == pytest.approx(-16.0)


AMOUNTS = {
    "small ones are whole": (812.4, "812"),
    "thousands are k": (612_345.0, "612k"),
    "millions are M": (1_234_567.0, "1.23M"),
    "just below a million is one": (999_900.0, "1.00M"),
}


@pytest.mark.parametrize(("amount", "want"), AMOUNTS.values(), ids=AMOUNTS)
def test_amount_text(amount, want):
    assert charts.amount_text(amount) == want


def test_a_sweep_is_a_point_for_each_value():
    chart = charts.swept("headroom.immediate", [(0, drained()), (16, lending())])
    assert chart["data"][0]["text"] == ["0", "16"]


def test_who_got_no_nodes_in_one_run_still_waits_there_and_is_not_said_to_have_waited_less():
    one = job(gang("big", nodes=2))
    before, after = (
        figures(scenario(policy(), [node(f"n{place}") for place in range(count)], [one]), 3600.0) for count in (2, 1)
    )
    rows = {row.what: (row.before, row.after) for row in compare(before, after) if row.whose == "9-32 GPUs"}
    assert rows == {"still wait": (0, 1)}


def test_what_changed_is_said_in_words():
    rows = compare(drained(), lending())
    said = page.changed_in_words(rows, ("old", "new"))
    assert said.startswith("new beside old: ")
    assert "work is asked to leave 0 times instead of 1" in said


def test_where_nothing_changed_that_is_said():
    said = page.changed_in_words(compare(drained(), drained()), ("old", "new"))
    assert said == "new beside old: nothing changed for the fleet as a whole."


NUMBERS = {
    "hours are whole": (1234.4, "GPU-h", "1,234 GPU-h"),
    "a few hours are not": (1.234, "GPU-h", "1.23 GPU-h"),
    "nothing is nothing": (0.0, "money", "0"),
    "shares": (0.5, "share", "50.0000%"),
    "seconds": (1.25, "s", "1.2 s"),
    "long times": (303_443.4, "s", "3 d 12 h"),
    "times that are less": (-7_260.0, "s", "-2 h 1 min"),
    "times have no unit": (3, "times", "3"),
}


@pytest.mark.parametrize(("value", "unit", "want"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_with_their_units(value, unit, want):
    assert cells.number(value, unit) == want


CHANGES = {
    "in per cent of what was": (100.0, 150.0, "+50.0%"),
    "not where nothing was": (0.0, 5.0, ""),
    "nor where hardly anything was": (0.001, 5.0, ""),
}


@pytest.mark.parametrize(("before", "after", "want"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_said_in_per_cent(before, after, want):
    row = Row(what="idle", whose="", unit="money", before=before, after=after)
    (shown,) = cells.compared([row], ("old", "new"))[1]
    assert shown[-1] == want
