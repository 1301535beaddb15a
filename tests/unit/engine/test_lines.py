"""A line of several sorts is taken in one order, and a whole sort is refused at once."""

from __future__ import annotations

import pytest

from fleet_app.engine.lines import Line, Sort
from fleet_app.engine.workload import Workload
from tests.builders import backfill


def job(name: str, at: float) -> Workload:
    return backfill(name, submitted_at=at)


def line() -> Line:
    """Return a line of a1, b1, a2, b2, a3, in two sorts."""
    a = [job("a3", 4.0), job("a2", 2.0), job("a1", 0.0)]
    b = [job("b2", 3.0), job("b1", 1.0)]
    return Line([Sort(1, b), Sort(0, a)])


def taken(queue: Line) -> list[str]:
    names = []
    while queue:
        names.append(queue.first.name)
        queue.advance()
    return names


def test_sorts_are_merged_by_submission() -> None:
    assert taken(line()) == ["a1", "b1", "a2", "b2", "a3"]


def test_of_equally_early_ones_the_first_name_is_first() -> None:
    assert taken(Line([Sort(0, [job("y", 0.0)]), Sort(1, [job("x", 0.0)])])) == ["x", "y"]


REFUSED = {"of one": 1, "of two": 2, "of three": 3}


@pytest.mark.parametrize("count", REFUSED.values(), ids=REFUSED)
def test_who_is_refused_takes_all_others_of_its_sort_along(count: int) -> None:
    names = [f"x{number}" for number in range(count)]
    queue = Line([Sort(0, [job(name, at) for at, name in reversed([*enumerate(names)])]), Sort(1, [job("y", 0.5)])])
    assert queue.refuse() == tuple(names[1:])
    assert taken(queue) == ["x0", "y"]


def test_who_is_refused_takes_all_of_its_sort_along() -> None:
    queue = line()
    assert queue.refuse() == ("a2", "a3")
    assert queue.first.name == "a1"
    assert taken(queue) == ["a1", "b1", "b2"]


def test_a_sort_of_one_takes_nobody_along() -> None:
    queue = Line([Sort(7, [job("x", 0.0)])])
    assert queue.asked == 7
    assert queue.refuse() == ()
    assert taken(queue) == ["x"]
