"""I9: the same facts in any order give the same plan, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.decide import decide
from tests.laws.effort import tries
from tests.strategies import contested, contested_slices, fleets, scattered
from tests.virtual import Fleet, plan_of

T = TypeVar("T")


FLEETS = (fleets(), contested(), contested_slices(), scattered())


@tries(120)
@given(fleet=st.one_of(FLEETS), chance=st.randoms(use_true_random=False))
def test_the_order_of_facts_means_nothing(fleet: Fleet, chance: Random) -> None:
    def mixed(parts: Iterable[T]) -> tuple[T, ...]:
        return tuple(chance.sample(list(parts), len(tuple(parts))))

    state = replace(
        fleet.state,
        nodes=mixed([replace(one, cards=mixed(one.cards)) for one in fleet.state.nodes]),
        workloads=mixed(fleet.workloads),
        services=mixed([replace(one, grants=mixed(one.grants)) for one in fleet.services]),
        failures=mixed(fleet.failures),
        quarantines=mixed(fleet.quarantines),
        bookings=mixed(fleet.bookings),
        crossings=mixed(fleet.crossings),
    )
    policy = replace(fleet.policy, quotas=mixed(fleet.policy.quotas), classes=mixed(fleet.policy.classes))
    assert repr(decide(state, policy, fleet.now)) == repr(plan_of(fleet))
