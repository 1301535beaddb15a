"""`admit-15000`: admissions a second of engine time: 15,000 workloads in 30 queues come and go on virtual time.

The workload is that of Kueue's published performance test: five cohorts of six queues, each with a nominal of 20 and a
borrowing limit of 100, into each of which come 350 small, 100 medium and 50 large workloads. Quota is all that limits:
the one node is larger than all nominal together. A decision is taken as often as the shortest workload runs.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, replace

from benchmarks.result import Result, Samples, result
from fleet_app.engine.decide import decide
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Admit
from fleet_app.engine.policy import Policy, PriorityClass, Quota
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.engine.workload import Kind, Workload

COHORTS, QUEUES = 5, 6
NOMINAL, BORROWING_LIMIT = 20, 100
CYCLE_S = 0.2
RUNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """One sort of workload: how many a queue gets, their GPUs, run time and time between arrivals, and priority."""

    name: str
    count: int
    gpus: int
    run_s: float
    every_s: float
    priority: int


SORTS = (
    Sort(name="small", count=350, gpus=1, run_s=0.2, every_s=0.1, priority=50),
    Sort(name="medium", count=100, gpus=5, run_s=0.5, every_s=0.5, priority=100),
    Sort(name="large", count=50, gpus=20, run_s=1.0, every_s=1.2, priority=200),
)
RUN_S = {sort.priority: sort.run_s for sort in SORTS}
TEAMS = tuple(f"queue-{cohort}-{queue}" for cohort in range(COHORTS) for queue in range(QUEUES))


def policy() -> Policy:
    """Return five cohorts of six queues; all three classes borrow and yield."""
    heads = [Quota(name=f"cohort-{cohort}", nominal_gpus=QUEUES * NOMINAL) for cohort in range(COHORTS)]
    queues = [
        Quota(name=team, parent=f"cohort-{team[6]}", nominal_gpus=NOMINAL, borrowing_limit_gpus=BORROWING_LIMIT)
        for team in TEAMS
    ]
    classes = [PriorityClass(name=sort.name, value=sort.priority, borrows=True, yields=True) for sort in SORTS]
    return Policy(quotas=(*heads, *queues), classes=tuple(classes))


def arrivals() -> list[Workload]:
    """Return every workload, first to arrive first."""
    found = [
        Workload(
            name=f"{team}-{sort.name}-{number:03d}",
            kind=Kind.BACKFILL,
            team=team,
            priority=sort.priority,
            shape=Shape(gpus=sort.gpus),
            submitted_at=number * sort.every_s,
        )
        for team in TEAMS
        for sort in SORTS
        for number in range(sort.count)
    ]
    return sorted(found, key=lambda one: (one.submitted_at, one.name))


def replay() -> tuple[int, float, float]:
    """Return how many were admitted, in how many seconds of engine time and of virtual time."""
    large = Shape(gpus=10 * len(TEAMS) * NOMINAL)
    nodes = (Node(name="n", node_class=NodeClass.TRAINING, domains=("s", "l"), capacity=large),)
    rules, coming = policy(), arrivals()[::-1]
    alive: dict[str, Workload] = {}
    admitted, engine_s, cycle = 0, 0.0, 0
    while coming or alive:
        now = cycle * CYCLE_S
        cycle += 1
        if not _turn_over(alive, coming, now):
            continue
        state = FleetState(nodes=nodes, workloads=tuple(alive.values()))
        began = time.perf_counter()
        plan = decide(state, rules, now)
        engine_s += time.perf_counter() - began
        for action in plan.actions:
            assert isinstance(action, Admit), action
            one = alive[action.workload]
            alive[one.name] = replace(one, phase=Phase.RUNNING, nodes=action.nodes, admitted_at=now, started_at=now)
            admitted += 1
    return admitted, engine_s, cycle * CYCLE_S


def _turn_over(alive: dict[str, Workload], coming: list[Workload], now: float) -> bool:
    """Take out who has ended and in who has come; return whether anybody did."""
    running = [one for one in alive.values() if one.admitted_at is not None]
    ended = [one.name for one in running if now >= (one.admitted_at or 0.0) + RUN_S[one.priority]]
    for name in ended:
        del alive[name]
    before = len(alive)
    while coming and coming[-1].submitted_at <= now:
        one = coming.pop()
        alive[one.name] = one
    return bool(ended) or len(alive) > before


def admit_15000() -> Result:
    """Return admissions a second of engine time, three replays."""
    rates = []
    gc.disable()
    for _ in range(RUNS):
        admitted, engine_s, _ = replay()
        rates.append(admitted / engine_s)
        gc.collect()
    gc.enable()
    what = f"admissions a second of engine time, {admitted} workloads in {len(TEAMS)} queues"
    return result("admit-15000", what, "1/s", Samples(ours=rates))


BENCHMARKS = {"admit-15000": admit_15000}
