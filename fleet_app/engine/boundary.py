"""The boundary between the classes: which nodes should cross it (rules B1 to B4).

Knows the fleet, the most that serving is forecast to want, and who waits. Recommends only: what crosses is asked for by
somebody. Does not know history, nor how a node crosses.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleet_app.engine.forecast import WEEK_S
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.outlook import Outlook
from fleet_app.engine.plan import Plan, Reason
from fleet_app.engine.policy import Boundary, Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Crossing, Node, NodeClass
from fleet_app.engine.workload import Workload

WAITS_FOR_ROOM = {Reason.NO_ROOM, Reason.QUOTA_USED, Reason.RESERVED, Reason.BEHIND, Reason.TOO_LARGE_FOR_QUOTA}
"""What more nodes for training would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One node that should cross, whom that moves, and the GPU-seconds of work that they would do again."""

    node: str
    was: NodeClass
    to: NodeClass
    gpus: int
    moved: tuple[str, ...] = ()
    lost_gpu_s: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryPlan:
    """Which nodes should cross, and the numbers behind that, in GPUs; crossings under way count as done.

    `short_gpus` is what serving lacks of its peak after them. `left_this_week` is how many nodes may cross beside them.
    """

    steps: tuple[Step, ...] = ()
    peak_gpus: int = 0
    serving_gpus: int = 0
    training_gpus: int = 0
    unmet_gpus: int = 0
    short_gpus: int = 0
    left_this_week: int = 0
    lost_gpu_s: float = 0.0
    sentence: str = ""


def recommend(state: FleetState, policy: Policy, now: float, seen: Outlook, plan: Plan) -> BoundaryPlan:
    """Return which nodes should cross, none when all is well; `plan` is the last decision, which says who waits.

    Applied to what it leads to, it says nothing more (no flapping): there is room for the margin between giving nodes
    away and taking them back.
    """
    rules = policy.boundary
    if rules is None:
        return BoundaryPlan(sentence="the policy says nothing of a boundary")
    books = _Books(state, policy, now, rules, unmet_gpus(state, policy, plan))
    if books.serving < seen.peak_gpus:
        return books.to_serving(seen)
    return books.to_training(seen)


def unmet_gpus(state: FleetState, policy: Policy, plan: Plan) -> int:
    """Return the GPUs for which committed work waits that more nodes would help (B2)."""
    yielding = {known.value for known in policy.classes if known.yields}
    waiting = {wait.workload for wait in plan.waits if wait.reason in WAITS_FOR_ROOM}
    return sum(one.gpus for one in state.workloads if one.name in waiting and one.priority not in yielding)


def crossed_within_a_week(crossings: Iterable[Crossing], now: float) -> list[Crossing]:
    """Return the crossings that count against this week (B3)."""
    return [one for one in crossings if one.moved_at is None or one.asked_at > now - WEEK_S]


class _Books:
    """The nodes of both classes as they will be, and what may still cross."""

    def __init__(self, state: FleetState, policy: Policy, now: float, rules: Boundary, unmet: int) -> None:
        ledger = Ledger(state, policy, now)
        self._rules = rules
        self._ledger = ledger
        self._there = _committed_on(ledger)
        recent = crossed_within_a_week(state.crossings, now)
        booked = {} if ledger.calendar is None else ledger.calendar.on  # what is somebody's stays where it is (C1)
        self._barred = {one.node for one in recent} | booked.keys()
        self._left = max(0, rules.most_nodes_a_week - len(recent))
        under_way = {one.node: one.to for one in state.crossings if one.moved_at is None}
        gpus: Counter[NodeClass] = Counter()
        for node in ledger.nodes.values():
            if node.placeable or node.name in under_way:
                gpus[under_way.get(node.name, node.node_class)] += node.capacity.gpus
        self.serving, self._training = gpus[NodeClass.SERVING], gpus[NodeClass.TRAINING]
        coming = sum(one.gpus for one in state.crossings if one.moved_at is None and one.to is NodeClass.TRAINING)
        self._unmet = max(0, unmet - coming)

    def to_serving(self, seen: Outlook) -> BoundaryPlan:
        """Return what comes from training until the peak is covered (B1)."""
        short = seen.peak_gpus - self.serving
        why = f"serving has {self.serving} GPUs, and its p{100 * self._rules.quantile:g} peak is {seen.peak_gpus}"
        able = [node for node in self._able(NodeClass.TRAINING) if self._free_to_move(node)]
        taken = _until(self._in_order(able, short), short, self._may_take(self._rules.training))
        return self._plan(seen, taken, NodeClass.SERVING, why)

    def to_training(self, seen: Outlook) -> BoundaryPlan:
        """Return what serving can spare beyond its peak and the margin, as far as somebody waits for it (B2)."""
        spare = self.serving - seen.peak_gpus - self._rules.margin_gpus
        why = f"serving can spare {max(0, spare)} of {self.serving} GPUs, and {self._unmet} are waited for"
        if not seen.known or spare <= 0 or self._unmet <= 0:
            about = why if seen.known else f"{why}: too little is known of demand to take any away"
            return self._plan(seen, [], NodeClass.TRAINING, about)
        able = [node for node in self._able(NodeClass.SERVING) if not self._ledger.replicas.get(node.name, 0)]
        taken: list[Node] = []
        for node in _until(self._in_order(able, self._unmet), self._unmet, self._may_take(self._rules.serving)):
            if node.capacity.gpus <= spare:
                spare -= node.capacity.gpus
                taken.append(node)
        return self._plan(seen, taken, NodeClass.TRAINING, why)

    def _able(self, node_class: NodeClass) -> list[Node]:
        """Return the sound nodes of a class that did not cross within a week and have no strangers on them (B3)."""
        return [
            node
            for node in self._ledger.nodes.values()
            if node.node_class is node_class
            and node.placeable
            and node.name not in self._barred
            and node.capacity.gpus > 0
            and node.foreign.gpus == 0
        ]

    def _free_to_move(self, node: Node) -> bool:
        return all(one.movable or one.leaving for one in self._there[node.name])

    def _may_take(self, giver: str) -> tuple[int, int]:
        """Return how many nodes may cross, and how much nominal their team can give for them (B3, B4)."""
        return self._left, self._ledger.tree.nominal(giver)

    def _in_order(self, able: Sequence[Node], gpus: int) -> list[Node]:
        """Return the nodes, first to cross first: leaves that go altogether, then the least work lost (B3)."""
        count = len(_until(sorted(able, key=self._rank), gpus, (self._left, gpus + max_gpus(able))))
        leaves: dict[tuple[str, ...], list[Node]] = defaultdict(list)
        for node in able:
            leaves[node.domains].append(node)
        alike = Counter(node.domains for node in self._ledger.nodes.values() if able and _same(node, able[0]))

        def rank(node: Node) -> tuple[bool, int, tuple[str, ...], float, str]:
            size, of = len(leaves[node.domains]), alike[node.domains]
            altogether = size == of and size <= count
            return (not altogether, -size if altogether else of, node.domains, self._lost(node), node.name)

        return sorted(able, key=rank)

    def _rank(self, node: Node) -> tuple[float, tuple[str, ...], str]:
        return (self._lost(node), node.domains, node.name)

    def _moved(self, node: Node) -> list[Workload]:
        return [one for one in self._there[node.name] if not one.leaving]

    def _lost(self, node: Node) -> float:
        """Return the GPU-seconds that a move at a checkpoint costs: a restart, on every GPU of all who move."""
        return sum(one.gpus * self._ledger.policy.drain.restart_cost_s for one in self._moved(node))

    def _plan(self, seen: Outlook, taken: Sequence[Node], to: NodeClass, why: str) -> BoundaryPlan:
        gpus = sum(node.capacity.gpus for node in taken)
        towards = gpus if to is NodeClass.SERVING else -gpus
        moved = {one.name: one for node in taken for one in self._moved(node)}
        short = max(0, seen.peak_gpus - self.serving - towards)
        still = f"; {short} GPUs of the peak stay uncovered this week" if short else ""
        restart_s = self._ledger.policy.drain.restart_cost_s
        return BoundaryPlan(
            steps=tuple(self._step(node, to, why) for node in taken),
            peak_gpus=seen.peak_gpus,
            serving_gpus=self.serving,
            training_gpus=self._training,
            unmet_gpus=self._unmet,
            short_gpus=short,
            left_this_week=self._left - len(taken),
            lost_gpu_s=sum(one.gpus for one in moved.values()) * restart_s,
            sentence=f"{why}: {_counted(len(taken))} should become {to}{still}",
        )

    def _step(self, node: Node, to: NodeClass, why: str) -> Step:
        moved = self._moved(node) if to is NodeClass.SERVING else []
        return Step(
            node=node.name,
            was=node.node_class,
            to=to,
            gpus=node.capacity.gpus,
            moved=tuple(one.name for one in moved),
            lost_gpu_s=self._lost(node) if moved else 0.0,
            why=why,
        )


def max_gpus(nodes: Iterable[Node]) -> int:
    """Return the GPUs of the largest of the nodes."""
    return max((node.capacity.gpus for node in nodes), default=0)


def _same(node: Node, other: Node) -> bool:
    return node.node_class is other.node_class


def _until(nodes: Iterable[Node], gpus: int, most: tuple[int, int]) -> list[Node]:
    """Return the first of the nodes that have so many GPUs together, at most so many nodes and GPUs."""
    count, nominal = most
    taken: list[Node] = []
    for node in nodes:
        if gpus <= 0 or len(taken) == count:
            break
        if node.capacity.gpus <= nominal:
            taken.append(node)
            gpus -= node.capacity.gpus
            nominal -= node.capacity.gpus
    return taken


def _committed_on(ledger: Ledger) -> dict[str, list[Workload]]:
    """Return by node who never yields and has GPUs there, by name."""
    found: dict[str, list[Workload]] = defaultdict(list)
    for one in ledger.holding:
        if not ledger.class_of(one).yields:
            for name in one.nodes:
                found[name].append(one)
    return found


def _counted(nodes: int) -> str:
    return f"{nodes or 'no'} node{'' if nodes == 1 else 's'}"
