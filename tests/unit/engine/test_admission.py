"""Who starts: in order, on exact nodes, with room made for what is inside its nominal (O1 to O4, P5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Admit, Drain, Hold, Plan, Reason
from fleet_app.engine.policy import Packing
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload
from tests.builders import backfill, gang, node, nodes, policy, shape, state, team

LENT = policy(team("research", nominal=16), team("guest", nominal=0), team("idle", nominal=64))


def admitted(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {action.workload: action.nodes for action in plan.actions if isinstance(action, Admit)}


def drained(plan: Plan) -> list[str]:
    return [action.workload for action in plan.actions if isinstance(action, Drain)]


STARTS = {
    "a gang on whole nodes": (nodes(3), [gang("x", nodes=2)], {"x": ("n1", "n2")}),
    "in order of priority": (nodes(1), [backfill("b", gpus=8), gang("g")], {"g": ("n1",)}),
    "what is left goes to the next": (
        nodes(1),
        [gang("g", gpus=6), backfill("b", gpus=2)],
        {"g": ("n1",), "b": ("n1",)},
    ),
    "a smaller one passes one that does not fit": (
        nodes(1),
        [gang("full", on=["n1"], gpus=7), backfill("b1", gpus=2), backfill("b2", gpus=1)],
        {"b2": ("n1",)},
    ),
    "so does one that is smaller than several that do not": (
        nodes(1),
        [
            gang("full", on=["n1"], gpus=7),
            *(backfill("b1", gpus=2), backfill("b2", gpus=2, grace_s=60.0), backfill("b3", gpus=2, max_run_s=60.0)),
            backfill("small", gpus=1),
        ],
        {"small": ("n1",)},
    ),
    "backfill prefers serving's headroom": (
        [node("n1"), node("v1", serving=True)],
        [backfill("b", gpus=8)],
        {"b": ("v1",)},
    ),
    "then the fullest node": (nodes(2), [gang("g", on=["n2"], gpus=5), backfill("b")], {"b": ("n2",)}),
    "CPUs are a limit like GPUs": ([node("n1", cpus=4)], [gang("x", gpus=1, cpus=5)], {}),
    "memory too": ([node("n1", memory_mib=4)], [gang("x", gpus=1, memory_mib=5)], {}),
}


@pytest.mark.parametrize(("fleet", "workloads", "want"), STARTS.values(), ids=STARTS)
def test_who_starts_where(fleet: list[Node], workloads: list[Workload], want: dict[str, tuple[str, ...]]) -> None:
    assert admitted(decide(state(*fleet, *workloads), policy(), 0.0)) == want


VS = [node("v1", serving=True), node("v2", serving=True)]
PARTS = {"a": (1, shape(1)), "b": (1, shape(0, cpus=1))}
ONE_CLASS = {
    "not on one node of each class": ([node("n1"), VS[0]], backfill("b", nodes=2), {}),
    "on serving's headroom, where that is enough": ([*nodes(2), *VS], backfill("b", nodes=2), {"b": ("v1", "v2")}),
    "on training's, where serving's is not": ([*nodes(2), VS[0]], backfill("b", nodes=2), {"b": ("n1", "n2")}),
    "groups not either, whatever they ask for": ([node("n1"), VS[0]], backfill("b", groups=PARTS), {}),
    "groups on serving's headroom": ([node("n1"), *VS], backfill("b", groups=PARTS), {"b": ("v1", "v2")}),
    "one bundle where it fits best": ([node("n1"), VS[0]], backfill("b"), {"b": ("v1",)}),
}


@pytest.mark.parametrize(("fleet", "asking", "want"), ONE_CLASS.values(), ids=ONE_CLASS)
def test_the_nodes_of_one_workload_are_of_one_class(
    fleet: list[Node], asking: Workload, want: dict[str, tuple[str, ...]]
) -> None:
    """P12."""
    plan = decide(state(*fleet, asking), policy(), 0.0)
    assert admitted(plan) == want
    assert [one.reason for one in plan.waits] == ([] if want else [Reason.TOO_LARGE_FOR_FLEET])


WHY = {
    "one node": (nodes(1), 1, "n1 fits"),
    "one leaf": (nodes(2), 2, "2 nodes fit in s1/l1"),
    "one spine": ([node("n1", at="s1/l1"), node("n2", at="s1/l2")], 2, "2 nodes fit in s1"),
    "no domain": ([node("n1", at="s1/l1"), node("n2", at="s2/l1")], 2, "2 nodes fit in the fleet"),
    "no known place": ([node("n1", at=""), node("n2", at="")], 2, "2 nodes fit in the fleet"),
}


@pytest.mark.parametrize(("fleet", "bundles", "want"), WHY.values(), ids=WHY)
def test_an_admission_says_what_holds_it(fleet: list[Node], bundles: int, want: str) -> None:
    [action] = decide(state(*fleet, gang("x", nodes=bundles)), policy(), 0.0).actions
    assert isinstance(action, Admit)
    assert action.why == want


def test_inside_its_nominal_a_gang_gets_back_what_is_lent() -> None:
    lent = [backfill("v1", team="guest", gpus=8, on=["n1"]), backfill("v2", team="guest", gpus=4, on=["n2"])]
    plan = decide(state(*nodes(2), *lent, gang("x", nodes=2)), LENT, 0.0)
    assert drained(plan) == ["v1", "v2"]
    assert plan.holds == (Hold(node="n2", beneficiary="x", shape=shape(4)),)
    [wait] = plan.waits
    want = (Reason.DRAIN_UNDER_WAY, 2, 0, ("v1", "v2"))
    assert (wait.reason, wait.asked, wait.available, wait.blocked_by) == want


def test_what_is_coming_is_waited_for_without_a_drain() -> None:
    leaving = gang("leaving", team="idle", on=["n1"], phase=Phase.STOPPING)
    plan = decide(state(*nodes(2), leaving, backfill("v", team="guest", gpus=8, on=["n2"]), gang("x")), LENT, 0.0)
    assert (drained(plan), plan.waits[0].reason) == ([], Reason.DRAIN_UNDER_WAY)


def test_what_is_held_for_one_is_not_given_to_the_next() -> None:
    leaving = gang("leaving", team="idle", on=["n1"], phase=Phase.STOPPING)
    plan = decide(state(*nodes(2), leaving, gang("x", nodes=2), backfill("b", team="idle")), LENT, 0.0)
    assert admitted(plan) == {}
    assert {one.workload: one.reason for one in plan.waits} == {"x": Reason.DRAIN_UNDER_WAY, "b": Reason.NO_ROOM}


def test_a_gang_that_borrowers_keep_from_its_quota_drains_them_where_they_are() -> None:
    rules = policy(team("research", nominal=8), team("guest", nominal=8))
    guests = [backfill(f"v{i}", team="guest", gpus=8, on=[f"n{i}"]) for i in (1, 2)]
    plan = decide(state(*nodes(3), *guests, gang("x")), rules, 0.0)
    assert drained(plan) == ["v1"]
    assert plan.holds == (Hold(node="n3", beneficiary="x", shape=shape(8)),)


def test_its_own_backfill_yields_to_a_gang_of_the_team_that_may_not_borrow() -> None:
    rules = policy(team("research", nominal=8, borrowing=0), team("idle", nominal=8))
    plan = decide(state(*nodes(2), backfill("own", gpus=8, on=["n1"]), gang("x")), rules, 0.0)
    assert drained(plan) == ["own"]


def test_the_same_question_is_answered_once() -> None:
    alike = [gang(f"x{i}", submitted_at=float(i)) for i in range(3)]
    plan = decide(state(node("n1"), gang("full", team="idle", on=["n1"]), *alike), LENT, 5.0)
    assert {(one.reason, one.asked, one.available) for one in plan.waits} == {(Reason.NO_ROOM, 1, 0)}
    assert [one.workload for one in plan.waits] == ["x0", "x1", "x2"]


def test_a_drain_under_way_for_one_is_no_answer_for_the_next() -> None:
    guests = [backfill(f"v{i}", team="guest", gpus=8, on=[f"n{i}"]) for i in (1, 2)]
    plan = decide(state(*nodes(2), *guests, gang("x"), gang("y")), LENT, 0.0)
    assert drained(plan) == ["v1", "v2"]


PACKED = {
    "the fullest node that does": (Packing(), ("n3",)),
    "the first that does, where the policy packs so": (Packing(first_fit=True), ("n2",)),
}


@pytest.mark.parametrize(("packing", "want"), PACKED.values(), ids=PACKED)
def test_which_node_is_taken(packing: Packing, want: tuple[str, ...]) -> None:
    """P2, P10."""
    parts = [*nodes(3), gang("full", on=["n1"]), gang("half", gpus=4, on=["n3"]), gang("small", gpus=2)]
    plan = decide(state(*parts), replace(policy(), packing=packing), 0.0)
    assert admitted(plan) == {"small": want}


SPARED = {
    "the fullest, where CPUs do not count": (0, 8, "n1"),
    "where no GPU is left without CPUs, though another is fuller": (4_000, 8, "n2"),
    "where GPUs without CPUs are used up": (16_000, 1, "n3"),
}


@pytest.mark.parametrize(("cpu_milli_per_gpu", "cpus", "want"), SPARED.values(), ids=SPARED)
def test_cpus_that_free_gpus_need_are_spared(cpu_milli_per_gpu: int, cpus: int, want: str) -> None:
    """P13: n1 has 4 GPUs and 16 CPUs, n2 has 6 and 64, n3 has 8 and 100."""
    fleet = [node("n1", gpus=4, cpus=16), node("n2", gpus=6, cpus=64), node("n3", cpus=100)]
    parts = [*fleet, gang("g", gpus=1, cpus=cpus)]
    packing = Packing(cpu_milli_per_gpu=cpu_milli_per_gpu)
    assert admitted(decide(state(*parts), replace(policy(), packing=packing), 0.0)) == {"g": (want,)}


def test_first_fit_too_takes_serving_nodes_first() -> None:
    parts = [node("a"), node("z", serving=True), backfill("b")]
    assert admitted(decide(state(*parts), replace(policy(), packing=Packing(first_fit=True)), 0.0)) == {"b": ("z",)}
