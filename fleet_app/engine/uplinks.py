"""Whose traffic leaves which domain: the uplinks that work of several nodes uses already (rule P9).

Knows the ledger and where work is. Does not know bandwidth: an uplink is used or it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from fleet_app.engine.ledger import Ledger

Domain = tuple[str, ...]


def uplinks(ledger: Ledger, bundles: int) -> AbstractSet[Domain]:
    """Return the domains whose uplinks are in use, for work of so many nodes; work of one node needs none."""
    if bundles == 1:
        return frozenset()
    if ledger.memo.uplinks is None:
        ledger.memo.uplinks = set()
        for workload in ledger.holding:
            if len(workload.nodes) > 1:
                use(ledger, workload.nodes)
    return ledger.memo.uplinks


def use(ledger: Ledger, names: Sequence[str]) -> None:
    """Count the uplinks that work on these nodes uses from now on."""
    if ledger.memo.uplinks is not None:
        paths = [ledger.nodes[name].domains for name in names if name in ledger.nodes]
        ledger.memo.uplinks |= _left(paths)


def _left(paths: Iterable[Domain]) -> set[Domain]:
    """Return the domains of several places that traffic between these places leaves."""
    found: set[Domain] = set()
    known = sorted(set(paths))
    for depth in range(1, max(map(len, known), default=0) + 1):
        here = {path[:depth] for path in known if len(path) >= depth}
        found |= here if len(here) > 1 else set()
    return found
