"""Which nodes are kept out for what happened on them, and for how long (rules H1 to H4).

Knows failures, quarantines and which nodes are away. Ends nothing that runs, and does not know what will be placed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fleet_app.engine.failures import Cause, Failure, Quarantined
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Quarantine, Release

FLEET = "fleet"
"""The owner of a quarantine that nobody asked for."""

SHOWN = 3


def step(
    ledger: Ledger, failures: Iterable[Failure], quarantines: Iterable[Quarantined]
) -> Iterator[Quarantine | Release]:
    """Yield the end of each quarantine that is over, and a quarantine for each node that has to be kept out."""
    known = {one.node: one for one in quarantines}
    recent = _recent(ledger, failures)
    for name in sorted(known):
        if known[name].released_at is None and not known[name].binds(ledger.now):
            yield Release(node=name, why="its quarantine is over")
    until = ledger.now + ledger.policy.health.quarantine_s
    found = _guilty(ledger, recent, known)
    kept_out = len(found) + sum(one.binds(ledger.now) for one in known.values())
    for name, why in _suspected(ledger, _held_against(recent, known), found):
        if kept_out < _most_by_suspicion(ledger):
            kept_out += 1
            found[name] = why
    for name, why in sorted(found.items()):
        ledger.keep_out(name)
        yield Quarantine(node=name, until=until, owner=FLEET, why=why)


Known = Mapping[str, Quarantined]
Held = list[tuple[str, Failure]]


def _recent(ledger: Ledger, failures: Iterable[Failure]) -> list[Failure]:
    """Return what is not older than the window, the earliest first."""
    since = ledger.now - ledger.policy.health.window_s
    recent = (failure for failure in failures if failure.at > since)
    return sorted(recent, key=lambda one: (one.at, one.workload, one.suspects, one.cause, one.why))


def _held_against(recent: Iterable[Failure], known: Known) -> Held:
    """Return what is held against each node that is not kept out already; a release wipes out what was before (H4)."""
    return [(name, failure) for failure in recent for name in failure.suspects if _counts(known.get(name), failure)]


def _counts(before: Quarantined | None, failure: Failure) -> bool:
    return before is None or (before.released_at is not None and failure.at > before.released_at)


def _guilty(ledger: Ledger, recent: Sequence[Failure], known: Known) -> dict[str, str]:
    """Return the nodes that are known to be at fault, and why (H1, H2)."""
    found: dict[str, str] = {}
    died: dict[str, str | None] = {}
    for failure in recent:
        name = failure.node
        # Whose ranks die on one node after another has a fault of its own, and would take them all.
        first = failure.cause is not Cause.RANK or died.setdefault(failure.workload, name) == name
        if name is None or not first or not _counts(known.get(name), failure):
            continue
        if failure.cause is Cause.NODE and ledger.gone(name):
            found.setdefault(name, f"it was lost with {failure.workload} on it")
        elif failure.cause is Cause.RANK:
            found.setdefault(name, f"a rank of {failure.workload} died on it: {failure.why}")
    return found


def _suspected(ledger: Ledger, held: Held, found: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the nodes on which enough different workloads failed, those with the most first (H3)."""
    failed: dict[str, set[str]] = defaultdict(set)
    for name, failure in held:
        if name in ledger.nodes and name not in found:
            failed[name].add(failure.workload)
    enough = [(name, sorted(gangs)) for name, gangs in failed.items() if len(gangs) >= ledger.policy.health.failures]
    enough.sort(key=lambda one: (-len(one[1]), one[0]))
    return [(name, f"{len(gangs)} workloads failed on it: {_names(gangs)}") for name, gangs in enough]


def _most_by_suspicion(ledger: Ledger) -> int:
    """Return how many nodes may be kept out before suspicion alone is not enough any more; one always (H3)."""
    return max(1, len(ledger.nodes) * ledger.policy.health.most_percent // 100)


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
