"""Runs of other simulators, as scenarios of ours: the same jobs, nodes and rules, and what theirs printed (T1).

The Helios simulator is that of the artifact of Hu et al., SC 2021 (S-Lab-System-Group/HeliosArtifact, commit
`bdaae109c21f`), AccaSim is version 1.1.3 of PyPI (Galleguillos et al., 2018); both were run by us on the traces in
`clusters/traces`. Their rules, as settings of ours: a queue that is strict, or not; the shortest declared run time
first, or not; consolidation (the fullest node that fits, whole nodes and the emptiest for the rest) or first fit with
equal parts. AccaSim's EASY gives its backfill no reserved nodes and so is a FIFO that skips what does not fit; a true
EASY is `easy`, to which no peer gives a reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from fleet_app.engine.policy import DrainContract, Ordering, Packing, Policy, PriorityClass, Quota
from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.twin.readers.itp import itp
from fleet_app.twin.readers.philly import philly
from fleet_app.twin.readers.reading import read
from fleet_app.twin.readers.row import Casting, Row, equal, whole_and_rest
from fleet_app.twin.record import Admitted, Ended, Record
from fleet_app.twin.run import run
from fleet_app.twin.work import Job, Scenario

TRACES = Path(__file__).parents[1] / "clusters" / "traces"
OCTOBER = datetime(2017, 10, 1, tzinfo=UTC).timestamp()
GPUS = 8
ALL = "all"


@dataclass(frozen=True, slots=True)
class Figures:
    """Mean wait and mean completion time in seconds, to the hundredth; seconds from the first submission to the end."""

    wait_s: float
    completion_s: float
    makespan_s: float


@dataclass(frozen=True, slots=True)
class Peer:
    """One run of another simulator: trace, nodes, who packed, in which order; `printed` is None where nobody ran it."""

    trace: str
    nodes: int
    packs: str
    order: str
    printed: Figures | None = None


PEERS = {
    "itp04 Helios FIFO": Peer("itp04", 72, "helios", "fifo", Figures(20_545.95, 40_528.01, 5_175_866)),
    "itp04 Helios SJF": Peer("itp04", 72, "helios", "sjf", Figures(4_092.41, 24_074.47, 5_175_866)),
    "itp04 AccaSim FIFO": Peer("itp04", 72, "accasim", "fifo", Figures(19_662.73, 39_644.79, 5_175_866)),
    "itp04 AccaSim SJF": Peer("itp04", 72, "accasim", "sjf", Figures(4_087.18, 24_069.25, 5_175_866)),
    "itp04 AccaSim skip": Peer("itp04", 72, "accasim", "skip", Figures(7_808.09, 27_790.15, 5_175_866)),
    "itp04 true EASY": Peer("itp04", 72, "accasim", "easy"),
    "philly_oct Helios FIFO": Peer("philly_oct", 80, "helios", "fifo", Figures(13_892.25, 25_265.40, 4_657_975)),
    "philly_oct Helios SJF": Peer("philly_oct", 80, "helios", "sjf", Figures(1_890.81, 13_263.96, 4_892_495)),
    "philly_oct AccaSim FIFO": Peer("philly_oct", 80, "accasim", "fifo", Figures(14_425.37, 25_798.52, 4_661_125)),
    "philly_oct AccaSim SJF": Peer("philly_oct", 80, "accasim", "sjf", Figures(1_761.02, 13_134.18, 4_874_695)),
    "philly_oct AccaSim skip": Peer("philly_oct", 80, "accasim", "skip", Figures(2_660.51, 14_033.66, 4_557_652)),
    "philly_oct true EASY": Peer("philly_oct", 80, "accasim", "easy"),
}


@cache
def rows(trace: str) -> tuple[Row, ...]:
    """Return the jobs of a trace."""
    reader = philly if trace == "philly_oct" else itp
    return read(TRACES / f"{trace}.csv.gz", reader, strict=True).found


def scenario(peer: Peer, some: Sequence[Row] | None = None) -> Scenario:
    """Return a peer's run as a scenario of ours; of some jobs only, where they are given."""
    begins_at = OCTOBER if peer.trace == "philly_oct" else 0.0
    return Scenario(policy=policy(peer), nodes=nodes(peer.nodes), jobs=jobs(peer, some), begins_at=begins_at)


def nodes(count: int) -> tuple[Node, ...]:
    """Return so many nodes, all of one place."""
    return tuple(
        Node(name=f"n{number:03d}", node_class=NodeClass.TRAINING, domains=(), capacity=Shape(gpus=GPUS))
        for number in range(count)
    )


def policy(peer: Peer) -> Policy:
    """Return the policy that orders and packs as the peer does; nobody preempts, and one team has all there is."""
    keeps = peer.order == "easy"
    return Policy(
        levels=(),
        quotas=(Quota(name=ALL, nominal_gpus=peer.nodes * GPUS, strict=peer.order in {"fifo", "sjf"}),),
        classes=(PriorityClass(name=ALL, value=1, yields=not keeps),),
        ordering=Ordering(shortest_first=peer.order == "sjf", keepers=1 if keeps else None),
        packing=Packing(first_fit=peer.packs == "accasim", rest_emptiest=peer.packs == "helios"),
        drain=DrainContract(grace_s=0.0, longest_grace_s=0.0),
    )


def jobs(peer: Peer, some: Sequence[Row] | None = None) -> tuple[Job, ...]:
    """Return the jobs of the peer's trace, or some of them; each declares how long it runs where that matters."""
    casting = Casting(
        per_node=GPUS,
        bundles=whole_and_rest if peer.packs == "helios" else equal,
        committed=1,
        lent=1,
        team=ALL,
        declares=peer.order in {"sjf", "easy"},
    )
    found = casting.jobs(rows(peer.trace) if some is None else some)
    return tuple(replace(job, workload=replace(job.workload, grace_s=0.0)) for job in found)


def figures(records: list[Record]) -> Figures:
    """Return what a run told, as the peers print it."""
    waits = [one.waited_s for one in records if isinstance(one, Admitted)]
    ended = [one for one in records if isinstance(one, Ended)]
    first, last = min(one.submitted_at for one in ended), max(one.at for one in ended)
    return Figures(
        wait_s=round(sum(waits) / len(waits), 2),
        completion_s=round(sum(one.at - one.submitted_at for one in ended) / len(ended), 2),
        makespan_s=last - first,
    )


def ours(peer: Peer) -> Figures:
    """Return the figures of our run of a peer's scenario."""
    records: list[Record] = []
    run(scenario(peer), records.append)
    return figures(records)
