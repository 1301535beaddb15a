"""V9: caps on whole GPUs of an accelerator are kept, come to rest, and are nothing where they do not bind."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.decide import decide
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Drain
from fleet_app.engine.policy import FlavorQuota, Policy
from fleet_app.engine.values import Node, NodeClass
from fleet_app.engine.workload import Service, Workload
from tests import virtual
from tests.builders import backfill, gang, grant, node, policy, service, shape, team
from tests.laws.caps import caps_are_kept
from tests.laws.effort import tries
from tests.laws.reference import case_of, check
from tests.laws.under_caps import UnderCaps
from tests.strategies import contested, fleets, scattered
from tests.virtual import Fleet, plan_of

KINDS = ("h100", "a100")
CAPPED = ("org", "research", "vision")
TEAMS = st.sampled_from(CAPPED[1:])
UNBOUND = 1_000_000
MOST_CYCLES = 25
ROOM = 40


def with_caps(policy: Policy, caps: dict[tuple[str, str], int]) -> Policy:
    quotas = []
    for quota in policy.quotas:
        own = [FlavorQuota(flavor=f"{kind}-whole", nominal=caps[quota.name, kind]) for kind in KINDS]
        kept = [one for one, kind in zip(own, KINDS, strict=True) if caps[quota.name, kind] >= 0]
        others = [one for one in quota.flavors if not one.flavor.endswith("-whole")]
        quotas.append(replace(quota, flavors=(*others, *kept)))
    return replace(policy, quotas=tuple(quotas))


@st.composite
def capped(draw: st.DrawFn) -> Fleet:
    """Return a fleet of two accelerators with room for much, whose caps are most of what is in the way."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=7))
    serving = draw(st.integers(0, 2))
    there = [
        node(f"n{number}", accelerator=kind, serving=number < serving, gpus=draw(st.sampled_from([4, 8])))
        for number, kind in enumerate(kinds)
    ]
    room = {one.name: one.capacity.gpus for one in there}
    running = []
    for number in range(draw(st.integers(0, 5))):
        where, gpus = draw(st.sampled_from(there)), draw(st.integers(1, 4))
        if room[where.name] >= gpus:
            room[where.name] -= gpus
            firm = where.node_class is NodeClass.TRAINING and draw(st.booleans())
            make = gang if firm else backfill
            running.append(make(f"r{number}", gpus=gpus, on=(where.name,), team=draw(TEAMS), started_at=900.0 + number))
    queued = [draw(asks(number)) for number in range(draw(st.integers(1, 6)))]
    served = [
        draw(services(f"s{number}", there[:serving], room))
        for number in range(draw(st.integers(0, 3)) if serving else 0)
    ]
    some = st.sampled_from([-1, 0, 2, 4, 6, 8, 12, 16])
    rules = policy(team("research", nominal=100), team("vision", nominal=100))
    caps = {(quota.name, kind): draw(some) for quota in rules.quotas for kind in KINDS}
    return virtual.fleet(with_caps(rules, caps), *there, *running, *queued, *served, now=1000.0)


@st.composite
def services(draw: st.DrawFn, name: str, there: list[Node], room: dict[str, int]) -> Service:
    """Return a service, with a grant or two where there is room, idle or not."""
    gpus, grants = draw(st.integers(1, 4)), []
    for place in draw(st.lists(st.sampled_from(there), max_size=2)):
        if room[place.name] >= gpus:
            room[place.name] -= gpus
            grants.append(
                grant(f"{name}-{len(grants)}", node=place.name, occupied=draw(st.sampled_from([False, False, True])))
            )
    wanted, floor = draw(st.integers(0, 4)), draw(st.sampled_from([0, 0, 1, 2]))
    return service(name, gpus=gpus, wanted=wanted, floor=floor, team=draw(TEAMS), grants=grants)


@st.composite
def floors(draw: st.DrawFn) -> Fleet:
    """Return services of which some are below their floors, where caps leave a little at most, and others idle."""
    there = [node(f"n{number}", accelerator="h100", serving=True) for number in range(draw(st.integers(1, 2)))]
    room = {one.name: one.capacity.gpus for one in there}
    some = [draw(services(f"s{number}", there, room)) for number in range(draw(st.integers(2, 4)))]
    served = [replace(one, wanted=max(one.wanted, len(one.grants))) for one in some]
    used = {name: sum(len(one.grants) * one.shape.gpus for one in served if one.team == name) for name in CAPPED[1:]}
    used["org"] = sum(used.values())
    caps = {(name, "a100"): -1 for name in CAPPED}
    caps |= {(name, "h100"): draw(st.sampled_from([-1, used[name], used[name] + 1])) for name in CAPPED}
    rules = policy(team("org", nominal=200, parent=None), team("research", nominal=100), team("vision", nominal=100))
    return virtual.fleet(with_caps(rules, caps), *there, *served, now=1000.0)


