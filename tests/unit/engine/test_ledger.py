"""The books of one decision: free and coming room, quota now and soon, who may be asked to leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Hold
from fleet_app.engine.policy import Boundary, FlavorQuota, Policy
from fleet_app.engine.values import Node, Shape
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, crossing, gang, grant, node, policy, service, shape, state, team

CPUS = {"cpus": 0, "memory_mib": 0}


def ledger(*parts: Node | Workload | Service, rules: Policy | None = None, now: float = 100.0) -> Ledger:
    """Return the books of a fleet whose nodes have GPUs only, unless said otherwise."""
    return Ledger(state(*parts), rules or policy(), now)


N1 = node("n1", **CPUS)

FREE = {
    "an empty node is free": ([N1], 8, 8),
    "foreign use is not": ([node("n1", foreign=shape(3), **CPUS)], 5, 5),
    "what runs is not": ([N1, gang(on=["n1"], gpus=6)], 2, 2),
    "what is about to start is not": ([N1, gang(on=["n1"], gpus=6, phase=Phase.ADMITTED)], 2, 2),
    "what drains is not, but soon": ([N1, gang(on=["n1"], gpus=6, phase=Phase.DRAINING, deadline_at=9.0)], 2, 8),
    "what moves is neither, for who knows when (D6)": ([N1, gang(on=["n1"], gpus=6, phase=Phase.DRAINING)], 2, 2),
    "what was cancelled is not, but soon": ([N1, gang(on=["n1"], gpus=6, phase=Phase.STOPPING)], 2, 8),
    "what waits takes nothing": ([N1, gang(gpus=6)], 8, 8),
    "a replica has its room": ([N1, service(gpus=3, on=["n1"])], 5, 5),
    "an idle grant is kept": ([N1, service(gpus=3, grants=[grant(node="n1", occupied=False)])], 5, 5),
}


@pytest.mark.parametrize(("parts", "free", "soon"), FREE.values(), ids=FREE)
def test_room(parts: list[Node | Workload | Service], free: int, soon: int) -> None:
    books = ledger(*parts)
    assert (books.free["n1"].gpus, books.soon("n1").gpus) == (free, soon)


def test_what_is_on_no_known_node_is_charged_all_the_same() -> None:
    books = ledger(N1, gang(on=["gone"]))
    assert books.free["n1"].gpus == 8
    assert books.available("research") == 64 + 64 - 8


def test_a_claim_holds_what_is_free_and_takes_the_rest_of_what_is_coming() -> None:
    books = ledger(N1, gang("old", on=["n1"], gpus=6, phase=Phase.DRAINING, deadline_at=9.0))
    books.claim("new", "research", ["n1"], shape(7))
    assert books.holds == [Hold(node="n1", beneficiary="new", shape=shape(2))]
    assert (books.free["n1"].gpus, books.soon("n1").gpus) == (0, 1)


def test_a_claim_on_nothing_free_holds_nothing() -> None:
    books = ledger(N1, gang("old", on=["n1"], phase=Phase.DRAINING, deadline_at=9.0))
    books.claim("new", "research", ["n1"], shape(8))
    assert books.holds == []


def test_a_claim_leaves_to_others_only_what_will_be_left() -> None:
    teams = policy(team("a", nominal=8), team("b", nominal=8))
    leaving = gang("old", team="a", on=["n1"], phase=Phase.DRAINING, deadline_at=9.0)
    books = ledger(N1, node("n2"), leaving, rules=teams)
    books.claim("new", "a", ["n1"], shape(8))
    assert (books.available("b"), books.available_soon("b"), books.firm_left("a")) == (8, 8, -8)
    books.claim("newer", "b", ["n2"], shape(4))
    assert books.available("b") == 4


def test_who_leaves_counts_as_coming_and_can_not_be_asked_again() -> None:
    lodger = backfill("lodger", on=["n1"], gpus=4)
    books = ledger(N1, lodger)
    assert [one.name for one in books.lodging(["n1", "n2"])] == ["lodger"]
    books.release_soon(lodger)
    assert books.lodging(["n1"]) == []
    assert (books.free["n1"].gpus, books.soon("n1").gpus, books.most_gpus["n1"]) == (4, 8, 8)
    assert (books.used["research"], books.used_soon["research"]) == (4, 0)


def test_what_could_not_be_asked_is_more_than_could_be_hoped_for_once_it_leaves() -> None:
    firm = gang("firm", on=["n1"], gpus=6)
    books = ledger(N1, firm)
    assert books.most_gpus["n1"] == 2
    books.release_soon(firm)
    assert books.most_gpus["n1"] == 8


LEAST = {
    "none of theirs, and still one has to leave": (0, (5, 120.0)),
    "less than one has": (1, (5, 120.0)),
    "all that the cheapest has": (2, (5, 120.0)),
    "a part of the next one's": (3, (5, 120.0 + 100.0)),
    "all that two have": (4, (5, 120.0 + 200.0)),
    "more than is there without any one of them": (5, (9, 120.0 + 200.0 + 400.0)),
}


@pytest.mark.parametrize(("gpus", "want"), LEAST.values(), ids=LEAST)
def test_what_lodgers_lose_at_least(gpus: int, want: tuple[int, float]) -> None:
    lodgers = [
        backfill("dear", on=["n1"], gpus=2, saved_at=-40.0, priority=9),
        backfill("cheap", on=["n1"], gpus=2, saved_at=100.0, priority=5),
        backfill("next", on=["n1"], gpus=2, saved_at=60.0, priority=5),
    ]
    assert ledger(N1, *lodgers).lodgers_of("n1").at_least(gpus) == want


@pytest.mark.parametrize(
    "told", [{"phase": Phase.DRAINING, "deadline_at": 9.0}, {"phase": Phase.STOPPING}, {"killed": True}]
)
def test_who_was_told_to_end_is_no_lodger(told: dict[str, object]) -> None:
    books = ledger(N1, replace(backfill("lodger", on=["n1"]), **told))
    assert books.lodging(["n1"]) == []
    assert books.soon("n1").gpus == 8


def test_taking_back_a_grant_frees_its_room_and_quota_soon() -> None:
    books = ledger(N1, service(gpus=3, grants=[grant(node="n1", occupied=False)]))
    books.take_back("serving", "n1", shape(3))
    assert (books.free["n1"].gpus, books.soon("n1").gpus, books.replicas["n1"]) == (5, 8, 0)
    assert books.firm_left("serving") == 64


def test_firm_left_is_nominal_without_what_never_yields() -> None:
    books = ledger(N1, gang(on=["n1"], gpus=3), backfill(on=["n1"], gpus=2))
    assert books.firm_left("research") == 61
    books.booked["research"].append(gang("ahead", nodes=2))
    assert books.firm_left_behind("research") == 45


def test_what_a_team_borrows() -> None:
    books = ledger(N1, backfill(on=["n1"], gpus=5), rules=policy(team("research", nominal=3), team("serving")))
    assert books.borrowed("research") == 2


LOST = {
    "work since the last checkpoint and a restart": (backfill(gpus=2, on=["n1"], saved_at=70.0), 2 * (30.0 + 60.0)),
    "without one, work since the start": (backfill(gpus=1, on=["n1"], started_at=40.0), 60.0 + 60.0),
    "on every GPU": (backfill(gpus=2, on=["n1", "n2"], saved_at=100.0), 4 * 60.0),
    "a clock that was ahead loses nothing": (backfill(gpus=1, on=["n1"], saved_at=500.0), 60.0),
    "what has not started and saved nothing loses a restart": (
        replace(backfill(gpus=1, on=["n1"], phase=Phase.ADMITTED), saved_at=None),
        60.0,
    ),
    "what has not started loses what it did since it saved": (
        backfill(gpus=1, on=["n1"], phase=Phase.ADMITTED, saved_at=None),
        160.0,
    ),
}


@pytest.mark.parametrize(("victim", "want"), LOST.values(), ids=LOST)
def test_lost_gpu_seconds(victim: Workload, want: float) -> None:
    assert ledger().lost_gpu_s(victim) == want


def test_nominal_goes_along_with_a_node_that_crossed() -> None:
    """B4."""
    rules = replace(policy(), boundary=Boundary(serving="serving", training="research"))
    books = Ledger(state(N1, crossing("n1", moved_at=50.0)), rules, 100.0)
    assert [books.tree.nominal(name) for name in ("serving", "research")] == [72, 56]


def test_nodes_come_in_the_order_of_the_fabric() -> None:
    books = ledger(node("z", at="s1/l1"), node("a", at="s1/l2"), node("b", at="s1/l1"))
    assert [one.name for one in books.placeable()] == ["b", "z", "a"]


def test_holds_never_have_parts_below_nothing() -> None:
    books = ledger(node("n1", gpus=4, foreign=Shape(cpu_milli=70_000)), gang("old", gpus=2, on=["n1"]))
    books.claim("new", "research", ["n1"], shape(2))
    assert books.holds == [Hold(node="n1", beneficiary="new", shape=shape(2))]


READY = {
    "what fits now": (2, 100.0),
    "what the first to leave makes room for": (4, 110.0),
    "what needs both of them": (6, 150.0),
}


@pytest.mark.parametrize(("gpus", "want"), READY.values(), ids=READY)
def test_ready_at(gpus: int, want: float) -> None:
    leaving = [
        gang(f"g{at}", gpus=count, on=["n1"], phase=Phase.STOPPING, deadline_at=float(at))
        for count, at in ((3, 110), (3, 150))
    ]
    assert Ledger(state(node("n1"), *leaving), policy(), 100.0).ready_at("n1", shape(gpus)) == want


def test_what_a_grant_that_is_taken_back_had_is_ready_now() -> None:
    """S5: the grant is idle, so nobody is waited for."""
    books = ledger(N1, service(gpus=3, grants=[grant(node="n1", occupied=False)]))
    books.take_back("serving", "n1", shape(3))
    assert books.ready_at("n1", shape(8, cpus=0)) == 100.0


def test_under_its_cap_a_team_has_what_it_gives_back_until_that_has_left() -> None:
    """V9."""
    own = replace(team("serving"), flavors=(FlavorQuota(flavor="h100-whole", nominal=4),))
    there = [node("n1", accelerator="H100"), service(gpus=3, grants=[grant(node="n1", occupied=False)])]
    books = ledger(*there, rules=policy(own))
    assert books.caps is not None
    books.take_back("serving", "n1", shape(3))
    assert (books.caps.left("serving", "H100"), books.caps.short("serving", "H100", 4)) == (1, {})


def test_what_is_given_on_no_known_node_is_charged_all_the_same() -> None:
    books = ledger(N1)
    books.give("research", ["n1", "gone"], shape(4), firm=True)
    assert (books.free["n1"].gpus, books.firm_left("research")) == (4, 56)
