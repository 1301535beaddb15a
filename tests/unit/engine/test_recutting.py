"""V7 and V8: which cards get another layout, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from fleet_app.engine.calendar import Booking
from fleet_app.engine.cards import Card
from fleet_app.engine.decide import decide
from fleet_app.engine.plan import Plan, Reason, Repartition
from fleet_app.engine.policy import Policy, Slicing
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Workload
from tests import virtual
from tests.builders import backfill, cards, gang, node, part, policy, service, shape, sliced, state, team

SEVENTHS = ("1g.10gb",) * 7
HALVES = ("3g.40gb", "3g.40gb")
RULES = policy(slicing=Slicing(repartition=True, settle_s=100.0, whole_nodes=False))
TOGETHER = policy(slicing=Slicing(repartition=True, settle_s=100.0))
CHAT = service("chat", gpus=0, slice=part(profile="1g.10gb"), wanted=1)


def small(name: str, *layouts: Sequence[str], idle_since: float | None = 0.0, serving: bool = True) -> Node:
    """Return a node of serving's with these cards; empty layouts are whole GPUs."""
    gpus = sum(not layout for layout in layouts)
    found = cards(*layouts, idle_since=idle_since)
    return node(name, gpus=gpus, cards=found, accelerator="h100", serving=serving)


def changes(plan: Plan) -> dict[tuple[str, int], tuple[str, ...]]:
    return {(one.node, one.card): one.layout for one in plan.actions if isinstance(one, Repartition)}


def of_cards(*found: Card, gpus: int) -> Node:
    return node("n1", gpus=gpus, cards=found, accelerator="h100", serving=True)


BUSY = Card(index=0, busy=True)

