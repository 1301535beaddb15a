"""Which nodes for groups of several shapes together: a matching of groups and nodes in one domain (rules P7, P12).

Whenever groups and nodes can be matched, a bundle a node, they are: greed alone would give a node that does for many
groups to one that has others. Knows nodes, domains and shapes, and is told what fits. Does not know teams, priorities,
time or victims.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleet_app.engine.placement import Domain, domains
from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.engine.workload import Group

Fits = Callable[[str, Shape], bool]
"""Whether a shape fits on the node of that name."""

Kind = tuple[str, str]
"""Accelerator and driver."""

Scope = tuple[Domain, NodeClass]
"""The nodes of one class in one domain (P12)."""

NO_GPUS: Kind = ("", "")
"""The kind of what asks for no GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """Groups to be placed together, in one domain at least `depth` levels deep, their GPUs of one kind.

    Of one `accelerator` where one is asked for, and of none of those that are `barred`.
    """

    groups: tuple[Group, ...]
    depth: int = 0
    accelerator: str | None = None
    barred: frozenset[str] = frozenset()

    def open_to(self, accelerator: str) -> bool:
        """Return whether the GPUs may be of an accelerator."""
        return self.accelerator in {None, accelerator} and accelerator not in self.barred

    @property
    def gpus(self) -> int:
        """Return the GPUs of all groups together."""
        return sum(group.shape.gpus * group.bundles for group in self.groups)

    @property
    def bundles(self) -> int:
        """Return how many nodes all groups take together."""
        return sum(group.bundles for group in self.groups)

    @property
    def hardest_first(self) -> list[int]:
        """Return the places of the groups, the hardest to place first: most GPUs, then CPUs, then memory."""

        def hardness(place: int) -> tuple[int, int, int, str]:
            shape = self.groups[place].shape
            return (-shape.gpus, -shape.cpu_milli, -shape.memory_mib, self.groups[place].name)

        return sorted(range(len(self.groups)), key=hardness)


Matched = list[list[Node]]
"""The nodes of each group, in the order of the groups."""


Order = Callable[[Node], tuple[int, ...]]
"""What sorts nodes, the one to be taken first lowest."""


def place(
    sought: Sought, nodes: Sequence[Node], fits: Fits, tightness: Order, rest: Order | None = None
) -> tuple[str, ...] | None:
    """Return one node a bundle, group after group, in rank order; None when no domain holds all of them.

    The deepest domain wins (P1); of equals the one whose nodes are fullest, then the one with the fewest nodes. All but
    the hardest group have an order of their own for the `rest`, where there is one (P11).
    """
    if not Tally(sought, {node.name: node for node in nodes}, fits).ample:
        return None
    ordered = sorted(nodes, key=lambda node: (*tightness(node), node.domains, node.name))
    for level in range(max(len(node.domains) for node in nodes), sought.depth - 1, -1):
        found = []
        for kind, domain in scopes(sought, ordered, level):
            chosen = match(sought, kind, domain, fits, rest=rest)
            if _is_whole(sought, chosen):
                tight = sorted(tightness(node) for group in chosen for node in group)
                found.append(((tight, len(domain), domain[0].domains[:level], kind), chosen))
        if found:
            return _in_rank_order(min(found, key=lambda option: option[0])[1])
    return None


def nearest(sought: Sought, nodes: Sequence[Node], fits: Fits) -> Matched:
    """Return for each group the nodes that it would get in the domain that holds the most bundles."""
    best: Matched = [[] for _ in sought.groups]
    for kind, domain in scopes(sought, nodes, sought.depth, whole=False):
        found = match(sought, kind, domain, fits)
        if sum(map(len, found)) > sum(map(len, best)):
            best = found
    return best


def kept(sought: Sought, nodes: Sequence[Node], near: Fits, ever: Fits) -> Matched | None:
    """Return nodes for all groups in a domain that would `ever` hold them: the one nearest to it, its near nodes first.

    None when no domain would.
    """
    options = []
    for kind, domain in scopes(sought, nodes, sought.depth):
        if _is_whole(sought, match(sought, kind, domain, ever)):
            close = sum(map(len, match(sought, kind, domain, near)))
            options.append((-close, domain[0].domains[: sought.depth], kind, domain))
    if not options:
        return None
    _, _, kind, domain = min(options, key=lambda option: option[:3])
    return match(sought, kind, domain, near, ever)


def scopes(
    sought: Sought, nodes: Sequence[Node], level: int, *, whole: bool = True
) -> Iterator[tuple[Kind, list[Node]]]:
    """Yield the nodes of one class in each domain `level` levels deep, once for each kind that its GPUs could be of.

    With `whole` only domains with a node for every bundle.
    """
    for _, domain in sorted(domains(nodes, level).items(), key=lambda item: item[0]):
        for of in NodeClass:
            scope = [node for node in domain if node.node_class is of]
            if not scope or (whole and len(scope) < sought.bundles):
                continue
            for kind in _kinds(sought, scope):
                yield kind, scope


