"""An index that follows what changed says what a new look at everything says."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.rooms import Rooms
from fleet_app.engine.values import Shape
from tests.laws.effort import tries
from tests.strategies import fleets, shapes
from tests.virtual import Fleet


@tries(150)
@given(fleet=fleets(), asked=shapes(), changes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=8))
def test_an_index_is_what_a_new_one_would_be(fleet: Fleet, asked: Shape, changes: list[tuple[int, int]]) -> None:
    ledger = Ledger(fleet.state, fleet.policy, fleet.now)
    nodes = list(ledger.nodes.values())
    followed = Rooms(ledger, asked, nodes)
    for what, which in changes:
        change(ledger, nodes[which % len(nodes)].name, what)
        fresh = Rooms(ledger, asked, nodes)
        assert followed.now() == fresh.now()
        assert list(followed.cheapest()) == list(fresh.cheapest())
        assert followed.ever() == fresh.ever() == [node for node in nodes if node in {n for _, n in fresh.cheapest()}]
        assert followed.soon() == fresh.soon()
        assert followed.least() == fresh.least()


@tries(150)
@given(fleet=fleets(), changes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=8))
def test_the_most_gpus_of_a_node_are_what_is_free_what_is_coming_and_what_its_lodgers_have(
    fleet: Fleet, changes: list[tuple[int, int]]
) -> None:
    ledger = Ledger(fleet.state, fleet.policy, fleet.now)
    nodes = list(ledger.nodes)
    for what, which in changes:
        change(ledger, nodes[which % len(nodes)], what)
    want = {
        name: ledger.soon(name).gpus + sum(lodger.shape.gpus for lodger in ledger.lodgers.get(name, ()))
        for name in nodes
    }
    assert ledger.most_gpus == want


@tries(150)
@given(fleet=fleets(), gpus=st.integers(1, 8))
def test_no_lodgers_of_a_node_that_are_enough_lose_less_than_at_least(fleet: Fleet, gpus: int) -> None:
    ledger = Ledger(fleet.state, fleet.policy, fleet.now)
    for node in ledger.nodes:
        here = ledger.lodgers.get(node, [])
        for count in range(1, len(here) + 1):
            for some in combinations(here, count):
                if sum(one.shape.gpus for one in some) >= gpus:
                    priority, lost = ledger.lodgers_of(node).at_least(gpus)
                    assert max(one.priority for one in some) >= priority
                    assert sum(map(ledger.lost_gpu_s, some)) * (1 + 1e-9) >= lost


def change(ledger: Ledger, node: str, what: int) -> None:
    """Do one of the things that a decision does to a node."""
    one = Shape(gpus=1, cpu_milli=1000)
    match what:
        case 0:
            ledger.give("research", (node,), one, firm=True)
        case 1:
            ledger.claim("somebody", "research", (node,), one)
        case 2:
            for lodger in ledger.lodging((node,))[:1]:
                ledger.release_soon(lodger)
        case 3:
            ledger.take_back("serving", node, one)
