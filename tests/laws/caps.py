"""What must hold of caps on whole GPUs of an accelerator, counted from the facts (rule V9).

Sums are done the slow way, entry by entry. Used by `reference.py`, whose `Case` every law takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from fleet_app.engine.plan import Admit, GiveGrant, Grow, Reason
from fleet_app.engine.values import NodeClass

Cap = tuple[str, str]
"""An entry of the quota tree, and an accelerator."""


def caps_of(case: Any) -> dict[Cap, int]:
    """Return every cap of the policy."""
    return {
        (quota.name, own.flavor.removesuffix("-whole")): own.nominal
        for quota in case.policy.quotas
        for own in quota.flavors
        if own.flavor.endswith("-whole")
    }


def path(case: Any, team: str) -> list[str]:
    """Return a team and all above it."""
    parents = {quota.name: quota.parent for quota in case.policy.quotas}
    found = [team]
    while parents.get(found[-1]) is not None:
        found.append(parents[found[-1]])
    return found


def has(case: Any, one: Any, nodes: Iterable[str]) -> Counter[str]:
    """Return the GPUs of each accelerator that a workload has, or would have on those nodes."""
    nodes = tuple(nodes)
    shapes = one.shapes[: len(nodes)] if getattr(one, "groups", ()) else (one.shape,) * len(nodes)
    found: Counter[str] = Counter()
    for name, shape in zip(nodes, shapes, strict=True):
        if name in case.nodes:
            found[case.nodes[name].accelerator] += shape.gpus
    return found


def use(case: Any, *, after: bool, only: set[str] | None = None) -> Counter[Cap]:
    """Return the whole GPUs that each entry has of each accelerator, before or after the plan.

    `only` are those whose admissions count.
    """
    found: Counter[Cap] = Counter()

    def count(team: str, gpus: Counter[str]) -> None:
        for entry in path(case, team):
            for accelerator, number in gpus.items():
                found[entry, accelerator] += number

    for one in case.state.workloads:
        count(one.team, has(case, one, one.nodes if one.holding else ()))
    for each in case.state.services:
        for grant in each.grants:
            count(each.team, has(case, each, (grant.node,)))
    for action in case.actions(Admit, Grow) if after else ():
        if only is None or action.workload in only:
            one = case.workloads[action.workload]
            count(one.team, has(case, one, action.nodes))
    for action in case.actions(GiveGrant) if after else ():
        service = case.services[action.service]
        count(service.team, has(case, service, (action.node,)))
    return found


def caps_are_kept(case: Any) -> None:
    """V9: no entry gets more of an accelerator than its number; what it has above that already stays as it is."""
    before, after = use(case, after=False), use(case, after=True)
    for cap, limit in caps_of(case).items():
        assert after[cap] <= max(limit, before[cap]), (cap, limit, before[cap], after[cap])


def who_waits_for_a_cap_is_above_it(case: Any) -> None:
    """V9, I9: the numbers of a wait are those of the tightest cap; only what could never be is called so."""
    caps = caps_of(case)
    for wait in case.plan.waits:
        if wait.level is None or not wait.level.endswith("-whole"):
            continue
        asker = case.workloads.get(wait.workload) or case.services[wait.workload]
        limits = [
            caps[cap] for entry in path(case, asker.team) if (cap := (entry, wait.level.removesuffix("-whole"))) in caps
        ]
        assert wait.asked > wait.available
        if wait.reason is Reason.TOO_LARGE_FOR_QUOTA:
            assert wait.available == min(limits)
        elif wait.workload in case.workloads:
            assert wait.asked <= min(limits)


def allows(case: Any, team: str, accelerator: str, gpus: int, first: set[str]) -> bool:
    """Return whether all caps surely leave a team so many GPUs beside what was given before its turn.

    `first` are those that came before it: who of them waits may keep what it asks for, of whatever accelerator.
    """
    caps = caps_of(case)
    used = use(case, after=True, only=first)
    for one in case.state.workloads:
        if one.name in first and case.wait(one.name) is not None and not case.yields(one):
            for entry in path(case, one.team):
                used[entry, accelerator] += one.gpus if one.minimum is None else one.shape.gpus * one.minimum
    for entry, gpus_more in missing(case).items():
        used[entry, accelerator] += gpus_more
    return all(
        used[entry, accelerator] + gpus <= caps[entry, accelerator]
        for entry in path(case, team)
        if gpus and (entry, accelerator) in caps
    )


def is_in_the_way_of_a_cap(case: Any, victim: Any, asker: Any) -> bool:
    """Return whether one that has nodes counts for a cap that would not leave an asker all that it asks for (V9)."""
    caps, used = caps_of(case), use(case, after=True)
    shared = set(path(case, victim.team)) & set(path(case, asker.team))
    on = {(entry, kind) for entry in shared for kind in has(case, victim, victim.nodes)}
    return any(used[cap] + asker.gpus > caps[cap] for cap in on & set(caps))


def missing(case: Any) -> Counter[str]:
    """Return the GPUs that services of each entry wait for, or keep room for: of which accelerator is not in a plan."""
    from tests.laws.reference import immediate

    found: Counter[str] = Counter()
    for service in case.state.services:
        has_now = len(service.grants) + sum(action.service == service.name for action in case.actions(GiveGrant))
        replicas = max(0, max(service.wanted, service.floor) + immediate(case) - has_now)
        for entry in path(case, service.team):
            found[entry] += replicas * service.shape.gpus
    return found


def replicas_wait_for_no_cap_that_others_yield(case: Any) -> None:
    """V9, I3: where a replica waits for a cap, not even all that yields below it would leave it enough.

    Or no node of serving's of that accelerator could have room for it.
    """
    from tests.laws.reference import comes_free_for_serving, could_be_placed

    if case.policy.affinities or any(one.affinity for one in case.state.services) or comes_free_for_serving(case):
        return
    if any(wait.reason is Reason.DRAIN_UNDER_WAY for wait in case.plan.waits):
        return
    caps, used = caps_of(case), use(case, after=True)
    for wait in case.plan.waits:
        service = case.services.get(wait.workload)
        if service is None or service.slice is not None or not (wait.level or "").endswith("-whole"):
            continue
        for accelerator in {node.accelerator for node in case.nodes.values() if node.node_class is NodeClass.SERVING}:
            left = used.copy()
            for one in case.state.workloads:
                if one.holding and case.yields(one) and one.priority < service.priority:
                    for entry in path(case, one.team):
                        left[entry, accelerator] -= has(case, one, one.nodes)[accelerator]
            enough = all(
                left[entry, accelerator] + service.shape.gpus <= caps[entry, accelerator]
                for entry in path(case, service.team)
                if (entry, accelerator) in caps
            )
            assert not enough or not could_be_placed(case, service, accelerator), (wait, accelerator)


def no_floor_waits_for_a_cap_that_idle_grants_hold(case: Any) -> None:
    """S3, V9: below its floor a service waits for no cap below which others have enough idle grants above theirs.

    Judged where all idle grants of a service are above its floor, and some node would have room with them.
    """
    from tests.laws.reference import comes_free_for_serving, enlarges_nothing, sound, usage, used_rooms

    if case.policy.affinities or any(one.affinity for one in case.state.services) or comes_free_for_serving(case):
        return
    caps, used, room = caps_of(case), use(case, after=True), used_rooms(case)
    for action in case.actions(GiveGrant):
        room[action.node] -= action.shape
    for wait in case.plan.waits:
        service = case.services.get(wait.workload)
        given = sum(action.service == wait.workload for action in case.actions(GiveGrant))
        if service is None or not (wait.level or "").endswith("-whole") or len(service.grants) + given >= service.floor:
            continue
        if not enlarges_nothing(case.policy, usage(case, after=True), service.team, service.shape.gpus):
            continue
        for accelerator in {node.accelerator for node in case.nodes.values()}:
            left, there = used.copy(), room.copy()
            for other, grant in _spare(case, service, accelerator):
                there[grant.node] += other.shape
                for entry in path(case, other.team):
                    left[entry, accelerator] -= other.shape.gpus
            enough = all(
                left[entry, accelerator] + service.shape.gpus <= caps[entry, accelerator]
                for entry in path(case, service.team)
                if (entry, accelerator) in caps
            )
            able = [one for one in _serving(case, accelerator) if sound(case, one)]
            assert not (enough and any(service.shape.fits(there[one.name]) for one in able)), (wait, accelerator)


def _spare(case: Any, service: Any, accelerator: str) -> list[tuple[Any, Any]]:
    """Return the idle grants of others on an accelerator of serving's, of those of which all are above the floor."""
    found = []
    names = {node.name for node in _serving(case, accelerator)}
    for other in case.state.services:
        idle = [grant for grant in other.grants if not grant.occupied]
        if other.name != service.name and len(other.grants) - len(idle) >= other.floor:
            found += [(other, grant) for grant in idle if grant.node in names]
    return found


def _serving(case: Any, accelerator: str) -> list[Any]:
    nodes = case.nodes.values()
    return [one for one in nodes if one.node_class is NodeClass.SERVING and one.accelerator == accelerator]


CAP_LAWS = (
    caps_are_kept,
    who_waits_for_a_cap_is_above_it,
    replicas_wait_for_no_cap_that_others_yield,
    no_floor_waits_for_a_cap_that_idle_grants_hold,
)
