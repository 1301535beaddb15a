"""One job of some history, in words that all systems share; and how it becomes a job of ours.

Other systems know GPUs and queues; bundles, kinds and priorities are ours. `Casting` makes the one of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fleet_app.engine.values import Shape
from fleet_app.engine.workload import Group, Kind, Workload, widest
from fleet_app.twin.chance import Spread
from fleet_app.twin.work import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A job that was: who submitted it when (seconds since the epoch), what it asked for, and how long it ran.

    `nodes` is on how many, `limit_s` the longest that it said it would run, `started_at` when it really started; None
    where the history does not say. `queue` is what it was submitted to, `failed` whether it ended badly.
    """

    name: str
    team: str
    submitted_at: float
    run_s: float
    gpus: int
    nodes: int | None = None
    limit_s: float | None = None
    started_at: float | None = None
    queue: str = ""
    failed: bool = False


Bundles = Callable[[Row, int], tuple[Group, ...]]
"""How the GPUs of a job lie on nodes of so many."""


def equal(row: Row, per_node: int) -> tuple[Group, ...]:
    """Return equal bundles on as few nodes as hold them: of 12 GPUs on nodes of 8, 6 and 6; a rest is left out."""
    count = row.nodes or -(-row.gpus // per_node)
    return (Group(name="", shape=Shape(gpus=row.gpus // count), bundles=count),)


def whole_and_rest(row: Row, per_node: int) -> tuple[Group, ...]:
    """Return whole nodes, and one bundle with the rest: of 12 GPUs on nodes of 8, 8 and 4."""
    whole, rest = divmod(row.gpus, per_node)
    groups = [Group(name="whole", shape=Shape(gpus=per_node), bundles=whole)] if whole else []
    groups += [Group(name="rest", shape=Shape(gpus=rest))] if rest else []
    return tuple(groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Casting:
    """How rows become jobs: on nodes of so many GPUs, as gangs from so many GPUs on and else as backfill.

    `lent` and `committed` are the priorities of the two kinds. `team` is whose they all are, None for their own.
    With `declares` each says how long it will run: its limit where the history has that, its real run time else.
    The rest is how they behave (`work.Job`).
    """

    per_node: int = 8
    bundles: Bundles = whole_and_rest
    gang_from_gpus: int = 8
    committed: int = 50_000
    lent: int = 1_000
    team: str | None = None
    declares: bool = False
    start_s: float = 0.0
    save_every_s: float | None = None
    leaves: Spread = field(default_factory=Spread)

    def jobs(self, rows: Iterable[Row]) -> list[Job]:
        """Return the jobs, first submitted first; of equal moments the first in the history."""
        return [self.job(row) for row in sorted(rows, key=lambda row: row.submitted_at)]

    def job(self, row: Row) -> Job:
        """Return one job."""
        return Job(
            workload=self._workload(row),
            run_s=row.run_s,
            start_s=self.start_s,
            save_every_s=self.save_every_s,
            leaves=self.leaves,
            fails=row.failed,
        )

    def _workload(self, row: Row) -> Workload:
        groups = self.bundles(row, self.per_node)
        gang = row.gpus >= self.gang_from_gpus
        declared = row.limit_s or row.run_s
        return Workload(
            name=row.name,
            kind=Kind.GANG if gang else Kind.BACKFILL,
            team=self.team or row.team,
            priority=self.committed if gang else self.lent,
            shape=widest(groups),
            bundles=sum(group.bundles for group in groups),
            groups=groups if len(groups) > 1 else (),
            submitted_at=row.submitted_at,
            max_run_s=declared if self.declares else None,
        )
