"""R8: members leave before their workload does, the cheapest that are enough, and never below its minimum."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from fleet_app.engine import eligibility, mixed_reclaim, reclaim
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Drain, Grow, Shrink
from fleet_app.engine.reclaim import EXACT_UP_TO
from fleet_app.engine.workload import Workload
from tests import virtual
from tests.builders import backfill, gang, node, policy, service, shape, team
from tests.laws.effort import tries
from tests.laws.reference import case_of, check
from tests.laws.victims import BruteForce, parent_of
from tests.virtual import Fleet

RULES = policy(team("research", nominal=16), team("vision", nominal=4), team("serving", nominal=8))


@st.composite
def stretched(draw: st.DrawFn) -> Fleet:
    """Return nodes full of elastic work that runs above its minimum, and now and then of other work beside it."""
    names = [f"n{number}" for number in range(draw(st.integers(2, 5)))]
    places = [node(name, at=draw(st.sampled_from(["a/a", "a/b"])), gpus=4) for name in names]
    lodgers: list[Workload] = []
    left = list(names)
    for number in range(draw(st.integers(1, 2))):
        if left:
            on, left = left[: draw(st.integers(1, 4))], left[4 if number else 2 :]
            lodgers.append(
                backfill(
                    f"e{number}",
                    on=on,
                    gpus=draw(st.sampled_from([4, 4, 2])),
                    team="vision",
                    minimum=draw(st.integers(1, len(on))),
                    at_most=len(on) + draw(st.integers(0, 2)),
                    saved_at=draw(st.sampled_from([900.0, 1000.0])),
                )
            )
    used = dict.fromkeys(names, 0)
    kept = []
    for one in lodgers:
        if all(used[name] + one.shape.gpus <= 4 for name in one.nodes):
            kept.append(one)
            for name in one.nodes:
                used[name] += one.shape.gpus
    beside = [name for name in names if used[name] < 4 and draw(st.booleans())]
    kept += [backfill(f"b-{name}", on=[name], gpus=4 - used[name], team="vision", saved_at=950.0) for name in beside]
    return virtual.fleet(RULES, *places, *kept, now=1000.0)


@st.composite
def askers(draw: st.DrawFn) -> Workload:
    """Return a gang that wants some of their nodes."""
    within = draw(st.sampled_from([None, None, "spine", "leaf"]))
    if draw(st.integers(0, 3)) == 0:
        return gang("asker", groups={"a": (1, shape(4)), "b": (draw(st.integers(1, 2)), shape(2))}, within=within)
    return gang("asker", nodes=draw(st.integers(1, 4)), gpus=draw(st.sampled_from([4, 4, 2])), within=within)


@tries(400)
@given(fleet=stretched(), asker=askers())
def test_members_leave_first_and_a_whole_only_where_they_are_not_enough(fleet: Fleet, asker: Workload) -> None:
    ledger = Ledger(fleet.state, fleet.policy, fleet.now)
    seeks, nodes = eligibility.asker(ledger, asker), eligibility.eligible(ledger, asker)
    find = reclaim.find if seeks.sought is None else mixed_reclaim.find
    found = find(ledger, seeks, nodes, lambda _: True)
    brute = BruteForce(fleet.state, fleet.policy, fleet.now, seeks, nodes)
    if len(brute.able()) > EXACT_UP_TO:
        return
    best = min(brute.sets(), key=brute.cost, default=None)
    if best is not None:
        event("members are enough" if any(parent_of(one) for one in best) else "nobody's members")
        assert found is not None
        assert brute.cost(found.victims) == brute.cost(best)
        return
    wholes = brute.with_wholes()
    if next(wholes.sets(), None) is None:
        event("nobody would help")
        assert found is None
        return
    event("somebody leaves whole")
    assert found is not None
    assert brute.enough(found.victims)
    leaving = {parent_of(one) or one.name for one in found.victims}  # where a whole may go, fewer of its members may
    assert wholes.may_go([one for one in wholes.stay if one.name in leaving])
    for victim in found.victims:
        rest = [one for one in found.victims if one is not victim]
        assert not brute.enough(rest), f"{victim.name} leaves in vain"
        assert not any(brute.enough([*rest, *few]) for few in spared(brute, victim)), f"{victim.name} need not leave"


def spared(brute: BruteForce, victim: Workload) -> list[list[Workload]]:
    """Return as many members as a workload that leaves whole could spare instead, each way that leaves most."""
    members = [one for one in brute.stay if parent_of(one) == victim.name]
    count = brute.spare.get(victim.name, 0)
    return [[*members[place:], *members[:place]][:count] for place in range(len(members))] if count > 0 else []


@tries(150)
@given(fleet=stretched(), asked=st.lists(askers(), min_size=1, max_size=3), wanted=st.integers(0, 2))
def test_a_fleet_of_elastic_work_keeps_every_law_and_comes_to_rest(
    fleet: Fleet, asked: list[Workload], wanted: int
) -> None:
    named = [replace(one, name=f"g{number}") for number, one in enumerate(asked)]
    serves = node("s0", at="a/a", gpus=4, serving=True)
    lent = backfill("lent", gpus=2, nodes=2, minimum=1, at_most=4, team="vision")
    fleet = replace(fleet, nodes=(*fleet.nodes, serves), services=(service("chat", gpus=2, wanted=wanted),))
    fleet = virtual.submitted(fleet, *named, lent)
    grown: set[tuple[str, str]] = set()
    for _ in range(30):
        plan = virtual.plan_of(fleet)
        check(case_of(fleet))
        for action in plan.actions:
            if isinstance(action, Shrink):
                event("shrinks")
                assert grown.isdisjoint((action.workload, name) for name in action.nodes), "it shrinks where it grew"
            if isinstance(action, Grow):
                event("grows")
                grown |= {(action.workload, name) for name in action.nodes}
            if isinstance(action, Drain):
                event("drains")
        after = virtual.replicas_started(virtual.started(virtual.left(virtual.carried_out(fleet, plan))))
        if after == fleet:
            return
        fleet = after
    raise AssertionError(f"still acting: {virtual.plan_of(fleet).actions}")
