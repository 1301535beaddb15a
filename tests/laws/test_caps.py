"""V9: caps on whole GPUs of an accelerator are kept, come to rest, and are nothing where they do not bind."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.decide import decide
from fleet_app.engine.plan import Admit, Drain, GiveGrant, Grow, Reason
from fleet_app.engine.policy import FlavorQuota, Policy
from fleet_app.engine.values import NodeClass
from fleet_app.engine.workload import Workload
from tests import virtual
from tests.builders import backfill, gang, node, policy, service, shape, team
from tests.laws.effort import tries
from tests.laws.reference import Case, case_of
from tests.strategies import contested, fleets, scattered
from tests.virtual import Fleet, plan_of

KINDS = ("h100", "a100")
TEAMS = st.sampled_from(["research", "vision"])
UNBOUND = 1_000_000
MOST_CYCLES = 25


def with_caps(policy: Policy, caps: dict[tuple[str, str], int]) -> Policy:
    quotas = []
    for quota in policy.quotas:
        own = [FlavorQuota(flavor=f"{kind}-whole", nominal=caps[quota.name, kind]) for kind in KINDS]
        kept = [one for one, kind in zip(own, KINDS, strict=True) if caps[quota.name, kind] >= 0]
        quotas.append(replace(quota, flavors=(*quota.flavors, *kept)))
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
        service(f"s{number}", gpus=draw(st.integers(1, 4)), wanted=draw(st.integers(0, 4)), team=draw(TEAMS))
        for number in range(draw(st.integers(0, 2)) if serving else 0)
    ]
    some = st.sampled_from([-1, 0, 2, 4, 6, 8, 12, 16])
    rules = policy(team("research", nominal=100), team("vision", nominal=100))
    caps = {(quota.name, kind): draw(some) for quota in rules.quotas for kind in KINDS}
    return virtual.fleet(with_caps(rules, caps), *there, *running, *queued, *served, now=1000.0)


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
            parts = {"a": (1, shape(gpus)), "b": (count, shape(1))}
            return gang(f"w{number}", groups=parts, **more)
    return gang(f"w{number}", nodes=count, gpus=gpus, **more)


def caps_of(case: Case) -> dict[tuple[str, str], int]:
    return {
        (quota.name, own.flavor.removesuffix("-whole")): own.nominal
        for quota in case.policy.quotas
        for own in quota.flavors
        if own.flavor.endswith("-whole")
    }


def use(case: Case, *, after: bool) -> Counter[tuple[str, str]]:
    """Return the whole GPUs that each entry has of each accelerator, worked out from the facts."""
    found: Counter[tuple[str, str]] = Counter()
    parents = {quota.name: quota.parent for quota in case.policy.quotas}

    def count(team: str, node: str, gpus: int) -> None:
        name: str | None = team
        while name is not None and node in case.nodes:
            found[name, case.nodes[node].accelerator] += gpus
            name = parents.get(name)

    for one in case.state.workloads:
        for name, has in one.seats if one.holding else ():
            count(one.team, name, has.gpus)
    for each in case.state.services:
        for grant in each.grants:
            count(each.team, grant.node, each.shape.gpus)
    for action in case.actions(Admit, Grow) if after else ():
        one = case.workloads[action.workload]
        shapes = (one.shape,) * len(action.nodes) if isinstance(action, Grow) or one.minimum else one.shapes
        for name, has in zip(action.nodes, shapes, strict=True):
            count(one.team, name, has.gpus)
    for action in case.actions(GiveGrant) if after else ():
        count(case.services[action.service].team, action.node, action.shape.gpus)
    return found


def caps_are_kept(case: Case) -> None:
    before, after = use(case, after=False), use(case, after=True)
    for cap, limit in caps_of(case).items():
        assert after[cap] <= max(limit, before[cap]), (cap, limit, before[cap], after[cap])


def who_waits_for_a_cap_is_above_it(case: Case) -> None:
    caps = caps_of(case)
    parents = {quota.name: quota.parent for quota in case.policy.quotas}
    for wait in case.plan.waits:
        if wait.level is None or not wait.level.endswith("-whole"):
            continue
        asker = case.workloads.get(wait.workload) or case.services[wait.workload]
        name: str | None = asker.team
        lefts = []
        while name is not None:
            if (name, wait.level.removesuffix("-whole")) in caps:
                lefts.append(caps[name, wait.level.removesuffix("-whole")])
            name = parents.get(name)
        assert wait.asked > wait.available
        if wait.reason is Reason.TOO_LARGE_FOR_QUOTA:
            assert wait.available == min(lefts)
        elif wait.workload in case.workloads:
            assert wait.asked <= min(lefts)


@tries(250)
@given(fleet=capped())
def test_caps_are_kept(fleet: Fleet) -> None:
    case = case_of(fleet)
    caps_are_kept(case)
    who_waits_for_a_cap_is_above_it(case)


@tries(100)
@given(fleet=st.one_of(fleets(), contested(), scattered()))
def test_caps_that_do_not_bind_change_nothing(fleet: Fleet) -> None:
    caps = {(quota.name, kind): UNBOUND for quota in fleet.policy.quotas for kind in KINDS}
    assert repr(decide(fleet.state, with_caps(fleet.policy, caps), fleet.now)) == repr(plan_of(fleet))


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
@given(fleet=capped())
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
