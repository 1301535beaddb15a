"""What the nodes have in use that is not ours, and whose it is, from one look to the next.

Remembers the last second of looks, which is all that it takes to tell somebody's work from the lag of Ray's view. Does
not know what follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.observe import accounted, nodes_seen
from fleet_app.arbiter.ports import Cluster
from fleet_app.arbiter.sightings import remembered, sighted
from fleet_app.engine.errors import FaultError
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import NOTHING, Node, Shape

ASK_AGAIN_S = 10.0

Answer = tuple[float, Shape, tuple[str, ...]]


class Foreign:
    """The nodes of the fleet, with what is foreign on them."""

    def __init__(self, cluster: Cluster, last: FleetState, now: float) -> None:
        """Start from what was foreign in the last state that was journaled."""
        self._cluster = cluster
        self._sightings = remembered(last, now)
        self._answers: dict[str, Answer] = {}

    def nodes(self, book: Book, facts: Facts, policy: Policy) -> tuple[Node, ...]:
        """Return the living nodes as the engine knows them."""
        self._sightings = sighted(self._sightings, book, facts)
        foreign = self._sightings.foreign
        return nodes_seen(facts, policy, foreign, self._owners(book, facts, foreign))

    def _owners(self, book: Book, facts: Facts, shapes: Mapping[str, Shape]) -> Mapping[str, tuple[str, ...]]:
        """Return the owners by node; asked again when what they use changes, and now and then."""
        known: dict[str, Answer] = {}
        for name, node in facts.nodes.items():
            foreign = shapes.get(name, NOTHING)
            if foreign.gpus <= 0 or not node.alive:
                continue
            asked_at, shape, owners = self._answers.get(name, (0.0, foreign, ()))
            if shape != foreign or facts.now - asked_at > ASK_AGAIN_S:
                known[name] = (facts.now, foreign, self._ask(node.node_id, book, facts))
            else:
                known[name] = (asked_at, shape, owners)
        self._answers = known
        return {name: owners for name, (_, _, owners) in known.items()}

    def _ask(self, node_id: str, book: Book, facts: Facts) -> tuple[str, ...]:
        try:
            return self._cluster.users_of(node_id, frozenset(group.group_id for group in accounted(book, facts)))
        except FaultError:
            return ()  # whose it is is told to people only; that it is not ours is known anyway
