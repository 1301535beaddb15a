"""S9: where nominals fill whole places of the largest, each service has room for all of its own at any time."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import event, given
from hypothesis import strategies as st

from fleet_app.engine.plan import Drain, Reason
from fleet_app.engine.policy import Headroom
from tests import virtual
from tests.builders import backfill, gang, grant, node, policy, service, team
from tests.laws.effort import tries
from tests.laws.reference import case_of, check, replicas_take_no_larger_place
from tests.virtual import Fleet, at_rest, carried_out, completed, demanded, left, replicas_started, started, submitted

SIZES = ((1, 2), (1, 4), (2, 4), (4, 8), (1, 2, 4), (1, 2, 8), (2, 4, 8))
GPUS = 8
Turn = tuple[int, int, Random, bool]
"""Of which service how many percent are wanted, what else happens, and whether who was asked leaves at once."""


@st.composite
def shared(draw: st.DrawFn) -> Fleet:
    """Return nodes whose places are shared out among services of several sizes, and backfill."""
    sizes = draw(st.sampled_from(SIZES))
    places = [draw(st.integers(1, 4 * GPUS // max(sizes) // len(sizes))) for _ in sizes]
    teams = [team(f"t{size}", nominal=count * max(sizes)) for size, count in zip(sizes, places, strict=True)]
    total = sum(one.nominal_gpus for one in teams)
    rules = replace(policy(*teams, team("research", nominal=0)), headroom=Headroom(immediate_gpus=draw(IMMEDIATE)))
    nodes = [node(f"v{number}", serving=True, gpus=GPUS) for number in range(-(-total // GPUS))]
    served = [service(f"s{size}", team=f"t{size}", gpus=size) for size in sizes]
    lodgers = [backfill(f"b{number:02}", gpus=1) for number in range(draw(st.integers(0, total)))]
    return virtual.fleet(rules, *nodes, *served, *lodgers)


IMMEDIATE = st.sampled_from([0, 0, 2, 5])
TURNS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 100), st.randoms(use_true_random=False), st.booleans()),
    min_size=4,
    max_size=16,
)


@tries(150)
@given(fleet=shared(), turns=TURNS)
def test_no_past_leaves_a_service_without_room_inside_its_nominal(fleet: Fleet, turns: list[Turn]) -> None:
    nominal = {quota.name: quota.nominal_gpus for quota in fleet.policy.quotas}
    for which, percent, chance, rests in turns:
        one = fleet.services[which % len(fleet.services)]
        most = nominal[one.team] // one.shape.gpus
        fleet = with_some_ended(demanded(fleet, one.name, (most * percent + 50) // 100), one.name, chance)
        fleet = with_some_anew(fleet, chance)
        for _ in range(3):
            case = case_of(fleet)
            plan = case.plan
            replicas_take_no_larger_place(case)
            assert [wait for wait in plan.waits if wait.reason is Reason.NO_ROOM and wait.workload[0] == "s"] == []
            event("somebody leaves" if any(isinstance(action, Drain) for action in plan.actions) else "nobody leaves")
            fleet = replicas_started(started(carried_out(fleet, plan)))
            fleet = left(fleet) if rests else fleet
    for one in fleet.services:
        fleet = demanded(fleet, one.name, nominal[one.team] // one.shape.gpus)
    fleet = at_rest(left(fleet))
    assert all(sum(grant.occupied for grant in one.grants) == one.wanted for one in fleet.services)


@st.composite
def short_of_quota(draw: st.DrawFn) -> Fleet:
    """Return nodes on which a replica needs another's idle grant and somebody's leaving, while its nominal is lent."""
    names = st.sampled_from(["low", "other", "lent"])
    rules = policy(
        team("low", nominal=draw(st.integers(0, 8))),
        team("other", nominal=draw(st.integers(0, 4))),
        team("lent", nominal=draw(st.sampled_from([0, 0, 4]))),
        immediate_gpus=2,
    )
    nodes = [node("x", serving=True, gpus=2), node("y", serving=True, gpus=4), node("t", gpus=8)]
    served = [
        service("low", team="low", gpus=2, wanted=draw(st.integers(1, 2)), floor=draw(st.integers(0, 1))),
        service("has", team=draw(st.sampled_from(["low", "other"])), grants=[grant("c0", node="x", occupied=False)]),
        service("big", team="low", gpus=4),
    ]
    lodgers = [
        backfill("b0", gpus=1, on=("x",), team=draw(names)),
        backfill("b1", gpus=4, on=("y",), team=draw(names)),
        *(backfill(f"c{number}", gpus=1, on=("t",), team=draw(names)) for number in range(draw(st.integers(0, 2)))),
        *([gang("g", gpus=6, on=("t",), team=draw(names))] if draw(st.booleans()) else []),
    ]
    return virtual.fleet(rules, *nodes, *served, *lodgers, now=100.0)


@tries(300)
@given(fleet=short_of_quota())
def test_an_idle_grant_is_taken_once_however_many_places_are_tried(fleet: Fleet) -> None:
    check(case_of(fleet))


def with_some_ended(fleet: Fleet, name: str, chance: Random) -> Fleet:
    """Let as many replicas end as a service has beyond what it wants, anyhow chosen."""
    one = fleet.service(name)
    running = [grant.name for grant in one.grants if grant.occupied]
    ended = chance.sample(running, max(0, len(running) - one.wanted))
    grants = tuple(replace(grant, occupied=grant.occupied and grant.name not in ended) for grant in one.grants)
    changed = replace(one, grants=grants)
    return replace(fleet, services=tuple(changed if other.name == name else other for other in fleet.services))


def with_some_anew(fleet: Fleet, chance: Random) -> Fleet:
    """Let some of what runs beside the replicas be done, and as many others come."""
    for one in chance.sample(running := [one for one in fleet.workloads if one.holding], len(running) // 2):
        fleet = submitted(completed(fleet, one.name), backfill(f"{one.name}+", gpus=1))
    return fleet
