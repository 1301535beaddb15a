"""Those who wait, in the order of O1 and O10, by what they ask for, and where nobody may pass by team (O6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.policy import Ordering, Policy
from fleet_app.engine.queues import Queues, sort_of
from fleet_app.engine.workload import Workload
from tests.builders import backfill, gang, policy, team

PLAIN = policy(team("research"), team("vision"))
STRICT = policy(team("research", strict=True), team("vision"))
SHORTEST = replace(PLAIN, ordering=Ordering(shortest_first=True))

A = backfill("a", submitted_at=1.0)
B = backfill("b", submitted_at=2.0)
C = backfill("c", submitted_at=3.0)
CHOOSY = backfill("choosy", accelerator="h100", submitted_at=4.0)


def queues(rules: Policy, *entered: Workload) -> Queues:
    """Return the queues of a policy with these who wait."""
    found = Queues(rules)
    for one in entered:
        found.enter(one)
    return found


def named(one: Queues) -> list[list[str]]:
    """Return the names in each list."""
    return [[waits.name for _, waits in listed] for _, listed in one.lists()]


LISTS: dict[str, tuple[Policy, list[Workload], list[list[str]]]] = {
    "who asks for the same is in one list, the earliest first": (PLAIN, [B, C, A], [["a", "b", "c"]]),
    "of two at once the name decides": (PLAIN, [replace(B, name="z"), B], [["b", "z"]]),
    "who asks for something else has another": (PLAIN, [A, gang("g"), B], [["a", "b"], ["g"]]),
    "so has who was torn down": (PLAIN, [A, replace(B, requeued=True)], [["a"], ["b"]]),
    "and who declares another run time, even where shorter work comes first": (
        SHORTEST,
        [replace(A, max_run_s=60.0), replace(B, max_run_s=30.0)],
        [["a"], ["b"]],
    ),
    "in a strict queue all are in one list, whatever they ask for": (
        STRICT,
        [C, gang("g", submitted_at=9.0), A],
        [["g", "a", "c"]],
    ),
    "other teams are not": (STRICT, [A, replace(B, team="vision")], [["a"], ["b"]]),
    "but where one asks for an accelerator others may pass": (STRICT, [A, CHOOSY, B], [["a", "b"], ["choosy"]]),
}


@pytest.mark.parametrize(("rules", "entered", "want"), LISTS.values(), ids=LISTS)
def test_lists(rules: Policy, entered: list[Workload], want: list[list[str]]) -> None:
    assert named(queues(rules, *entered)) == want


LEFT: dict[str, tuple[Policy, list[Workload], Workload, list[list[str]]]] = {
    "the first": (PLAIN, [A, B, C], A, [["b", "c"]]),
    "one in the middle": (PLAIN, [A, B, C], B, [["a", "c"]]),
    "the only one of a sort": (PLAIN, [A, gang("g")], A, [["g"]]),
    "one in the middle of a strict queue": (STRICT, [A, B, C], B, [["a", "c"]]),
    "the only one of a strict queue": (STRICT, [A], A, []),
    "the only one who asks for an accelerator: nobody passes again": (
        STRICT,
        [A, CHOOSY, gang("g")],
        CHOOSY,
        [["g", "a"]],
    ),
}


@pytest.mark.parametrize(("rules", "entered", "leaves", "want"), LEFT.values(), ids=LEFT)
def test_who_waits_no_more_is_in_no_list(
    rules: Policy, entered: list[Workload], leaves: Workload, want: list[list[str]]
) -> None:
    found = queues(rules, *entered)
    found.leave(leaves)
    assert named(found) == want
    assert leaves.name not in found.waiting
    assert set(found.waiting) == {one.name for one in entered} - {leaves.name}


PLACES: dict[str, tuple[Policy, Workload, Workload]] = {
    "a higher priority": (PLAIN, gang("z", submitted_at=9.0), A),
    "of one priority who was torn down": (PLAIN, replace(C, requeued=True), A),
    "of those the earlier": (PLAIN, A, B),
    "where shorter work comes first the shorter": (
        SHORTEST,
        replace(B, max_run_s=30.0),
        replace(A, max_run_s=60.0, requeued=True),
    ),
    "and who declares nothing last": (SHORTEST, replace(B, max_run_s=30.0), A),
}


@pytest.mark.parametrize(("rules", "first", "then"), PLACES.values(), ids=PLACES)
def test_who_is_first(rules: Policy, first: Workload, then: Workload) -> None:
    found = Queues(rules)
    assert found.place(first) < found.place(then)


IN_LINE = {
    "of a team that is not strict anybody may pass": (PLAIN, [A], False),
    "of one that is nobody may": (STRICT, [A], True),
    "but who asks for another accelerator": (STRICT, [A, CHOOSY], False),
}


@pytest.mark.parametrize(("rules", "entered", "want"), IN_LINE.values(), ids=IN_LINE)
def test_whether_nobody_passes(rules: Policy, entered: list[Workload], want: bool) -> None:
    assert queues(rules, *entered).in_line("research") is want


def test_a_sort_is_what_decides_who_else_is_refused() -> None:
    assert sort_of(A) == sort_of(C)
    for other in (
        replace(A, max_run_s=60.0),
        replace(A, grace_s=60.0),
        replace(A, requeued=True),
        replace(A, bundles=2),
        replace(A, team="vision"),
    ):
        assert sort_of(other) != sort_of(A)
