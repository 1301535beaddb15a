"""Traffic has fallen and left replicas everywhere: 300 GPUs are free, one to three a node, and they form no node."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fleet_app.engine.compaction import Moved, compact
from fleet_app.engine.fragments import survey
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.workload import Grant, Service
from tests.builders import node, policy, service, state, team

NODES, LEAF = 150, 10
TOTAL_GPUS, FREE_GPUS = 8 * NODES, 300
RULES: Policy = policy(team("serving", nominal=TOTAL_GPUS), team("research", nominal=0))


def free_on(number: int) -> int:
    """Return how many GPUs are free on a node: one, two or three, in turn."""
    return 1 + number % 3


def after_the_peak() -> FleetState:
    """Return 150 serving nodes, on every third a replica of 4 GPUs, the rest of 2 and of 1; one to three GPUs free."""
    nodes = [node(f"n{i:03}", at=f"s{i // 50}/l{i // LEAF:02}", serving=True) for i in range(NODES)]
    large = [f"n{i:03}" for i in range(0, NODES, 3)]
    pairs = [f"n{i:03}" for i in range(NODES) if i % 3]
    used = Counter(dict.fromkeys(large, 4) | dict.fromkeys(pairs, 2))
    small = [f"n{i:03}" for i in range(NODES) for _ in range(8 - free_on(i) - used[f"n{i:03}"])]
    served = (
        service("large", gpus=4, on=large),
        service("pairs", gpus=2, on=pairs),
        service("small", on=small),
    )
    return state(*nodes, *served)


def test_three_hundred_scattered_gpus_become_whole_nodes() -> None:
    before = survey(after_the_peak(), RULES)[0]
    assert (before.free_gpus, before.stranded_gpus, before.whole_nodes) == (FREE_GPUS, FREE_GPUS, 0)
    found = compact(after_the_peak(), RULES, 0.0)
    after = survey(_moved(after_the_peak(), {(move.what, move.grant): move.target for move in found.moves}), RULES)[0]
    assert after.free_gpus == FREE_GPUS
    assert after.stranded_gpus == found.stranded_after_gpus < 0.05 * TOTAL_GPUS
    assert after.whole_nodes == len(found.freed_nodes) >= (FREE_GPUS - 0.05 * TOTAL_GPUS) / 8
    assert {move.kind for move in found.moves} == {Moved.REPLICA}


def test_one_service_moves_after_another_and_a_node_never_gives_and_takes() -> None:
    moves = compact(after_the_peak(), RULES, 0.0).moves
    in_order = [move.what for move in moves]
    assert in_order == sorted(in_order)
    assert not Counter(move.source for move in moves).keys() & {move.target for move in moves}


def _moved(before: FleetState, targets: dict[tuple[str, str], str]) -> FleetState:
    def grant(of: Service, one: Grant) -> Grant:
        return replace(one, node=targets.get((of.name, one.name), one.node))

    services = tuple(replace(each, grants=tuple(grant(each, one) for one in each.grants)) for each in before.services)
    return replace(before, services=services)


def test_a_large_replica_on_every_node_is_no_obstacle() -> None:
    nodes = [node(f"n{i:03}", at=f"s{i // 50}/l{i // LEAF:02}", serving=True) for i in range(NODES)]
    small = [f"n{i:03}" for i in range(NODES) for _ in range(4 - free_on(i))]
    seen = state(*nodes, service("large", gpus=4, on=[one.name for one in nodes]), service("small", on=small))
    found = compact(seen, RULES, 0.0)
    assert found.stranded_before_gpus == FREE_GPUS
    assert found.stranded_after_gpus < 0.05 * TOTAL_GPUS
