"""How free GPUs lie (F1)."""

from __future__ import annotations

import pytest

from fleet_app.engine.fragments import Block, Fit, GangFit, Picture, survey
from fleet_app.engine.plan import Hold
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Condition
from tests.builders import backfill, gang, node, nodes, policy, service, shape, state

COUNTS: dict[str, tuple[FleetState, tuple[int, int, int]]] = {
    "free, stranded, whole: an empty node is whole": (state(node()), (8, 0, 1)),
    "what is free on a node in use is stranded": (state(node(), backfill(on=["n1"], gpus=3)), (5, 5, 0)),
    "a full node has nothing": (state(node(), gang(on=["n1"])), (0, 0, 0)),
    "a replica's grant is in use, taken or not": (state(node(serving=True), service(on=["n1"])), (7, 7, 0)),
    "what somebody uses without leave is in use": (state(node(foreign=shape(1))), (7, 7, 0)),
    "what takes no new work has nothing free": (state(node(condition=Condition.CORDONED)), (0, 0, 0)),
    "a node without GPUs is not whole": (state(node(gpus=0)), (0, 0, 0)),
    "CPUs alone make no node less whole": (state(node(), backfill(on=["n1"], gpus=0, cpus=4)), (8, 0, 1)),
    "an overfull node has nothing, not less": (state(node(gpus=2), gang(on=["n1"])), (0, 0, 0)),
    "a fleet of nothing": (state(), (0, 0, 0)),
}


@pytest.mark.parametrize(("seen", "want"), COUNTS.values(), ids=COUNTS)
def test_counts(seen: FleetState, want: tuple[int, int, int]) -> None:
    fleet = survey(seen, policy())[0]
    assert (fleet.free_gpus, fleet.stranded_gpus, fleet.whole_nodes) == want


def test_what_is_held_for_somebody_is_not_free() -> None:
    holds = [Hold(node="n1", beneficiary="llm", shape=shape(2)), Hold(node="gone", beneficiary="llm", shape=shape(2))]
    fleet = survey(state(*nodes(2)), policy(), holds)[0]
    assert (fleet.free_gpus, fleet.stranded_gpus, fleet.whole_nodes) == (14, 6, 1)


def test_each_class_has_a_picture_of_its_own() -> None:
    seen = state(node("n1"), node("n2", serving=True), service(on=["n2"], gpus=2))
    found = [
        (each.part, each.nodes, each.total_gpus, each.free_gpus, each.stranded_gpus) for each in survey(seen, policy())
    ]
    assert found == [("fleet", 2, 16, 14, 6), ("serving", 1, 8, 6, 6), ("training", 1, 8, 8, 0)]


def test_bundles_fit_node_by_node() -> None:
    seen = state(*nodes(3), backfill("a", on=["n1"], gpus=5), backfill("b", on=["n2"], gpus=2))
    assert survey(seen, policy())[0].fits == (
        Fit(gpus=1, bundles=17),
        Fit(gpus=2, bundles=8),
        Fit(gpus=4, bundles=3),
        Fit(gpus=8, bundles=1),
    )


def blocks(picture: Picture) -> dict[str, tuple[str, int, list[int]]]:
    """Return by level the domain with the largest block, its nodes, and the gangs of 1, 2, 4 and so on nodes."""
    return {each.level: (each.domain, each.nodes, [fit.gangs for fit in each.gangs]) for each in picture.blocks}


def test_gangs_of_whole_nodes_fit_domain_by_domain() -> None:
    seen = state(
        *nodes(3, prefix="a", at="s1/l1"), *nodes(2, prefix="b", at="s1/l2"), *nodes(4, prefix="c", at="s2/l1")
    )
    assert blocks(survey(seen, policy())[0]) == {
        "fleet": ("fleet", 9, [9, 4, 2, 1]),
        "spine": ("s1", 5, [9, 4, 2]),
        "leaf": ("s2/l1", 4, [9, 4, 1]),
    }


def test_a_block_is_of_one_accelerator_and_driver_and_of_a_known_place() -> None:
    seen = state(
        node("n1", accelerator="h100"),
        node("n2", accelerator="a100"),
        node("n3", accelerator="a100", driver="560"),
        node("n4", accelerator="h100", at="s1"),
    )
    assert blocks(survey(seen, policy())[0]) == {
        "fleet": ("fleet", 2, [4, 1]),
        "spine": ("s1", 2, [4, 1]),
        "leaf": ("s1/l1", 1, [3]),
    }


def test_a_full_fleet_has_no_block() -> None:
    found = survey(state(node(), gang(on=["n1"])), policy(levels=("leaf",)))[0].blocks
    assert found == (Block(level="fleet", domain="", nodes=0), Block(level="leaf", domain="", nodes=0))


def test_a_size_that_fits_nowhere_is_not_listed() -> None:
    assert survey(state(node()), policy(levels=()))[0].blocks[0].gangs == (GangFit(nodes=1, gangs=1),)
