"""Whose turn it is: the queue in the order in which it is considered, as the decision goes on (rules O1, O5, O8, O10).

What asks for the same is one sort, and refused as one: thousands that wait cost hardly more than the sorts that they
are of. Knows the ledger's books and the order of the queue. Does not know room: who fits is not asked here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heapreplace

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lines import Line, Sort, place
from fleet_app.engine.ordering import Rank, by_priority, ranking
from fleet_app.engine.quota import QuotaTree
from fleet_app.engine.shares import Shares
from fleet_app.engine.workload import Workload


def in_turn(ledger: Ledger, watch: str | None = None) -> Iterator[Line]:
    """Yield again and again the line whose first is next, after what became of those before it.

    Who takes it may let the line `refuse` all that ask for the same; its first is done with in either case. The one to
    `watch` is a sort by itself.
    """
    bands = _bands(ledger, watch)
    for rank, requeued in sorted(bands, key=lambda band: ([-part for part in band[0]], not band[1])):
        sorts = bands[rank, requeued]
        if not all(ledger.class_of(sort.first).borrows for sort in sorts):
            yield from _in_order(Line(sorts))
            continue
        lines = _by_team(sorts)
        yield from (
            Shares(ledger.tree, ledger.used_soon, lines)
            if any(_deep(ledger.tree, team) for team in lines)
            else _by_share(ledger, lines)
        )


def _bands(ledger: Ledger, watch: str | None) -> Mapping[tuple[Rank, bool], list[Sort]]:
    """Return the sorts of work that wait, by their rank, and whether they were torn down."""
    rank = ranking(ledger.policy, ledger.now)
    bands: dict[tuple[Rank, bool], list[Sort]] = defaultdict(list)
    sorts: dict[object, list[Workload]] = {}
    asks: dict[object, int] = {}
    for one in ledger.waiting:
        ranked = None if rank is by_priority else rank(one)
        asked = one.asked
        key = (asked, one.requeued, one.max_run_s, one.grace_s, ranked, one.name == watch)
        known = sorts.get(key)
        if known is None:
            sorts[key] = [one]
            bands[ranked or rank(one), one.requeued].append(Sort(asks.setdefault(asked, len(asks)), sorts[key]))
        else:
            known.append(one)
    for alike in sorts.values():
        if len(alike) > 1:
            alike.sort(key=place, reverse=True)
    return bands


def _by_team(sorts: Sequence[Sort]) -> dict[str, Line]:
    found: dict[str, list[Sort]] = defaultdict(list)
    for sort in sorts:
        found[sort.first.team].append(sort)
    return {team: Line(theirs) for team, theirs in found.items()}


def _in_order(line: Line) -> Iterator[Line]:
    while line:
        yield line
        line.advance()


def _by_share(ledger: Ledger, lines: dict[str, Line]) -> Iterator[Line]:
    """Yield next whose first would leave its team with the least borrowed for its weight (O5).

    What borrows yields, and asks nobody to leave: a turn changes its own team's share alone.
    """

    def turn(team: str) -> tuple[int, float, str, str]:
        first = lines[team].first
        return (ledger.share_with(team, first.gpus), *place(first), team)

    turns = sorted(map(turn, lines))
    while turns:
        team = turns[0][-1]
        yield lines[team]
        lines[team].advance()
        if lines[team]:
            heapreplace(turns, turn(team))
        else:
            heappop(turns)


def _deep(tree: QuotaTree, team: str) -> bool:
    """Return whether a team lies more than one level below the top of its cohort."""
    return len(tree.paths.get(team, ())) > 2
