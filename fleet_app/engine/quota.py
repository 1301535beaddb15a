"""The quota tree: how many more GPUs each team may take (rules Q1 to Q4).

Knows entries, counts and limits. Does not know nodes, time or priorities. Usage is a mapping from entry name to
GPUs that the ledger owns; only `charge` changes it.
Kept and drawn follow the published hierarchical quota model of Kueue: what an entry never lends is kept, what it
takes beyond that is drawn from its parent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet_app.engine.policy import Quota


@dataclass(frozen=True, slots=True)
class QuotaTree:
    """The entries by name, with what each subtree holds and never lends, in GPUs.

    `paths` are, for each entry, itself and those above it, up to the top of its cohort. `weights` is the least common
    multiple of all weights, so that shares by weight compare as whole numbers. `strict` names the entries whose queues
    are taken strictly in order.
    """

    entries: Mapping[str, Quota]
    paths: Mapping[str, tuple[str, ...]]
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
        leaves_first = _leaves_first(entries, children)
        paths: dict[str, tuple[str, ...]] = {}
        for name in reversed(leaves_first):
            parent = entries[name].parent
            paths[name] = (name,) if parent is None else (name, *paths.get(parent, ()))
        subtree: dict[str, int] = {}
        kept: dict[str, int] = {}
        for name in leaves_first:
            quota = entries[name]
            below = children.get(name, [])
            own = max(0, quota.nominal_gpus - sum(entries[child].nominal_gpus for child in below))
            subtree[name] = own + sum(subtree[child] - kept[child] for child in below)
            limit = quota.lending_limit_gpus
            kept[name] = 0 if limit is None else max(0, subtree[name] - limit)
        weights = math.lcm(*(quota.weight for quota in entries.values()))
        strict = frozenset(quota.name for quota in entries.values() if quota.strict)
        return cls(entries, paths, subtree, kept, weights, strict)

    def nominal(self, name: str) -> int:
        """Return the GPUs that are the entry's own; none for an entry that does not exist."""
        quota = self.entries.get(name)
        return 0 if quota is None else quota.nominal_gpus


def available(tree: QuotaTree, usage: Mapping[str, int], name: str) -> int:
    """Return how many more GPUs an entry of the tree may take (Q2, Q3); negative when over-admitted.

    What is kept is never lent, so an excess elsewhere does not reach it.
    """
    *below, top = tree.paths[name]
    left = tree.subtree[top] - usage.get(top, 0)
    for entry in reversed(below):
        used, kept = usage.get(entry, 0), tree.kept[entry]
        limit = tree.entries[entry].borrowing_limit_gpus
        if limit is not None:
            drawn = max(0, used - kept)
            left = min(left, tree.subtree[entry] - kept - drawn + limit)
        own = max(0, kept - used)
        left = own + max(0, left) if own else left
    return left


def largest(tree: QuotaTree, name: str) -> int:
    """Return the most GPUs the entry could ever take, with nothing else in use."""
    return available(tree, {}, name)


def charge(tree: QuotaTree, usage: dict[str, int], name: str, gpus: int) -> None:
    """Add GPUs to the entry's usage, and to its parents' what it draws from them; negative gives back (Q1).

    A team that is in no tree any more is charged by itself: all that it still uses is above its nominal of none.
    """
    if name not in tree.entries:
        usage[name] = usage.get(name, 0) + gpus
    for entry in tree.paths.get(name, ()):
        before, kept = usage.get(entry, 0), tree.kept[entry]
        after = usage[entry] = before + gpus
        gpus = max(0, after - kept) - max(0, before - kept)
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
    path = tree.paths.get(team, ())
    for entry in path[:-1] or path:
        used, kept = usage.get(entry, 0), tree.kept[entry]
        own = tree.nominal(entry) if entry == team else tree.subtree[entry]
        found[entry] = max(0, used + gpus - own) * (tree.weights // tree.entries[entry].weight)
        gpus = max(0, used + gpus - kept) - max(0, used - kept)
    return found or {team: max(0, usage.get(team, 0) + gpus) * tree.weights}


def _leaves_first(entries: Mapping[str, Quota], children: Mapping[str, list[str]]) -> list[str]:
    ordered: list[str] = []
    waiting = [name for name in sorted(entries) if entries[name].parent not in entries]
    while waiting:
        name = waiting.pop()
        ordered.append(name)
        waiting.extend(children.get(name, []))
    return ordered[::-1]
