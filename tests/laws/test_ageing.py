"""O8: waiting counts where the policy says so, and for nothing else: nobody of the same class is overtaken for ever."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.decide import steps
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.ordering import class_of
from fleet_app.engine.plan import Admit, Wait
from fleet_app.engine.policy import Ordering
from fleet_app.engine.workload import Workload
from tests import virtual
from tests.builders import backfill, node, policy, team
from tests.laws.effort import tries
from tests.strategies import fleets
from tests.virtual import Fleet

NEVER_S = 1e9


def turns(fleet: Fleet) -> list[Workload]:
    """Return who is queued, in the order in which they were first considered; a wait may change its reason later."""
    queued = {one.name: one for one in fleet.workloads if one.phase is Phase.QUEUED}
    ledger = Ledger(fleet.state, fleet.policy, fleet.now)
    parts = [part.workload for part in steps(ledger, fleet.state) if isinstance(part, Admit | Wait)]
    return [queued[name] for name in dict.fromkeys(parts) if name in queued]


def with_ageing(fleet: Fleet, period_s: float | None) -> Fleet:
    return replace(fleet, policy=replace(fleet.policy, ordering=Ordering(ageing_s=period_s)))


@tries(150)
@given(fleet=fleets())
def test_until_somebody_has_waited_a_period_nothing_is_different(fleet: Fleet) -> None:
    plans = [virtual.plan_of(with_ageing(fleet, period_s)) for period_s in (None, NEVER_S)]
    assert plans[0] == plans[1]


@tries(200)
@given(fleet=fleets(), period_s=st.sampled_from([7.0, 40.0, 150.0]))
def test_a_class_is_served_by_full_periods_and_its_rights_stay_its_own(fleet: Fleet, period_s: float) -> None:
    fleet = with_ageing(fleet, period_s)

    def periods(one: Workload) -> int:
        return int((fleet.now - one.submitted_at) // period_s)

    order = turns(fleet)
    for place, later in enumerate(order):
        for before in order[:place]:
            if (before.slice is None) != (later.slice is None):
                continue  # whole GPUs have their turns first
            if later.priority == before.priority:
                assert periods(before) >= periods(later), (before, later)
            rules, other = class_of(fleet.policy, before), class_of(fleet.policy, later)
            same_rights = (rules.borrows, rules.yields) == (other.borrows, other.yields)
            assert same_rights or before.priority > later.priority


@tries(60)
@given(sizes=st.lists(st.integers(1, 3), min_size=2, max_size=5), period_s=st.sampled_from([15.0, 35.0]))
def test_who_borrows_most_comes_first_once_it_has_waited(sizes: list[int], period_s: float) -> None:
    """Without ageing a stream of smaller asks of a team that borrows less is ahead of it for ever."""
    rules = policy(team("idle", nominal=12), team("a", nominal=0), team("b", nominal=0))
    rules = replace(rules, ordering=Ordering(ageing_s=period_s))
    fleet = virtual.fleet(rules, node("n1", gpus=12), backfill("has", team="a", gpus=8, on=["n1"]))
    fleet = virtual.submitted(fleet, backfill("large", team="a", gpus=4))
    for number in range(8):
        new = [backfill(f"b{number}-{place}", team="b", gpus=gpus) for place, gpus in enumerate(sizes)]
        fleet = virtual.submitted(fleet, *new)
        place = [one.name for one in turns(fleet)].index("large")
        unaged = [one.name for one in turns(with_ageing(fleet, None))].index("large")
        assert place <= unaged
        assert all(one.submitted_at <= period_s for one in turns(fleet)[:place])
        fleet = virtual.later(fleet, 10.0)
