"""The quota tree: how many more GPUs each team may take (rules Q1 to Q4).

Knows entries, counts and limits. Does not know nodes, time or priorities. Usage is a mapping from entry name to
GPUs that the ledger owns; only `charge` changes it.
Kept and drawn follow the published hierarchical quota model of Kueue: what an entry never lends is kept, what it
takes beyond that is drawn from its parent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fleet_app.engine.policy import Quota


@dataclass(frozen=True, slots=True)
class QuotaTree:
    """The entries by name, with what each subtree holds and never lends, in GPUs.

    `weights` is the least common multiple of all weights, so that shares by weight compare as whole numbers. `strict`
    names the entries whose queues are taken strictly in order.
    """

    entries: Mapping[str, Quota]
    subtree: Mapping[str, int]
    kept: Mapping[str, int]
    weights: int
    strict: frozenset[str]

    @classmethod
    def build(cls, quotas: Iterable[Quota]) -> QuotaTree:
        """Index the entries; parents may come before or after their children."""
        entries = {quota.name: quota for quota in quotas}
        children: dict[str, list[str]] = {}
        for name in sorted(entries):
            parent = entries[name].parent
            if parent is not None and parent in entries:
                children.setdefault(parent, []).append(name)
        subtree: dict[str, int] = {}
        kept: dict[str, int] = {}
        for name in _leaves_first(entries, children):
            quota = entries[name]
            below = children.get(name, [])
            own = max(0, quota.nominal_gpus - sum(entries[child].nominal_gpus for child in below))
            subtree[name] = own + sum(subtree[child] - kept[child] for child in below)
            limit = quota.lending_limit_gpus
            kept[name] = 0 if limit is None else max(0, subtree[name] - limit)
        weights = math.lcm(*(quota.weight for quota in entries.values()))
        return cls(entries, subtree, kept, weights, frozenset(quota.name for quota in entries.values() if quota.strict))

    def parent(self, name: str) -> str | None:
        """Return the entry above, None at the top of a cohort."""
        parent = self.entries[name].parent
        return parent if parent in self.entries else None

    def nominal(self, name: str) -> int:
        """Return the GPUs that are the entry's own; none for an entry that does not exist."""
        quota = self.entries.get(name)
        return 0 if quota is None else quota.nominal_gpus


def available(tree: QuotaTree, usage: Mapping[str, int], name: str) -> int:
    """Return how many more GPUs an entry of the tree may take (Q2, Q3); negative when over-admitted.

    What is kept is never lent, so an excess elsewhere does not reach it.
    """
    parent = tree.parent(name)
    used = usage.get(name, 0)
    if parent is None:
        return tree.subtree[name] - used
    kept = tree.kept[name]
    from_parent = available(tree, usage, parent)
    limit = tree.entries[name].borrowing_limit_gpus
    if limit is not None:
        drawn = max(0, used - kept)
        from_parent = min(from_parent, tree.subtree[name] - kept - drawn + limit)
    own = max(0, kept - used)
    return own + max(0, from_parent) if own else from_parent


def largest(tree: QuotaTree, name: str) -> int:
    """Return the most GPUs the entry could ever take, with nothing else in use."""
    return available(tree, {}, name)


def charge(tree: QuotaTree, usage: dict[str, int], name: str, gpus: int) -> None:
    """Add GPUs to the entry's usage, and to its parents' what it draws from them; negative gives back (Q1).

    A team that is in no tree any more is charged by itself: all that it still uses is above its nominal of none.
    """
    if name not in tree.entries:
        usage[name] = usage.get(name, 0) + gpus
    for entry in _upwards(tree, name):
        before = max(0, usage.get(entry, 0) - tree.kept[entry])
        usage[entry] = usage.get(entry, 0) + gpus
        gpus = max(0, usage[entry] - tree.kept[entry]) - before
        if gpus == 0:
            return


def above_nominal(tree: QuotaTree, usage: Mapping[str, int], name: str) -> int:
    """Return how many GPUs the entry uses above its nominal (Q4); zero when it does not borrow."""
    return max(0, usage.get(name, 0) - tree.nominal(name))


def shares_with(tree: QuotaTree, usage: Mapping[str, int], team: str, gpus: int) -> dict[str, int]:
    """Return what a team and each entry above it would borrow with that many GPUs more, for its weight (O5).

    The team first. The top of a cohort is left out: there is nobody that it could borrow from. What an entry borrows
    is what it draws beyond all that it and those below it have to share. In units that all entries share.
    """
    found: dict[str, int] = {}
    for entry in _upwards(tree, team):
        if found and tree.parent(entry) is None:
            break
        used, kept = usage.get(entry, 0), tree.kept[entry]
        own = tree.nominal(entry) if entry == team else tree.subtree[entry]
        found[entry] = max(0, used + gpus - own) * (tree.weights // tree.entries[entry].weight)
        gpus = max(0, used + gpus - kept) - max(0, used - kept)
    return found or {team: max(0, usage.get(team, 0) + gpus) * tree.weights}


def _upwards(tree: QuotaTree, name: str) -> Iterator[str]:
    entry: str | None = name if name in tree.entries else None
    while entry is not None:
        yield entry
        entry = tree.parent(entry)


def _leaves_first(entries: Mapping[str, Quota], children: Mapping[str, list[str]]) -> list[str]:
    ordered: list[str] = []
    waiting = [name for name in sorted(entries) if entries[name].parent not in entries]
    while waiting:
        name = waiting.pop()
        ordered.append(name)
        waiting.extend(children.get(name, []))
    return ordered[::-1]
