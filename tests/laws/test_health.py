"""H1, H4: a node that was away for a moment has changed nothing, and neither has a quarantine that is over."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.plan import Drain, Lose, Quarantine, Release, TakeGrant
from fleet_app.engine.values import Condition
from tests import virtual
from tests.builders import quarantined
from tests.laws.effort import tries
from tests.laws.reference import case_of, check
from tests.strategies import contested, fleets
from tests.virtual import Fleet, plan_of


@tries(120)
@given(fleet=st.one_of(fleets(), contested()), which=st.integers(0, 5), share=st.floats(0.0, 0.99))
def test_a_blip_ends_nothing_and_is_held_against_nobody(fleet: Fleet, which: int, share: float) -> None:
    fleet = virtual.at_rest(fleet)
    node = fleet.nodes[which % len(fleet.nodes)]
    if node.condition is not Condition.READY:
        return
    away = replace(node, condition=Condition.DOWN, down_since=fleet.now)
    blind = virtual.later(virtual.with_node(fleet, away), share * fleet.policy.health.tolerance_s)
    check(case_of(blind))
    ended = [action for action in plan_of(blind).actions if isinstance(action, Drain | Lose | Quarantine | TakeGrant)]
    assert ended == [], ended
    back = replace(virtual.with_node(blind, node), now=fleet.now)
    assert plan_of(back) == plan_of(fleet)


@tries(80)
@given(fleet=st.one_of(fleets(), contested()), which=st.integers(0, 5))
def test_a_quarantine_that_is_over_leaves_nothing_behind(fleet: Fleet, which: int) -> None:
    """H4: in the decision that releases a node it is used as if it had never been kept out."""
    never = replace(fleet, failures=(), quarantines=())
    name = fleet.nodes[which % len(fleet.nodes)].name
    over = virtual.quarantined(never, quarantined(name, until=fleet.now))
    plan = plan_of(over)
    kept = tuple(action for action in plan.actions if not isinstance(action, Release))
    assert replace(plan, actions=kept) == plan_of(never)
    assert len(plan.actions) == len(kept) + 1
