"""How near a replay comes to what was recorded: GPUs in use over time, ours against theirs (R1).

`helios`: three virtual clusters of SenseTime's Helios Earth in May 2020, sampled every 10 minutes (`clusters/traces`).
The record has totals, not jobs: `benchmarks.unfold` says which jobs explain them. Each is submitted when it came and
runs for as long as it ran; our engine says when it starts and where. Compared is how many GPUs run at every sample.
`openb`: the pods of Alibaba's openb cluster on its 1,213 nodes with GPUs: created when they were, for as long as they
ran; compared are the GPUs in use and the waits. A pod with a part of a GPU has a whole one here and counts as its part.
`python -m benchmarks.fidelity [helios] [openb]`.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.traces import trace
from benchmarks.unfold import unfold
from fleet_app.engine.policy import DrainContract, Policy, PriorityClass, Quota
from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.engine.workload import Kind, Workload
from fleet_app.twin.readers.helios_state import Sampled, helios_state
from fleet_app.twin.readers.openb import Pod, openb_nodes, openb_pods
from fleet_app.twin.readers.reading import read
from fleet_app.twin.readers.row import Casting
from fleet_app.twin.record import Admitted, Ended, Record
from fleet_app.twin.report.figures import Spread
from fleet_app.twin.report.spread import spread
from fleet_app.twin.run import run
from fleet_app.twin.work import Job, Scenario

EXTRACTS = Path(__file__).parents[1] / "clusters" / "traces"
CLUSTERS = ("vc6YE", "vcpDC", "vc3sl")
GPUS = 8
ALL = "all"
ORDERS = ("strict", "keeps", "passes")
"""Nobody passes the first that waits; later work passes but for the room that others keep; all that fits passes."""
SAMPLE_S = 600.0


@dataclass(frozen=True, slots=True)
class Fidelity:
    """A replay beside the record: mean GPUs in use, the mean difference, what of it is ours being more; and waits."""

    recorded_gpus: float
    replayed_gpus: float
    error: float
    """The mean difference without its sign, as a share of what was recorded on average."""
    more: float
    """What part of the difference is that ours had more in use."""
    recorded_waits: Spread
    replayed_waits: Spread


def compared(recorded: Sequence[float], replayed: Sequence[float], waits: tuple[Spread, Spread]) -> Fidelity:
    """Return how a replay compares with the record, sample by sample."""
    differences = [ours - theirs for theirs, ours in zip(recorded, replayed, strict=True)]
    off, mean = sum(map(abs, differences)), sum(recorded) / len(recorded)
    return Fidelity(
        recorded_gpus=mean,
        replayed_gpus=sum(replayed) / len(replayed),
        error=off / len(recorded) / mean,
        more=sum(max(0.0, one) for one in differences) / off if off else 0.0,
        recorded_waits=waits[0],
        replayed_waits=waits[1],
    )


def in_use(changes: Iterable[tuple[float, float]], moments: Sequence[float]) -> list[float]:
    """Return the GPUs in use after each moment, from what came into use and went out of it when."""
    ordered = sorted(changes)
    ats, sums, total = [at for at, _ in ordered], [], 0.0
    for _, gpus in ordered:
        total += gpus
        sums.append(total)
    return [sums[place - 1] if (place := bisect_right(ats, at)) else 0.0 for at in moments]


def replayed(scenario: Scenario, weights: Mapping[str, float]) -> tuple[list[tuple[float, float]], dict[str, float]]:
    """Run a scenario; return what came into use and went out of it when, and how long each workload waited."""
    changes: list[tuple[float, float]] = []
    waits: dict[str, float] = {}

    def tell(record: Record) -> None:
        if isinstance(record, Admitted):
            changes.append((record.at, weights[record.workload]))
            waits[record.workload] = record.waited_s
        elif isinstance(record, Ended):
            changes.append((record.at, -weights[record.workload]))

    run(scenario, tell)
    return changes, waits


# --- Helios Earth ---------------------------------------------------------------------------------------------------


def samples(cluster: str) -> tuple[Sampled, ...]:
    """Return what was recorded of a virtual cluster."""
    return read(EXTRACTS / f"helios_earth_{cluster}_state_10min.csv.gz", helios_state, strict=True).found


def helios(cluster: str, order: str, *, nodes: bool = True) -> Fidelity:
    """Return how near our engine comes to a virtual cluster of Helios Earth, by one of the orders.

    Without `nodes` all of its GPUs are as on one node: what then differs is no matter of who fits where.
    """
    known = samples(cluster)
    rows, each = unfold(known), GPUS if nodes else known[0].gpus
    scenario = Scenario(
        policy=policy(known[0].gpus, order),
        nodes=tuple(
            Node(name=f"n{number:03}", node_class=NodeClass.TRAINING, domains=(), capacity=Shape(gpus=each))
            for number in range(known[0].gpus // each)
        ),
        jobs=Casting(per_node=each, gang_from_gpus=1, team=ALL, committed=1).jobs(rows),
        begins_at=known[0].at,
        ends_at=known[-1].at,
    )
    changes, waits = replayed(scenario, {row.name: float(row.gpus) for row in rows})
    began = [row for row in rows if row.started_at is not None]
    theirs = spread(row.started_at - row.submitted_at for row in began if row.started_at is not None)
    ours = spread(waits.get(row.name, known[-1].at - row.submitted_at) for row in began)
    moments = [one.at for one in known]
    return compared([float(one.running_gpus) for one in known], in_use(changes, moments), (theirs, ours))


def policy(gpus: int, order: str) -> Policy:
    """Return a policy by which one team has all there is, in the order of submission, and nobody preempts."""
    return Policy(
        levels=(),
        quotas=(Quota(name=ALL, nominal_gpus=gpus, strict=order == "strict"),),
        classes=(PriorityClass(name=ALL, value=1, yields=order != "keeps"),),
        drain=DrainContract(grace_s=0.0, longest_grace_s=0.0),
    )


# --- openb ----------------------------------------------------------------------------------------------------------


def openb() -> Fidelity:
    """Return how near our engine comes to what was recorded of openb; pods that never had a place are left aside."""
    nodes = read(trace("openb_nodes.csv.gz"), openb_nodes, strict=True).found
    pods = [
        one
        for one in read(trace("openb_pods_default.csv.gz"), openb_pods, strict=True).found
        if one.scheduled_at is not None and one.shape.gpus and one.deleted_at > one.scheduled_at
    ]
    weights = {one.name: one.shape.gpus * one.gpu_milli / 1000.0 for one in pods}
    gpus = sum(node.capacity.gpus for node in nodes)
    scenario = Scenario(policy=policy(gpus, "keeps"), nodes=nodes, jobs=[_job(one) for one in _in_order(pods)])
    changes, waits = replayed(scenario, weights)
    theirs = [
        change
        for one in pods
        for change in ((one.scheduled_at or 0.0, weights[one.name]), (one.deleted_at, -weights[one.name]))
    ]
    last = max(one.deleted_at for one in pods)
    moments = [SAMPLE_S * step for step in range(int(last / SAMPLE_S))]
    known = spread((one.scheduled_at or 0.0) - one.created_at for one in pods)
    return compared(in_use(theirs, moments), in_use(changes, moments), (known, spread(waits.values())))


def _in_order(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda one: (one.created_at, one.name))


def _job(pod: Pod) -> Job:
    workload = Workload(
        name=pod.name, kind=Kind.GANG, team=ALL, priority=1, shape=pod.shape, submitted_at=pod.created_at
    )
    return Job(workload=workload, run_s=pod.deleted_at - (pod.scheduled_at or 0.0))


def shown(what: str, one: Fidelity) -> str:
    """Return what a replay comes to, in a sentence."""
    waits = ", ".join(
        f"{name} p50 {found.p50_s:,.0f} s, p90 {found.p90_s:,.0f} s, p99 {found.p99_s:,.0f} s"
        for name, found in (("recorded", one.recorded_waits), ("ours", one.replayed_waits))
    )
    return (
        f"{what}: in use {one.recorded_gpus:.2f} GPUs recorded, {one.replayed_gpus:.2f} ours; off by {one.error:.2%} "
        f"({one.more:.0%} of that ours more); waits {waits}"
    )


def main(wanted: Sequence[str]) -> int:
    """Run what is named, both where nothing is; return an exit code."""
    if "helios" in (wanted or ("helios",)):
        for cluster in CLUSTERS:
            sizes = Counter(row.gpus for row in unfold(samples(cluster)))
            print(f"{cluster}: {sum(sizes.values())} jobs; by GPUs {dict(sorted(sizes.items()))}")
            for order in ORDERS:
                print(shown(f"helios earth {cluster}, {order}", helios(cluster, order)), flush=True)
                print(shown("  as on one node", helios(cluster, order, nodes=False)), flush=True)
    if "openb" in (wanted or ("openb",)):
        print(shown("openb", openb()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
