"""The books of flavors: what a team may take of one, who has to give back, whose share is the largest (V5, V6, O5)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest

from fleet_app.engine.dues import Due, Dues
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.policy import FlavorQuota, Quota
from fleet_app.engine.workload import Workload
from tests.builders import backfill, node, part, policy, state, team

H100 = "h100"
SEVENTH = part(profile="1g.10gb")


def of(name: str, count: int, **rest: object) -> Quota:
    """Return a team with no whole GPUs, and so many sevenths of an H100."""
    return team(name, nominal=0, flavors=[FlavorQuota(flavor="h100-mig-1g.10gb", nominal=count)], **rest)


TEAMS = (of("a", 2), of("b", 0), of("c", 6), of("heavy", 0, weight=4))


def dues(taken: dict[str, int], *there: Workload, teams: Sequence[Quota] = TEAMS, firm: bool = False) -> Dues:
    """Return the books with so many sevenths in use by each team."""
    rules = policy(*teams)
    books = Dues(Ledger(state(node("n1"), *there), rules, 0.0), rules.quotas)
    for name, count in taken.items():
        for _ in range(count):
            books.take(Due(team=name, slice=SEVENTH, firm=firm), H100)
    return books


BACK = {
    "nobody, when there is some left": ({"b": 7}, 0, ()),
    "as many as are borrowed, and not one more": ({"b": 8}, 0, (0,)),
    "who is gone already counts": ({"b": 8}, 1, ()),
    "nobody of a team that borrows nothing": ({"c": 6, "a": 2}, 0, None),
    "not all, when they are not enough": ({"b": 8, "c": 8}, 0, None),
}


def test_nobody_gives_back_to_a_team_that_left_the_policy_or_where_the_books_are_the_ledgers() -> None:
    able = [Due(team="b", slice=SEVENTH, firm=False)] * 4
    books = dues({"b": 8})
    assert books.for_the_books(Due(team="nobody", slice=SEVENTH, firm=False), H100, [], able) is None
    assert books.for_the_books(Due(team="a", slice=SEVENTH, firm=False), "a100", [], able) is None


@pytest.mark.parametrize(("taken", "gone", "want"), BACK.values(), ids=BACK)
def test_who_has_to_give_back(taken: dict[str, int], gone: int, want: tuple[int, ...] | None) -> None:
    able = [Due(team="c" if "c" in taken else "b", slice=SEVENTH, firm=False)] * 4
    asks = Due(team="a", slice=SEVENTH, firm=False)
    assert dues(taken).for_the_books(asks, H100, able[:gone], able) == want


SHARES = {
    "within its own it borrows nothing": ({"a": 1}, "a", Fraction(0)),
    "one more than its own, of all that the cohort has": ({"a": 2}, "a", Fraction(1, 8)),
    "with what it has already": ({"b": 3}, "b", Fraction(4, 8)),
    "for its weight": ({}, "heavy", Fraction(1, 8) / 4),
}


@pytest.mark.parametrize(("taken", "name", "want"), SHARES.values(), ids=SHARES)
def test_what_a_team_would_borrow_of_a_flavor(taken: dict[str, int], name: str, want: Fraction) -> None:
    assert dues(taken).share(Due(team=name, slice=SEVENTH, firm=False), [H100]) == want


PLAIN = {
    "of whole GPUs that nobody owns": ([team("a", nominal=0)], Fraction(2)),
    "of one that somebody owns": ([team("a", nominal=0), team("b", nominal=1)], Fraction(2)),
    "of what the cohort has": ([team("a", nominal=0), team("b", nominal=4)], Fraction(2, 4)),
}


@pytest.mark.parametrize(("teams", "want"), PLAIN.values(), ids=PLAIN)
def test_what_it_borrows_of_whole_gpus_counts_too(teams: list[Quota], want: Fraction) -> None:
    there = backfill("there", team="a", gpus=2, on=["n1"])
    assert dues({}, there, teams=teams).share(Due(team="a", slice=SEVENTH, firm=False), [H100]) == want


MOST = {
    "of a team that is in no policy nothing": ("nobody", True, 0),
    "without borrowing its own": ("a", False, 2),
    "with it all that the cohort lends": ("a", True, 8),
}


@pytest.mark.parametrize(("name", "borrows", "want"), MOST.values(), ids=MOST)
def test_the_most_that_a_team_could_ever_have(name: str, borrows: bool, want: int) -> None:
    assert dues({"c": 6}).most(Due(team=name, slice=SEVENTH, firm=False, borrows=borrows), H100) == want


LEFT = {
    "who may not borrow has its own now": ({"c": 4}, 1, False, False, 2),
    "and what is coming free of it later": ({"c": 4}, 1, False, True, 3),
    "who may has what the cohort has": ({"c": 4}, 1, True, False, 4),
    "and what is coming free later": ({"c": 4}, 1, True, True, 5),
}


@pytest.mark.parametrize(("taken", "leaving", "borrows", "soon", "want"), LEFT.values(), ids=LEFT)
def test_what_is_left(taken: dict[str, int], leaving: int, borrows: bool, soon: bool, want: int) -> None:
    books = dues(taken)
    due = Due(team="c", slice=SEVENTH, firm=False, borrows=borrows)
    for _ in range(leaving):
        books.leave(due, H100)
    assert books.left(due, H100, soon=soon) == want


@pytest.mark.parametrize("soon", [False, True])
def test_a_team_that_left_the_policy_has_nothing_left(soon: bool) -> None:
    assert dues({}).left(Due(team="nobody", slice=SEVENTH, firm=False, borrows=True), H100, soon=soon) == 0