CASES: dict[str, tuple[list[object], Policy, float, dict[tuple[str, int], tuple[str, ...]]]] = {
    "a whole card that is free is cut for a replica that waits": (
        [small("n1", ()), CHAT],
        RULES,
        0.0,
        {("n1", 0): SEVENTHS},
    ),
    "nothing changes on a node that takes nothing new": (
        [replace(small("n1", SEVENTHS), condition=Condition.CORDONED)],
        RULES,
        500.0,
        {},
    ),
    "one after another: who comes first may have another card than who has only one": (
        [
            small("n1", (), serving=False),
            node("n2", gpus=1, cards=cards(()), accelerator="a100"),
            sliced("first", share=0.9, submitted_at=1.0),
            sliced("then", share=0.5, submitted_at=2.0, accelerator="a100"),
        ],
        RULES,
        0.0,
        {("n1", 0): ("shared",), ("n2", 0): ("shared",)},
    ),
    "not where the policy does not say so": ([small("n1", ()), CHAT], policy(slicing=Slicing()), 0.0, {}),
    "not one that whole work is on": (
        [node("n1", gpus=1, cards=[BUSY], accelerator="h100", serving=True), CHAT],
        RULES,
        0.0,
        {},
    ),
    "not on training's nodes for a replica": ([small("n1", (), serving=False), CHAT], RULES, 0.0, {}),
    "though one of serving's is there, whose card is in use": (
        [
            small("n1", (), serving=False),
            node("n2", gpus=1, cards=[BUSY], accelerator="h100", serving=True),
            CHAT,
        ],
        RULES,
        0.0,
        {},
    ),
    "not for a partition that the card cannot have": (
        [small("n1", ()), replace(CHAT, slice=part(profile="1g.18gb"))],
        RULES,
        0.0,
        {},
    ),
    "not on a node that takes nothing new": (
        [replace(small("n1", ()), condition=Condition.CORDONED), CHAT],
        RULES,
        0.0,
        {},
    ),
    "not for a team that has no quota for it": (
        [small("n1", ()), CHAT],
        replace(RULES, quotas=(team("serving", nominal=0, parent=None),)),
        0.0,
        {},
    ),
    "not while a card of that layout has room": ([small("n1", (), SEVENTHS), CHAT], RULES, 0.0, {}),
    "a card that is cut otherwise, once it has been empty for long enough": (
        [small("n1", HALVES, ()), CHAT],
        RULES,
        100.0,
        {("n1", 0): SEVENTHS},
    ),
    "and until then a whole one": ([small("n1", HALVES, ()), CHAT], RULES, 99.0, {("n1", 1): SEVENTHS}),
    "not one of which nobody knows how long it has been empty": (
        [small("n1", HALVES, idle_since=None), CHAT],
        RULES,
        1e6,
        {},
    ),
    "a share makes a shared card": (
        [small("n1", ()), replace(CHAT, slice=part(share=0.5))],
        RULES,
        0.0,
        {("n1", 0): ("shared",)},
    ),
    "the node with the fewest GPUs left is broken into first": (
        [small("n1", (), ()), small("n2", ()), CHAT],
        RULES,
        0.0,
        {("n2", 0): SEVENTHS},
    ),
    "one card for all that fit on it": (
        [small("n1", (), (), serving=False), *(sliced(f"j{i}", profile="1g.10gb") for i in range(7))],
        RULES,
        0.0,
        {("n1", 0): SEVENTHS},
    ),
    "for whom no card can be cut keeps nobody else from one": (
        [
            small("n1", (), serving=False),
            node("v1", gpus=1, cards=[BUSY], accelerator="h100", serving=True),
            CHAT,
            sliced("job", profile="1g.10gb"),
        ],
        RULES,
        0.0,
        {("n1", 0): SEVENTHS},
    ),
    "two for more": (
        [small("n1", (), (), serving=False), *(sliced(f"j{i}", profile="1g.10gb") for i in range(8))],
        RULES,
        0.0,
        {("n1", 0): SEVENTHS, ("n1", 1): SEVENTHS},
    ),
    "nothing more while one is being cut for it": (
        [
            node(
                "n1", gpus=1, cards=[Card(index=0, becomes=SEVENTHS), Card(index=1)], accelerator="h100", serving=True
            ),
            CHAT,
        ],
        RULES,
        0.0,
        {},
    ),
    "an empty one that nobody asks for is whole again, in time": (
        [small("n1", SEVENTHS, ("shared",))],
        RULES,
        100.0,
        {("n1", 0): (), ("n1", 1): ()},
    ),
    "and not before": ([small("n1", SEVENTHS)], RULES, 99.0, {}),
    "nor one that somebody is on": (
        [small("n1", SEVENTHS, serving=False), sliced("job", profile="1g.10gb", on=("n1", 0))],
        RULES,
        1e6,
        {},
    ),
    "nor one that others use": (
        [node("n1", gpus=0, cards=[Card(index=0, layout=("shared",), foreign=(part(share=0.1),), idle_since=0.0)])],
        RULES,
        1e6,
        {},
    ),
    "where cards change together, all of a node": (
        [small("n1", (), ()), CHAT],
        TOGETHER,
        0.0,
        {("n1", 0): SEVENTHS, ("n1", 1): SEVENTHS},
    ),
    "to partitions of one profile, whatever else waits": (
        [
            small("n1", (), serving=False),
            sliced("first", profile="1g.10gb"),
            sliced("second", profile="3g.40gb"),
        ],
        TOGETHER,
        0.0,
        {("n1", 0): SEVENTHS},
    ),
    "each of two nodes for another profile": (
        [
            small("n1", (), serving=False),
            small("n2", (), serving=False),
            sliced("first", profile="1g.10gb"),
            sliced("second", profile="3g.40gb"),
        ],
        TOGETHER,
        0.0,
        {("n1", 0): SEVENTHS, ("n2", 0): HALVES},
    ),
    "not a node of which one card is in use": (
        [small("n1", (), (), serving=False), backfill("whole", gpus=1, on=["n1"]), sliced("job", profile="1g.10gb")],
        TOGETHER,
        0.0,
        {},
    ),
    "but for a card that is cut like that already": (
        [small("n1", SEVENTHS, ()), *(replace(CHAT, name=f"s{i}", wanted=4) for i in range(2))],
        RULES,
        0.0,
        {("n1", 1): SEVENTHS},
    ),
    "and all of a node are whole again at once": (
        [small("n1", SEVENTHS, ("shared",))],
        TOGETHER,
        100.0,
        {("n1", 0): (), ("n1", 1): ()},
    ),
    "or none is": (
        [small("n1", SEVENTHS, SEVENTHS, serving=False), sliced("job", profile="1g.10gb", on=("n1", 0))],
        TOGETHER,
        1e6,
        {},
    ),
}


