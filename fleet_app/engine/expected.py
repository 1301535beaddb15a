"""When somebody who waits may start: an estimate, by playing the line forward to known ends (rule O9).

Decides again and again on the fleet as it will be, if all goes as declared and nobody else comes. Nothing that is
decided rests on it. Does not know how a decision is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fleet_app.engine import forward
from fleet_app.engine.decide import decide
from fleet_app.engine.ends import limit_at, spoken
from fleet_app.engine.flavors import whole_of
from fleet_app.engine.ordering import class_of
from fleet_app.engine.plan import HOPELESS, GiveGrant, GiveSlice, Plan, Reason, Wait
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Node, NodeClass
from fleet_app.engine.workload import Service, Workload

EFFORT = 60_000
"""How many nodes and workloads are looked at for one estimate, over all decisions that it takes."""

LEAST_DECISIONS = 4

SHOWN = 3
"""How many names a sentence lists; the rest is counted."""

AGAIN = {Reason.PULLING, Reason.DRAINS_LIMITED}
"""What somebody waits for that may be over in the next decision, though no time has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """When it may start, in seconds since the epoch: about `at`, or `beyond` it where the line is too long.

    Of a service it is the next of the replicas that find no place now. `after` are those who leave last before it, by
    name. `at` is None where no moment follows, and `because` says why.
    """

    at: float | None = None
    beyond: bool = False
    after: tuple[str, ...] = ()
    because: str = ""

    def sentence(self, now: float) -> str:
        """Return the estimate as a person reads it."""
        if self.at is None:
            return f"unknown, because {self.because}"
        if self.beyond:
            return f"not before {spoken(self.at - now)} from now: the line is too long to be followed further"
        last = f", when {_listed(self.after)} {_has(self.after)} left" if self.after else ""
        when = f"in about {spoken(self.at - now)}" if self.at > now else "any moment now"
        return f"{when}{last}, if all goes as declared and nobody else comes"


