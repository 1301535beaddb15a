"""Which nodes: the smallest domain that fits, best fit, neighbours in rank order (rules P1 to P5, P9, P12).

Knows nodes, domains and counts. Does not know teams, priorities, time or victims: it is handed the nodes that
would do, and answers with a choice among them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter

from fleet_app.engine.values import Block, Node

Domain = tuple[str, ...]
KIND = attrgetter("accelerator", "driver")
KIND_AND_CLASS = attrgetter("accelerator", "driver", "node_class")

Spare = tuple[list[tuple[int, ...]], int, Domain, str]
"""How tight a domain is: its fullest nodes, how many it has to spare, and its first node."""


def place(
    fitting: Sequence[Node],
    bundles: int,
    depth: int,
    tightness: Callable[[Node], tuple[int, ...]],
    uplinks: AbstractSet[Domain] = frozenset(),
) -> tuple[str, ...] | None:
    """Return one node a bundle, in rank order, or None when no domain has enough.

    `fitting` are the nodes on which a bundle fits; `depth` is how many levels deep the domain must lie at least
    (0: anywhere in the fleet); `tightness` sorts nodes, the one to use up first lowest.
    The deepest domain that fits wins (P1); of equals the one whose nodes are fullest, then the one with the fewest
    nodes to spare (P2), then the one with the fewest nodes in domains whose `uplinks` are in use (P9).
    """
    if len(fitting) < bundles:
        return None
    if bundles == 1 == len(fitting):
        return (fitting[0].name,) if len(fitting[0].domains) >= depth else None
    best = None
    kinds = uniform(fitting, apart=bundles > 1)
    for kind in kinds:
        for level in range(_deepest(kind), depth - 1, -1):
            rooms = [nodes for nodes in domains(kind, level).values() if len(nodes) >= bundles]
            if len(kinds) == len(rooms) == 1:
                return _in_rank_order(_fill(rooms[0], bundles, level, tightness, uplinks))
            if rooms:
                spare, chosen = _tightest(rooms, bundles, tightness, _crowd(uplinks, level))
                rank = (-level, spare)
                if best is None or rank < best[0]:
                    best = (rank, _fill(chosen, bundles, level, tightness, uplinks))
                break
    return None if best is None else _in_rank_order(best[1])


def _in_rank_order(chosen: Sequence[Node]) -> tuple[str, ...]:
    """Return the names of the nodes as ranks have them: neighbours in the fabric are neighbours in rank (P3)."""
    if len(chosen) == 1:
        return (chosen[0].name,)
    return tuple([node.name for node in sorted(chosen, key=lambda node: (node.domains, node.name))])


def _deepest(nodes: Sequence[Node]) -> int:
    """Return how many levels deep the place is known of the node of which most is known."""
    return max([len(node.domains) for node in nodes])


def domains(nodes: Sequence[Node], level: int) -> dict[Domain, list[Node]]:
    """Return the nodes by the domain they lie in, `level` levels deep; level 0 is the whole fleet.

    A node whose place is not known so deep lies in none.
    """
    if not level and nodes:
        return {(): list(nodes)}
    found: dict[Domain, list[Node]] = defaultdict(list)
    for node in nodes:
        if len(node.domains) >= level:
            found[node.domains[:level]].append(node)
    return found


def most(nodes: Sequence[Node], depth: int) -> int:
    """Return how many of the nodes, all of one kind and class, lie in the best domain `depth` levels deep."""
    return max((len(room) for kind in uniform(nodes, apart=True) for room in domains(kind, depth).values()), default=0)


def where(chosen: Sequence[Node]) -> str:
    """Return the smallest domain that holds all of the nodes, as a reason."""
    paths = [node.domains for node in chosen]
    shared = 0
    while all(len(path) > shared for path in paths) and len({path[shared] for path in paths}) == 1:
        shared += 1
    domain = "/".join(paths[0][:shared]) or "the fleet"
    return f"{len(chosen)} nodes fit in {domain}" if len(chosen) > 1 else f"{chosen[0].name} fits"


def uniform(nodes: Sequence[Node], *, apart: bool = False) -> list[list[Node]]:
    """Split by accelerator and driver, which a gang never mixes (P4), and with `apart` by class (P12)."""
    kind_of = KIND_AND_CLASS if apart else KIND
    kinds: dict[tuple[str, ...], list[Node]] = defaultdict(list)
    for node in nodes:
        kinds[kind_of(node)].append(node)
    return [kinds[key] for key in sorted(kinds)]


def blocks(nodes: Iterable[Node], level: int) -> dict[Block, list[Node]]:
    """Return the nodes by the block that they are part of; a node whose place is not known so deep is in none."""
    found: dict[Block, list[Node]] = defaultdict(list)
    for node in nodes:
        if len(node.domains) >= level:
            found[node.block(level)].append(node)
    return dict(found)


def has_block(nodes: Iterable[Node], bundles: int, level: int) -> bool:
    """Return whether so many of the nodes are in one block, `level` levels deep; looks no further than it must."""
    counts: Counter[Block] = Counter()
    for node in nodes:
        if len(node.domains) >= level:
            block = node.block(level)
            counts[block] += 1
            if counts[block] >= bundles:
                return True
    return False


def _crowd(uplinks: AbstractSet[Domain], level: int) -> Callable[[Sequence[Node]], int]:
    """Return how many of some nodes lie in a domain, one level deeper, whose uplink is in use (P9)."""
    if not uplinks:
        return lambda _: 0
    return lambda nodes: sum(node.domains[: level + 1] in uplinks for node in nodes)


def _tightest(
    rooms: Sequence[Sequence[Node]],
    bundles: int,
    tightness: Callable[[Node], tuple[int, ...]],
    crowd: Callable[[Sequence[Node]], int],
) -> tuple[Spare, Sequence[Node]]:
    """Return the domain whose nodes are fullest, with the fewest to spare, the least crowded, the first (P2, P9)."""
    if bundles == 1:
        tight = [[min(map(tightness, nodes))] for nodes in rooms]
    else:
        tight = [sorted(map(tightness, nodes))[:bundles] for nodes in rooms]
    least = min(tight)
    fullest = [nodes for nodes, each in zip(rooms, tight, strict=True) if each == least]
    fewest = min((len(nodes), crowd(nodes)) for nodes in fullest)
    equal = [nodes for nodes in fullest if (len(nodes), crowd(nodes)) == fewest]
    firsts = [min((node.domains, node.name) for node in nodes) for nodes in equal]
    first = min(firsts)
    return (least, fewest[0] - bundles, *first), equal[firsts.index(first)]


def _fill(
    nodes: Sequence[Node],
    bundles: int,
    level: int,
    tightness: Callable[[Node], tuple[int, ...]],
    uplinks: AbstractSet[Domain],
) -> list[Node]:
    """Choose nodes inside a domain so that what is left over stays in the largest blocks (P3).

    Whole sub-domains are used up, largest first; the rest goes where it leaves the least behind. Of equally large ones
    those whose uplink nobody uses come first (P9).
    """

    def order(node: Node) -> tuple[object, ...]:
        return (*tightness(node), node.domains, node.name)

    if bundles == 1 and level >= _deepest(nodes):
        return [min(nodes, key=order)]
    ordered = sorted(nodes, key=order)
    if bundles >= len(nodes) or level >= _deepest(nodes):
        return ordered[:bundles]
    blocks = sorted(domains(ordered, level + 1).items(), key=lambda item: (len(item[1]), item[0] in uplinks, item[0]))
    enough = [block for _, block in blocks if len(block) >= bundles]
    if enough:
        return _fill(enough[0], bundles, level + 1, tightness, uplinks)
    largest = max(blocks, key=lambda item: (len(item[1]), item[0] not in uplinks, item[0]))
    taken = largest[1]
    rest = [node for node in ordered if node.domains[: level + 1] != largest[0]]
    return [*taken, *_fill(rest, bundles - len(taken), level, tightness, uplinks)]