@pytest.mark.parametrize(("parts", "rules", "now", "want"), CASES.values(), ids=CASES)
def test_layouts(parts: list[object], rules: Policy, now: float, want: dict[tuple[str, int], tuple[str, ...]]) -> None:
    assert changes(decide(state(*parts), rules, now)) == want  # type: ignore[arg-type]  # facts of a case


def test_who_waits_for_a_card_to_be_cut_is_told_so() -> None:
    plan = decide(state(small("n1", ()), CHAT), RULES, 0.0)
    assert [(wait.workload, wait.reason) for wait in plan.waits] == [("chat", Reason.REPARTITION_UNDER_WAY)]
    again = decide(virtual.carried_out(virtual.fleet(RULES, small("n1", ()), CHAT), plan).state, RULES, 1.0)
    assert again.actions == ()
    assert [(wait.workload, wait.reason) for wait in again.waits] == [("chat", Reason.REPARTITION_UNDER_WAY)]


def test_no_card_is_cut_on_a_node_that_is_kept_for_a_gang() -> None:
    """V7: neither one that a gang has reserved, nor one where its room is held until the rest has come."""
    running = gang("old", gpus=1, on=["n1"], team="gone")
    keeps = [small("n1", (), (), serving=False), running, gang("large", gpus=2), sliced("job", profile="1g.10gb")]
    assert changes(decide(state(*keeps), RULES, 0.0)) == {}
    victim = backfill("victim", gpus=1, on=["n1"])
    held = [small("n1", (), (), serving=False), victim, gang("large", gpus=2), sliced("job", profile="1g.10gb")]
    assert changes(decide(state(*held), RULES, 0.0)) == {}


def test_no_card_is_cut_on_a_node_that_is_booked() -> None:
    booking = Booking(name="b", team="research", shape=shape(2), nodes=("n1",), start_at=50.0, end_at=90.0)
    facts = state(small("n1", (), serving=False), sliced("job", profile="1g.10gb"))
    assert changes(decide(replace(facts, bookings=(booking,)), RULES, 0.0)) == {}
    assert changes(decide(replace(facts, bookings=(booking,)), RULES, 90.0)) == {("n1", 0): SEVENTHS}


def test_layouts_do_not_flap_between_two_that_ask() -> None:
    """V7: one card, two profiles, one that always asks again: each change takes as long as the policy says."""
    fleet = virtual.fleet(RULES, small("n1", (), serving=False))
    told: list[float] = []
    for turn in range(40):
        asked: Workload = sliced(f"j{turn}", profile="1g.10gb" if turn % 2 else "3g.40gb")
        fleet = virtual.submitted(fleet, asked)
        plan = virtual.plan_of(fleet)
        told += [fleet.now for _ in changes(plan)]
        fleet = virtual.later(virtual.started(virtual.recut(virtual.carried_out(fleet, plan))), 10.0)
        for name in sorted(fleet.running()):
            fleet = virtual.completed(fleet, name)
    assert told
    assert all(later - earlier >= 100.0 for earlier, later in pairwise(told))


WAITING = {
    1: "j1 waits for it",
    2: "j1, j2 wait for it",
    3: "j1, j2, j3 wait for it",
    4: "j1, j2, j3 and 1 more wait for it",
    6: "j1, j2, j3 and 3 more wait for it",
}


@pytest.mark.parametrize(("count", "want"), WAITING.items())
def test_it_is_said_for_whom_a_card_is_cut(count: int, want: str) -> None:
    jobs = [sliced(f"j{number}", profile="1g.10gb") for number in range(1, count + 1)]
    plan = decide(state(small("n1", (), serving=False), *jobs), RULES, 0.0)
    assert [one.why for one in plan.actions if isinstance(one, Repartition)] == [want]
    assert {(one.reason, one.asked, one.available) for one in plan.waits} == {(Reason.REPARTITION_UNDER_WAY, 1, 0)}
