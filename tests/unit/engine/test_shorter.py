"""Who matters of those that ask for the same: whoever is shorter than all before it (O7, O11)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.policy import DrainContract, Ordering
from fleet_app.engine.shorter import Shorter, ask_of, keeps_for_one, shorter
from fleet_app.engine.workload import Workload
from tests.builders import gang, policy

DRAIN = DrainContract(grace_s=10.0, longest_grace_s=60.0)


def waits(name: str, max_run_s: float | None, grace_s: float = 10.0) -> Workload:
    return gang(name, max_run_s=max_run_s, grace_s=grace_s)


def entered(*waiting: Workload) -> Shorter:
    """Return these who wait, in the order of their names whatever the order in which they came."""
    found = Shorter(DRAIN)
    for one in reversed(waiting):
        found.enter((one.name,), one)
    return found


A, LONGER, SHORTER, SHORTEST = waits("a", 300.0), waits("b", 400.0), waits("c", 200.0), waits("d", 100.0)

GROUPS: dict[str, tuple[list[Workload], set[str], str]] = {
    "the first, and who is shorter than all before": ([A, LONGER, SHORTER, SHORTEST], set(), "acd"),
    "who lasts as long as one before it does not matter": ([A, waits("b", 300.0)], set(), "a"),
    "without a limit it lasts for ever": ([waits("a", None), waits("b", None), waits("c", 9e9)], set(), "ac"),
    "with less grace it may be gone earlier": ([A, waits("b", 300.0, 5.0), waits("c", 300.0, 5.0)], set(), "ab"),
    "grace beyond the longest is as good as the longest": (
        [waits("a", 300.0, 60.0), waits("b", 300.0, 90.0)],
        set(),
        "a",
    ),
    "who runs shorter with more grace may be either": (
        [A, waits("b", 200.0, 20.0), waits("c", 250.0, 15.0)],
        set(),
        "abc",
    ),
    "who starts is in nobody's way": ([A, LONGER, waits("c", 350.0), waits("d", 380.0)], {"a"}, "abc"),
    "and is named itself wherever it is": ([A, LONGER, SHORTER], {"b"}, "abc"),
}


@pytest.mark.parametrize(("waiting", "starts", "want"), GROUPS.values(), ids=GROUPS)
def test_who_matters_of_those_that_ask_for_the_same(waiting: list[Workload], starts: set[str], want: str) -> None:
    ((_, group),) = entered(*waiting).groups()
    assert "".join(one.name for _, one in shorter(group, starts)) == want


def test_whoever_asks_for_something_else_or_was_torn_down_is_in_another_group():
    groups = entered(A, gang("b", nodes=2), replace(A, name="c", requeued=True), replace(LONGER, name="d")).groups()
    assert [[one.name for _, _, one in group] for _, group in groups] == [["d", "a"][::-1], ["c"], ["b"]]


def test_who_waits_no_more_is_in_no_group():
    one = entered(A, LONGER)
    one.leave((A.name,), A)
    assert [(ask, [each.name for _, _, each in group]) for ask, group in one.groups()] == [(ask_of(A), ["b"])]
    one.leave((LONGER.name,), LONGER)
    assert not list(one.groups())


@pytest.mark.parametrize(("keepers", "want"), [(None, False), (0, True), (1, True), (2, False)])
def test_room_is_kept_for_one_at_most(keepers: int | None, want: bool) -> None:
    assert keeps_for_one(replace(policy(), ordering=Ordering(keepers=keepers))) is want
