"""What to move so that scattered free GPUs become whole nodes again: a recommendation (rules F2 to F4).

Knows what may move and where it may go. Decides nothing: no move is carried out because it is written here.

A node becomes whole when everything on it finds room on nodes that stay in use. Such nodes are tried one after another,
the one that takes the fewest moves first; what moves goes first where nothing can ever be emptied, then to the fullest
node that has room, and where it finds none, to a node from which smaller things can go. Moves that make room come
first, and nothing else depends on order: however much of the plan is carried out, the fleet is no worse than before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from fleet_app.engine.eligibility import eligible
from fleet_app.engine.fragments import is_whole, room_of, stranded_gpus
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.packing import Item, Moved, Packing, Step
from fleet_app.engine.plan import Hold
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.engine.workload import Grant, Service, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One thing that changes nodes: a service's grant, or a job that is drained and resumes elsewhere.

    `what` names the service or the workload, `grant` the grant (empty for a job). The place on `target` is free
    before the one on `source` is given up. `lost_gpu_s` is the GPU-seconds of work that a job would do again.
    """

    kind: Moved
    what: str
    grant: str
    source: str
    target: str
    gpus: int
    lost_gpu_s: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Moves, one service after another, and what they come to: in GPUs and in whole nodes."""

    moves: tuple[Move, ...] = ()
    freed_nodes: tuple[str, ...] = ()
    stranded_before_gpus: int = 0
    stranded_after_gpus: int = 0
    whole_nodes_before: int = 0
    lost_gpu_s: float = 0.0


Freed = tuple[str, list[Step]]
"""A node that is emptied, and the steps that it takes."""


def compact(
    state: FleetState, policy: Policy, now: float, holds: Iterable[Hold] = (), most_nodes: int | None = None
) -> Compaction:
    """Return moves after which more nodes are whole; none when no node can be emptied (F2).

    `now` is in seconds since the epoch. `holds` are those of the last plan. With `most_nodes` no more nodes are
    emptied than that.
    """
    ledger = Ledger(state, policy, now)
    room = room_of(ledger, holds)
    nodes = list(ledger.nodes.values())
    freed, after = _best_way(ledger, room, _items(ledger, state, room), most_nodes)
    steps = [(step, _move(node, step)) for node, done in freed for step in done]
    ordered = sorted(steps, key=lambda pair: (not pair[0].room_for, _rank(pair[1])))
    found = tuple(move for _, move in ordered)
    return Compaction(
        moves=found,
        freed_nodes=tuple(node for node, _ in freed),
        stranded_before_gpus=stranded_gpus(nodes, room),
        stranded_after_gpus=stranded_gpus(nodes, after),
        whole_nodes_before=sum(is_whole(node, room) for node in nodes),
        lost_gpu_s=sum(move.lost_gpu_s for move in found),
    )


def _best_way(
    ledger: Ledger, room: dict[str, Shape], items: dict[str, list[Item]], most_nodes: int | None
) -> tuple[list[Freed], dict[str, Shape]]:
    """Return the nodes that are emptied, and the room after that: more nodes are better, then fewer steps.

    Two ways are tried: room is made for what finds none at once, or only when no more can be emptied without.
    """
    ways = []
    for at_once in (True, False):
        after = dict(room)
        freed = list(islice(_emptied(ledger, after, items, at_once=at_once), most_nodes))
        ways.append((freed, after))
    return min(ways, key=lambda way: (-len(way[0]), sum(len(steps) for _, steps in way[0])))


def _emptied(ledger: Ledger, room: dict[str, Shape], items: dict[str, list[Item]], *, at_once: bool) -> Iterator[Freed]:
    """Yield each node that can be emptied with the steps that it takes, the one with the fewest things first."""
    whole = {name for name in room if is_whole(ledger.nodes[name], room)}
    sources = _sources(ledger, room, items, whole)
    able = [node.name for node in reversed(sources)]
    moving = {*whole, *able}
    packing = Packing(room, items, [name for name in room if name not in moving], able)
    passes = ((False, True),) if at_once else ((False,), (True,))
    for tries in passes:
        for node in sources:
            steps = next(filter(None, (packing.empty(node.name, displace=displace) for displace in tries)), None)
            if steps:
                yield node.name, steps


def _rank(move: Move) -> tuple[int, str, str, str]:
    return (list(Moved).index(move.kind), move.what, move.source, move.grant)


def _move(freed: str, step: Step) -> Move:
    item = step.item
    return Move(
        kind=item.kind,
        what=item.what,
        grant=item.grant,
        source=step.source,
        target=step.target,
        gpus=item.shape.gpus,
        lost_gpu_s=item.lost_gpu_s,
        why=f"makes room for {step.room_for}" if step.room_for else f"empties {freed}",
    )


def _sources(ledger: Ledger, room: dict[str, Shape], items: dict[str, list[Item]], whole: set[str]) -> list[Node]:
    """Return the nodes on which everything that uses a GPU may move, the one that takes the fewest moves first.

    Of equal ones the one that loses the least work, then one whose domain has the most whole nodes already.
    """
    neighbours = Counter(ledger.nodes[name].domains for name in whole)
    able = [
        ledger.nodes[name]
        for name, there in items.items()
        if name in room and ledger.nodes[name].capacity.gpus - room[name].gpus == sum(item.shape.gpus for item in there)
    ]

    def rank(node: Node) -> tuple[int, float, int, tuple[str, ...], str]:
        there = items[node.name]
        lost = sum(item.lost_gpu_s for item in there)
        return (len(there), lost, -neighbours[node.domains], node.domains, node.name)

    return sorted(able, key=rank)


def _items(ledger: Ledger, state: FleetState, room: dict[str, Shape]) -> dict[str, list[Item]]:
    """Return by node what may move from there (F3); nothing moves to where something is booked (C1, C8)."""
    found: dict[str, list[Item]] = defaultdict(list)
    booked = frozenset() if ledger.calendar is None else frozenset(ledger.calendar.on)
    serving = frozenset(name for name in room if ledger.nodes[name].node_class is NodeClass.SERVING) - booked
    apart = _kept_apart(ledger, state.services)
    for service in sorted(state.services, key=lambda one: one.name):
        for grant in service.grants:
            if service.name not in apart and _may_move(ledger, service, grant):
                found[grant.node].append(_of_grant(service, grant, serving))
    targets: dict[int, frozenset[str]] = {}  # all that are alike get one and the same list of nodes
    for workload in ledger.holding:
        if _may_restart(ledger, workload):
            nodes = eligible(ledger, workload)
            names = targets.setdefault(id(nodes), frozenset(node.name for node in nodes) - booked)
            found[workload.nodes[0]].append(_of_job(ledger, workload, names))
    return found


def _may_move(ledger: Ledger, service: Service, grant: Grant) -> bool:
    """Return whether a grant may move: a running replica only where both fit into its team's nominal (F4)."""
    if service.spread or service.shape.gpus == 0:
        return False
    return not grant.occupied or ledger.firm_left(service.team) >= service.shape.gpus


