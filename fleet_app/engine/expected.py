"""When a workload that waits may start: an estimate, by playing the line forward to known ends (rule O9).

Decides again and again on the fleet as it will be, if all goes as declared and nobody else comes. Nothing that is
decided rests on it. Does not know how a decision is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleet_app.engine import forward
from fleet_app.engine.admission import HOPELESS
from fleet_app.engine.decide import decide
from fleet_app.engine.ends import limit_at, spoken
from fleet_app.engine.ordering import class_of
from fleet_app.engine.plan import Plan, Reason
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import NodeClass
from fleet_app.engine.workload import Workload

EFFORT = 60_000
"""How many nodes and workloads are looked at for one estimate, over all decisions that it takes."""

LEAST_DECISIONS = 4

SHOWN = 3
"""How many names a sentence lists; the rest is counted."""

AGAIN = {Reason.PULLING, Reason.DRAINS_LIMITED}
"""What somebody waits for that may be over in the next decision, though no time has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """When a workload may start, in seconds since the epoch: about `at`, or `beyond` it where the line is too long.

    `after` are those who leave last before it, by name. `at` is None where no moment follows, and `because` says why.
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
    """Return an estimate of the start of a workload that waits; None for one that no wait will start."""
    decisions = max(LEAST_DECISIONS, effort // max(1, len(state.nodes) + len(state.workloads)))
    fleet, at = forward.begun(state, policy, now), now
    left: tuple[str, ...] = ()
    for _ in range(decisions):
        plan = decide(fleet, policy, at)
        wait = plan.wait_of(name)
        if wait is not None and wait.reason in HOPELESS:
            return None
        fleet, left_now = forward.gone(forward.carried_out(fleet, plan, at), policy, at)
        if any(one.name == name and one.holding for one in fleet.workloads):
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


def _because(state: FleetState, policy: Policy, plan: Plan, name: str) -> str:
    """Return who is in the way of a workload, once nothing more is known to end."""
    known = {one.name: one for one in state.workloads}
    first = known[_first(plan, name)]
    wait = plan.wait_of(first.name)
    reason = None if wait is None else wait.reason
    ahead = "" if first.name == name else f"{first.name} is ahead of it, and "
    if reason is Reason.REPARTITION_UNDER_WAY:
        return f"{ahead}a card has to be cut first"
    of_quota = reason is Reason.QUOTA_USED
    who = tuple(_of_quota(state, policy, first) if of_quota else _on_its_nodes(state, policy, first))
    if not who:
        return f"{ahead}nothing that is known to end would make room"
    return f"{ahead}{_listed(who)} {_has(who)} no declared end"


def _first(plan: Plan, name: str) -> str:
    """Return the first of those behind whom a workload waits; itself where it waits for no other that waits."""
    met: list[str] = []
    while name not in met:
        met.append(name)
        wait = plan.wait_of(name)
        if wait is not None and wait.reason in {Reason.RESERVED, Reason.BEHIND}:
            name = next((who for who in wait.blocked_by if plan.wait_of(who) is not None), name)
    return name


def _endless(state: FleetState, policy: Policy) -> Iterator[Workload]:
    """Yield who has nodes and no declared end, what never yields first, then the largest."""

    def rank(one: Workload) -> tuple[bool, int, str]:
        return (class_of(policy, one).yields, -one.gpus, one.name)

    for one in sorted((one for one in state.workloads if one.holding), key=rank):
        if limit_at(one) is None and not one.leaving:
            yield one


def _of_quota(state: FleetState, policy: Policy, workload: Workload) -> Iterator[str]:
    """Yield who uses what a workload lacks of quota: its team's committed work and replicas, or all of its cohort."""
    yields = class_of(policy, workload).yields
    teams = _cohort(policy, workload.team) if yields else {workload.team}
    for one in _endless(state, policy):
        if one.team in teams and (yields or not class_of(policy, one).yields):
            yield one.name
    yield from sorted(one.name for one in state.services if one.team in teams and one.grants)


def _cohort(policy: Policy, team: str) -> set[str]:
    """Return the teams that lend to one another with a team, itself included."""
    parents = {quota.name: quota.parent for quota in policy.quotas}

    def top(name: str) -> str:
        above = parents.get(name)
        return name if above is None or above not in parents else top(above)

    return {name for name in parents if top(name) == top(team)}


def _on_its_nodes(state: FleetState, policy: Policy, workload: Workload) -> Iterator[str]:
    """Yield who has no declared end on the nodes that a workload might use."""
    yields = class_of(policy, workload).yields
    nodes = {
        node.name
        for node in state.nodes
        if (yields or node.node_class is NodeClass.TRAINING) and workload.accelerator in {None, node.accelerator}
    }
    for one in _endless(state, policy):
        if not nodes.isdisjoint(one.nodes):
            yield one.name
    yield from sorted(one.name for one in state.services if any(grant.node in nodes for grant in one.grants))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _has(names: tuple[str, ...]) -> str:
    return "has" if len(names) == 1 else "have"
