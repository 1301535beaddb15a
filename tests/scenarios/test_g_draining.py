"""Scenarios G to I, as far as the engine decides them: draining, replicas, and what a fleet looks like in trouble."""

from __future__ import annotations

from dataclasses import replace

from fleet_app.engine.decide import decide
from fleet_app.engine.explain import explain
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Drain, Kill, Lose, Reason
from fleet_app.engine.values import Condition
from tests import virtual
from tests.builders import backfill, gang, grant, node, nodes, policy, service, shape, state, team
from tests.scenarios.said import drains, leaves, reasons, starts

RULES = policy(team("serving", nominal=8), team("lent", nominal=0))


CROWDED = (
    node("n1", serving=True),
    backfill("v", team="lent", gpus=8, on=["n1"]),
    service("chat", gpus=8, wanted=1),
)
"""A replica is wanted where a borrower is."""


def test_g1_room_is_the_winners_when_the_victim_has_left_and_not_before() -> None:
    fleet = virtual.fleet(
        RULES,
        node("n1", serving=True),
        backfill("v", team="lent", gpus=8, on=["n1"]),
        service("chat", gpus=8, wanted=1),
    )
    fleet = virtual.cycle(fleet)
    assert drains(fleet) == ["v"]
    fleet = virtual.cycle(virtual.later(fleet, 89.0))
    assert fleet.service("chat").grants == ()
    fleet = virtual.cycle(virtual.left(virtual.later(fleet, 1.0), "v"))
    assert [one.node for one in fleet.service("chat").grants] == ["n1"]


def test_g5_who_ignores_the_notice_is_killed_once_at_its_deadline() -> None:
    fleet = virtual.fleet(
        RULES,
        node("n1", serving=True),
        backfill("v", team="lent", gpus=8, on=["n1"]),
        service("chat", gpus=8, wanted=1),
    )
    fleet = virtual.cycle(fleet)
    deadline_at = fleet.workload("v").deadline_at
    assert deadline_at is not None
    killed = []
    for moment in (deadline_at - 0.1, deadline_at, deadline_at + 1.0, deadline_at + 60.0):
        fleet = replace(fleet, now=moment)
        plan = virtual.plan_of(fleet)
        killed += [(moment, action.workload) for action in plan.actions if isinstance(action, Kill)]
        fleet = virtual.carried_out(fleet, plan)
    assert killed == [(deadline_at, "v")]


def test_g11_what_is_stuck_while_it_leaves_blocks_only_what_it_has() -> None:
    stuck = replace(
        backfill("stuck", team="lent", gpus=4, on=["n1"]), phase=Phase.DRAINING, deadline_at=1.0, killed=True
    )
    plan = decide(
        state(node("n1"), node("n2"), stuck, gang("a", team="lent2", gpus=4), gang("b", team="lent2", gpus=8)),
        policy(team("lent", nominal=0), team("lent2", nominal=16)),
        10_000.0,
    )
    assert starts(plan) == {"a": ("n1",), "b": ("n2",)}


def test_g13_during_its_grace_a_workload_is_draining_and_says_so() -> None:
    fleet = virtual.fleet(
        RULES,
        node("n1", serving=True),
        backfill("v", team="lent", gpus=8, on=["n1"]),
        service("chat", gpus=8, wanted=1),
    )
    fleet = virtual.later(virtual.cycle(fleet), 20.0)
    assert "v" not in reasons(virtual.plan_of(fleet))
    said = explain(fleet.state, fleet.policy, fleet.now, "v")
    assert said.sentence.startswith("is draining for chat: 100 s left on n1")


