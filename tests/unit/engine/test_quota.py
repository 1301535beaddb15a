"""The quota tree: what a team may take, what it draws, what it has above its nominal (Q1 to Q4)."""

from __future__ import annotations

import pytest

from fleet_app.engine.policy import Quota
from fleet_app.engine.quota import QuotaTree, above_nominal, available, charge, largest, shares_with
from tests.builders import team

ORG = Quota(name="org")


def charged(quotas: list[Quota], used: dict[str, int]) -> tuple[QuotaTree, dict[str, int]]:
    """Return the tree, and its books with that much in use."""
    tree, books = QuotaTree.build(quotas), dict[str, int]()
    for name, gpus in used.items():
        charge(tree, books, name, gpus)
    return tree, books


A_8 = team("a", nominal=8)
B_8 = team("b", nominal=8)
LAB = [Quota(name="lab", parent="org", nominal_gpus=8, lending_limit_gpus=2), team("a", nominal=8, parent="lab")]

AVAILABLE = {
    "a team alone has its nominal": ([A_8], {}, 8),
    "what it uses is gone": ([A_8], {"a": 5}, 3),
    "it may take what others do not use": ([A_8, B_8], {}, 16),
    "what others use they keep": ([A_8, B_8], {"b": 6}, 10),
    "its borrowing limit ends that": ([team("a", nominal=8, borrowing=3), B_8], {}, 11),
    "what it borrowed counts against the limit": ([team("a", nominal=8, borrowing=3), B_8], {"a": 10}, 1),
    "a limit of nothing leaves its own": ([team("a", nominal=8, borrowing=0), B_8], {"a": 2}, 6),
    "a lender lends no more than its limit": ([A_8, team("b", nominal=8, lending=2)], {}, 10),
    "who lends nothing is left alone": ([A_8, team("b", nominal=8, lending=0)], {"a": 8}, 0),
    "what is kept does not draw": ([A_8, team("b", nominal=8, lending=2)], {"b": 6}, 10),
    "what is beyond that does": ([A_8, team("b", nominal=8, lending=2)], {"b": 7}, 9),
    "lent out, it has less than its nominal": ([A_8, B_8], {"b": 12}, 4),
    "over-admitted, it has less than nothing": ([A_8, team("b", nominal=0)], {"a": 8, "b": 3}, -3),
    "an excess elsewhere does not reach what it keeps": ([team("a", lending=0, nominal=8), B_8], {"b": 12, "a": 2}, 6),
    "beside what it keeps it may take what others do not use": ([team("a", nominal=8, lending=0), B_8], {}, 16),
    "a borrowing limit counts from its nominal, kept or lent": (
        [team("a", nominal=8, lending=2, borrowing=3), B_8],
        {},
        11,
    ),
    "what it keeps and uses is not borrowed": ([team("a", nominal=8, lending=2, borrowing=3), B_8], {"a": 6}, 5),
    "what it takes of what it lends is not borrowed either": (
        [team("a", nominal=8, lending=2, borrowing=3), B_8],
        {"a": 7},
        4,
    ),
    "an organisation lends only so much of what its teams have": ([*LAB, team("x", nominal=1)], {"x": 3}, 6),
    "a team with no parent lends to nobody": ([team("a", nominal=8, parent=None), B_8], {}, 8),
    "a parent that is not there is none": ([team("a", nominal=8, parent="gone"), B_8], {}, 8),
}


@pytest.mark.parametrize(("quotas", "used", "want"), AVAILABLE.values(), ids=AVAILABLE)
def test_available(quotas: list[Quota], used: dict[str, int], want: int) -> None:
    tree, books = charged([ORG, *quotas], used)
    assert available(tree, books, "a") == want


def test_what_another_may_borrow_from_an_organisation_ends_at_its_lending_limit() -> None:
    tree, books = charged([ORG, *LAB, team("x", nominal=1)], {})
    assert available(tree, books, "x") == 3


def test_the_order_of_entries_means_nothing() -> None:
    quotas = [ORG, *LAB, team("x", nominal=1)]
    assert QuotaTree.build(quotas) == QuotaTree.build(quotas[::-1])


def test_an_organisation_may_have_more_than_its_teams() -> None:
    tree = QuotaTree.build([Quota(name="org", nominal_gpus=20), A_8])
    assert largest(tree, "a") == 20


def test_largest_is_what_it_could_take_with_nothing_in_use() -> None:
    tree, _ = charged([ORG, A_8, B_8], {"b": 8})
    assert largest(tree, "a") == 16


def test_charging_and_giving_back_leaves_nothing_behind() -> None:
    tree, books = charged([ORG, *LAB, team("x", nominal=1)], {"a": 7, "x": 2})
    assert books == {"a": 7, "lab": 7, "org": 3, "x": 2}
    charge(tree, books, "a", -7)
    charge(tree, books, "x", -2)
    assert set(books.values()) == {0}


def test_what_a_team_keeps_is_not_charged_to_those_above() -> None:
    _, books = charged([ORG, team("a", nominal=8, lending=2)], {"a": 6})
    assert books == {"a": 6}


ABOVE = {
    "nothing in use": ({}, 0),
    "all of its own": ({"a": 8}, 0),
    "two more": ({"a": 10}, 2),
}


@pytest.mark.parametrize(("used", "want"), ABOVE.values(), ids=ABOVE)
def test_above_nominal(used: dict[str, int], want: int) -> None:
    tree, books = charged([ORG, A_8, B_8], used)
    assert above_nominal(tree, books, "a") == want


def test_all_that_a_team_of_no_tree_uses_is_above_its_nominal() -> None:
    tree, books = charged([ORG, A_8], {"deleted": 5})
    assert above_nominal(tree, books, "deleted") == 5
    assert tree.nominal("deleted") == 0
    assert available(tree, books, "a") == 8


DEEP = [
    Quota(name="lab", parent="org", weight=2),
    team("team", nominal=4, parent="lab", weight=3),
    team("peer", nominal=2, parent="lab"),
    team("alone", nominal=4, parent=None),
]

SHARES = {
    "within its own it borrows nothing": ({}, "team", 4, {"team": 0, "lab": 0}),
    "beyond its own, it borrows from its peers alone": ({}, "team", 6, {"team": 4, "lab": 0}),
    "beyond theirs, its organisation borrows too": ({}, "team", 8, {"team": 8, "lab": 6}),
    "what its peers use their organisation has no more": ({"peer": 2}, "team", 6, {"team": 4, "lab": 6}),
    "what it uses counts": ({"team": 4}, "team", 2, {"team": 4, "lab": 0}),
    "a weight of one is all of it": ({}, "peer", 3, {"peer": 6, "lab": 0}),
    "with nobody above it borrows of nobody, and is measured all the same": ({"alone": 3}, "alone", 3, {"alone": 12}),
    "who is in no tree has nothing of its own": ({}, "deleted", 2, {"deleted": 12}),
    "and what it uses counts": ({"deleted": 1}, "deleted", 2, {"deleted": 18}),
}


@pytest.mark.parametrize(("used", "asker", "gpus", "want"), SHARES.values(), ids=SHARES)
def test_shares_by_weight_at_every_level(used: dict[str, int], asker: str, gpus: int, want: dict[str, int]) -> None:
    tree, books = charged([ORG, *DEEP], used)
    assert shares_with(tree, books, asker, gpus) == want
