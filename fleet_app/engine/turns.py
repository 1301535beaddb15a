"""Whose turn it is: the queue in the order in which it is considered, while the decision goes on (rules O1, O5, O8).

Knows the ledger's books and the order of the queue. Does not know room: whether somebody fits is not asked here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.ordering import queue, ranking
from fleet_app.engine.quota import QuotaTree
from fleet_app.engine.shares import Shares
from fleet_app.engine.workload import Workload


def in_turn(ledger: Ledger) -> Iterator[Workload]:
    """Yield every queued workload once, next the one whose turn it is after what became of those before it."""
    rank = ranking(ledger.policy, ledger.now)
    for _, alike in groupby(queue(ledger.workloads.values(), rank), key=lambda one: (rank(one), one.requeued)):
        waiting = list(alike)
        if all(ledger.class_of(one).borrows for one in waiting):
            yield from _by_share(ledger, waiting)
        else:
            yield from waiting


def _by_share(ledger: Ledger, waiting: Sequence[Workload]) -> Iterator[Workload]:
    """Yield next who would leave its team with the least borrowed for its weight (O5); each team's own in order.

    Where teams lie below organisations of a cohort, these compare first.
    """
    place = {one.name: number for number, one in enumerate(waiting)}
    lines: dict[str, deque[Workload]] = {}
    for one in waiting:
        lines.setdefault(one.team, deque()).append(one)

    if any(_deep(ledger.tree, team) for team in lines):
        yield from _by_shares(ledger, waiting)
        return
    known: dict[str, tuple[int, tuple[int, int]]] = {}

    def turn(team: str) -> tuple[int, int]:
        used = ledger.used_soon.get(team, 0)
        before = known.get(team)
        if before is not None and before[0] == used:
            return before[1]
        first = lines[team][0]
        found = (ledger.share_with(team, first.gpus), place[first.name])
        known[team] = (used, found)
        return found

    while lines:
        team = min(lines, key=turn)
        del known[team]
        yield lines[team].popleft()
        if not lines[team]:
            del lines[team]


def _by_shares(ledger: Ledger, waiting: Sequence[Workload]) -> Iterator[Workload]:
    shares, leaving = Shares(ledger.tree, ledger.used_soon, waiting), len(ledger.leaving)
    for one in shares:
        yield one
        if len(ledger.leaving) != leaving:  # a turn takes from its own team's share alone, unless others had to leave
            leaving = len(ledger.leaving)
            shares.renew()


def _deep(tree: QuotaTree, team: str) -> bool:
    """Return whether a team lies more than one level below the top of its cohort."""
    parent = tree.parent(team) if team in tree.entries else None
    return parent is not None and tree.parent(parent) is not None