def match(sought: Sought, kind: Kind, domain: Sequence[Node], *fits: Fits, rest: Order | None = None) -> Matched:
    """Return as many nodes for each group as one matching can give them, the hardest group first.

    With several `fits` nodes that do by an earlier one are preferred; what does by it has to do by the later ones too.
    With an order for the `rest` all but the hardest group prefer nodes in that order.
    """
    others = domain if rest is None else sorted(domain, key=lambda node: (rest(node), node.domains, node.name))
    hardest = sought.hardest_first[0]
    holder: dict[str, int] = {}
    for test in fits:
        able = [
            [node.name for node in (domain if place == hardest else others) if _may(group, node, kind, test)]
            for place, group in enumerate(sought.groups)
        ]
        had = Counter(holder.values())
        for place in sought.hardest_first:
            for _ in range(sought.groups[place].bundles - had[place]):
                if not _one_more(place, able, holder, set()):
                    break
    return [[node for node in domain if holder.get(node.name) == place] for place in range(len(sought.groups))]


class Tally:
    """How many domains hold all groups, kept up to date while rooms change.

    Counts nodes by which groups fit there. A matching exists where for every set of groups there are as many nodes that
    fit any of them as they need together (P. Hall, On Representatives of Subsets, 1935).
    """

    def __init__(self, sought: Sought, nodes: Mapping[str, Node], fits: Fits) -> None:
        """Look at every node once."""
        self._sought, self._nodes, self._fits = sought, nodes, fits
        self._needs = [
            (chosen, sum(group.bundles for place, group in enumerate(sought.groups) if chosen >> place & 1))
            for chosen in range(1, 1 << len(sought.groups))
        ]
        self._without_gpus = sum(1 << place for place, group in enumerate(sought.groups) if not group.shape.gpus)
        self._fitting: dict[str, int] = {}
        self._counts: dict[Scope, Counter[tuple[Kind, int]]] = defaultdict(Counter)
        for name, node in nodes.items():
            if len(node.domains) >= sought.depth:
                self._fitting[name] = self._groups_on(name)
                self._counts[self._scope(node)][_kind(node), self._fitting[name]] += 1
        self._holding = {scope for scope in self._counts if self._holds(scope)}

    @property
    def ample(self) -> int:
        """Return how many domains hold all groups on nodes of one class, each once a class."""
        return len(self._holding)

    def look(self, name: str) -> None:
        """Look at a node anew whose room changed."""
        before, now = self._fitting.get(name), self._groups_on(name)
        if before is None or before == now:
            return
        node = self._nodes[name]
        scope = self._scope(node)
        self._fitting[name] = now
        self._counts[scope][_kind(node), before] -= 1
        self._counts[scope][_kind(node), now] += 1
        if self._holds(scope):
            self._holding.add(scope)
        else:
            self._holding.discard(scope)

    def _scope(self, node: Node) -> Scope:
        return (node.domains[: self._sought.depth], node.node_class)

    def _groups_on(self, name: str) -> int:
        """Return as bits which groups fit on a node."""
        return sum(1 << place for place, group in enumerate(self._sought.groups) if self._fits(name, group.shape))

    def _holds(self, scope: Scope) -> bool:
        counts = self._counts[scope]
        kinds = {kind for kind, _ in counts if self._sought.open_to(kind[0])}
        if not self._sought.gpus:
            kinds = {NO_GPUS}
        return any(self._enough(counts, kind) for kind in sorted(kinds))

    def _enough(self, counts: Counter[tuple[Kind, int]], kind: Kind) -> bool:
        able: Counter[int] = Counter()
        for (of, fitting), count in counts.items():
            able[fitting if of == kind else fitting & self._without_gpus] += count
        return all(
            sum(count for fitting, count in able.items() if fitting & chosen) >= need for chosen, need in self._needs
        )


def _one_more(place: int, able: Sequence[Sequence[str]], holder: dict[str, int], asked: set[int]) -> bool:
    """Give a group one more node: a free one, else one whose group can have another (an augmenting path)."""
    asked.add(place)
    for name in able[place]:
        if name not in holder:
            holder[name] = place
            return True
    for name in able[place]:
        if holder[name] not in asked and _one_more(holder[name], able, holder, asked):
            holder[name] = place
            return True
    return False


def _may(group: Group, node: Node, kind: Kind, fits: Fits) -> bool:
    return (not group.shape.gpus or _kind(node) == kind) and fits(node.name, group.shape)


def _kind(node: Node) -> Kind:
    return (node.accelerator, node.driver)


def _kinds(sought: Sought, nodes: Sequence[Node]) -> list[Kind]:
    if not sought.gpus:
        return [NO_GPUS]
    return sorted({_kind(node) for node in nodes if sought.open_to(node.accelerator)})


def _is_whole(sought: Sought, found: Matched) -> bool:
    return all(len(nodes) == group.bundles for nodes, group in zip(found, sought.groups, strict=True))


def _in_rank_order(found: Matched) -> tuple[str, ...]:
    return tuple(node.name for group in found for node in sorted(group, key=lambda node: (node.domains, node.name)))
