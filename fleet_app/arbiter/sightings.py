"""What of each node others have in use, from look to look: what Ray counts there beyond what is ours. Pure.

Ray's view of what is free lags behind by 0.1 s: a group that was just made is ours before Ray counts it, and one that
was just removed is counted after it was. So a look only says between what and what it is: the least, as if all of our
groups that stand were counted, and the most, as if none were that has not stood for SETTLE_S. Within that, what was
known stays: what comes counts once it has stayed for SETTLE_S, and what goes is free at once. Does not know whose it
is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.observe import accounted
from fleet_app.arbiter.ports import GroupView
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import NOTHING, Shape

SETTLE_S = 0.5
"""How long something must be in use, without being ours, to count as foreign; Ray's view is never that late."""

Parts = Mapping[str, int]
"""How much there is of what, on one node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What is `foreign` on a node, and how much that was at least in the last SETTLE_S seconds (moments in seconds).

    The first of `least` is the last one that is older.
    """

    foreign: Parts
    least: tuple[tuple[float, Parts], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sightings:
    """What was sighted on each node, by its name.

    `since` is by group when it was first seen, None before the first look.
    """

    nodes: Mapping[str, Sighting] = field(default_factory=dict)
    since: Mapping[str, float] | None = None

    @property
    def foreign(self) -> dict[str, Shape]:
        """Return what is foreign on each node, by its name."""
        return {name: Shape(**one.foreign) for name, one in self.nodes.items()}


def remembered(last: FleetState, now: float) -> Sightings:
    """Return sightings to start with: what was foreign when the arbiter last looked still is."""
    known = {node.name: _parts(node.foreign) for node in last.nodes}
    return Sightings(
        nodes={name: Sighting(foreign=parts, least=((now - SETTLE_S, parts),)) for name, parts in known.items()}
    )


def sighted(before: Sightings, book: Book, facts: Facts) -> Sightings:
    """Return the sightings after another look, of every living node."""
    since, ours = first_seen(before.since, facts), accounted(book, facts)
    standing, settled = _held(ours), _held(have_settled(ours, since, facts.now))
    found = {}
    for name, node in facts.nodes.items():
        if node.alive:
            used = node.total - node.available
            low, high = used - standing[node.node_id], used - settled[node.node_id]
            found[name] = look_again(before.nodes.get(name), _parts(low), _parts(high), facts.now)
    return Sightings(nodes=found, since=since)


def first_seen(before: Mapping[str, float] | None, facts: Facts) -> dict[str, float]:
    """Return by id when each group that stands was first seen; what stands at the first look has stood for long."""
    known, new = ({}, float("-inf")) if before is None else (before, facts.now)
    return {one.group_id: known.get(one.group_id, new) for one in facts.groups.values()}


def have_settled(groups: Iterable[GroupView], since: Mapping[str, float], now: float) -> list[GroupView]:
    """Return the groups that have stood for so long that Ray counts what they hold."""
    return [one for one in groups if now - since[one.group_id] >= SETTLE_S]


def look_again(before: Sighting | None, low: Parts, high: Parts, now: float) -> Sighting:
    """Return what is foreign on a node of which a look says that it is at least `low` and at most `high`.

    A node that was never seen before starts with the least.
    """
    looks = (*(() if before is None else before.least), (now, low))
    older = [index for index, (at, _) in enumerate(looks) if now - at >= SETTLE_S]
    recent = looks[older[-1] if older else 0 :]
    foreign = {}
    for part, most in high.items():
        stayed = min(seen.get(part, 0) for _, seen in recent)
        known = stayed if before is None else before.foreign.get(part, 0)
        foreign[part] = max(0, min(most, max(known, stayed)))
    return Sighting(foreign=foreign, least=recent)


def _held(groups: Iterable[GroupView]) -> defaultdict[str, Shape]:
    """Return by node id what groups hold there."""
    total: defaultdict[str, Shape] = defaultdict(lambda: NOTHING)
    for group in groups:
        for bundle in group.bundles:
            total[bundle.node_id or ""] += bundle.shape
    return total


def _parts(shape: Shape) -> dict[str, int]:
    return {"gpus": shape.gpus, "cpu_milli": shape.cpu_milli, "memory_mib": shape.memory_mib}
