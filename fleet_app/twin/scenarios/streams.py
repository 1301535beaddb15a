"""Streams of gangs and jobs, as a scenario describes them: which comes when, how long it runs, how it behaves.

Pure. Every workload's luck is drawn by its own name: another stream, or a longer run, changes none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from fleet_app.engine.values import Shape
from fleet_app.engine.workload import Kind, Workload
from fleet_app.twin.chance import Chance, Spread
from fleet_app.twin.scenarios.demand import DAY_S
from fleet_app.twin.scenarios.schema import Fixed, Lasting, Work
from fleet_app.twin.scenarios.schema import Shape as Ask
from fleet_app.twin.work import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """All streams of a scenario as jobs, first submitted first; they can be gone through again."""

    streams: tuple[Work, ...]
    values: tuple[int, ...]
    chance: Chance
    lasts_s: float

    def __iter__(self) -> Iterator[Job]:
        """Yield every job in the order of submission, then of name."""
        jobs = [
            job
            for work, value in zip(self.streams, self.values, strict=True)
            for job in stream(work, value, self.chance, self.lasts_s)
        ]
        return iter(sorted(jobs, key=lambda job: (job.workload.submitted_at, job.workload.name)))


def stream(work: Work, value: int, chance: Chance, lasts_s: float) -> Iterator[Job]:
    """Yield the jobs of one stream, of the priority `value`."""
    arrives = work.arrives
    if isinstance(arrives, Fixed):
        for number in range(arrives.count * len(work.shapes)):
            one = _workload(work, value, work.shapes[number % len(work.shapes)], number)
            yield _job(work, replace(one, submitted_at=arrives.begins), arrives.runs, chance)
        return
    weights = [one.weight for one in work.shapes]
    for number, at in enumerate(_moments(arrives.a_day, chance, work.name, lasts_s)):
        ask = chance.of("shape", work.name, number).choices(work.shapes, weights)[0]
        one = replace(_workload(work, value, ask, number), submitted_at=at)
        runs_s = chance.seconds(spread(arrives.runs), "runs", one.name)
        yield _job(work, one, max(1.0, runs_s), chance)


def _moments(a_day: float, chance: Chance, name: str, lasts_s: float) -> Iterator[float]:
    at = 0.0
    for number in count():
        at += chance.until(DAY_S / a_day, "comes", name, number)
        if at >= lasts_s:
            return
        yield at


def _workload(work: Work, value: int, ask: Ask, number: int) -> Workload:
    return Workload(
        name=f"{work.name}-{number}",
        kind=Kind(work.kind),
        team=work.team,
        priority=value,
        shape=Shape(gpus=ask.gpus, cpu_milli=work.cpus * ask.gpus, memory_mib=work.memory * ask.gpus),
        bundles=ask.nodes,
        within=work.within,
        grace_s=work.grace,
        movable=work.manners.movable,
    )


def _job(work: Work, one: Workload, run_s: float, chance: Chance) -> Job:
    manners = work.manners
    return Job(
        workload=one,
        run_s=run_s,
        start_s=manners.start,
        save_every_s=manners.saves_every,
        leaves=spread(manners.leaves),
        saves_s=manners.saves,
        step_s=manners.step,
        sm_active=manners.sm_active,
        tflops=manners.model_tflops,
        clings=manners.clings > 0.0 and chance.of("clings", one.name).random() < manners.clings,
    )


def spread(lasting: Lasting) -> Spread:
    """Return a time that differs from case to case as the twin has it."""
    return Spread(median_s=lasting.median, sigma=lasting.sigma)