def _kept_apart(ledger: Ledger, services: Iterable[Service]) -> set[str]:
    """Return the services that are kept apart from others, or from which others are (S8): they stay."""
    own = (one.affinity for one in services)
    rules = [*ledger.policy.affinities, *(one for one in own if one is not None)]
    return {one.service for one in rules} | {name for one in rules for name in one.apart_from}


def _may_restart(ledger: Ledger, workload: Workload) -> bool:
    """Return whether a workload may be drained and resume elsewhere: it yields, runs and has one bundle (F3)."""
    runs = workload.phase is Phase.RUNNING and not workload.killed and len(workload.nodes) == 1
    return runs and workload.shape.gpus > 0 and ledger.class_of(workload).yields


def _of_grant(service: Service, grant: Grant, targets: frozenset[str]) -> Item:
    return Item(
        kind=Moved.REPLICA if grant.occupied else Moved.GRANT,
        what=service.name,
        grant=grant.name,
        shape=service.shape,
        lost_gpu_s=0.0,
        targets=targets,
    )


def _of_job(ledger: Ledger, workload: Workload, targets: frozenset[str]) -> Item:
    return Item(
        kind=Moved.JOB,
        what=workload.name,
        grant="",
        shape=workload.shape,
        lost_gpu_s=ledger.lost_gpu_s(workload),
        targets=targets,
    )
