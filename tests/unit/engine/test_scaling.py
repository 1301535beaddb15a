"""N4: how many nodes of each class there should be by the time that one asked for now has come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.plan import Plan, Reason, Wait
from fleet_app.engine.policy import Headroom, NodePools
from fleet_app.engine.scaling import asks
from fleet_app.engine.state import FleetState
from tests.builders import backfill, departure, gang, node, policy, service, state

RULES = replace(policy(), node_pools=NodePools(scales=True, gpus_per_node=8))


def waits(name: str, reason: Reason = Reason.NO_ROOM) -> Wait:
    return Wait(workload=name, reason=reason, asked=8, available=0)


TRAINING: dict[str, tuple[FleetState, list[Wait], int]] = {
    "idle nodes are not kept": (state(node("n1"), node("n2")), [], 0),
    "those that work has are": (state(node("n1"), node("n2"), gang(on=["n1"])), [], 1),
    "not for backfill, which lives on what others leave": (state(node("n1"), backfill(on=["n1"])), [], 0),
    "for each bundle that fills a node there is one": (state(gang("a", nodes=3)), [waits("a")], 3),
    "and those that work has stay": (state(node("n1"), gang(on=["n1"]), gang("a", nodes=3)), [waits("a")], 4),
    "also for what the fleet is too small for": (
        state(gang("a", nodes=3)),
        [waits("a", Reason.TOO_LARGE_FOR_FLEET)],
        3,
    ),
    "not for who waits for quota": (state(gang("a", nodes=3)), [waits("a", Reason.QUOTA_USED)], 0),
    "not for a bundle that no node could hold": (state(gang("a", gpus=16)), [waits("a")], 0),
    "small bundles share nodes": (state(gang("a", gpus=4), gang("b", gpus=4)), [waits("a"), waits("b")], 1),
    "but not those of one gang": (state(gang("a", nodes=3, gpus=2)), [waits("a")], 3),
    "nor for backfill that waits": (state(backfill("b")), [waits("b")], 0),
    "a node in use that goes away is replaced": (state(node("n1"), gang(on=["n1"]), departure("n1")), [], 2),
    "an idle one is not": (state(node("n1"), departure("n1")), [], 0),
}

SERVING: dict[str, tuple[FleetState, int | None, int]] = {
    "nothing is wanted": (state(node("v1", serving=True)), None, 0),
    "what is wanted": (state(service(wanted=9, gpus=1)), None, 2),
    "at least the floor": (state(service(wanted=0, floor=9, gpus=1)), None, 2),
    "what may be wanted within a boot": (state(service(wanted=8, gpus=1)), 9, 3),
    "replicas that lie apart keep their nodes": (
        state(*(node(f"v{i}", serving=True) for i in range(3)), service(wanted=3, gpus=1, on=["v0", "v1", "v2"])),
        None,
        3,
    ),
    "one of theirs that goes away is replaced": (
        state(node("v1", serving=True), service(wanted=1, gpus=1, on=["v1"]), departure("v1")),
        None,
        2,
    ),
}


@pytest.mark.parametrize(("facts", "answers", "want"), TRAINING.values(), ids=TRAINING)
def test_nodes_for_training(facts: FleetState, answers: list[Wait], want: int) -> None:
    training, _ = asks(facts, RULES, Plan(answers=tuple(answers)), None)
    assert (training.node_class.value, training.gpus, training.nodes) == ("training", 8, want)


@pytest.mark.parametrize(("facts", "growth", "want"), SERVING.values(), ids=SERVING)
def test_nodes_for_serving(facts: FleetState, growth: int | None, want: int) -> None:
    _, serving = asks(facts, RULES, Plan(), growth)
    assert (serving.node_class.value, serving.gpus, serving.nodes) == ("serving", 8, want)


def test_the_immediate_tier_is_part_of_what_may_be_wanted() -> None:
    rules = replace(RULES, headroom=Headroom(immediate_gpus=10))
    assert [asks(state(), rules, Plan(), growth)[1].nodes for growth in (None, 4, 20)] == [2, 2, 3]


def test_where_nodes_cannot_be_had_nobody_asks() -> None:
    assert asks(state(gang("a")), policy(), Plan(answers=(waits("a"),)), 8) == ()


def test_the_numbers_are_said() -> None:
    training, serving = asks(state(service(wanted=9, gpus=1), gang("a")), RULES, Plan(answers=(waits("a"),)), 3)
    assert training.why == "work has 0 nodes, 1 workloads wait for 1, 0 in use go away"
    assert serving.why == "9 GPUs are wanted and 3 may be within a boot, 0 nodes in use go away"
