"""How long replicas are waited for where every idle GPU is lent: two real scale-ups on a shared fleet (S2).

`dlrm`: the replicas of Alibaba's recommendation services (trace v2025: 31 days, 7,386 of one GPU each) are made when
they were, on the nodes of openb, all of whose other GPUs run backfill. A replica waits from when it is wanted until it
has a place, as the trace's own `scheduled_time` says of theirs. `gentd`: the requests of Alibaba's image generation
(trace v2026, 22 hours), each of which takes a replica for as long as they took on average; a replica answers once its
model is loaded, for as long as one of theirs took. It waits from when it is wanted until it answers.

The data may be used for research only, and is not in the repository: `benchmarks.traces` says where it is looked for.
`python -m benchmarks.scale_up [dlrm] [gentd]`.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks.traces import trace
from fleet_app.engine.policy import Headroom, Policy, PriorityClass, Quota
from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.engine.workload import Kind, Service, Workload
from fleet_app.twin.chance import Spread
from fleet_app.twin.readers.dlrm import Instance, dlrm
from fleet_app.twin.readers.openb import openb_nodes
from fleet_app.twin.readers.reading import read
from fleet_app.twin.readers.samples import Sample, samples
from fleet_app.twin.record import ClassSpan, Record, ReplicaReady
from fleet_app.twin.report.figures import Spread as Waited
from fleet_app.twin.report.spread import spread
from fleet_app.twin.run import run
from fleet_app.twin.work import Job, Scenario, Traffic

DAY_S = 86_400.0
LATE_S = 60.0
LEAVES = Spread(median_s=30.0, sigma=0.4)
"""How backfill takes its notice: 30 s to save and leave half of the time, a minute or less in 96 of 100."""
BUCKET_S = 57.0
"""How often the requests of image generation were counted."""
BUSY = 0.7


@dataclass(frozen=True, slots=True)
class Late:
    """How long replicas were waited for: the share of them for more than a minute, the spread; and what was lent."""

    share: float
    waited: Waited
    lent_gpu_h: float = 0.0


def late(waits: Iterable[float]) -> Late:
    """Return how late replicas were."""
    known = list(waits)
    return Late(share=sum(wait > LATE_S for wait in known) / len(known), waited=spread(known))


# --- recommendation services ----------------------------------------------------------------------------------------


def instances() -> tuple[Instance, ...]:
    """Return the replicas of the trace that have a GPU."""
    return read(trace("research-use-only/dlrm2025_instances.csv.gz"), dlrm, strict=True).found


def recorded(replicas: Iterable[Instance]) -> Late:
    """Return how late the replicas were that were made during the trace."""
    made = [one for one in replicas if one.created_at is not None and one.scheduled_at is not None]
    return late(one.scheduled_at - one.created_at for one in made if one.scheduled_at and one.created_at is not None)


def of_dlrm(replicas: Sequence[Instance], nodes: Sequence[Node], headroom: Headroom, *, lent: bool = True) -> Scenario:
    """Return the services of the trace on nodes that are all serving's; what they leave is lent to jobs of one GPU."""
    gpus = sum(node.capacity.gpus for node in nodes)
    return Scenario(
        policy=policy(gpus, headroom),
        nodes=tuple(replace(node, node_class=NodeClass.SERVING) for node in nodes),
        jobs=endless(gpus if lent else 0),
        traffic=tuple(wants(replicas)),
        ends_at=31 * DAY_S,
    )


def wants(replicas: Iterable[Instance]) -> Iterable[Traffic]:
    """Yield each service, of each shape that it has: as many replicas are wanted as there were, at every moment."""
    changes: dict[tuple[str, Shape], Counter[float]] = defaultdict(Counter)
    for one in replicas:
        moments = changes[one.service, one.shape]
        moments[one.created_at or 0.0] += 1
        if one.deleted_at is not None:
            moments[one.deleted_at] -= 1
    for number, ((name, shape), moments) in enumerate(sorted(changes.items(), key=lambda one: (one[0][0], str(one)))):
        service = Service(name=f"{name}-{number}", team="serving", priority=100_000, shape=shape)
        rates, count = [], 0
        for at, change in sorted(moments.items()):
            count += change
            rates.append((at, float(count)))
        yield Traffic(service=service, rates=tuple(rates), slot_rate=1.0, busy=1.0, keeps_s=0.0)


# --- image generation -----------------------------------------------------------------------------------------------