def test_g15_of_what_is_lent_as_much_comes_back_as_is_needed_rounded_to_whole_gangs() -> None:
    """700 GPUs are lent to gangs of two nodes, at two priorities, and 300 are asked: nineteen of the lower leave."""
    rules = policy(team("serving", nominal=704), team("lent", nominal=0))
    rules = replace(rules, classes=(*rules.classes, replace(rules.classes[-1], name="scavenger", value=500)))
    lower = [
        replace(
            backfill(f"low-{i:02d}", team="lent", gpus=8, nodes=2, on=[f"n{2 * i + 1}", f"n{2 * i + 2}"]), priority=500
        )
        for i in range(22)
    ]
    upper = [
        backfill(f"top-{i:02d}", team="lent", gpus=8, nodes=2, on=[f"n{2 * i + 1}", f"n{2 * i + 2}"])
        for i in range(22, 44)
    ]
    chat = service("chat", gpus=4, wanted=75)
    plan = decide(state(*nodes(88, serving=True), *lower, *upper, chat), rules, 1000.0)
    assert len(leaves(plan)) == 19
    assert all(name.startswith("low-") for name in leaves(plan))
    assert {action.deadline_at for action in plan.actions if isinstance(action, Drain)} == {1120.0}


def test_h5_a_service_never_has_more_grants_than_it_wants() -> None:
    chat = service("chat", gpus=1, wanted=5, floor=5, grants=[grant(f"g{i}") for i in range(3)])
    fleet = virtual.at_rest(virtual.fleet(RULES, node("n1", serving=True), chat))
    assert len(fleet.service("chat").grants) == 5


def test_h9_an_upgrade_that_wants_more_replicas_for_a_while_gets_them_from_what_is_lent() -> None:
    """Three nodes are full of replicas; the new version's three come up first: three lent nodes are asked back."""
    old = [grant(f"g{i}", node=f"n{i}") for i in (1, 2, 3)]
    lent = [backfill(f"b{i}", team="lent", gpus=8, on=[f"n{i}"]) for i in (4, 5, 6)]
    fleet = virtual.fleet(
        policy(team("serving", nominal=48), team("lent", nominal=0)),
        *nodes(6, serving=True),
        service("chat", gpus=8, wanted=3, grants=old),
        *lent,
    )
    fleet = virtual.at_rest(virtual.demanded(fleet, "chat", 6))
    assert sorted(drains(fleet)) == ["b4", "b5", "b6"]
    assert len(fleet.service("chat").grants) == 6


def test_h13_when_no_node_is_to_be_seen_for_a_moment_none_has_gone() -> None:
    away = [replace(one, condition=Condition.DOWN, down_since=1000.0) for one in nodes(2)]
    plan = decide(state(*away, gang("a", nodes=2, on=["n1", "n2"])), policy(team("research", nominal=16)), 1029.0)
    assert plan.actions == ()


def test_i17_a_watch_that_drops_for_five_seconds_evicts_nobody() -> None:
    fleet = virtual.fleet(policy(team("research", nominal=16)), *nodes(2), gang("a", nodes=2, on=["n1", "n2"]))
    away = virtual.with_node(fleet, node("n2", condition=Condition.DOWN, down_since=0.0))
    for _ in range(5):
        away = virtual.cycle(virtual.later(away, 1.0))
    back = virtual.at_rest(virtual.with_node(away, node("n2")))
    assert back.workload("a") == fleet.workload("a")


def test_i7_a_gang_that_lost_one_node_ends_whole_and_asks_for_all_of_its_own_again_and_for_no_more() -> None:
    lost = replace(node("n4"), condition=Condition.DOWN)
    fleet = virtual.fleet(
        policy(team("research", nominal=40)),
        *nodes(3),
        lost,
        node("n5"),
        gang("a", nodes=4, on=["n1", "n2", "n3", "n4"]),
    )
    plan = virtual.plan_of(fleet)
    assert [action.workload for action in plan.actions if isinstance(action, Lose)] == ["a"]
    fleet = virtual.at_rest(virtual.left(virtual.carried_out(fleet, plan), "a"))
    assert set(fleet.workload("a").nodes) == {"n1", "n2", "n3", "n5"}


def test_i23_what_somebody_else_uses_is_not_there_and_the_whole_gang_is_placed_elsewhere() -> None:
    taken = replace(node("n1"), foreign=shape(1), foreign_owners=("other scheduler",))
    plan = decide(state(taken, node("n2"), node("n3"), gang("a", nodes=2)), policy(team("research", nominal=16)), 100.0)
    assert starts(plan) == {"a": ("n2", "n3")}
    short = decide(state(taken, node("n2"), gang("a", nodes=2)), policy(team("research", nominal=16)), 100.0)
    assert starts(short) == {}
    assert reasons(short) == {"a": Reason.NO_ROOM}
