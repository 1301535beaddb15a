"""Which of the fleet's placement groups should go, and which should be made now. Pure.

Knows the four kinds: a workload's, a member's of an elastic one, a grant's, a hold's. A workload's stands only on nodes
of which it is published that they hold it. A group that Serve made goes when Serve removes it. Does not call anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.members import kept_groups, missing
from fleet_app.arbiter.observe import is_odd, rooms, slice_rooms
from fleet_app.arbiter.partitions import amount
from fleet_app.arbiter.ports import GroupView
from fleet_app.arbiter.records import GrantRecord, Record
from fleet_app.engine.cards import Slice
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Hold
from fleet_app.engine.values import NOTHING, Shape
from fleet_app.worker import contract


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwanted:
    """A group that should go; `claim` says that it must be taken out of Serve's reach first."""

    group: GroupView
    claim: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """A member of an elastic workload that has no group yet, on one node."""

    workload: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A group that should be made: bundle i on the Ray node `bundles[i][0]`. A hold has no owner.

    `settles` says that part of its room was freed just now, and may not show yet. `slice` is the part of a card that
    its one bundle has too, if any.
    """

    name: str
    bundles: tuple[tuple[str, Shape], ...]
    slice: Slice | None = None
    owner: Record | GrantRecord | Joining | None = None
    settles: bool = False


def unwanted(book: Book, facts: Facts, holds: Iterable[Hold] | None) -> list[Unwanted]:
    """Return the fleet's groups that nothing in the book wants, by name; `holds` None leaves holds as they are."""
    held = [record for record in book.live() if record.workload.holding and not record.workload.killed]
    kept = {group_id for record in held for group_id in kept_groups(record)}
    grants = {grant.group_id: grant for grant in book.grants}
    surplus = set() if holds is None else _surplus_holds(holds, grants, facts)
    found: list[Unwanted] = []
    for name in sorted(facts.groups):
        group = facts.groups[name]
        grant = grants.get(group.group_id)
        if grant is not None:
            if grant.taken or (is_odd(grant, book) and not grant.occupied):
                found.append(Unwanted(group=group, claim=True))
        elif name.startswith(contract.HOLD_GROUP) and facts.ready(group):
            if group.group_id in surplus:
                found.append(Unwanted(group=group, claim=True))
        elif group.group_id not in kept and not group.replica:
            found.append(Unwanted(group=group, claim=False))
    return found


def wanted(book: Book, facts: Facts, holds: Iterable[Hold] | None, removed: Iterable[GroupView] = ()) -> list[Wanted]:
    """Return the groups to make now: those whose room is free in Ray's own view, and that all fit together.

    What groups that were `removed` since the facts stood on is about to be free.
    """
    shown, room = rooms(facts), rooms(facts, removed)
    missing = [
        *_promised(book, facts),
        *_admitted(book, facts),
        *_joining(book, facts),
        *_missing_holds(book, facts, holds),
    ]
    sliced = any(one.slice is not None for one in missing)
    parts_shown, parts = (slice_rooms(facts), slice_rooms(facts, removed)) if sliced else ({}, {})
    found: list[Wanted] = []
    for one in missing:
        if _fits(one, room, parts):
            settles = not _fits(one, shown, parts_shown)
            for node_id, shape in one.bundles:
                room[node_id] -= shape
                shown[node_id] -= shape
                if one.slice is not None:
                    parts[node_id][one.slice.partition] -= amount(one.slice)
                    parts_shown[node_id][one.slice.partition] -= amount(one.slice)
            found.append(replace(one, settles=settles))
    return found


def _fits(one: Wanted, room: Mapping[str, Shape], parts: Mapping[str, Counter[str]]) -> bool:
    """Return whether a group fits, with its part of a card on the node of its one bundle."""
    if one.slice is not None and parts.get(one.bundles[0][0], Counter())[one.slice.partition] < amount(one.slice):
        return False
    return all(shape.fits(room.get(node_id, NOTHING)) for node_id, shape in one.bundles)


