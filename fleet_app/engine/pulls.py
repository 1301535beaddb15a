"""How many fetch what they need at once: pulls from one source, and to one node, are limited (rules G1 to G5).

Knows what each workload needs, what nodes have already, and who is fetching now. Does not know room or quota, and
chooses no nodes: it says whether a start there may begin now.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from fleet_app.engine.artifacts import Artifact
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Reason, Wait
from fleet_app.engine.policy import Source
from fleet_app.engine.workload import Service, Workload

MIB_PER_GIB = 1024
BITS_PER_GIB = 8 * 1.073741824
"""Gigabits in a GiB."""

Cold = list[tuple[Artifact, str]]
"""What has to be fetched, and the node that it has to be fetched to."""


class Gate:
    """Who fetches what now, and who waits for a source; lives as long as a decision.

    Whoever starts in this decision fetches from then on. Who waits for a source is passed by nobody that needs it too,
    so that it has its turn once the others are done (G3).
    """

    def __init__(self, ledger: Ledger, services: Iterable[Service]) -> None:
        """Begin with those that have their nodes and have not started: replicas first (G2)."""
        self._ledger = ledger
        self._sources = {one.name: one for one in ledger.policy.pulls.sources}
        self._from: dict[str, Counter[str]] = defaultdict(Counter)
        self._to: dict[str, Counter[str]] = defaultdict(Counter)
        self._first: dict[str, str] = {}
        for service in services:
            starting = max(0, service.wanted - sum(grant.occupied for grant in service.grants))
            ready = sorted(grant.node for grant in service.grants if not grant.occupied)
            self._begin(service.name, self._cold(service.artifacts, ready[:starting]))
        for workload in ledger.holding:
            if workload.phase is Phase.ADMITTED and not workload.killed:
                self._begin(workload.name, self._cold(workload.artifacts, workload.nodes))
        for grown in ledger.members.elastic.values():
            if grown.phase is Phase.RUNNING and grown.grown_at is not None:
                self._begin(grown.name, self._still(grown, ledger.now - grown.grown_at))

    def refusal(self, workload: Workload, nodes: Sequence[str]) -> Wait | None:
        """Return the wait of a workload that may not begin to fetch now; None where it begins, or has all it needs."""
        cold = self._cold(workload.artifacts, nodes)
        wait = self._by_source(workload, cold)
        if wait is not None:
            for artifact, _ in cold:
                self._first.setdefault(artifact.source, workload.name)
            return wait
        wait = self._by_node(workload, cold)
        if wait is None:
            self._begin(workload.name, cold)
        return wait

    def joining(self, workload: Workload, nodes: Sequence[str]) -> tuple[str, ...]:
        """Return the first of the nodes, as many as members that join there may begin to fetch to now (G5)."""
        for count in range(len(nodes), 0, -1):
            cold = self._cold(workload.artifacts, nodes[:count])
            if self._beside(cold, alone=count == 1):
                self._begin(workload.name, cold)
                return tuple(nodes[:count])
        return ()

    def _beside(self, cold: Cold, *, alone: bool) -> bool:
        """Return whether no source or node has too many pulls with these; one member may where there are no others."""
        most_per_node = self._ledger.policy.pulls.most_per_node
        from_, to = Counter(artifact.source for artifact, _ in cold), Counter(node for _, node in cold)
        sides = [(self._from[name].total(), asked, self._sources[name].most_at_once) for name, asked in from_.items()]
        if most_per_node is not None:
            sides += [(self._to[node].total(), asked, most_per_node) for node, asked in to.items()]
        return all(now + asked <= most or (alone and not now) for now, asked, most in sides)

    def _still(self, workload: Workload, since_s: float) -> Cold:
        """Return what members that joined so many seconds ago cannot have fetched yet, at the speed of its source."""
        cold = self._cold(workload.artifacts, workload.nodes)
        still = {name for name, gib in _gib(cold).items() if self._takes_s(name, gib) > since_s}
        return [(artifact, node) for artifact, node in cold if artifact.source in still]

    def _takes_s(self, source: str, gib: float) -> float:
        """Return how long so much takes from a source; nothing where nobody knows."""
        rate = self._sources[source].gbit_per_s
        return 0.0 if rate is None else gib * BITS_PER_GIB / rate

    def about(self, workload: Workload, nodes: Sequence[str]) -> str:
        """Return what a workload fetches to the nodes, as the end of a reason; empty when it has all that it needs."""
        gib = _gib(self._cold(workload.artifacts, nodes))
        return "".join(f"; {self._spoken(name, gib[name])}" for name in sorted(gib))

    def _spoken(self, name: str, gib: float) -> str:
        rate = self._sources[name].gbit_per_s
        at = "" if rate is None else f", {self._takes_s(name, gib):.0f} s at {rate} Gbit/s"
        return f"pulls {gib:.1f} GiB from {name}{at}"

    def _cold(self, artifacts: Iterable[Artifact], nodes: Iterable[str]) -> Cold:
        """Return what the nodes lack of limited sources (G1)."""
        limited = [one for one in artifacts if one.source in self._sources]
        if not limited:
            return []
        has = {name: set(self._ledger.nodes[name].cached) for name in nodes if name in self._ledger.nodes}
        return [(one, name) for name in has for one in limited if one.name not in has[name]]

    def _begin(self, who: str, cold: Cold) -> None:
        for artifact, node in cold:
            self._from[artifact.source][who] += 1
            self._to[node][who] += 1

    def _by_source(self, workload: Workload, cold: Cold) -> Wait | None:
        asked = Counter(artifact.source for artifact, _ in cold)
        for name in sorted(asked):
            ahead = self._first.get(name)
            source, now = self._sources[name], self._from[name]
            if ahead is not None:
                return _wait(workload, source, asked[name], 0, (ahead,))
            if now and now.total() + asked[name] > source.most_at_once:
                left = max(0, source.most_at_once - now.total())
                return _wait(workload, source, asked[name], left, tuple(sorted(now)))
        return None

    def _by_node(self, workload: Workload, cold: Cold) -> Wait | None:
        most = self._ledger.policy.pulls.most_per_node
        asked = Counter(node for _, node in cold)
        for node in sorted(asked):
            now = self._to[node]
            if most is not None and now and now.total() + asked[node] > most:
                left, source = max(0, most - now.total()), Source(name=node, most_at_once=most)
                return _wait(workload, source, asked[node], left, tuple(sorted(now)))
        return None


def _gib(cold: Cold) -> dict[str, float]:
    """Return how much is fetched from each source, in GiB."""
    mib: Counter[str] = Counter()
    for artifact, _ in cold:
        mib[artifact.source] += artifact.size_mib
    return {name: size / MIB_PER_GIB for name, size in mib.items()}


def _wait(workload: Workload, source: Source, asked: int, left: int, ahead: tuple[str, ...]) -> Wait:
    return Wait(
        workload=workload.name,
        reason=Reason.PULLING,
        asked=asked,
        available=left,
        level=source.name,
        blocked_by=ahead,
    )
