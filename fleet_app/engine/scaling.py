"""How many nodes of each class the fleet should have soon, where nodes can be had on demand (rule N4).

Knows what services want and may want within the time that a node takes to come, what training has and waits for, and
which nodes go away. Does not know pools, their limits, or who makes nodes: whoever asks for them does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fleet_app.engine.headroom import immediate_gpus
from fleet_app.engine.plan import Plan, Reason
from fleet_app.engine.policy import NodePools, Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Node, NodeClass
from fleet_app.engine.workload import Workload

FOR_WANT_OF_NODES = {Reason.TOO_LARGE_FOR_FLEET, Reason.NO_ROOM, Reason.RESERVED, Reason.BEHIND}
"""What more nodes would help; whoever waits for quota would wait on them too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesAsk:
    """So many nodes of a class, of `gpus` each, there should be in all; and why."""

    node_class: NodeClass
    gpus: int
    nodes: int
    why: str


def asks(state: FleetState, policy: Policy, plan: Plan, growth_gpus: int | None) -> tuple[NodesAsk, ...]:
    """Return how many nodes there should be, training's first; none where they cannot be had.

    `growth_gpus` is how much more serving may want by the time that a node asked for now has come; None when nobody
    knows.
    """
    rules = policy.node_pools
    if not rules.scales:
        return ()
    return (_training(state, policy, rules, plan), _serving(state, policy, rules, growth_gpus or 0))


def _training(state: FleetState, policy: Policy, rules: NodePools, plan: Plan) -> NodesAsk:
    """Nodes that work which does not yield has, those that it waits for, and one for each of them that goes away."""
    held = {name for one in _committed(state, policy) if one.holding for name in one.nodes}
    busy = {node.name for node in _of(state, NodeClass.TRAINING)} & held
    names = {wait.workload for wait in plan.waits if wait.reason in FOR_WANT_OF_NODES}
    fits = rules.gpus_per_node
    waiting = [one for one in _committed(state, policy) if one.name in names and one.shape.gpus <= fits]
    more = _nodes_for(waiting, rules.gpus_per_node)
    going = len(busy & {one.node for one in state.departures})
    nodes = len(busy) + more + going
    why = f"work has {len(busy)} nodes, {len(waiting)} workloads wait for {more}, {going} in use go away"
    return NodesAsk(node_class=NodeClass.TRAINING, gpus=rules.gpus_per_node, nodes=nodes, why=why)


def _serving(state: FleetState, policy: Policy, rules: NodePools, growth: int) -> NodesAsk:
    """Nodes for what is wanted, what is held free, and what more may be wanted before a node asked for now has come."""
    wanted = sum(max(one.wanted, one.floor) * one.shape.gpus for one in state.services)
    ahead = max(growth, immediate_gpus(policy.headroom, state.growth_gpus))
    busy = {grant.node for one in state.services for grant in one.grants if grant.occupied}
    busy &= {node.name for node in _of(state, NodeClass.SERVING)}
    going = len(busy & {one.node for one in state.departures})
    nodes = max(len(busy), math.ceil((wanted + ahead) / rules.gpus_per_node)) + going
    why = f"{wanted} GPUs are wanted and {ahead} may be within a boot, {going} nodes in use go away"
    return NodesAsk(node_class=NodeClass.SERVING, gpus=rules.gpus_per_node, nodes=nodes, why=why)


def _of(state: FleetState, node_class: NodeClass) -> Iterator[Node]:
    return (node for node in state.nodes if node.node_class is node_class)


def _committed(state: FleetState, policy: Policy) -> Iterator[Workload]:
    yielding = {known.value for known in policy.classes if known.yields}
    return (one for one in state.workloads if one.priority not in yielding)


def _nodes_for(waiting: list[Workload], gpus_per_node: int) -> int:
    """Return how many nodes all of them need: one for a bundle that fills it, others side by side, but one each."""
    whole = [one for one in waiting if one.shape.gpus >= gpus_per_node]
    parts = [one for one in waiting if one.shape.gpus < gpus_per_node]
    side_by_side = math.ceil(sum(one.gpus for one in parts) / gpus_per_node)
    return sum(one.bundles for one in whole) + max([side_by_side, *(one.bundles for one in parts)])
