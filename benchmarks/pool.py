"""`pool-philly`: one pool with quotas, beside the published static split of the same nodes among eleven teams (T3).

Philly's jobs of October 2017 on 80 nodes of 8 GPUs, in three ways: each team on nodes of its own, first come first
served (the split); all on one pool, first come first served, with no regard to teams (the pool); and on one pool with
quotas, where a team's nominal is what it has in the split, what is idle is lent, and each team takes back its own.

With quotas all work is submitted to borrow, and a team commits what waits first in it once that fits beside what it
committed before: what comes free for a job on a team's own nodes in the split is its nominal here. Who is asked to
leave saves, is gone 30 s later, has 120 s for that, and takes 60 s to be where it was. A wait ends at the first start.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from rich.console import Console
from rich.table import Table

from benchmarks import peers
from benchmarks.result import Result, Samples, result
from fleet_app.engine.policy import DrainContract, Policy, PriorityClass, Quota
from fleet_app.twin.chance import Spread
from fleet_app.twin.readers.row import Casting, Row
from fleet_app.twin.record import Admitted, Committed, Left, Record, Submitted
from fleet_app.twin.run import run
from fleet_app.twin.work import Scenario

POOL = peers.PEERS["philly_oct Helios FIFO"]
SPLIT_S = 186_024
"""The mean wait in the split, of a loop of ours with the Helios simulator's rules and no engine."""

NODES = {
    "6214e9": 14,
    "7f04ca": 7,
    "11cb48": 4,
    "b436b2": 14,
    "ee9e8c": 15,
    "e13805": 4,
    "6c71a0": 7,
    "2869ce": 4,
    "ed69ec": 2,
    "103959": 2,
    "0e4a51": 7,
}
"""Each team's nodes: the Helios simulator's virtual clusters of Philly (352 nodes), in proportion on 80."""

COMMITTED, LENT = 50_000, 1_000
GRACE_S, SAVES_S, RESUMES_S = 120.0, 30.0, 60.0
HOUR_S = 3_600.0
WIDE = 120


@dataclass(slots=True)
class Told:
    """What a run told, by team: how long each job waited for its first start, and what taking back did.

    `inside_s` are the waits of what a team committed, from then on. `asked` is how often its jobs were asked to leave,
    `given_up_gpu_s` what they did not work for that: while they left, came back, and did work again.
    """

    waits_s: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    inside_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    asked: Counter[str] = field(default_factory=Counter)
    given_up_gpu_s: Counter[str] = field(default_factory=Counter)

    @property
    def by_job_s(self) -> dict[str, float]:
        """Return how long each job waited."""
        return {name: wait for waits in self.waits_s.values() for name, wait in waits.items()}

    @property
    def late_s(self) -> list[float]:
        """Return the waits inside a nominal that were longer than the grace."""
        return [wait for waits in self.inside_s.values() for wait in waits if wait > GRACE_S]

    def mean_s(self, team: str | None = None) -> float:
        """Return the mean wait of a team's jobs, or of all; of none it is none."""
        waits = self.by_job_s if team is None else self.waits_s[team]
        return fmean(waits.values()) if waits else 0.0


def told(records: Iterable[Record]) -> Told:
    """Return what a run told, by team."""
    found = Told()
    teams: dict[str, str] = {}
    since: dict[str, float] = {}
    for one in records:
        if isinstance(one, Submitted):
            teams[one.workload] = one.team
        elif isinstance(one, Committed):
            since[one.workload] = one.at
        elif isinstance(one, Admitted):
            team = teams[one.workload]
            found.waits_s[team].setdefault(one.workload, one.waited_s)
            if one.workload in since:
                found.inside_s[team].append(one.at - since.pop(one.workload))
        elif isinstance(one, Left) and one.asked_at is not None:
            team = teams[one.workload]
            found.asked[team] += 1
            found.given_up_gpu_s[team] += (one.at - one.asked_at + RESUMES_S) * one.gpus + one.lost_gpu_s
    return found


def split(jobs: Sequence[Row]) -> Told:
    """Return what comes of the jobs where each team has nodes of its own."""
    found = Told()
    for team, count in NODES.items():
        own = [row for row in jobs if row.team == team]
        alone = told(_records(peers.scenario(replace(POOL, nodes=count), own)))
        found.waits_s[team] = alone.by_job_s
    return found


def pooled(jobs: Sequence[Row]) -> Told:
    """Return what comes of the jobs on one pool, by team."""
    by_name = told(_records(peers.scenario(POOL, jobs))).by_job_s
    found = Told()
    for row in jobs:
        found.waits_s[row.team][row.name] = by_name[row.name]
    return found


