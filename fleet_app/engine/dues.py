"""What teams have on slices, and how much more they may take: the quota of each flavor (rules V5 and V6).

A flavor for which the policy gives numbers has books of its own, in its own unit. All other slices of a team together
are charged to the ledger, in whole GPUs rounded up, like work that never yields. Does not know cards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from fleet_app.engine import quota
from fleet_app.engine.cards import Slice
from fleet_app.engine.flavors import PARTS, count, flavor, parts, whole_of
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.policy import Quota
from fleet_app.engine.quota import QuotaTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Who would take or has a slice: `firm` is whether it never yields, `borrows` whether it may exceed its nominal."""

    team: str
    slice: Slice
    firm: bool
    borrows: bool = False


@dataclass(slots=True, kw_only=True)
class _Book:
    """The sums of one flavor; `soon` is what will be used when everything that is leaving has left."""

    tree: QuotaTree
    used: dict[str, int] = field(default_factory=dict)
    soon: dict[str, int] = field(default_factory=dict)
    firm: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class Dues:
    """The books of every flavor that has numbers of its own, and the parts of GPUs that are charged to the ledger."""

    def __init__(self, ledger: Ledger, quotas: Iterable[Quota]) -> None:
        """Start with nobody on any slice."""
        self._ledger = ledger
        entries = sorted(quotas, key=lambda entry: entry.name)
        names = sorted({own.flavor for entry in entries for own in entry.flavors if not whole_of(own.flavor)})
        self._books = {
            name: _Book(tree=QuotaTree.build(_of_flavor(entry, name) for entry in entries)) for name in names
        }
        self._parts: dict[str, int] = defaultdict(int)

    def take(self, due: Due, accelerator: str) -> None:
        """Charge a slice from now on."""
        book = self._books.get(flavor(accelerator, due.slice))
        if book is None:
            self._charge_ledger(due.team, parts(accelerator, due.slice))
            return
        quota.charge(book.tree, book.used, due.team, count(due.slice))
        self._soon(book, due, count(due.slice))

    def wait_for(self, due: Due, accelerator: str) -> None:
        """Charge a slice that is still somebody else's: what will be used has it already."""
        book = self._books.get(flavor(accelerator, due.slice))
        if book is None:
            self._charge_ledger(due.team, parts(accelerator, due.slice))
        else:
            self._soon(book, due, count(due.slice))

    def leave(self, due: Due, accelerator: str) -> None:
        """Count a slice among what is coming free."""
        book = self._books.get(flavor(accelerator, due.slice))
        if book is not None:
            self._soon(book, due, -count(due.slice))

    def left(self, due: Due, accelerator: str, *, soon: bool = False) -> int:
        """Return how much more the team may take for such a slice, in the unit of `asked`, with its limits (V5, V6)."""
        book = self._books.get(flavor(accelerator, due.slice))
        if book is None:
            ledger = self._ledger
            most = ledger.available_soon(due.team) if soon else ledger.available(due.team)
            return min(ledger.firm_left_behind(due.team), most)
        if due.team not in book.tree.entries:
            return 0
        nominal = book.tree.nominal(due.team)
        used = book.soon if soon else book.used
        most = min(quota.available(book.tree, uses, due.team) for uses in (used, book.soon))
        if due.firm:
            return min(most, nominal - book.firm[due.team])
        return most if due.borrows else min(most, nominal - used.get(due.team, 0))

    def own_left(self, due: Due, accelerator: str) -> int:
        """Return how much of the team's nominal no work that never yields has taken, in the unit of `asked`."""
        book = self._books.get(flavor(accelerator, due.slice))
        if book is None:
            return self._ledger.firm_left_behind(due.team)
        return book.tree.nominal(due.team) - book.firm[due.team]

    def asked(self, due: Due, accelerator: str) -> int:
        """Return what a slice would be charged: in the unit of its flavor, or in GPUs more for the ledger."""
        if flavor(accelerator, due.slice) in self._books:
            return count(due.slice)
        return self._more(due.team, parts(accelerator, due.slice))

    def allows(self, due: Due, accelerator: str, *, soon: bool = False) -> bool:
        """Return whether the team may take such a slice now, or once everything that is leaving has left."""
        asked = self.asked(due, accelerator)
        return asked == 0 or self.left(due, accelerator, soon=soon) >= asked

    def most(self, due: Due, accelerator: str) -> int:
        """Return the most that the team could ever have for such slices, in the unit of `least`."""
        book = self._books.get(flavor(accelerator, due.slice))
        if book is None:
            return self._ledger.tree.nominal(due.team)
        if due.team not in book.tree.entries:
            return 0
        return quota.largest(book.tree, due.team) if due.borrows else book.tree.nominal(due.team)

    def least(self, due: Due, accelerator: str) -> int:
        """Return what one such slice is charged to a team that has nothing else."""
        return count(due.slice) if flavor(accelerator, due.slice) in self._books else 1

    def for_the_books(
        self, due: Due, accelerator: str, gone: Sequence[Due], able: Sequence[Due]
    ) -> tuple[int, ...] | None:
        """Return which of those able to leave have to, the first of them first, beside who is gone already (R5).

        All have slices of the same flavor; only what a team borrows can be asked back (R2). None when all are not
        enough, or when the books are the ledger's.
        """
        book = self._books.get(flavor(accelerator, due.slice))
        if book is None or due.team not in book.tree.entries:
            return None
        books, chosen = dict(book.soon), []
        for one in gone:
            quota.charge(book.tree, books, one.team, -count(one.slice))
        for place, one in enumerate(able):
            if quota.available(book.tree, books, due.team) >= count(due.slice):
                break
            if quota.above_nominal(book.tree, books, one.team) > 0:
                quota.charge(book.tree, books, one.team, -count(one.slice))
                chosen.append(place)
        return tuple(chosen) if quota.available(book.tree, books, due.team) >= count(due.slice) else None

    def has_own(self, due: Due, accelerator: str) -> bool:
        """Return whether the policy gives numbers of its own for the flavor of such a slice."""
        return flavor(accelerator, due.slice) in self._books

    def gpus_without(self, team: str, less: int) -> int:
        """Return how many GPUs the ledger would have back if a team had so many parts less (V6)."""
        before = self._parts.get(team, 0)
        return _gpus(before) - _gpus(max(0, before - less))

    def share(self, due: Due, accelerators: Iterable[str]) -> Fraction:
        """Return the largest part of any flavor that the team would borrow with such a slice, for its weight (O5).

        Of the flavors that the slice may have, the one that makes it least. A flavor is as large as its cohorts are.
        """
        weight = _weight(self._ledger.tree, due.team)
        own = {name: self._borrowed(name, due.team, 0) for name in self._books}
        plain = Fraction(self._ledger.borrowed(due.team), max(1, _size(self._ledger.tree)))
        options = [plain]
        for name in sorted({flavor(one, due.slice) for one in accelerators} & self._books.keys()):
            with_it = own | {name: self._borrowed(name, due.team, count(due.slice))}
            options.append(max(plain, *with_it.values()))
        return min(options[1:] or options) / weight

    def _borrowed(self, name: str, team: str, more: int) -> Fraction:
        book = self._books[name]
        above = book.soon.get(team, 0) + more - book.tree.nominal(team)
        return Fraction(max(0, above), max(1, _size(book.tree)))

    def _soon(self, book: _Book, due: Due, amount: int) -> None:
        quota.charge(book.tree, book.soon, due.team, amount)
        if due.firm:
            book.firm[due.team] += amount

    def _charge_ledger(self, team: str, more: int) -> None:
        gpus = self._more(team, more)
        self._parts[team] += more
        if gpus:
            self._ledger.charge(team, gpus, firm=True)

    def _more(self, team: str, more: int) -> int:
        before = self._parts.get(team, 0)
        return _gpus(before + more) - _gpus(before)


def _gpus(parts_of: int) -> int:
    return -(-parts_of // PARTS)


def _of_flavor(entry: Quota, name: str) -> Quota:
    """Return an entry with its numbers for one flavor; without any it has nothing of it."""
    own = next((one for one in entry.flavors if one.flavor == name), None)
    return replace(
        entry,
        nominal_gpus=0 if own is None else own.nominal,
        borrowing_limit_gpus=None if own is None else own.borrowing_limit,
        lending_limit_gpus=None if own is None else own.lending_limit,
        flavors=(),
    )


def _weight(tree: QuotaTree, team: str) -> int:
    entry = tree.entries.get(team)
    return 1 if entry is None else entry.weight


def _size(tree: QuotaTree) -> int:
    return sum(size for name, size in tree.subtree.items() if len(tree.paths[name]) == 1)
