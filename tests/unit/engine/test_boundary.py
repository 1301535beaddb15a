"""B1 to B3: which nodes should cross, from what serving is forecast to want and from what waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.boundary import BoundaryPlan, recommend, unmet_gpus
from fleet_app.engine.decide import decide
from fleet_app.engine.outlook import Outlook
from fleet_app.engine.plan import Plan
from fleet_app.engine.policy import Boundary, Policy
from fleet_app.engine.values import Condition, Crossing, Node, NodeClass
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, crossing, gang, node, policy, service, shape, state, team

NOW = 1_000_000.0
WEEK_S = 604_800.0
RULES = replace(
    policy(team("serving", nominal=16), team("research", nominal=48)),
    boundary=Boundary(serving="serving", training="research", margin_gpus=8, most_nodes_a_week=3),
)
Parts = list[Node | Workload | Service | Crossing]


def fleet(*more: Node | Workload | Service | Crossing, without: str = "") -> Parts:
    """Return two nodes for serving on a leaf of their own, and six for training: one, two and three on a leaf."""
    there = [node(f"v{i}", at="s1/l0", serving=True) for i in (1, 2)]
    there += [node("a1", at="s1/la"), *(node(f"b{i}", at="s1/lb") for i in (1, 2))]
    there += [node(f"c{i}", at="s1/lc") for i in (1, 2, 3)]
    return [*(one for one in there if one.name != without), *more]


def found(parts: Parts, peak: int, *, known: bool = True, rules: Policy = RULES) -> BoundaryPlan:
    seen = Outlook(peak_gpus=peak, known=known)
    return recommend(state(*parts), rules, NOW, seen, decide(state(*parts), rules, NOW))


def waiting(gpus: int) -> Workload:
    return gang("waits", nodes=gpus // 8, team="vision")


RICH = replace(RULES, quotas=(*RULES.quotas, team("vision", nominal=512)))
FULL = [gang(f"g{name}", on=[name], team="vision") for name in ("a1", "b1", "b2", "c1", "c2", "c3")]

TO_SERVING: dict[str, tuple[Parts, int, list[str]]] = {
    "what serving has covers its peak": (fleet(), 16, []),
    "what is short comes from training, in whole nodes": (fleet(), 17, ["a1"]),
    "a leaf that goes altogether goes first": (fleet(), 32, ["b1", "b2"]),
    "the largest first, then what is left": (fleet(), 40, ["c1", "c2", "c3"]),
    "no more in a week than the policy says": (fleet(), 64, ["c1", "c2", "c3"]),
    "those that crossed within a week count": (
        fleet(crossing("v1", at=NOW - 9.0, moved_at=NOW - 8.0), crossing("v2", at=NOW - 9.0, moved_at=NOW - 8.0)),
        40,
        ["a1"],
    ),
    "and not for longer": (fleet(crossing("v1", at=NOW - WEEK_S, moved_at=NOW - WEEK_S)), 32, ["b1", "b2"]),
    "those that cross now are serving's already": (fleet(crossing("a1", at=NOW - 9.0)), 24, []),
    "whoever waits for training": (fleet(waiting(64)), 17, ["a1"]),
    "where the least work is lost": (fleet(gang(on=["c1"], movable=True), without="a1"), 17, ["b1"]),
    "never from under one who cannot be asked": (
        fleet(*[gang(name, on=[name]) for name in ("a1", "b1", "c1", "c2", "c3")]),
        40,
        ["b2"],
    ),
    "backfill may stay": (fleet(backfill(on=["a1"])), 17, ["a1"]),
    "no node that is not sound": (
        fleet(node("a1", at="s1/la", condition=Condition.CORDONED), without="a1"),
        17,
        ["b1"],
    ),
    "no node that strangers use": (fleet(node("a1", at="s1/la", foreign=shape(1)), without="a1"), 17, ["b1"]),
    "a node of serving's that is down covers nothing": (
        fleet(node("v1", at="s1/l0", serving=True, condition=Condition.DOWN), without="v1"),
        16,
        ["a1"],
    ),
}


@pytest.mark.parametrize(("parts", "peak", "want"), TO_SERVING.values(), ids=TO_SERVING)
def test_towards_serving(parts: Parts, peak: int, want: list[str]) -> None:
    plan = found(parts, peak)
    assert [step.node for step in plan.steps] == want
    assert {step.to for step in plan.steps} <= {NodeClass.SERVING}


TO_TRAINING: dict[str, tuple[Parts, int, bool, list[str]]] = {
    "what is spare goes to who waits": (fleet(*FULL, waiting(16)), 0, True, ["v1"]),
    "the margin stays": (fleet(*FULL, waiting(16)), 1, True, []),
    "nobody waits": (fleet(*FULL), 0, True, []),
    "too little is known": (fleet(*FULL, waiting(16)), 0, False, []),
    "no node with a replica in it": (fleet(*FULL, waiting(16), service(wanted=1, on=["v1"])), 0, True, ["v2"]),
    "what is on its way counts for who waits": (
        fleet(*FULL, waiting(8), crossing("v1", to=NodeClass.TRAINING, at=NOW - 1)),
        0,
        True,
        [],
    ),
}


@pytest.mark.parametrize(("parts", "peak", "known", "want"), TO_TRAINING.values(), ids=TO_TRAINING)
def test_towards_training(parts: Parts, peak: int, known: bool, want: list[str]) -> None:
    plan = found(parts, peak, known=known, rules=RICH)
    assert [step.node for step in plan.steps] == want
    assert {step.to for step in plan.steps} <= {NodeClass.TRAINING}


def test_it_says_why_and_what_it_costs() -> None:
    plan = found(fleet(*[gang(name, on=[name], movable=True) for name in ("a1", "b1", "b2", "c1", "c2", "c3")]), 60)
    why = "serving has 16 GPUs, and its p99 peak is 60"
    assert plan.sentence == f"{why}: 3 nodes should become serving; 20 GPUs of the peak stay uncovered this week"
    assert (plan.short_gpus, plan.left_this_week, plan.lost_gpu_s) == (20, 0, 3 * 8 * 60.0)
    assert [step.moved for step in plan.steps] == [("c1",), ("c2",), ("c3",)]
    assert [step.lost_gpu_s for step in plan.steps] == [8 * 60.0] * 3


COVERED = {
    "just covered": (fleet(), 24, 0, "1 node should become serving"),
    "more than covered": (fleet(), 17, 0, "1 node should become serving"),
    "covered as it is": (fleet(), 9, 0, "no nodes should become training"),
    "not covered": (fleet(), 41, 1, "3 nodes should become serving; 1 GPUs of the peak stay uncovered this week"),
}


@pytest.mark.parametrize(("parts", "peak", "short", "end"), COVERED.values(), ids=COVERED)
def test_what_stays_uncovered(parts: Parts, peak: int, short: int, end: str) -> None:
    plan = found(parts, peak)
    assert (plan.short_gpus, plan.sentence.rpartition(": ")[2]) == (short, end)


def test_a_gang_on_several_nodes_is_lost_once() -> None:
    wide = [gang("wide", on=["c1", "c2", "c3"], movable=True), gang("firm", on=["b1"])]
    plan = found(fleet(*wide, without="a1"), 40)
    assert [step.node for step in plan.steps] == ["c1", "c2", "c3"]
    assert plan.lost_gpu_s == 24 * 60.0


def test_a_team_gives_no_more_nominal_than_it_has() -> None:
    poor = replace(RULES, quotas=(*RULES.quotas[:2], team("research", nominal=15)))
    assert len(found(fleet(), 64, rules=poor).steps) == 1


def test_the_policy_may_say_nothing() -> None:
    plan = recommend(state(*fleet()), policy(), NOW, Outlook(peak_gpus=64, known=True), Plan())
    assert plan == BoundaryPlan(sentence="the policy says nothing of a boundary")


def test_only_committed_work_that_nodes_would_help_is_unmet() -> None:
    parts = [*fleet(*FULL, waiting(16)), backfill("b", gpus=8), gang("lost", team="nobody")]
    assert unmet_gpus(state(*parts), RICH, decide(state(*parts), RICH, NOW)) == 16