def shared(jobs: Sequence[Row], *, strict: bool = False) -> Told:
    """Return what comes of the jobs on one pool with quotas; `strict` is whether nobody passes in a team's queue."""
    return told(_records(scenario(jobs, strict=strict)))


def scenario(jobs: Sequence[Row], *, strict: bool = False) -> Scenario:
    """Return the pool with quotas as a scenario."""
    casting = Casting(committed=LENT, lent=LENT, leaves=Spread(median_s=SAVES_S))
    return Scenario(
        policy=policy(strict=strict),
        nodes=peers.nodes(POOL.nodes),
        jobs=tuple(replace(job, resume_s=RESUMES_S) for job in casting.jobs(jobs)),
        begins_at=peers.OCTOBER,
        commits_at=COMMITTED,
    )


def policy(*, strict: bool = False) -> Policy:
    """Return a cohort of all teams, each with its nodes of the split as nominal."""
    own = {team: count * peers.GPUS for team, count in NODES.items()}
    return Policy(
        levels=(),
        quotas=(
            Quota(name="philly", nominal_gpus=sum(own.values())),
            *(Quota(name=team, parent="philly", nominal_gpus=gpus, strict=strict) for team, gpus in own.items()),
        ),
        classes=(
            PriorityClass(name="committed", value=COMMITTED),
            PriorityClass(name="lent", value=LENT, borrows=True, yields=True),
        ),
        drain=DrainContract(grace_s=GRACE_S, restart_cost_s=SAVES_S + RESUMES_S),
    )


def later_s(ours: Told, theirs: Told) -> list[float]:
    """Return by how much each job waited longer than elsewhere, for those that did, the least first."""
    elsewhere = theirs.by_job_s
    return sorted(wait - elsewhere[name] for name, wait in ours.by_job_s.items() if wait > elsewhere[name])


def _records(given: Scenario) -> list[Record]:
    records: list[Record] = []
    run(given, records.append)
    return records


# --- what is printed ------------------------------------------------------------------------------------------------


def pool_philly() -> Result:
    """Return the mean wait with quotas beside that in the split, and print it for each team."""
    jobs = peers.rows(POOL.trace)
    apart, together, ours = split(jobs), pooled(jobs), shared(jobs)
    assert POOL.printed is not None
    assert round(together.mean_s(), 2) == POOL.printed.wait_s, together.mean_s()
    assert round(apart.mean_s()) == SPLIT_S, apart.mean_s()
    console = Console(width=WIDE)
    console.print(table(apart, together, ours))
    console.print(*sentences(apart, ours), sep="\n")
    what = "mean wait, one pool with quotas; other: every team on nodes of its own"
    return result("pool-philly", what, "s", Samples(ours=[ours.mean_s()], other=[apart.mean_s()], other_name="split"))


def table(apart: Told, together: Told, ours: Told) -> Table:
    """Return the waits of each team in the three ways (s), and what was taken back from it."""
    found = Table("team", title="Philly, October 2017, 80 nodes: mean wait (s)", title_justify="left")
    columns = (
        "nominal",
        "jobs",
        "split",
        "pool",
        "quotas",
        "longest inside nominal",
        "asked to leave",
        "GPU-h given up",
    )
    for name in columns:
        found.add_column(name, justify="right")
    for team, count in NODES.items():
        found.add_row(team, str(count * peers.GPUS), *_cells(team, apart, together, ours))
    found.add_section()
    found.add_row("all", str(POOL.nodes * peers.GPUS), *_cells(None, apart, together, ours))
    return found


def _cells(team: str | None, apart: Told, together: Told, ours: Told) -> list[str]:
    teams = list(NODES) if team is None else [team]
    longest = max((wait for one in teams for wait in ours.inside_s[one]), default=0.0)
    return [
        f"{sum(len(ours.waits_s[one]) for one in teams):,}",
        *(f"{one.mean_s(team):,.0f}" for one in (apart, together, ours)),
        f"{longest:,.0f}",
        f"{sum(ours.asked[one] for one in teams):,}",
        f"{sum(ours.given_up_gpu_s[one] for one in teams) / HOUR_S:,.1f}",
    ]


def sentences(apart: Told, ours: Told) -> list[str]:
    """Return whether what was promised was kept, in numbers."""
    inside = sum(map(len, ours.inside_s.values()))
    later = later_s(ours, apart)
    most, jobs = later[-1] if later else 0.0, len(ours.by_job_s)
    return [
        f"{len(ours.late_s):,} of {inside:,} jobs inside their team's nominal waited longer than {GRACE_S:.0f} s.",
        f"{len(later):,} of {jobs:,} jobs waited longer than in the split, none by more than {most:,.0f} s.",
    ]


BENCHMARKS = {"pool-philly": pool_philly}
