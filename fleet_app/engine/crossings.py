"""Nodes that go over to another class: how they look meanwhile, and the nominal that goes along (rules B4 to B6).

Knows crossings, nodes and the policy's quotas. Does not know why a node crosses, nor what is on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fleet_app.engine.forecast import WEEK_S
from fleet_app.engine.policy import Policy, Quota
from fleet_app.engine.values import Condition, Crossing, Node, NodeClass


def as_seen(node: Node, crossing: Crossing | None) -> Node:
    """Return a node with the class that it has by now, and closed to anything new while it crosses (B5, N3)."""
    if crossing is None:
        return node
    closed = crossing.under_way and node.placeable
    return replace(node, node_class=crossing.now, condition=Condition.CORDONED if closed else node.condition)


def called_off(crossing: Crossing) -> Crossing | None:
    """Return what is left of a crossing that is called off: None, or of a node's way back that it crossed before (B6).

    It crossed before by a week at least (B3): it does not count against this one any more.
    """
    if crossing.was is crossing.home:
        return None
    before = crossing.asked_at - WEEK_S
    there = replace(crossing, was=crossing.home, to=crossing.was, machine="", pool="", settled_at=None)
    return replace(there, asked_at=before, moved_at=before)


def shifted(policy: Policy, crossings: Iterable[Crossing]) -> Policy:
    """Return the policy with the nominal of the nodes that have crossed where it belongs now (B4).

    What the team that gives has not got is not given.
    """
    rules = policy.boundary
    if rules is None:
        return policy
    gpus = sum(_towards_serving(one) for one in crossings)
    giver, taker = (rules.training, rules.serving) if gpus > 0 else (rules.serving, rules.training)
    entries = {quota.name: quota for quota in policy.quotas}
    if gpus == 0 or giver not in entries or taker not in entries:
        return policy
    given = min(abs(gpus), entries[giver].nominal_gpus)
    above_giver, above_taker = list(_upwards(entries, giver)), list(_upwards(entries, taker))
    change = {name: -given for name in above_giver if name not in above_taker}
    change |= {name: given for name in above_taker if name not in above_giver}
    return replace(policy, quotas=tuple(_changed(quota, change.get(quota.name, 0)) for quota in policy.quotas))


def _towards_serving(crossing: Crossing) -> int:
    if crossing.now is crossing.home:
        return 0
    return crossing.gpus if crossing.now is NodeClass.SERVING else -crossing.gpus


def _changed(quota: Quota, gpus: int) -> Quota:
    return replace(quota, nominal_gpus=quota.nominal_gpus + gpus) if gpus else quota


def _upwards(entries: dict[str, Quota], name: str | None) -> Iterator[str]:
    while name is not None and name in entries:
        yield name
        name = entries[name].parent
