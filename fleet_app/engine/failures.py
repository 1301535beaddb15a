"""What went wrong on which nodes, and which nodes are kept out for it: the facts that health is judged by.

Values only. Knows names and moments; does not know what follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """What is known of a failure: a node was lost, a rank died without its program's doing, or just that it failed."""

    NODE = "node"
    RANK = "rank"
    JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An attempt that ended in failure `at` (seconds since the epoch) on `nodes`; `node` is the one at fault, if known.

    Gangs' failures, and of backfill only lost nodes: its programs fail for reasons of their own.
    """

    workload: str
    nodes: tuple[str, ...]
    at: float
    cause: Cause
    node: str | None = None
    why: str = ""

    @property
    def suspects(self) -> tuple[str, ...]:
        """Return the nodes that may have caused it."""
        return self.nodes if self.node is None else (self.node,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A node that takes nothing new from `since` until `until`, or until it is released (seconds since the epoch).

    `owner` is who keeps it out: the fleet itself, or the person who asked. One that was released is remembered for a
    while: what happened on the node before that is not held against it again.
    """

    node: str
    reason: str
    owner: str
    since: float
    until: float
    released_at: float | None = None

    def binds(self, now: float) -> bool:
        """Return whether the node is kept out at `now`."""
        return self.released_at is None and now < self.until
