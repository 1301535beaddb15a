"""S7: a tier by forecast is a fixed tier of as many GPUs, and the fixed one while nothing is forecast."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from fleet_app.engine.policy import Headroom
from tests.laws.effort import tries
from tests.laws.reference import case_of, immediate
from tests.strategies import contested, fleets
from tests.virtual import Fleet, plan_of, with_policy

ASKED = st.builds(
    Headroom,
    immediate_gpus=st.integers(0, 4),
    quantile=st.just(0.99),
    minimum_gpus=st.integers(0, 3),
    maximum_gpus=st.sampled_from([None, 3, 6]),
)


@tries(200)
@given(fleet=st.one_of(contested(), fleets(longest=8)), asked=ASKED, growth=st.sampled_from([None, 0, 1, 2, 4, 9]))
def test_a_tier_by_forecast_is_a_fixed_one(fleet: Fleet, asked: Headroom, growth: int | None) -> None:
    known = replace(with_policy(fleet, replace(fleet.policy, headroom=asked)), growth_gpus=growth)
    fixed = Headroom(immediate_gpus=immediate(case_of(known)))
    same = replace(with_policy(fleet, replace(fleet.policy, headroom=fixed)), growth_gpus=growth)
    plan = plan_of(known)
    event("differs" if growth is not None and plan != plan_of(replace(known, growth_gpus=None)) else "is the same")
    assert plan == plan_of(same)
