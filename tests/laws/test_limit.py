"""R9: however many gangs need victims in one cycle, they ask no more than they may, and all have room in the end."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from fleet_app.engine.plan import Drain, Reason
from tests import virtual
from tests.builders import backfill, gang, node, policy, service, team
from tests.laws.effort import tries
from tests.laws.reference import case_of, check
from tests.virtual import Fleet


@st.composite
def lent_out(draw: st.DrawFn) -> Fleet:
    """Return nodes that are lent out altogether, gangs that want them back, and a service that wants its own."""
    rules = policy(
        team("research", nominal=64),
        team("guest", nominal=0),
        team("serving", nominal=8),
        most_per_cycle=draw(st.sampled_from([1, 2, 3, None])),
    )
    places = [node(f"n{number}", gpus=4, serving=number == 0) for number in range(draw(st.integers(3, 7)))]
    sizes = [draw(st.sampled_from([[4], [2, 2], [1, 1, 2]])) for _ in places]
    lodgers = [
        backfill(f"b-{place.name}-{number}", team="guest", gpus=gpus, on=[place.name])
        for place, each in zip(places, sizes, strict=True)
        for number, gpus in enumerate(each)
    ]
    count = range(draw(st.integers(1, 4)))
    gangs = [gang(f"g{i}", nodes=draw(st.integers(1, 2)), gpus=draw(st.sampled_from([2, 4]))) for i in count]
    return virtual.fleet(rules, *places, *lodgers, *gangs, service(wanted=draw(st.integers(0, 2))), now=1000.0)


@tries(200)
@given(fleet=lent_out())
def test_gangs_ask_no_more_than_they_may(fleet: Fleet) -> None:
    case = case_of(fleet)
    check(case)
    waits = [wait for wait in case.plan.waits if wait.reason is Reason.DRAINS_LIMITED]
    event(f"{len(case.actions(Drain))} are asked, {len(waits)} wait for that")
    rest = virtual.plan_of(virtual.at_rest(fleet))
    assert not [wait for wait in rest.waits if wait.reason is Reason.DRAINS_LIMITED]
