"""How the free GPUs lie: stranded, whole nodes, blocks, and what would fit now (rule F1).

Knows nodes, room and topology. Does not know queues, time or what could be moved; it only measures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleet_app.engine import placement
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Hold
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Node, NodeClass, Shape

BUNDLES_GPUS = (1, 2, 4, 8)
"""The bundle sizes, in GPUs on one node, of which a picture says how many fit."""

ANYWHERE = "fleet"
"""The level above the policy's outermost: all nodes together."""

Room = Mapping[str, Shape]
"""What is free on each node that may take new work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How many bundles of so many GPUs fit at once, each on one node."""

    gpus: int
    bundles: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFit:
    """How many gangs of so many whole nodes fit at once, each inside one domain."""

    nodes: int
    gangs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The most whole free nodes of one accelerator and driver in one domain of a level, and what gangs fit there.

    `domain` is the path of the domain that has the most, empty when none has any.
    """

    level: str
    domain: str
    nodes: int
    gangs: tuple[GangFit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The free GPUs of one node class, or of the fleet: `total_gpus` are those of all nodes that are known."""

    part: str
    nodes: int
    total_gpus: int
    free_gpus: int
    stranded_gpus: int
    whole_nodes: int
    fits: tuple[Fit, ...] = ()
    blocks: tuple[Block, ...] = ()


def survey(state: FleetState, policy: Policy, holds: Iterable[Hold] = ()) -> tuple[Picture, ...]:
    """Return a picture of the fleet and one of each node class that it has (F1).

    `holds` are those of the last plan: what is kept for somebody is not free.
    """
    ledger = Ledger(state, policy, 0.0)
    room = room_of(ledger, holds)
    known = list(ledger.nodes.values())
    parts = {ANYWHERE: known} | {
        each.value: [node for node in known if node.node_class is each]
        for each in NodeClass
        if any(node.node_class is each for node in known)
    }
    return tuple(_picture(part, nodes, room, policy.levels) for part, nodes in parts.items())


def room_of(ledger: Ledger, holds: Iterable[Hold] = ()) -> dict[str, Shape]:
    """Return what is free now, and kept for nobody, on each node that may take new work."""
    room = {node.name: ledger.free[node.name] for node in ledger.placeable()}
    for hold in holds:
        if hold.node in room:
            room[hold.node] -= hold.shape
    return room


def is_whole(node: Node, room: Room) -> bool:
    """Return whether every GPU of the node is free for new work (F1)."""
    return node.name in room and 0 < node.capacity.gpus == room[node.name].gpus


def stranded_gpus(nodes: Iterable[Node], room: Room) -> int:
    """Return the free GPUs that form no whole node (F1)."""
    return sum(_free_gpus(node, room) for node in nodes if not is_whole(node, room))


def _picture(part: str, nodes: Sequence[Node], room: Room, levels: Sequence[str]) -> Picture:
    whole = [node for node in nodes if is_whole(node, room)]
    free = [_free_gpus(node, room) for node in nodes]
    return Picture(
        part=part,
        nodes=len(nodes),
        total_gpus=sum(node.capacity.gpus for node in nodes),
        free_gpus=sum(free),
        stranded_gpus=stranded_gpus(nodes, room),
        whole_nodes=len(whole),
        fits=tuple(Fit(gpus=gpus, bundles=sum(each // gpus for each in free)) for gpus in BUNDLES_GPUS),
        blocks=tuple(_block(level, depth, whole) for depth, level in enumerate((ANYWHERE, *levels))),
    )


def _block(level: str, depth: int, whole: Sequence[Node]) -> Block:
    """Return the largest block of a level, and for 1, 2, 4 and so on whole nodes how many gangs fit."""
    blocks: dict[str, list[int]] = defaultdict(list)
    for kind in placement.uniform(whole):
        for domain, nodes in placement.domains(kind, depth).items():
            blocks["/".join(domain) or ANYWHERE].append(len(nodes))
    sizes = [size for found in blocks.values() for size in found]
    most = max(sizes, default=0)
    best = min((name for name, found in blocks.items() if most in found), default="")
    gangs = tuple(GangFit(nodes=2**i, gangs=sum(size // 2**i for size in sizes)) for i in range(most.bit_length()))
    return Block(level=level, domain=best, nodes=most, gangs=gangs)


def _free_gpus(node: Node, room: Room) -> int:
    return max(0, room[node.name].gpus) if node.name in room else 0
