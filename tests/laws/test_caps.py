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
from tests import virtual
from tests.laws.effort import tries
from tests.laws.reference import Case, case_of
from tests.strategies import contested, fleets, scattered
from tests.virtual import Fleet, plan_of

KINDS = ("h100", "a100")
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
    """Return a fleet some of whose teams and organisations have caps that bind, of some accelerators."""
    fleet = draw(st.one_of(fleets(), contested(), scattered()))
    some = st.sampled_from([-1, -1, 0, 1, 2, 4, 8, 12, 24])
    caps = {(quota.name, kind): draw(some) for quota in fleet.policy.quotas for kind in KINDS}
    return replace(fleet, policy=with_caps(fleet.policy, caps))


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
        for node, shape in one.seats if one.holding else ():
            count(one.team, node, shape.gpus)
    for service in case.state.services:
        for grant in service.grants:
            count(service.team, grant.node, service.shape.gpus)
    for action in case.actions(Admit, Grow) if after else ():
        one = case.workloads[action.workload]
        shapes = (one.shape,) * len(action.nodes) if isinstance(action, Grow) or one.minimum else one.shapes
        for node, shape in zip(action.nodes, shapes, strict=True):
            count(one.team, node, shape.gpus)
    for action in case.actions(GiveGrant) if after else ():
        service = case.services[action.service]
        count(service.team, action.node, action.shape.gpus)
    return found


def caps_are_kept(case: Case) -> None:
    before, after = use(case, after=False), use(case, after=True)
    for cap, limit in caps_of(case).items():
        assert after[cap] <= max(limit, before[cap]), (cap, limit, before[cap], after[cap])


def who_waits_for_a_cap_is_above_it(case: Case) -> None:
    caps, before = caps_of(case), use(case, after=False)
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
        else:
            assert wait.asked <= min(lefts)
            assert sum(before.values()) or case.plan.actions or len(case.plan.waits) > 1


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
