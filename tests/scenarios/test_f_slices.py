"""Scenarios F, and E11: parts of GPUs. Each test is a row of the table of other schedulers' faults."""

from __future__ import annotations

import pytest

from fleet_app.engine.cards import Card
from fleet_app.engine.decide import decide
from fleet_app.engine.plan import AdmitSlice, GiveSlice, Plan, Reason, Repartition
from fleet_app.engine.policy import FlavorQuota, Slicing
from tests import virtual
from tests.builders import backfill, cards, gang, node, part, policy, service, sliced, state, team
from tests.scenarios.said import leaves, reasons, starts

RULES = policy(slicing=Slicing())
SHARED = ["shared"]
SEVENTHS = ["1g.10gb"] * 7


def seats(plan: Plan) -> dict[str, tuple[str, int]]:
    """Return the card of everybody who is given a slice."""
    given = [action for action in plan.actions if isinstance(action, AdmitSlice | GiveSlice)]
    return {one.workload if isinstance(one, AdmitSlice) else one.service: (one.node, one.card) for one in given}


def test_d13_a_node_seen_by_two_flavors_is_given_to_one_of_them() -> None:
    both = node("n1", gpus=8, cards=cards(*[SHARED] * 8))
    jobs = [sliced(f"job-{number}", share=1.0) for number in range(8)]
    plan = decide(state(both, gang("gang"), *jobs), RULES, 0.0)
    assert len(seats(plan)) == 8
    assert starts(plan) == {}


def test_e11_a_strict_head_that_waits_for_one_flavor_is_not_in_the_way_of_another() -> None:
    limits = FlavorQuota(flavor="h100-mig-1g.10gb", nominal=1, borrowing_limit=0)
    rules = policy(team("research", strict=True, flavors=[limits]), slicing=Slicing())
    cut = node("n1", gpus=0, cards=cards(SEVENTHS, SHARED), accelerator="h100")
    head = sliced("head", profile="1g.10gb", submitted_at=1.0)
    second = sliced("second", share=0.5, submitted_at=2.0)
    plan = decide(state(cut, sliced("old", profile="1g.10gb", on=("n1", 0)), head, second), rules, 0.0)
    assert seats(plan) == {"second": ("n1", 1)}
    assert reasons(plan) == {"head": Reason.QUOTA_USED}


def test_e11_a_strict_head_that_waits_for_one_accelerator_is_not_in_the_way_of_another() -> None:
    rules = policy(team("research", strict=True))
    nodes = [node("n1", accelerator="h100"), node("n2", accelerator="a100")]
    head = gang("head", gpus=8, accelerator="h100", submitted_at=1.0)
    second = gang("second", gpus=4, accelerator="a100", submitted_at=2.0)
    either = gang("either", gpus=1, submitted_at=3.0)
    plan = decide(state(*nodes, gang("old", gpus=1, on=["n1"]), head, second, either), rules, 5.0)
    assert starts(plan) == {"second": ("n2",)}
    assert reasons(plan) == {"head": Reason.NO_ROOM, "either": Reason.BEHIND}


def test_f1_what_two_cards_have_left_together_is_not_room() -> None:
    used = [sliced(f"old-{card}", share=0.6, on=("n1", card)) for card in (0, 1)]
    plan = decide(state(node("n1", gpus=0, cards=cards(SHARED, SHARED)), *used, sliced("new", share=0.8)), RULES, 0.0)
    assert seats(plan) == {}
    assert reasons(plan) == {"new": Reason.NO_ROOM}


def test_f3_eighty_of_eighteen_hundredths_fit_on_sixteen_cards() -> None:
    nodes = [node(f"n{number}", gpus=0, cards=cards(*[SHARED] * 8)) for number in (1, 2)]
    jobs = [sliced(f"job-{number:02}", share=0.18) for number in range(81)]
    plan = decide(state(*nodes, *jobs), RULES, 0.0)
    on = list(seats(plan).values())
    assert len(on) == 80
    assert {on.count(place) for place in on} == {5}


