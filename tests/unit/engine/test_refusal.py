"""Why not now: the first thing that would have to change, in numbers; and what passes whom (O3, O4, Q2, Q3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Admit, DomainRoom, Reason
from fleet_app.engine.policy import Policy, PriorityClass
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Workload
from tests.builders import backfill, gang, node, nodes, policy, shape, state, team

TEAMS = policy(team("research", nominal=16), team("lender", nominal=8))
FULL = gang("full", team="lender", on=["n1"])
POLITE = 900


def polite(rules: Policy) -> Policy:
    """Return the policy with a class that yields and may not borrow."""
    return replace(rules, classes=(*rules.classes, PriorityClass(name="polite", value=POLITE, yields=True)))


WAITS = {
    "a team that is not in the policy": ([node("n1")], gang("x", team="nobody"), Reason.UNKNOWN_TEAM, 8, 0),
    "a bundle larger than any node": ([node("n1")], gang("x", gpus=9), Reason.TOO_LARGE_FOR_FLEET, 1, 0),
    "more bundles than nodes": ([node("n1")], gang("x", nodes=2), Reason.TOO_LARGE_FOR_FLEET, 2, 1),
    "a gang never runs on serving's": ([node("n1", serving=True)], gang("x"), Reason.TOO_LARGE_FOR_FLEET, 1, 0),
    "an accelerator that nobody has": ([node("n1")], gang("x", accelerator="x1"), Reason.TOO_LARGE_FOR_FLEET, 1, 0),
    "more than the nominal": (nodes(4), gang("x", nodes=3), Reason.TOO_LARGE_FOR_QUOTA, 24, 16),
    "more than all that could be lent": (nodes(4), backfill("x", gpus=8, nodes=4), Reason.TOO_LARGE_FOR_QUOTA, 32, 24),
    "a nominal that others of the team use": (
        [*nodes(3), gang("y", on=["n1"])],
        gang("x", nodes=2),
        Reason.QUOTA_USED,
        16,
        8,
    ),
    "a cohort that is used up": (
        [*nodes(3), gang("y", on=["n1"]), backfill("z", gpus=8, on=["n2"])],
        backfill("x", gpus=8, nodes=2),
        Reason.QUOTA_USED,
        16,
        8,
    ),
    "no node free": ([node("n1"), FULL], gang("x"), Reason.NO_ROOM, 1, 0),
    "one of two": ([*nodes(2), FULL], gang("x", nodes=2), Reason.NO_ROOM, 2, 1),
    "a node in doubt": ([node("n1", condition=Condition.QUARANTINED)], gang("x"), Reason.NO_ROOM, 1, 0),
    "foreign use": ([node("n1", foreign=shape(1))], gang("x"), Reason.NO_ROOM, 1, 0),
    "broken contracts, and its own in use": (
        [*nodes(3), backfill("z", gpus=8, on=["n1"])],
        backfill("x", gpus=8, nodes=2, broken_drains=3),
        Reason.QUOTA_USED,
        16,
        8,
    ),
    "broken contracts, and nodes of serving's alone that would do": (
        [node("n1", serving=True)],
        backfill("x", gpus=8, broken_drains=3),
        Reason.TOO_LARGE_FOR_FLEET,
        1,
        0,
    ),
    "so for several shapes": (
        [*nodes(1), node("v1", serving=True)],
        backfill("x", groups={"a": (1, shape(4)), "b": (1, shape(2))}, broken_drains=3),
        Reason.TOO_LARGE_FOR_FLEET,
        1,
        0,
    ),
    "a gang's broken contracts, and its team's own in use": (
        [*nodes(3), gang("z", on=["n1"])],
        gang("x", nodes=2, broken_drains=3),
        Reason.QUOTA_USED,
        16,
        8,
    ),
    "broken contracts, and more than its own": (
        nodes(4),
        backfill("x", gpus=8, nodes=3, broken_drains=3),
        Reason.CONTRACT_BROKEN,
        24,
        16,
    ),
    "what yields but may not borrow": (nodes(4), backfill("x", gpus=8, nodes=3, priority=POLITE), None, 24, 16),
}


@pytest.mark.parametrize(("parts", "asking", "reason", "asked", "available"), WAITS.values(), ids=WAITS)
def test_reason_and_numbers(
    parts: list[Node | Workload], asking: Workload, reason: Reason | None, asked: int, available: int
) -> None:
    plan = decide(state(*parts, asking), polite(TEAMS), 10.0)
    [wait] = plan.waits
    want = (reason or Reason.TOO_LARGE_FOR_QUOTA, asked, available)
    assert (wait.reason, wait.asked, wait.available) == want


ASKERS = {
    "of one shape": gang("x"),
    "of several": gang("x", groups={"gpu": (1, shape(8)), "cpu": (1, shape(0, cpus=1))}),
}


@pytest.mark.parametrize("asker", ASKERS.values(), ids=ASKERS)
def test_an_excess_that_cannot_be_reclaimed_is_a_matter_of_quota(asker: Workload) -> None:
    rules = policy(team("research", nominal=8), team("other", nominal=0))
    firm = gang("firm", team="other", on=["n1", "n2"])
    plan = decide(state(*nodes(4), firm, asker), rules, 0.0)
    assert [(one.reason, one.asked, one.available) for one in plan.waits] == [(Reason.QUOTA_USED, 8, 0)]


def test_what_waits_for_quota_keeps_what_comes_free_of_it() -> None:
    teams = policy(team("research", nominal=16))
    large, small = gang("large", nodes=2, submitted_at=1.0), gang("small", gpus=4, submitted_at=2.0)
    plan = decide(state(*nodes(3), gang("runs", on=["n1"]), large, small), teams, 5.0)
    assert [(one.workload, one.reason, one.blocked_by) for one in plan.waits] == [
        ("large", Reason.QUOTA_USED, ()),
        ("small", Reason.RESERVED, ("large",)),
    ]


def test_who_broke_the_contract_and_waits_for_its_own_is_in_the_way_like_any_other() -> None:
    """D4: it lost what is lent, and nothing of what is its team's (O3, O6, R8)."""
    teams = policy(replace(team("research", nominal=16), strict=True), team("lender", nominal=16))
    runs = gang("runs", on=["n1"])
    broke = backfill("broke", gpus=8, nodes=2, broken_drains=3, submitted_at=1.0)
    small = backfill("small", gpus=4, submitted_at=2.0)
    grows = gang("grows", team="lender", on=["n2"], minimum=1, at_most=2)
    plan = decide(state(*nodes(4), runs, grows, broke, small), teams, 5.0)
    assert plan.actions == ()
    assert {one.workload: (one.reason, one.blocked_by) for one in plan.waits} == {
        "broke": (Reason.QUOTA_USED, ()),
        "small": (Reason.BEHIND, ("broke",)),
    }


