"""What somebody would find if others left: nodes that fit by domain, the books, who may be asked (R2)."""

from __future__ import annotations

import pytest

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.policy import Policy
from fleet_app.engine.trial import Asker, Trial
from fleet_app.engine.workload import Workload
from tests.builders import COMMITTED, backfill, node, nodes, policy, shape, state, team

FULL = [backfill(f"v{number}", team="b", gpus=8, on=[f"n{number}"]) for number in (1, 2, 3)]


def trial(
    *lodgers: Workload, bundles: int = 1, gpus: int = 8, depth: int = 0, rules: Policy | None = None, anyone=False
):
    """Return a trial for team a on two leaves of two nodes each."""
    fleet = [*nodes(2, at="s1/l1"), *nodes(2, at="s1/l2", first=3)]
    books = Ledger(state(*fleet, *lodgers), rules or policy(team("a"), team("b")), 0.0)
    seeks = Asker(
        name="x", team="a", priority=COMMITTED, shape=shape(gpus), bundles=bundles, depth=depth, anyone=anyone
    )
    return Trial(books, seeks, fleet)


def test_leaving_makes_room_and_staying_takes_it_again() -> None:
    room = trial(*FULL, bundles=2)
    assert [one.name for one in room.fitting()] == ["n4"]
    room.leave(FULL[:1])
    assert room.enough()
    assert [one.name for one in room.fitting()] == ["n1", "n4"]
    room.stay(FULL[0])
    assert not room.enough()
    assert room.gone == {}


def test_one_domain_has_to_hold_all() -> None:
    room = trial(*FULL, bundles=2, depth=2)
    assert not room.enough_without(FULL[:1])
    assert room.enough_without(FULL[:2])
    assert room.enough_without(FULL[2:])


def test_trying_changes_nothing() -> None:
    room = trial(*FULL, bundles=2)
    before = (dict(room.room), dict(room.fits), room.ample, dict(room.books))
    room.enough_without(FULL)
    assert (dict(room.room), {key: n for key, n in room.fits.items() if n}, room.ample, dict(room.books)) == before


def test_a_node_of_no_known_leaf_is_not_counted_at_that_level() -> None:
    books = Ledger(state(node("n1", at="s1")), policy(team("a")), 0.0)
    seeks = Asker(name="x", team="a", priority=COMMITTED, shape=shape(8), depth=2)
    assert Trial(books, seeks, [node("n1", at="s1")]).enough() is False


def test_the_books_may_forbid_what_fits() -> None:
    rules = policy(team("a", nominal=8), team("b", nominal=16))
    room = trial(*FULL, rules=rules)
    assert (room.ample > 0, room.books_allow()) == (True, False)
    assert room.enough_without(FULL[2:])


TEAMS = policy(team("a", nominal=64), team("b", nominal=10))

MAY_GO = {
    "a borrower may": (FULL[:1], False, True),
    "as long as its team borrows when the last one goes": (FULL[:2], False, True),
    "not one more": (FULL, False, False),
    "for a replica, on its nodes, anybody may": (FULL, True, True),
    "nobody is nobody too many": ([], False, True),
}


@pytest.mark.parametrize(("victims", "anyone", "want"), MAY_GO.values(), ids=MAY_GO)
def test_may_go(victims: list[Workload], anyone: bool, want: bool) -> None:
    assert trial(*FULL, rules=TEAMS, anyone=anyone).may_go(victims) is want


SEVERAL = policy(team("a", nominal=64), team("b", nominal=8), team("c", nominal=4), team("d", nominal=0))
OF_B, OF_C, OF_D = (backfill(who, team=who, gpus=8, on=[at]) for who, at in (("b", "n1"), ("c", "n2"), ("d", "n3")))
MANY = {
    "borrowers of several teams": ([OF_C, OF_D], True),
    "one whose team does not borrow beside one whose does": ([OF_B, OF_C], False),
    "in any order": ([OF_C, OF_B], False),
    "one of the own team counts for nobody else's": (
        [OF_C, backfill("own", team="a", gpus=8, on=["n4"]), OF_D],
        True,
    ),
}


@pytest.mark.parametrize(("victims", "want"), MANY.values(), ids=MANY)
def test_each_team_is_asked_for_what_it_borrows_itself(victims: list[Workload], want: bool) -> None:
    assert trial(OF_B, OF_C, OF_D, rules=SEVERAL).may_go(victims) is want


def test_the_own_team_may_always_be_asked() -> None:
    own = backfill("own", team="a", gpus=8, on=["n1"])
    assert trial(own, rules=TEAMS).may_go([own])


def test_who_has_left_already_counts() -> None:
    room = trial(*FULL, rules=TEAMS)
    room.leave(FULL[:2])
    assert not room.may_go(FULL[2:])
