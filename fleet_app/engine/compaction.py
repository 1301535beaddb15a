"""What to move so that scattered free GPUs become whole nodes again: a recommendation (rules F2 to F4).

Knows what may move and where it may go. Decides nothing: no move is carried out because it is written here.

A node becomes whole when everything on it finds room on nodes that stay in use. Such nodes are tried one after another,
the one that takes the fewest moves first; what moves goes first where nothing can ever be emptied, then to the fullest
node that has room. A node that has taken something in is never emptied, and an emptied one takes nothing, so no move
waits for another and any part of the plan, in any order, leaves the fleet no worse.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from fleet_app.engine.eligibility import eligible
from fleet_app.engine.fragments import is_whole, room_of, stranded_gpus
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Hold
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.engine.workload import Grant, Service, Workload


class Moved(StrEnum):
    """What sort of thing moves, in the order in which it is worth moving: the cheapest first."""

    GRANT = "idle grant"
    REPLICA = "replica"
    JOB = "job"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """Something on a node that may move, and the nodes that may take it."""

    kind: Moved
    what: str
    grant: str
    shape: Shape
    lost_gpu_s: float
    targets: frozenset[str]


class _Pool:
    """Nodes that may take something in, by how many GPUs they have free: the fullest that has room is found at once."""

    def __init__(self, names: Iterable[str], room: dict[str, Shape]) -> None:
        self._room = room
        self._by_free: dict[int, dict[str, None]] = defaultdict(dict)
        for name in names:
            self._by_free[room[name].gpus][name] = None

    def __contains__(self, name: str) -> bool:
        return name in self._by_free[self._room[name].gpus]

    def remove(self, name: str) -> None:
        del self._by_free[self._room[name].gpus][name]

    def find(self, item: _Item, source: str) -> str | None:
        """Return the fullest node that has room for the item and may take it."""
        for free in sorted(gpus for gpus in self._by_free if gpus >= item.shape.gpus):
            for name in self._by_free[free]:
                if name != source and name in item.targets and item.shape.fits(self._room[name]):
                    return name
        return None

    def change(self, name: str, by: Shape) -> None:
        """Count more room on a node, or less."""
        self.remove(name)
        self._room[name] += by
        self._by_free[self._room[name].gpus][name] = None


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
    whole = {node.name for node in nodes if is_whole(node, room)}
    before = stranded_gpus(nodes, room)
    freed = dict(islice(_emptied(ledger, room, _items(ledger, state, room), whole), most_nodes))
    found = [move for moves in freed.values() for move in moves]
    return Compaction(
        moves=tuple(sorted(found, key=lambda move: (list(Moved).index(move.kind), move.what, move.grant))),
        freed_nodes=tuple(freed),
        stranded_before_gpus=before,
        stranded_after_gpus=stranded_gpus(nodes, room),
        whole_nodes_before=len(whole),
        lost_gpu_s=sum(move.lost_gpu_s for move in found),
    )


def _emptied(
    ledger: Ledger, room: dict[str, Shape], items: dict[str, list[_Item]], whole: set[str]
) -> Iterator[tuple[str, list[Move]]]:
    """Yield each node that can be emptied with the moves that it takes, the one with the fewest first."""
    sources = _sources(ledger, room, items, whole)
    able = {node.name for node in sources}
    fixed = _Pool((name for name in room if name not in able and name not in whole), room)
    open_ = _Pool((node.name for node in reversed(sources)), room)
    taking: set[str] = set()
    for node in sources:
        if node.name in taking:
            continue
        moves = _empty(node, items[node.name], fixed, open_)
        if moves:
            open_.remove(node.name)
            room[node.name] = sum((item.shape for item in items[node.name]), room[node.name])
            taking.update(move.target for move in moves)
            yield node.name, moves


def _empty(node: Node, items: Sequence[_Item], fixed: _Pool, open_: _Pool) -> list[Move]:
    """Return the moves that empty a node, their room taken; none, and nothing changed, when one finds no room."""
    taken: list[tuple[_Pool, str, _Item]] = []
    moves: list[Move] = []
    for item in sorted(items, key=lambda one: (-one.shape.gpus, one.what, one.grant)):
        for pool in (fixed, open_):
            target = pool.find(item, node.name)
            if target is not None:
                pool.change(target, Shape() - item.shape)
                taken.append((pool, target, item))
                moves.append(_move(item, node.name, target))
                break
        else:
            for pool, name, one in reversed(taken):
                pool.change(name, one.shape)
            return []
    return moves


def _move(item: _Item, source: str, target: str) -> Move:
    return Move(
        kind=item.kind,
        what=item.what,
        grant=item.grant,
        source=source,
        target=target,
        gpus=item.shape.gpus,
        lost_gpu_s=item.lost_gpu_s,
        why=f"empties {source}",
    )


def _sources(ledger: Ledger, room: dict[str, Shape], items: dict[str, list[_Item]], whole: set[str]) -> list[Node]:
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


def _items(ledger: Ledger, state: FleetState, room: dict[str, Shape]) -> dict[str, list[_Item]]:
    """Return by node what may move from there (F3)."""
    found: dict[str, list[_Item]] = defaultdict(list)
    serving = frozenset(name for name in room if ledger.nodes[name].node_class is NodeClass.SERVING)
    for service in sorted(state.services, key=lambda one: one.name):
        for grant in service.grants:
            if _may_move(ledger, service, grant):
                found[grant.node].append(_of_grant(service, grant, serving))
    targets: dict[int, frozenset[str]] = {}  # all that are alike get one and the same list of nodes
    for workload in ledger.workloads.values():
        if _may_restart(ledger, workload):
            nodes = eligible(ledger, workload)
            names = targets.setdefault(id(nodes), frozenset(node.name for node in nodes))
            found[workload.nodes[0]].append(_of_job(ledger, workload, names))
    return found


def _may_move(ledger: Ledger, service: Service, grant: Grant) -> bool:
    """Return whether a grant may move: a running replica only where both fit into its team's nominal (F4)."""
    if service.spread or service.shape.gpus == 0:
        return False
    return not grant.occupied or ledger.firm_left(service.team) >= service.shape.gpus


def _may_restart(ledger: Ledger, workload: Workload) -> bool:
    """Return whether a workload may be drained and resume elsewhere: it yields, runs and has one bundle (F3)."""
    runs = workload.phase is Phase.RUNNING and not workload.killed and len(workload.nodes) == 1
    return runs and workload.shape.gpus > 0 and ledger.class_of(workload).yields


def _of_grant(service: Service, grant: Grant, targets: frozenset[str]) -> _Item:
    return _Item(
        kind=Moved.REPLICA if grant.occupied else Moved.GRANT,
        what=service.name,
        grant=grant.name,
        shape=service.shape,
        lost_gpu_s=0.0,
        targets=targets,
    )


def _of_job(ledger: Ledger, workload: Workload, targets: frozenset[str]) -> _Item:
    return _Item(
        kind=Moved.JOB,
        what=workload.name,
        grant="",
        shape=workload.shape,
        lost_gpu_s=ledger.lost_gpu_s(workload),
        targets=targets,
    )
