"""R9: how many may be asked to leave for gangs in one cycle; serving's asks are not limited."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine import notices
from fleet_app.engine.decide import decide
from fleet_app.engine.explain import explain
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Drain, Plan, Reason
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.workload import Group
from tests.builders import backfill, gang, node, nodes, policy, service, shape, state, team

TEAMS = (team("research", nominal=64), team("guest", nominal=0), team("serving", nominal=64))
GUESTS = [backfill(f"v{i}", team="guest", gpus=8, on=[f"n{i}"]) for i in range(1, 6)]
GANGS = [gang("a", submitted_at=1.0), gang("wide", nodes=3, submitted_at=2.0), gang("z", submitted_at=3.0)]
FLEET = state(*nodes(5), *GUESTS, *GANGS)


def rules(most: int | None) -> Policy:
    return policy(*TEAMS, most_per_cycle=most)


def asked(plan: Plan) -> dict[str, int]:
    """Return how many were asked to leave for whom."""
    drains = [action for action in plan.actions if isinstance(action, Drain)]
    return {one.beneficiary: sum(each.beneficiary == one.beneficiary for each in drains) for one in drains}


LIMITS = {
    "without a limit everybody asks": (None, {"a": 1, "wide": 3, "z": 1}),
    "whoever fits asks, and a set that does not waits whole": (2, {"a": 1, "z": 1}),
    "a set that fits exactly asks": (4, {"a": 1, "wide": 3}),
    "the first asks whatever it needs": (1, {"a": 1}),
}


@pytest.mark.parametrize(("most", "want"), LIMITS.values(), ids=LIMITS)
def test_how_many_are_asked(most: int | None, want: dict[str, int]) -> None:
    assert asked(decide(FLEET, rules(most), 10.0)) == want


ROOM_FOR_MORE = {
    "without a limit": (None, 9, 9, True),
    "nobody was asked yet": (1, 0, 9, True),
    "nobody has to be": (1, 1, 0, True),
    "one more than may": (3, 2, 2, False),
    "as many as may": (3, 2, 1, True),
    "fewer than may": (9, 2, 1, True),
}


@pytest.mark.parametrize(("most", "before", "more", "want"), ROOM_FOR_MORE.values(), ids=ROOM_FOR_MORE)
def test_whether_so_many_more_may_be_asked(most: int | None, before: int, more: int, want: bool) -> None:
    ledger = Ledger(state(), rules(most), 10.0)
    ledger.memo.asked = before
    victims = tuple(backfill(f"v{number}") for number in range(more))
    assert notices.may_ask_now(ledger, victims) is want


def test_the_first_asks_all_that_it_needs_however_many() -> None:
    fleet = state(*nodes(5), *GUESTS, replace(GANGS[1], submitted_at=0.5), GANGS[0])
    assert asked(decide(fleet, rules(1), 10.0)) == {"wide": 3}


def test_what_waits_for_that_keeps_its_nodes() -> None:
    fleet: FleetState = state(*nodes(4), *GUESTS[:4], *GANGS)
    plan = decide(fleet, rules(2), 10.0)
    assert asked(plan) == {"a": 1}
    wait = plan.wait_of("wide")
    assert wait is not None
    assert (wait.reason, wait.asked, wait.available) == (Reason.DRAINS_LIMITED, 3, 1)


def test_after_a_first_set_that_was_more_than_may_nobody_may_ask() -> None:
    first = replace(GANGS[1], submitted_at=0.5)
    plan = decide(state(*nodes(5), *GUESTS, first, GANGS[0]), rules(2), 10.0)
    assert asked(plan) == {"wide": 3}
    wait = plan.wait_of("a")
    assert wait is not None
    assert (wait.reason, wait.asked, wait.available) == (Reason.DRAINS_LIMITED, 1, 0)


def test_it_is_explained() -> None:
    want = "needs 3 whole nodes; v2, v3, v4 would have to leave, 3 in all, and 1 more may be asked in this cycle"
    assert explain(state(*nodes(4), *GUESTS[:4], *GANGS), rules(2), 10.0, "wide").sentence == want


def test_a_gang_of_several_shapes_is_held_to_it_too() -> None:
    groups = (Group(name="big", bundles=2, shape=shape(8)), Group(name="small", bundles=1, shape=shape(8)))
    mixed = replace(GANGS[1], groups=groups, bundles=3)
    plan = decide(state(*nodes(5), *GUESTS, GANGS[0], mixed), rules(2), 10.0)
    assert asked(plan) == {"a": 1}
    assert plan.wait_of("wide") is not None
    assert plan.wait_of("wide").reason is Reason.DRAINS_LIMITED  # type: ignore[union-attr]  # it is not None


def test_replicas_always_ask() -> None:
    there = [node(f"s{i}", serving=True) for i in (1, 2, 3)]
    lent = [backfill(f"b{i}", team="guest", gpus=8, on=[f"s{i}"]) for i in (1, 2, 3)]
    fleet = state(*nodes(1), GUESTS[0], GANGS[0], *there, *lent, service(wanted=3, gpus=8))
    assert asked(decide(fleet, rules(1), 10.0)) == {"chat": 3, "a": 1}
