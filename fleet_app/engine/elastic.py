"""Gangs and backfill that run with fewer members than they would like: how many now, and when they grow (R8, P12, G5).

Knows the ledger. Who shrinks is a question of who yields, and not answered here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fleet_app.engine import placement, refusal
from fleet_app.engine.eligibility import cap_allows, depth, eligible, unreserved
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Grow
from fleet_app.engine.pulls import Gate
from fleet_app.engine.rooms import rooms_of
from fleet_app.engine.values import Node, NodeClass
from fleet_app.engine.workload import Workload


def sized(ledger: Ledger, workload: Workload) -> Workload:
    """Return a queued workload with as many bundles as it can have at once; with its minimum where it has to wait."""
    minimum = workload.minimum or workload.bundles
    if workload.team not in ledger.tree.entries:
        return replace(workload, bundles=minimum)
    least = workload if ledger.caps is None else replace(workload, bundles=minimum)
    fitting = unreserved(ledger, workload, rooms_of(ledger, workload.shape, eligible(ledger, least)).now())
    for count in range(min(workload.bundles, placement.most(fitting, depth(ledger, workload))), minimum, -1):
        so_large = replace(workload, bundles=count)
        if _allowed(ledger, so_large) and (ledger.caps is None or _fits(ledger, so_large)):
            return so_large
    return replace(workload, bundles=minimum)


def grow(ledger: Ledger, gate: Gate | None = None) -> Iterator[Grow]:
    """Yield more members for running workloads that have fewer than they would like; for when nobody waits.

    They join as they may fetch what they need, where there is a `gate` (G5).
    """
    able = [one for one in ledger.members.elastic.values() if _may_grow(ledger, one)]
    for workload in sorted(able, key=lambda one: (-one.priority, one.submitted_at, one.name)):
        nodes = _more(ledger, workload)
        if gate is not None:
            nodes = gate.joining(workload, nodes)
        if nodes:
            yields = ledger.class_of(workload).yields
            ledger.give(workload.team, nodes, workload.shape, firm=not yields)
            if ledger.calendar is not None:
                more = replace(workload, bundles=len(nodes))
                ledger.calendar.place(more, nodes, yields=yields, since=ledger.now)
            has = f"{len(workload.nodes) + len(nodes)} of {workload.bundles} members"
            about = "" if gate is None else gate.about(workload, nodes)
            yield Grow(workload=workload.name, nodes=nodes, why=f"nobody waits for the room; {has}{about}")


def _may_grow(ledger: Ledger, workload: Workload) -> bool:
    """Return whether an elastic workload runs, with members missing and none of them leaving."""
    whole = ledger.members.staying.get(workload.name) == workload.nodes and workload.phase is Phase.RUNNING
    sound = whole and all(name in ledger.nodes for name in workload.nodes)
    return sound and len(workload.nodes) < workload.bundles and workload.team in ledger.tree.entries


def _more(ledger: Ledger, workload: Workload) -> tuple[str, ...]:
    """Return free nodes beside those that it has: of one kind and class, in one domain (P4, P12), nearest first."""
    held, level = [ledger.nodes[name] for name in workload.nodes], depth(ledger, workload)
    blocks = {(node.block(level), node.node_class) for node in held}
    fitting = unreserved(ledger, workload, rooms_of(ledger, workload.shape, eligible(ledger, workload)).now())
    alike = [node for node in fitting if {(node.block(level), node.node_class)} == blocks]
    able = [node for node in alike if node.name not in workload.nodes]

    def farness(node: Node) -> tuple[int, bool, int, tuple[str, ...], str]:
        training, free = node.node_class is NodeClass.TRAINING, ledger.free[node.name].gpus
        return (-_shared(node, held[0]), training, free, node.domains, node.name)

    nearest = sorted(able, key=farness)[: workload.bundles - len(held)]
    for count in range(len(nearest), 0, -1):
        more = replace(workload, nodes=(), bundles=count, accelerator=held[0].accelerator)
        if _allowed(ledger, more) and (ledger.caps is None or cap_allows(ledger, more, held[0].accelerator)):
            return tuple(node.name for node in nearest[:count])
    return ()


def _fits(ledger: Ledger, workload: Workload) -> bool:
    """Return whether the nodes that the caps leave to so many members hold them (V9)."""
    fitting = unreserved(ledger, workload, rooms_of(ledger, workload.shape, eligible(ledger, workload)).now())
    return placement.most(fitting, depth(ledger, workload)) >= workload.bundles


def _allowed(ledger: Ledger, workload: Workload) -> bool:
    """Return whether the team may take so much more now."""
    return ledger.available(workload.team) >= workload.gpus and refusal.over_quota(ledger, workload) is None


def _shared(one: Node, other: Node) -> int:
    """Return how many levels two nodes have in common."""
    depth = 0
    for mine, theirs in zip(one.domains, other.domains, strict=False):
        if mine != theirs:
            break
        depth += 1
    return depth
