"""What could be smaller: allocations far above what was used of them, and what would do (rules W2, W3).

Recommends and does nothing. Knows the facts and the policy; does not know money, nor why somebody wants so much.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fleet_app.engine.ends import spoken
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.telemetry import Usage
from fleet_app.engine.workload import Service, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """That something would do with fewer units (replicas, bundles or GPUs), of `gpus_each`; `used_percent` at most."""

    subject: str
    team: str
    unit: str
    has: int
    enough: int
    gpus_each: int
    used_percent: int
    measured_s: float

    @property
    def saved_gpus(self) -> int:
        """Return how many GPUs would come free."""
        return (self.has - self.enough) * self.gpus_each

    @property
    def sentence(self) -> str:
        """Return the recommendation as a sentence about its subject."""
        used = f"used at most {self.used_percent} % of its {self.has} {self.unit} in {spoken(self.measured_s)}"
        return f"{used}: {self.enough} would do, and free {self.saved_gpus} GPUs"


def recommend(state: FleetState, policy: Policy, now: float) -> tuple[Recommendation, ...]:
    """Return what could be smaller, the most GPUs first."""
    workloads = {one.name: one for one in state.workloads}
    services = {one.name: one for one in state.services}
    found: list[Recommendation] = []
    for usage in state.usage:
        if usage.subject in workloads:
            found += _of_workload(policy, workloads[usage.subject], usage, now)
        elif usage.subject in services:
            found += _of_service(policy, services[usage.subject], usage, now)
    return tuple(sorted(found, key=lambda one: (-one.saved_gpus, one.subject)))


def _of_workload(policy: Policy, workload: Workload, usage: Usage, now: float) -> Iterator[Recommendation]:
    """Yield the bundles that would do, or for a single bundle the GPUs: by activity and by memory.

    Nothing of a gang of several shapes: what was measured of all of it says nothing of one group.
    """
    if workload.phase is not Phase.RUNNING or workload.interactive or workload.groups:
        return
    single = len(workload.nodes) == 1
    has, each = (workload.gpus, 1) if single else (len(workload.nodes), workload.shape.gpus)
    yield from _smaller(
        policy,
        Recommendation(
            subject=workload.name,
            team=workload.team,
            unit="GPUs" if single else "bundles",
            has=has,
            enough=1,
            gpus_each=each,
            used_percent=max(usage.sm_active_percent, usage.memory_percent),
            measured_s=usage.measured_s(workload.started_at or 0.0, now),
        ),
    )


def _of_service(policy: Policy, service: Service, usage: Usage, now: float) -> Iterator[Recommendation]:
    """Yield the replicas that would do, by activity alone: each has the whole model in memory."""
    yield from _smaller(
        policy,
        Recommendation(
            subject=service.name,
            team=service.team,
            unit="replicas",
            has=sum(grant.occupied for grant in service.grants),
            enough=max(1, service.floor),
            gpus_each=service.shape.gpus,
            used_percent=usage.sm_active_percent,
            measured_s=usage.measured_s(0.0, now),
        ),
    )


def _smaller(policy: Policy, least: Recommendation) -> Iterator[Recommendation]:
    """Yield how much would do, at least as much as `least` says, where that is less than there is."""
    rules = policy.right_size
    if least.measured_s < rules.after_s or least.used_percent >= rules.below_percent:
        return
    enough = max(least.enough, -(-least.has * least.used_percent // rules.target_percent))
    if enough < least.has and least.gpus_each:
        yield replace(least, enough=enough)