def test_a_gang_that_broke_the_contract_keeps_what_comes_free_of_its_own() -> None:
    teams = policy(team("research", nominal=16))
    large = gang("large", nodes=2, broken_drains=3, submitted_at=1.0)
    small = gang("small", gpus=4, submitted_at=2.0)
    plan = decide(state(*nodes(3), gang("runs", on=["n1"]), large, small), teams, 5.0)
    assert [(one.workload, one.reason) for one in plan.waits] == [
        ("large", Reason.QUOTA_USED),
        ("small", Reason.RESERVED),
    ]


def test_what_could_not_be_placed_anyway_keeps_no_quota() -> None:
    teams = policy(team("research", nominal=16))
    down = node("n2", condition=Condition.DOWN)
    plan = decide(state(node("n1"), down, gang("large", nodes=2, submitted_at=1.0), gang("small", gpus=4)), teams, 5.0)
    assert [action.workload for action in plan.actions if isinstance(action, Admit)] == ["small"]


def test_what_waits_for_nodes_keeps_others_off_those_where_it_is_nearest() -> None:
    runs = [gang("r1", on=["n1"], gpus=2), gang("r2", on=["n2"], gpus=4, team="lender")]
    large, small = gang("large", submitted_at=1.0), gang("small", team="lender", gpus=4, submitted_at=2.0)
    plan = decide(state(*nodes(2), *runs, large, small), TEAMS, 5.0)
    assert [(action.workload, action.nodes) for action in plan.actions if isinstance(action, Admit)] == [
        ("small", ("n2",))
    ]
    plan = decide(state(node("n1"), runs[0], large, small), TEAMS, 5.0)
    waits = {one.workload: (one.reason, one.blocked_by) for one in plan.waits}
    assert waits == {"large": (Reason.NO_ROOM, ()), "small": (Reason.RESERVED, ("large",))}


def test_of_equally_near_nodes_those_with_least_idle_are_kept() -> None:
    teams = policy(team("research", nominal=16), team("lender", nominal=0), team("idle", nominal=99))
    lent = backfill("lent", team="lender", gpus=4, on=["n2"])
    runs = [gang(f"r{i}", gpus=4, on=[f"n{i}"]) for i in (1, 2)]
    asks = [gang("large", submitted_at=1.0), gang("one", team="idle", gpus=1, submitted_at=2.0)]
    plan = decide(state(*nodes(2), lent, *runs, *asks), teams, 5.0)
    assert [(action.workload, action.nodes) for action in plan.actions if isinstance(action, Admit)] == [
        ("one", ("n1",))
    ]


def test_rooms_say_what_each_domain_has() -> None:
    teams = policy(team("research", nominal=64), team("guest", nominal=0))
    fleet = [*nodes(4, at="s1/l1"), *nodes(2, prefix="m", at="s2/l1")]
    lodgers = [
        backfill("guest-1", team="guest", gpus=8, on=["n1"]),
        backfill("leaving", team="guest", gpus=8, on=["n2"], phase=Phase.DRAINING, deadline_at=9.0),
        gang("stays", gpus=8, on=["m1"]),
        gang("narrow", gpus=4, on=["m2"]),
    ]
    plan = decide(state(*fleet, *lodgers, gang("x", nodes=4, within="spine")), teams, 0.0, watch="x")
    [wait] = [one for one in plan.waits if one.workload == "x"]
    assert wait.rooms == (
        DomainRoom(
            domain="s1", free_nodes=2, draining_nodes=1, drainable_nodes=1, total_nodes=4, drainable=("guest-1",)
        ),
        DomainRoom(domain="s2", free_nodes=0, draining_nodes=0, drainable_nodes=0, total_nodes=2),
    )


def test_only_who_is_watched_gets_rooms() -> None:
    plan = decide(state(node("n1"), FULL, gang("x"), gang("y")), TEAMS, 0.0, watch="y")
    assert {one.workload: bool(one.rooms) for one in plan.waits} == {"x": False, "y": True}


def test_what_yields_drains_nobody() -> None:
    plan = decide(state(node("n1"), FULL, backfill("x")), TEAMS, 0.0, watch="x")
    [wait] = plan.waits
    assert (wait.reason, wait.rooms[0].drainable_nodes) == (Reason.NO_ROOM, 0)