def _promised(book: Book, facts: Facts) -> Iterator[Wanted]:
    for grant in book.grants:
        name = contract.grant_group(grant.service, grant.name)
        node = facts.nodes.get(grant.node)
        if grant.group_id is None and not grant.taken and name not in facts.groups and node is not None:
            yield Wanted(name=name, bundles=((node.node_id, grant.shape),), owner=grant, slice=grant.slice)


def _admitted(book: Book, facts: Facts) -> Iterator[Wanted]:
    for record in book.live():
        workload = record.workload
        name = contract.workload_group(record.job_id)
        starts = workload.phase is Phase.ADMITTED and not workload.killed and workload.minimum is None
        if not starts or record.group_id or name in facts.groups:
            continue
        seats = [(facts.nodes.get(node), shape) for node, shape in workload.seats]
        bundles = tuple((node.node_id, shape) for node, shape in seats if node is not None)
        if len(bundles) == workload.bundles and facts.named(workload.nodes):
            yield Wanted(name=name, bundles=bundles, owner=record, slice=workload.slice)


def _joining(book: Book, facts: Facts) -> Iterator[Wanted]:
    for record in book.live():
        for node in missing(record, facts):
            name, found = contract.member_group(record.job_id, node), facts.nodes.get(node)
            if found is not None and name not in facts.groups and facts.named((node,)):
                bundles = ((found.node_id, record.workload.shape),)
                yield Wanted(name=name, bundles=bundles, owner=Joining(workload=record.name, node=node))


# Holds: what is kept for somebody on a node may grow and shrink from cycle to cycle, a group cannot.


def _missing_holds(book: Book, facts: Facts, holds: Iterable[Hold] | None) -> Iterator[Wanted]:
    standing = _standing_holds({grant.group_id for grant in book.grants}, facts)
    for (node, beneficiary), shape in sorted(_asked(holds or ()).items()):
        groups = standing.get((node, beneficiary), [])
        missing = (shape - _total(groups)).at_least_nothing()
        found = facts.nodes.get(node)
        if found is not None and not missing.is_nothing() and _total(groups).fits(shape):
            name = contract.hold_group(node, f"{beneficiary}#{_next_number(groups)}")
            yield Wanted(name=name, bundles=((found.node_id, missing),))


def _surplus_holds(holds: Iterable[Hold], grants: Mapping[str | None, GrantRecord], facts: Facts) -> set[str]:
    """Return the ids of holds that keep too much, or for nobody."""
    asked = _asked(holds)
    standing = _standing_holds(set(grants), facts)
    return {
        group.group_id
        for whose, groups in standing.items()
        if not _total(groups).fits(asked.get(whose, NOTHING))
        for group in groups
    }


def _asked(holds: Iterable[Hold]) -> dict[tuple[str, str], Shape]:
    total: dict[tuple[str, str], Shape] = defaultdict(lambda: NOTHING)
    for hold in holds:
        total[hold.node, hold.beneficiary] += hold.shape
    return dict(total)


def _standing_holds(grants: set[str | None], facts: Facts) -> dict[tuple[str, str], list[GroupView]]:
    """Return by node and beneficiary the holds that stand; one that a replica moved into is a grant, and none."""
    found: dict[tuple[str, str], list[GroupView]] = defaultdict(list)
    for name in sorted(facts.groups):
        group = facts.groups[name]
        whose = held_for(name)
        if whose is not None and facts.ready(group) and group.group_id not in grants:
            found[whose].append(group)
    return found


def held_for(group_name: str) -> tuple[str, str] | None:
    """Return the node and the beneficiary in the name of a hold; None when it is none."""
    if not group_name.startswith(contract.HOLD_GROUP):
        return None
    node, _, rest = group_name.removeprefix(contract.HOLD_GROUP).partition("/")
    return node, rest.rpartition("#")[0]


def _total(groups: Iterable[GroupView]) -> Shape:
    total = NOTHING
    for group in groups:
        for bundle in group.bundles:
            total += bundle.shape
    return total


def _next_number(groups: Iterable[GroupView]) -> int:
    return max((int(group.name.rpartition("#")[2]) for group in groups), default=0) + 1
