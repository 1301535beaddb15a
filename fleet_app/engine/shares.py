"""Who of those that borrow is next where teams lie at several levels of the quota tree (rule O5).

A knock-out from the bottom up: the teams of an organisation compare among themselves, the winner stands for it among
its own equals, and so on to the top. Knows the quota tree, what is used, and who waits. Does not know room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleet_app.engine import quota
from fleet_app.engine.lines import Line, place
from fleet_app.engine.quota import QuotaTree

TOP = ""
"""Above the tops of all cohorts; no entry has that name."""

Key = tuple[tuple[int, ...], tuple[float, str]]
"""What an entry and those below it would borrow for their weights if its next were admitted; then its place."""


class Shares:
    """The lines of teams that wait, and who is next in each entry of the tree.

    What an entry's key rests on lies in it or below, so after a turn only the entries above that team are renewed.
    """

    def __init__(self, tree: QuotaTree, used: Mapping[str, int], lines: Mapping[str, Line]) -> None:
        """Begin with everybody that waits, by team; `used` is what all entries use (GPUs), as it is at any time."""
        self._tree = tree
        self._used = used
        self._lines = lines
        self._below: dict[str, set[str]] = {}
        self._next: dict[str, tuple[Key, str]] = {}
        for team in self._lines:
            for below, above in zip(self._upwards(team), self._upwards(team)[1:], strict=False):
                self._below.setdefault(above, set()).add(below)
        for team in sorted(lines):
            self._renew(team)

    def __iter__(self) -> Iterator[Line]:
        """Yield the line whose first is to be next, once what was yielded before is in the books."""
        while TOP in self._next:
            team = self._next[TOP][1]
            yield self._lines[team]
            self._lines[team].advance()
            self._renew(team)

    def _renew(self, team: str) -> None:
        for entry in self._upwards(team):
            line = self._lines.get(entry)
            if line is not None and entry == team:
                found = [(self._key(team, entry), team)] if line else []
            else:
                below = [self._next[one] for one in self._below[entry] if one in self._next]
                found = [(self._key(min(below)[1], entry), min(below)[1])] if below else []
            if found:
                self._next[entry] = found[0]
            else:
                self._next.pop(entry, None)

    def _key(self, team: str, entry: str) -> Key:
        """Return what decides between an entry and its equals, with the team that is next in it."""
        first = self._lines[team].first
        shares = []
        for one, share in quota.shares_with(self._tree, self._used, team, first.gpus).items():
            shares.append(share)
            if one == entry:
                break
        while shares and not shares[0]:
            del shares[0]
        return tuple(reversed(shares)), place(first)

    def _upwards(self, team: str) -> list[str]:
        return [*self._tree.paths.get(team, (team,)), TOP]
