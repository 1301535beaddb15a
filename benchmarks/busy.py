"""Decisions on fleets that are full, or empty, by the ids of the design's table: reclaim, refusal, placement, victims.

Each is one whole decision, with the state indexed inside the timing, but for `assign-2500`, which is one placement.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.fleets import BACKFILL, COMMITTED, GPUS, SERVING, shape
from benchmarks.result import Result, Samples, result
from fleet_app.engine import placement
from fleet_app.engine.decide import decide
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Admit, Drain, Plan, Reason
from fleet_app.engine.policy import Policy, PriorityClass, Quota
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Node, NodeClass
from fleet_app.engine.workload import Kind, Service, Workload

RUNS = 7
NOW = 100_000.0
NODES_PER_LEAF, LEAVES_PER_SPINE = 16, 8
LENDER, BORROWER, SERVICES = "research", "batch", "serving"


def nodes(count: int, serving: int = 0) -> tuple[Node, ...]:
    """Return nodes of 8 GPUs; the first `serving` of them are serving's."""
    return tuple(
        Node(
            name=f"n{index:04d}",
            node_class=NodeClass.SERVING if index < serving else NodeClass.TRAINING,
            domains=(f"s{index // NODES_PER_LEAF // LEAVES_PER_SPINE:02d}", f"l{index // NODES_PER_LEAF:03d}"),
            capacity=shape(GPUS),
            accelerator="H100",
        )
        for index in range(count)
    )


def policy(count: int, serving: int = 0) -> Policy:
    """Return a policy in which all that is not serving's is research's nominal, and batch borrows."""
    return Policy(
        quotas=(
            Quota(name="org", nominal_gpus=count * GPUS),
            Quota(name=LENDER, parent="org", nominal_gpus=(count - serving) * GPUS),
            Quota(name=SERVICES, parent="org", nominal_gpus=serving * GPUS),
            Quota(name=BORROWER, parent="org"),
        ),
        classes=(
            PriorityClass(name="serving-production", value=SERVING),
            PriorityClass(name="training-committed", value=COMMITTED),
            PriorityClass(name="training-backfill", value=BACKFILL, borrows=True, yields=True),
        ),
    )


def busy(fleet: Sequence[Node]) -> tuple[Workload, ...]:
    """Return backfill of one GPU on every GPU; the saved work of each is of another age."""
    return tuple(
        Workload(
            name=f"b{place:05d}",
            kind=Kind.BACKFILL,
            team=BORROWER,
            priority=BACKFILL,
            shape=shape(1),
            phase=Phase.RUNNING,
            nodes=(node.name,),
            admitted_at=1.0,
            started_at=1.0,
            saved_at=NOW - (place * 7919) % 3600,
        )
        for place, node in enumerate(node for node in fleet for _ in range(GPUS))
    )


def gang(name: str, bundles: int, within: str | None = None) -> Workload:
    """Return a queued gang of whole nodes."""
    return Workload(
        name=name,
        kind=Kind.GANG,
        team=LENDER,
        priority=COMMITTED,
        shape=shape(GPUS),
        bundles=bundles,
        within=within,
        submitted_at=NOW - 1,
    )


def _decided(name: str, what: str, state: FleetState, rules: Policy, holds: Callable[[Plan], bool]) -> Result:
    if not holds(decide(state, rules, NOW)):
        raise RuntimeError(f"{name}: the decision is not the one that is to be timed")
    return _timed(name, what, partial(decide, state, rules, NOW))


def _timed(name: str, what: str, call: Callable[[], object]) -> Result:
    taken_ms = []
    gc.disable()
    for _ in range(RUNS):
        began = time.perf_counter()
        call()
        taken_ms.append((time.perf_counter() - began) * 1000)
    gc.enable()
    return result(name, what, "ms", Samples(ours=taken_ms))


def _drains(plan: Plan) -> int:
    return sum(isinstance(action, Drain) for action in plan.actions)


def reclaim_1() -> Result:
    """One replica of one GPU on 500 serving nodes full of 1-GPU backfill."""
    fleet = nodes(500, serving=500)
    chat = Service(name="chat", team=SERVICES, priority=SERVING, shape=shape(1), wanted=1)
    state = FleetState(nodes=fleet, workloads=busy(fleet), services=(chat,))
    what = "500 nodes busy with 4,000 jobs of 1 GPU: reclaim 1 GPU"
    return _decided("reclaim-1", what, state, policy(500, serving=500), lambda plan: _drains(plan) == 1)


def reclaim_2000() -> Result:
    """A gang of 250 whole nodes on 500 full of 1-GPU backfill."""
    fleet = nodes(500)
    state = FleetState(nodes=fleet, workloads=(*busy(fleet), gang("large", 250)))
    what = "500 nodes busy with 4,000 jobs of 1 GPU: victims for a gang of 2,000 GPUs"
    return _decided("reclaim-2000", what, state, policy(500), lambda plan: _drains(plan) == 2000)


def gang_512() -> Result:
    """A gang of 512 nodes among 600 free ones."""
    state = FleetState(nodes=nodes(600), workloads=(gang("large", 512),))
    what = "a gang of 512 nodes placed by topology among 600"
    return _decided("gang-512", what, state, policy(600), lambda plan: isinstance(plan.actions[0], Admit))


def refuse() -> Result:
    """A gang that no spine could ever hold, on the busy fleet."""
    fleet = nodes(500)
    state = FleetState(nodes=fleet, workloads=(*busy(fleet), gang("large", 200, within="spine")))
    what = "500 nodes busy with 4,000 jobs of 1 GPU: cannot be scheduled, because"
    reasons = {Reason.TOO_LARGE_FOR_FLEET}
    return _decided("refuse", what, state, policy(500), lambda plan: {one.reason for one in plan.waits} == reasons)


def cycle_1000() -> Result:
    """Eight gangs of four nodes on 1,000 nodes full of whole-node backfill."""
    fleet = nodes(1000)
    lodgers = tuple(
        Workload(
            name=f"b{place:05d}",
            kind=Kind.BACKFILL,
            team=BORROWER,
            priority=BACKFILL,
            shape=shape(GPUS),
            phase=Phase.RUNNING,
            nodes=(node.name,),
            admitted_at=1.0,
            started_at=1.0,
            saved_at=NOW - (place * 7919) % 3600,
        )
        for place, node in enumerate(fleet)
    )
    gangs = tuple(gang(f"g{number}", 4, within="leaf") for number in range(8))
    state = FleetState(nodes=fleet, workloads=(*lodgers, *gangs))
    what = "a full fleet of 1,000 nodes: victims for 8 gangs in one cycle"
    return _decided("cycle-1000", what, state, policy(1000), lambda plan: _drains(plan) == 32)


def assign_2500() -> Result:
    """One placement of 64 nodes among 2,500."""
    fleet = nodes(2500)
    call = partial(placement.place, fleet, 64, 1, lambda node: (node.capacity.gpus,))
    return _timed("assign-2500", "one topology assignment of 64 nodes among 2,500", call)


BENCHMARKS = {
    "reclaim-1": reclaim_1,
    "reclaim-2000": reclaim_2000,
    "gang-512": gang_512,
    "refuse": refuse,
    "cycle-1000": cycle_1000,
    "assign-2500": assign_2500,
}