def test_f5_who_was_given_a_slice_is_not_given_another() -> None:
    cut = node("n1", gpus=0, cards=cards(SHARED, SHARED))
    chat = service("chat", gpus=0, slice=part(share=0.5), wanted=1)
    fleet = virtual.cycle(virtual.fleet(RULES, cut, sliced("job", share=0.5), chat))
    assert virtual.plan_of(fleet).actions == ()
    assert virtual.plan_of(virtual.cycle(fleet)).actions == ()


def test_f7_two_devices_on_a_nominal_of_one_are_refused() -> None:
    rules = policy(team("research", nominal=1), slicing=Slicing())
    plan = decide(state(node("n1", gpus=8), gang("gang", gpus=2)), rules, 0.0)
    assert reasons(plan) == {"gang": Reason.TOO_LARGE_FOR_QUOTA}
    two = [sliced(f"job-{number}", share=1.0) for number in range(2)]
    plan = decide(state(node("n1", gpus=0, cards=cards(SHARED, SHARED)), *two), rules, 0.0)
    assert len(seats(plan)) == 1
    assert reasons(plan) == {"job-1": Reason.QUOTA_USED}


@pytest.mark.parametrize(("share", "fits"), [(0.5120, True), (0.5121, False)])
def test_f9_what_is_left_exactly_is_enough(share: float, fits: bool) -> None:
    old = sliced("old", share=0.4880, on=("n1", 0))
    plan = decide(state(node("n1", gpus=0, cards=cards(SHARED)), old, sliced("new", share=share)), RULES, 0.0)
    assert ("new" in seats(plan)) is fits


def test_f11_what_has_left_is_free_in_the_next_decision_whoever_makes_it() -> None:
    mixed = node("n1", gpus=8, cards=cards(*[[]] * 8, SHARED))
    old = [backfill("whole", gpus=8, on=["n1"]), sliced("small", share=1.0, on=("n1", 8))]
    fleet = virtual.fleet(RULES, mixed, *old, backfill("whole-2", gpus=8), sliced("small-2", share=1.0))
    assert virtual.plan_of(fleet).actions == ()
    after = virtual.completed(virtual.completed(fleet, "whole"), "small")
    again = decide(state(*after.nodes, *after.workloads), RULES, 0.0)  # from facts alone, as after a restart
    for plan in (virtual.plan_of(after), again):
        assert starts(plan) == {"whole-2": ("n1",)}
        assert seats(plan) == {"small-2": ("n1", 8)}


def test_f13_a_layout_changes_only_on_an_empty_card_that_is_out_of_use() -> None:
    rules = policy(slicing=Slicing(repartition=True, settle_s=0.0, whole_nodes=False))
    used = node("n1", gpus=0, cards=cards(SEVENTHS, idle_since=0.0), accelerator="h100")
    fleet = virtual.fleet(rules, used, sliced("old", profile="1g.10gb", on=("n1", 0)), sliced("new", profile="3g.40gb"))
    assert virtual.plan_of(fleet).actions == ()
    assert leaves(virtual.plan_of(fleet)) == {}
    fleet = virtual.completed(fleet, "old")
    told = [action for action in virtual.plan_of(fleet).actions if isinstance(action, Repartition)]
    assert [(one.card, one.layout) for one in told] == [(0, ("3g.40gb", "3g.40gb"))]
    fleet = virtual.submitted(virtual.cycle(fleet), sliced("late", profile="1g.10gb"))
    assert fleet.nodes[0].cards[0] == Card(
        index=0, layout=tuple(SEVENTHS), becomes=("3g.40gb", "3g.40gb"), idle_since=0
    )
    assert virtual.plan_of(fleet).actions == ()
    assert seats(virtual.plan_of(virtual.recut(fleet))) == {"new": ("n1", 0)}
