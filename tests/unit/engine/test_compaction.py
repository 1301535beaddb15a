"""What to move so that more nodes become whole (F2 to F4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.calendar import Booking
from fleet_app.engine.compaction import Compaction, compact
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Hold
from fleet_app.engine.policy import Affinity, Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, booking, gang, grant, node, nodes, policy, service, shape, state, team

ROOMY = policy(team("research", nominal=64), team("serving", nominal=64), levels=("spine", "leaf"))


def serving(count: int) -> tuple[Node, ...]:
    return nodes(count, serving=True)


def moves(found: Compaction) -> list[str]:
    return [f"{move.kind} of {move.what}: {move.source} to {move.target}" for move in found.moves]


def chat(*on: str, **more: object) -> Service:
    return service("chat", on=on, **more)  # type: ignore[arg-type]  # a test's keywords


APART = replace(service("other"), affinity=Affinity(service="other", apart_from=("chat",)))

CASES: dict[str, tuple[list[Node | Workload | Service | Booking], list[str]]] = {
    "two nodes with a replica each become one": (
        [*serving(2), chat("n1", "n2")],
        ["replica of chat: n1 to n2"],
    ),
    "an idle grant moves like a replica": (
        [*serving(2), chat("n2", "n2", grants=[grant("idle", node="n1", occupied=False)])],
        ["idle grant of chat: n1 to n2"],
    ),
    "nothing moves to a node that is booked": (
        [*nodes(2), backfill("a", on=["n1"]), backfill("b", on=["n2"]), booking("run", "n1")],
        ["job of a: n1 to n2"],
    ),
    "nor to one that is about to be serviced": (
        [*serving(2), chat("n1", "n2"), booking("shut", "n1", "n2", team=None)],
        [],
    ),
    "a whole node is left whole": ([*serving(2), chat("n1")], []),
    "the node with the fewest moves is emptied": (
        [*serving(2), chat("n1", "n1", "n2")],
        ["replica of chat: n2 to n1"],
    ),
    "what moves goes to the fullest node that has room": (
        [*serving(4), chat(*["n1"] * 6, *["n2"] * 7, "n3", *["n4"] * 8)],
        ["replica of chat: n3 to n2"],
    ),
    "what moves goes first where nothing can be emptied": (
        [*serving(3), gang("firm", on=["n1"], gpus=2), chat("n2", *["n3"] * 4)],
        [*["replica of chat: n2 to n1"], *["replica of chat: n3 to n1"] * 4],
    ),
    "a node that cannot be emptied whole is left as it is": (
        [*serving(2), chat(*["n1"] * 5, *["n2"] * 5)],
        [],
    ),
    "a replica fits by shape, not by count": (
        [*serving(3), *(gang(f"firm-{on}", on=[on], gpus=5) for on in ("n2", "n3")), service("big", gpus=4, on=["n1"])],
        [],
    ),
    "where it finds no room, smaller things make room for it first": (
        [*serving(4), service("big", gpus=4, on=["n1", "n2"]), chat("n1", "n2", *["n3"] * 7, *["n4"] * 7)],
        ["replica of chat: n2 to n4", "replica of big: n1 to n2", "replica of chat: n1 to n3"],
    ),
    "one thing makes room where one is enough": (
        [
            *serving(3),
            *(gang(f"firm-{on}", on=[on], gpus=gpus) for on, gpus in (("n2", 2), ("n3", 6))),
            service("big", gpus=4, on=["n1"]),
            service("pair", gpus=2, on=["n2"]),
            chat("n2", "n2"),
        ],
        ["replica of pair: n2 to n3", "replica of big: n1 to n2"],
    ),
    "what makes room is spared where another thing makes enough of everything": (
        [
            node("n1", serving=True, memory_mib=100),
            node("n2", serving=True, memory_mib=10),
            node("n3", serving=True, memory_mib=10),
            *(gang(f"firm-{on}", on=[on], gpus=gpus) for on, gpus in (("n2", 2), ("n3", 5))),
            service("big", gpus=4, memory_mib=8, on=["n1"]),
            service("broad", gpus=2, on=["n2"]),
            service("deep", gpus=1, memory_mib=8, on=["n2"]),
        ],
        ["replica of deep: n2 to n3", "replica of big: n1 to n2"],
    ),
    "no room is made by emptying the node that was to take it": (
        [
            node("n1", serving=True),
            node("n2", gpus=6, serving=True),
            node("n3", serving=True),
            gang("firm", on=["n3"], gpus=5),
            service("big", gpus=4, on=["n1"]),
            service("three", gpus=3, on=["n2"]),
        ],
        ["replica of three: n2 to n3"],
    ),
    "memory counts as well as GPUs": (
        [node("n1", serving=True), node("n2", serving=True, memory_mib=10), chat("n1", "n2", memory_mib=6)],
        ["replica of chat: n2 to n1"],
    ),
    "committed work never moves": ([*nodes(2), gang("a", on=["n1"], gpus=1), gang("b", on=["n2"], gpus=1)], []),
    "a job that yields moves": (
        [*nodes(2), gang("firm", on=["n1"], gpus=1), backfill("b", on=["n2"])],
        ["job of b: n2 to n1"],
    ),
    "a job that yields goes to serving's headroom too": (
        [node("n1"), *nodes(1, first=2, serving=True), backfill("b", on=["n1"]), chat("n2", "n2")],
        ["job of b: n1 to n2"],
    ),
    "a job that broke the contract does not": (
        [
            *nodes(1),
            *nodes(1, first=2, serving=True),
            backfill("b", on=["n1"], broken_drains=3),
            chat("n2", spread=True),
        ],
        [],
    ),
    "a replica never goes to training's nodes": (
        [*nodes(1), *nodes(1, first=2, serving=True), chat("n2"), gang("firm", on=["n1"], gpus=1)],
        [],
    ),
    "a job of several bundles stays": (
        [*nodes(3), gang("firm", on=["n1"], gpus=1), backfill("b", on=["n2", "n3"])],
        [],
    ),
    "what is leaving stays": (
        [*nodes(2), gang("firm", on=["n1"], gpus=1), backfill("b", on=["n2"], phase=Phase.DRAINING, deadline_at=9.0)],
        [],
    ),
    "what has not started stays": (
        [*nodes(2), gang("firm", on=["n1"], gpus=1), backfill("b", on=["n2"], phase=Phase.ADMITTED)],
        [],
    ),
    "a service that asks to be apart stays": (
        [*serving(2), replace(chat("n1", "n2"), affinity=Affinity(service="chat", per_node=1))],
        [],
    ),
    "and whom it is to be apart from": (
        [
            *serving(2),
            chat("n1", "n2"),
            replace(service("other"), affinity=Affinity(service="other", apart_from=("chat",))),
        ],
        [],
    ),
    "a service that is spread stays spread": ([*serving(2), chat("n1", "n2", spread=True)], []),
    "what somebody uses without leave keeps a node from being emptied": (
        [node("n1", serving=True, foreign=shape(1)), node("n2", serving=True, foreign=shape(1)), chat("n1", "n2")],
        [],
    ),
    "a node that takes nothing new is no place to go, and not worth emptying": (
        [node("n1", serving=True), node("n2", serving=True, condition=Condition.CORDONED), chat("n1", "n2")],
        [],
    ),
    "a job's accelerator is kept": (
        [
            node("n1", accelerator="a100"),
            node("n2", accelerator="h100"),
            gang("firm", on=["n1"], gpus=1),
            backfill("b", on=["n2"], accelerator="h100"),
        ],
        [],
    ),
    "a job that lost the least work moves": (
        [*nodes(2), backfill("old", on=["n1"], saved_at=10.0), backfill("new", on=["n2"], saved_at=90.0)],
        ["job of new: n2 to n1"],
    ),
    "of equal nodes the one next to whole nodes is emptied": (
        [node("n1", at="s1/l1", serving=True), *nodes(2, prefix="m", at="s1/l2", serving=True), chat("n1", "m1")],
        ["replica of chat: m1 to n1"],
    ),
    "one service after another, what is cheapest first": (
        [
            *serving(3),
            gang("firm", on=["n3"], gpus=1),
            chat("n1", "n2"),
            service("act", on=["n2"]),
            backfill("b", on=["n1"]),
            service("idle", grants=[grant("i", node="n1", occupied=False)]),
        ],
        [
            "idle grant of idle: n1 to n3",
            "replica of act: n2 to n3",
            "replica of chat: n1 to n3",
            "replica of chat: n2 to n3",
            "job of b: n1 to n3",
        ],
    ),
}


@pytest.mark.parametrize(("parts", "want"), CASES.values(), ids=CASES)
def test_moves(parts: list[Node | Workload | Service], want: list[str]) -> None:
    assert moves(compact(state(*parts), ROOMY, 100.0)) == want


def small(nominal: int) -> Policy:
    return policy(team("serving", nominal=nominal), team("research"))


def test_a_replica_moves_only_when_both_fit_into_its_team_s_nominal() -> None:
    seen = state(*serving(2), chat("n1", "n2"))
    assert moves(compact(seen, small(2), 0.0)) == []
    assert len(moves(compact(seen, small(3), 0.0))) == 1


def test_an_idle_grant_needs_no_second_place_in_the_nominal() -> None:
    idle = service("chat", grants=[grant("a", node="n1", occupied=False), grant("b", node="n2", occupied=False)])
    assert len(moves(compact(state(*serving(2), idle), small(2), 0.0))) == 1


def test_what_is_held_for_somebody_is_no_room_and_no_whole_node() -> None:
    holds = [Hold(node="n2", beneficiary="llm", shape=shape(7))]
    found = compact(state(*serving(2), chat("n1", "n2")), ROOMY, 0.0, holds)
    assert (found.moves, found.whole_nodes_before) == ((), 0)


@pytest.mark.parametrize(("most", "freed"), [(0, 0), (1, 1), (2, 2), (None, 3)])
def test_no_more_nodes_are_emptied_than_asked_for(most: int | None, freed: int) -> None:
    found = compact(state(*serving(5), chat("n1", "n2", "n3", "n4")), ROOMY, 0.0, (), most)
    assert (len(found.freed_nodes), len(found.moves), found.whole_nodes_before) == (freed, freed, 1)
    assert found.stranded_after_gpus == found.stranded_before_gpus - 8 * freed


MORE = {
    "more nodes, though that takes more steps": (
        6,
        [5, 5, 3, 3, 3, 4, 1],
        ["n3", "n6", "n4", "n4", "n2", "n5", "n2"],
        2,
    ),
    "one where there is no more": (2, [5, 3], ["n1", "n2"], 1),
}


@pytest.mark.parametrize(("count", "gpus", "on", "want"), MORE.values(), ids=MORE)
def test_of_two_ways_the_one_that_empties_more(count: int, gpus: list[int], on: list[str], want: int) -> None:
    sizes = {size: [where for each, where in zip(gpus, on, strict=True) if each == size] for size in gpus}
    there = [service(f"of-{size}", gpus=size, wanted=len(nodes), on=nodes) for size, nodes in sizes.items()]
    assert len(compact(state(*serving(count), *there), ROOMY, 0.0).freed_nodes) == want


def test_the_plan_says_what_it_frees_and_what_it_loses() -> None:
    seen: FleetState = state(
        *nodes(2), gang("firm", on=["n1"], gpus=1), backfill("b", on=["n2"], gpus=2, saved_at=90.0)
    )
    found = compact(seen, ROOMY, 100.0)
    assert (found.freed_nodes, found.stranded_before_gpus, found.stranded_after_gpus) == (("n2",), 13, 5)
    assert found.lost_gpu_s == 2 * (10.0 + 60.0)
    assert found.moves[0].why == "empties n2"