@st.composite
def roomy(draw: st.DrawFn) -> Fleet:
    """Return a fleet with a node of each accelerator for everybody, so that caps are all that is in the way."""
    there = [node(f"{kind}-{number:02}", accelerator=kind) for kind in KINDS for number in range(ROOM)]
    running = []
    for number in range(draw(st.integers(0, 6))):
        on = (f"{draw(st.sampled_from(KINDS))}-{number:02}",)
        make = draw(st.sampled_from([gang, backfill, backfill, backfill]))
        more = draw(st.sampled_from([{}, {}, {}, {"phase": Phase.DRAINING, "deadline_at": 1060.0}]))
        began = draw(st.sampled_from([100.0, 500.0, 900.0]))
        running.append(
            make(f"r{number}", gpus=draw(st.integers(1, 8)), on=on, team=draw(TEAMS), started_at=began, **more)
        )
    queued = [draw(asks(number)) for number in range(draw(st.integers(1, 6)))]
    some = st.sampled_from([-1, 0, 2, 4, 6, 8, 12, 16])
    rules = policy(team("org", nominal=200, parent=None), team("research", nominal=100), team("vision", nominal=100))
    caps = {(quota.name, kind): draw(some) for quota in rules.quotas for kind in KINDS}
    return virtual.fleet(with_caps(rules, caps), *there, *running, *queued, now=1000.0)


@st.composite
def asks(draw: st.DrawFn, number: int) -> Workload:
    """Return a workload that waits: a gang, alike or of groups, elastic or not, or backfill."""
    count, gpus = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 4, 8]))
    more = {"team": draw(TEAMS), "submitted_at": float(number), "accelerator": draw(st.sampled_from([None, *KINDS]))}
    match draw(st.sampled_from(["gang", "gang", "backfill", "elastic", "groups"])):
        case "backfill":
            return backfill(f"w{number}", gpus=gpus, **more)
        case "elastic":
            return gang(f"w{number}", nodes=count, gpus=gpus, minimum=count, at_most=count + 1, **more)
        case "groups":
            parts = {"a": (1, shape(gpus)), "b": (count, shape(draw(st.integers(0, 1)), cpus=1))}
            return gang(f"w{number}", groups=parts, **more)
    return gang(f"w{number}", nodes=count, gpus=gpus, **more)


@tries(250)
@given(fleet=st.one_of(capped(), floors()))
def test_caps_are_kept(fleet: Fleet) -> None:
    check(case_of(fleet))


@tries(400)
@given(fleet=roomy())
def test_where_only_caps_are_in_the_way_it_is_as_the_slow_answer_says(fleet: Fleet) -> None:
    UnderCaps(case_of(fleet)).check()


@tries(100)
@given(fleet=st.one_of(fleets(), contested(), scattered()))
def test_caps_that_do_not_bind_change_nothing(fleet: Fleet) -> None:
    none, most = (
        with_caps(fleet.policy, {(quota.name, kind): gpus for quota in fleet.policy.quotas for kind in KINDS})
        for gpus in (-1, UNBOUND)
    )
    assert repr(decide(fleet.state, most, fleet.now)) == repr(decide(fleet.state, none, fleet.now))


@tries(100)
@given(fleet=capped(), chance=st.randoms(use_true_random=False))
def test_the_order_of_facts_means_nothing_to_caps(fleet: Fleet, chance: Random) -> None:
    state = replace(
        fleet.state,
        nodes=tuple(chance.sample(fleet.state.nodes, len(fleet.state.nodes))),
        workloads=tuple(chance.sample(fleet.workloads, len(fleet.workloads))),
        services=tuple(chance.sample(fleet.services, len(fleet.services))),
    )
    quotas = tuple(chance.sample(fleet.policy.quotas, len(fleet.policy.quotas)))
    assert repr(decide(state, replace(fleet.policy, quotas=quotas), fleet.now)) == repr(plan_of(fleet))


@tries(120)
@given(fleet=st.one_of(capped(), floors()))
def test_who_leaves_for_a_cap_leaves_once_and_it_comes_to_rest(fleet: Fleet) -> None:
    """I6."""
    asked: list[str] = []
    for _ in range(MOST_CYCLES):
        plan = plan_of(fleet)
        caps_are_kept(case_of(fleet))
        asked += [action.workload for action in plan.actions if isinstance(action, Drain)]
        after = virtual.carried_out(fleet, plan)
        for one in after.workloads:
            if one.leaving or one.going:
                after = virtual.left(after, one.name)
        after = virtual.replicas_started(virtual.started(virtual.recut(after)))
        if after == fleet:
            break
        fleet = after
    else:
        raise AssertionError(f"still acting: {plan.actions}")
    assert len(asked) == len(set(asked)), f"drained twice: {sorted(asked)}"
