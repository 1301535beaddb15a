"""Fleets to decide about: 90 % full, fragmented, with many different asks. Seeded, so that every run is the same."""

from __future__ import annotations

import random
from dataclasses import replace

from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.policy import Headroom, Policy, PriorityClass, Quota
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.engine.workload import Grant, Kind, Service, Workload

GPUS = 8
NODES_PER_LEAF = 16
LEAVES_PER_SPINE = 4
TEAMS = tuple(f"team-{i:02d}" for i in range(10))
COMMITTED, BACKFILL, SERVING = 50_000, 1_000, 100_000


def shape(gpus: int) -> Shape:
    """Return a bundle with GPUs in the proportion of a node of 8."""
    return Shape(gpus=gpus, cpu_milli=gpus * 8_000, memory_mib=gpus * 131_072)


def policy(nodes: int) -> Policy:
    """Return a policy whose nominal quotas add up to the fleet: 4 of 10 GPUs are serving's."""
    training = nodes * GPUS - _serving_nodes(nodes) * GPUS
    teams = [Quota(name=team, parent="org", nominal_gpus=training // len(TEAMS)) for team in TEAMS]
    return Policy(
        levels=("spine", "leaf"),
        quotas=(
            Quota(name="org", nominal_gpus=nodes * GPUS),
            Quota(name="serving", parent="org", nominal_gpus=_serving_nodes(nodes) * GPUS),
            *teams,
        ),
        classes=(
            PriorityClass(name="serving-production", value=SERVING),
            PriorityClass(name="training-committed", value=COMMITTED),
            PriorityClass(name="training-backfill", value=BACKFILL, borrows=True, yields=True),
        ),
        headroom=Headroom(immediate_gpus=16),
    )


def fleet(nodes: int, pending: int, seed: int = 1) -> FleetState:
    """Return `nodes` nodes of 8 GPUs, 90 % of them taken, and `pending` queued workloads of 200 kinds and more."""
    chance = random.Random(seed)
    machines = tuple(_node(i, nodes) for i in range(nodes))
    free = {node.name: GPUS for node in machines}
    running: list[Workload] = []
    grants: list[Grant] = []
    for node in machines:
        _occupy(node, free, running, grants, chance)
    queued = [_ask(i, chance) for i in range(pending)]
    chat = Service(
        name="chat", team="serving", priority=SERVING, shape=shape(1), wanted=len(grants) + 4, grants=tuple(grants)
    )
    return FleetState(nodes=machines, workloads=(*running, *queued), services=(chat,))


def _serving_nodes(nodes: int) -> int:
    return nodes * 4 // 10


def _node(index: int, nodes: int) -> Node:
    leaf = index // NODES_PER_LEAF
    serving = index % 10 < 4
    return Node(
        name=f"n{index:04d}",
        node_class=NodeClass.SERVING if serving else NodeClass.TRAINING,
        domains=(f"s{leaf // LEAVES_PER_SPINE:02d}", f"l{leaf:03d}"),
        capacity=shape(GPUS),
        accelerator="H100",
    )


def _occupy(
    node: Node, free: dict[str, int], running: list[Workload], grants: list[Grant], chance: random.Random
) -> None:
    """Fill a node to seven GPUs in eight and more, in pieces of one to eight."""
    while free[node.name] > (0 if chance.random() < 0.4 else 1):
        gpus = min(free[node.name], chance.choice((1, 1, 2, 4, 8)))
        free[node.name] -= gpus
        if node.node_class is NodeClass.SERVING and chance.random() < 0.5:
            grants += [Grant(name=f"g{len(grants) + i}", node=node.name, occupied=True) for i in range(gpus)]
            continue
        committed = node.node_class is NodeClass.TRAINING and chance.random() < 0.6
        began = chance.uniform(0, 50_000)
        running.append(
            Workload(
                name=f"run-{len(running):05d}",
                kind=Kind.GANG if committed else Kind.BACKFILL,
                team=chance.choice(TEAMS),
                priority=COMMITTED if committed else BACKFILL,
                shape=shape(gpus),
                phase=Phase.RUNNING,
                nodes=(node.name,),
                submitted_at=began,
                admitted_at=began,
                started_at=began,
                saved_at=began,
            )
        )


def _ask(index: int, chance: random.Random) -> Workload:
    committed = chance.random() < 0.5
    gpus = chance.choice((1, 2, 4, 8, 8, 8))
    return Workload(
        name=f"ask-{index:05d}",
        kind=Kind.GANG if committed else Kind.BACKFILL,
        team=chance.choice(TEAMS),
        priority=COMMITTED if committed else BACKFILL,
        shape=shape(gpus),
        bundles=chance.choice((1, 2, 4, 8, 16)) if gpus == GPUS else 1,
        within=chance.choice((None, None, "spine", "leaf")),
        submitted_at=float(index),
    )


def distinct(state: FleetState) -> int:
    """Return how many different asks wait."""
    return len({replace(one, name="", submitted_at=0.0) for one in state.workloads if one.phase is Phase.QUEUED})