def of_gentd(headroom: Headroom, *, lent: bool = True) -> Scenario:
    """Return image generation on as many nodes of 8 as it needs at its peak; what it leaves is lent."""
    mean_s = _mean(one.value / 1000.0 for one in _samples("pipeline_e2e_ms"))
    rates = _requests(_samples("qps"))
    nodes = math.ceil(max(rate for _, rate in rates) * mean_s / BUSY / 8)
    loads = tuple(one.value / 1000.0 for one in _samples("basemodel_load_ms"))
    service = Service(name="images", team="serving", priority=100_000, shape=Shape(gpus=1))
    return Scenario(
        policy=policy(8 * nodes, headroom),
        nodes=tuple(
            Node(name=f"n{number:03}", node_class=NodeClass.SERVING, domains=(), capacity=Shape(gpus=8))
            for number in range(nodes)
        ),
        jobs=endless(8 * nodes if lent else 0),
        traffic=(
            Traffic(service=service, rates=rates, slot_rate=1.0 / mean_s, busy=BUSY, start_s=Spread(samples=loads)),
        ),
        ends_at=DAY_S,
    )


def _samples(what: str) -> tuple[Sample, ...]:
    return read(trace(f"research-use-only/gentd26_{what}.csv.gz"), samples, strict=True).found


def _requests(counted: Iterable[Sample]) -> tuple[tuple[float, float], ...]:
    """Return the requests a second of all containers together, from each count of them to the next."""
    rates: Counter[int] = Counter()
    for one in counted:
        if one.container:
            rates[int(one.at // BUCKET_S)] += one.value  # type: ignore[assignment]  # a rate, not a count
    return tuple((place * BUCKET_S, float(rates[place])) for place in range(max(rates) + 1))


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known)


# --- both -----------------------------------------------------------------------------------------------------------


def policy(gpus: int, headroom: Headroom) -> Policy:
    """Return a policy by which all GPUs are serving's, and all that is idle can be lent."""
    return Policy(
        levels=(),
        quotas=(
            Quota(name="fleet"),
            Quota(name="serving", parent="fleet", nominal_gpus=gpus),
            Quota(name="batch", parent="fleet"),
        ),
        classes=(
            PriorityClass(name="serving", value=100_000),
            PriorityClass(name="backfill", value=1_000, borrows=True, yields=True),
        ),
        headroom=headroom,
    )


def endless(count: int) -> tuple[Job, ...]:
    """Return jobs of one GPU that never end, and save when they are asked to leave: as many as would fill the fleet."""
    return tuple(
        Job(
            workload=Workload(
                name=f"job-{number:05}", kind=Kind.BACKFILL, team="batch", priority=1_000, shape=Shape(gpus=1)
            ),
            run_s=1_000 * DAY_S,
            start_s=20.0,
            leaves=LEAVES,
        )
        for number in range(count)
    )


def ours(scenario: Scenario) -> Late:
    """Return how late the replicas of a run were, but for those that were wanted when it began."""
    waits: list[float] = []
    lent_gpu_s: list[float] = []

    def tell(record: Record) -> None:
        if isinstance(record, ReplicaReady) and record.at - record.waited_s > 0.0:
            waits.append(record.waited_s)
        elif isinstance(record, ClassSpan):
            lent_gpu_s.append(record.lent_gpu_s)

    run(scenario, tell)
    return replace(late(waits), lent_gpu_h=sum(lent_gpu_s) / 3600.0)


def shown(what: str, found: Late) -> str:
    """Return one line of a table."""
    one = found.waited
    times = f"p50 {one.p50_s:.0f} s, p90 {one.p90_s:.0f} s, p99 {one.p99_s:.0f} s, longest {one.longest_s:.0f} s"
    lent = f", {found.lent_gpu_h:,.0f} GPU-hours lent" if found.lent_gpu_h else ""
    return f"{what}: {one.count} replicas, {found.share:.2%} more than a minute late, {times}{lent}"


def main(wanted: Sequence[str]) -> int:
    """Run what is named, both where nothing is; return an exit code."""
    tiers = {
        "nothing kept free": Headroom(),
        "the forecast growth kept free": Headroom(quantile=0.99, startup_s=60.0, immediate_gpus=64, maximum_gpus=160),
    }
    if "dlrm" in (wanted or ("dlrm",)):
        known = instances()
        nodes = read(trace("openb_nodes.csv.gz"), openb_nodes, strict=True).found
        print(shown("dlrm, recorded", recorded(known)))
        for what, headroom in tiers.items():
            print(shown(f"dlrm, all idle GPUs lent, {what}", ours(of_dlrm(known, nodes, headroom))), flush=True)
    if "gentd" in (wanted or ("gentd",)):
        loads = late(one.value / 1000.0 for one in _samples("basemodel_load_ms"))
        print(shown("gentd, recorded loads alone", loads))
        print(shown("gentd, nothing lent", ours(of_gentd(Headroom(), lent=False))))
        for what, headroom in tiers.items():
            print(shown(f"gentd, all idle GPUs lent, {what}", ours(of_gentd(headroom))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
