"""Members of elastic workloads that may leave one by one: who stands for whom, and how many can be spared (R8)."""

from __future__ import annotations

import pytest

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.members import member_of
from tests.builders import backfill, nodes, policy, state

ALL = ("n1", "n2", "n3", "n4")


def books(least: int, going: tuple[str, ...] = ()) -> Ledger:
    """Return the books of an elastic job with a member on each of four nodes."""
    job = backfill("el", gpus=8, on=ALL, minimum=least, going=going, going_by=50.0 if going else None)
    return Ledger(state(*nodes(4), job), policy(), 0.0)


def names(ledger: Ledger) -> list[str]:
    return [one.name for one in ledger.lodging(ALL)]


SPARED = {
    "fewer than it can spare": (2, (), 1, True),
    "as many as it can": (2, (), 2, True),
    "one more": (2, (), 3, False),
    "those that were told to leave before count": (2, ("n4",), 2, False),
    "nobody": (4, (), 0, True),
}


@pytest.mark.parametrize(("least", "going", "leaving", "want"), SPARED.values(), ids=SPARED)
def test_how_many_can_be_spared(least: int, going: tuple[str, ...], leaving: int, want: bool) -> None:
    ledger = books(least, going)
    job = ledger.members.elastic["el"]
    assert ledger.members.can_be_spared([member_of(job, name) for name in ALL[:leaving]]) is want


LODGERS = {
    "a member on each node": (2, ["el/n1", "el/n2", "el/n3", "el/n4"]),
    "all of it where it can spare nobody": (4, ["el"]),
}


@pytest.mark.parametrize(("least", "want"), LODGERS.values(), ids=LODGERS)
def test_who_may_be_asked(least: int, want: list[str]) -> None:
    assert names(books(least)) == want


def test_who_left_whole_has_no_member_that_could_be_asked() -> None:
    ledger = books(2)
    ledger.release_soon(ledger.members.elastic["el"])
    assert names(ledger) == []
    assert [ledger.soon(name).gpus for name in ALL] == [8] * 4


def test_meanwhile_all_of_it_stands_for_each_member() -> None:
    ledger = books(2)
    with ledger.members.as_wholes(ledger.lodgers):
        assert names(ledger) == ["el"]
    assert names(ledger) == ["el/n1", "el/n2", "el/n3", "el/n4"]