def expected(state: FleetState, policy: Policy, now: float, name: str, *, effort: int = EFFORT) -> Expected | None:
    """Return an estimate of the start of a workload, or a replica, that waits; None where no wait will start it."""
    decisions = max(LEAST_DECISIONS, effort // max(1, len(state.nodes) + len(state.workloads)))
    fleet, at = forward.begun(state, policy, now), now
    left: tuple[str, ...] = ()
    for number in range(decisions):
        plan = decide(fleet, policy, at)
        wait = plan.wait_of(name)
        if wait is not None and wait.reason in HOPELESS:
            return None
        fleet, left_now = forward.gone(forward.carried_out(fleet, plan, at), policy, at)
        if any(one.name == name and one.holding for one in fleet.workloads) or (number and _is_given(plan, name)):
            return Expected(at=at, after=left)
        if left_now or (plan.actions and any(one.reason in AGAIN for one in plan.answers)):
            left = left_now or left
            continue
        next_at = forward.next_at(fleet, policy, at)
        if next_at is None:
            return Expected(because=_because(fleet, policy, plan, name))
        at = next_at
        fleet, left = forward.gone(fleet, policy, at)
    return Expected(at=at, beyond=True)


def _is_given(plan: Plan, name: str) -> bool:
    """Return whether a service gets a place for one more replica."""
    return any(isinstance(action, GiveGrant | GiveSlice) and action.service == name for action in plan.actions)


def _because(state: FleetState, policy: Policy, plan: Plan, name: str) -> str:
    """Return who is in the way of somebody who waits, once nothing more is known to end."""
    known: dict[str, Workload | Service] = {one.name: one for one in state.workloads}
    known |= {one.name: one for one in state.services}
    first = known[_first(plan, name)]
    wait = plan.wait_of(first.name)
    ahead = "" if first.name == name else f"{first.name} is ahead of it, and "
    if wait is not None and wait.reason is Reason.REPARTITION_UNDER_WAY:
        return f"{ahead}a card has to be cut first"
    of_quota = wait is not None and wait.reason is Reason.QUOTA_USED
    found = _of_quota(state, policy, first, wait) if wait and of_quota else _on_its_nodes(state, policy, first)
    who = tuple(other for other in found if other != first.name)
    if not who and isinstance(first, Service) and first.grants:
        return "its own replicas have all that there is for it"
    if not who:
        return f"{ahead}nothing that is known to end would make room"
    return f"{ahead}{_listed(who)} {_has(who)} no declared end"


def _first(plan: Plan, name: str) -> str:
    """Return the first of those behind whom a workload waits; itself where it waits for no other that waits."""
    met: list[str] = []
    while name not in met:
        met.append(name)
        wait = plan.wait_of(name)
        if wait is not None and wait.reason in {Reason.RESERVED, Reason.BEHIND, Reason.ITS_TURN}:
            name = next((who for who in wait.blocked_by if plan.wait_of(who) is not None), name)
    return name


def _endless(state: FleetState, policy: Policy) -> Iterator[Workload]:
    """Yield who has nodes and no declared end, what never yields first, then the largest."""

    def rank(one: Workload) -> tuple[bool, int, str]:
        return (class_of(policy, one).yields, -one.gpus, one.name)

    for one in sorted((one for one in state.workloads if one.holding), key=rank):
        if limit_at(one) is None and not one.leaving:
            yield one


def _of_quota(state: FleetState, policy: Policy, first: Workload | Service, wait: Wait) -> Iterator[str]:
    """Yield who uses what it lacks of quota: its team's committed work and replicas, or all of its cohort.

    Of a cap all below the entries that have one, with GPUs of its accelerator (V9).
    """
    accelerator = whole_of(wait.level or "")
    yields = _yields(policy, first)
    teams = _cohort(policy, first.team) if yields else {first.team}
    teams = _under_caps(policy, first.team, wait.level) if accelerator and wait.level else teams
    nodes = {one.name for one in state.nodes if accelerator in {"", one.accelerator.lower()}}
    for one in _endless(state, policy):
        here = not accelerator or not nodes.isdisjoint(one.nodes)
        if one.team in teams and here and (yields or not class_of(policy, one).yields):
            yield one.name
    yield from _replicas(state, lambda one, node: one.team in teams and (not accelerator or node in nodes))


def _replicas(state: FleetState, which: Callable[[Service, str], bool]) -> list[str]:
    """Return the services of which some replicas are among those, told by service and node."""
    return sorted(one.name for one in state.services if any(which(one, grant.node) for grant in one.grants))


def _yields(policy: Policy, one: Workload | Service) -> bool:
    return isinstance(one, Workload) and class_of(policy, one).yields


def _under_caps(policy: Policy, team: str, flavor: str) -> set[str]:
    """Return the teams below the entries above a team that have a number for a flavor."""
    parents = {quota.name: quota.parent for quota in policy.quotas}

    def path(name: str | None) -> Iterator[str]:
        while name in parents:
            yield name
            name = parents[name]

    capped = {quota.name for quota in policy.quotas if any(own.flavor.lower() == flavor for own in quota.flavors)}
    shared = capped.intersection(path(team))
    return {name for name in parents if not shared.isdisjoint(path(name))}


def _cohort(policy: Policy, team: str) -> set[str]:
    """Return the teams that lend to one another with a team, itself included."""
    parents = {quota.name: quota.parent for quota in policy.quotas}

    def top(name: str) -> str:
        above = parents.get(name)
        return name if above is None or above not in parents else top(above)

    return {name for name in parents if top(name) == top(team)}


def _on_its_nodes(state: FleetState, policy: Policy, first: Workload | Service) -> Iterator[str]:
    """Yield who has no declared end on the nodes that somebody might use, and whom a replica could not ask to leave."""
    nodes = {node.name for node in state.nodes if _might_use(policy, first, node)}
    for one in _endless(state, policy):
        leaves = isinstance(first, Service) and class_of(policy, one).yields and one.priority < first.priority
        if not leaves and not nodes.isdisjoint(one.nodes):
            yield one.name
    yield from _replicas(state, lambda _, node: node in nodes)


def _might_use(policy: Policy, first: Workload | Service, node: Node) -> bool:
    if isinstance(first, Service):
        return node.node_class is NodeClass.SERVING
    training = _yields(policy, first) or node.node_class is NodeClass.TRAINING
    return training and first.accelerator in {None, node.accelerator}


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _has(names: tuple[str, ...]) -> str:
    return "has" if len(names) == 1 else "have"
