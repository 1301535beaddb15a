"""Who holds what a service waits for: its team's nominal, room on serving's nodes, or room that is coming free.

Knows the facts and one service. Does not know what is decided on them.
"""

from __future__ import annotations

from collections import Counter

from fleet_app.engine.ordering import class_of
from fleet_app.engine.plan import Reason
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import NodeClass
from fleet_app.engine.workload import Service


def holders_of(state: FleetState, policy: Policy, service: Service, reason: Reason) -> tuple[str, ...]:
    """Return who holds what the service waits for and how many GPUs of it, those with the most first."""
    if reason is Reason.QUOTA_USED:
        found = _of_nominal(state, policy, service.team)
    elif reason is Reason.DRAIN_UNDER_WAY:
        found = _leaving(state, service)
    else:
        found = _on_serving_nodes(state, policy)
    ordered = sorted(found.items(), key=lambda held: (-held[1], held[0]))
    return tuple(f"{who} ({gpus} GPUs)" for who, gpus in ordered if gpus)


def _of_nominal(state: FleetState, policy: Policy, team: str) -> Counter[str]:
    """Return what never yields in a team: that is what its nominal is used by (Q3)."""
    found = Counter({one.name: one.shape.gpus * len(one.grants) for one in state.services if one.team == team})
    for one in state.workloads:
        if one.team == team and one.holding and not class_of(policy, one).yields:
            found[one.name] += one.gpus
    return found


def _leaving(state: FleetState, service: Service) -> Counter[str]:
    """Return who leaves for the service; where nobody was asked for it, who leaves serving's nodes anyway."""
    serving = {node.name for node in state.nodes if node.node_class is NodeClass.SERVING}
    found = {one.name: one for one in state.workloads if one.leaving and not serving.isdisjoint(one.nodes)}
    own = {name: one for name, one in found.items() if one.drained_for == service.name}
    return Counter({name: one.gpus for name, one in (own or found).items()})


def _on_serving_nodes(state: FleetState, policy: Policy) -> Counter[str]:
    """Return what is on serving's nodes and stays there: replicas, grants, what never yields, what is not ours."""
    serving = {node.name for node in state.nodes if node.node_class is NodeClass.SERVING}
    found: Counter[str] = Counter()
    for node in state.nodes:
        if node.name in serving:
            for owner in node.foreign_owners or ("others",):
                found[f"foreign {owner}"] += node.foreign.gpus // max(1, len(node.foreign_owners))
    for one in state.services:
        found[one.name] += one.shape.gpus * sum(grant.node in serving for grant in one.grants)
    for workload in state.workloads:
        if workload.holding and not class_of(policy, workload).yields:
            found[workload.name] += sum(shape.gpus for name, shape in workload.seats if name in serving)
    return found
