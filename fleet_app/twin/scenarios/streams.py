"""Streams of gangs and jobs, as a scenario describes them: which comes when, how long it runs, how it behaves.

Pure. Every workload's luck is drawn by its own name: another stream, or a longer run, changes none of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import count
from typing import assert_never

from fleet_app.engine.values import Shape
from fleet_app.engine.workload import Kind, Workload
from fleet_app.twin.chance import Chance, Spread
from fleet_app.twin.readers.row import Row
from fleet_app.twin.scenarios.demand import DAY_S
from fleet_app.twin.scenarios.histories import Drawn, came
from fleet_app.twin.scenarios.schema import Coming, Fixed, Lasting, Work
from fleet_app.twin.scenarios.schema import Shape as Ask
from fleet_app.twin.scenarios.sources import History
from fleet_app.twin.work import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """All streams of a scenario as jobs, first submitted first; they can be gone through again.

    Each has what it is drawn by, and the rows of the history that it comes from, if it comes from one.
    """

    streams: tuple[Work, ...]
    drawn: tuple[Drawn, ...]
    rows: tuple[tuple[Row, ...], ...]

    def __iter__(self) -> Iterator[Job]:
        """Yield every job in the order of submission, then of name."""
        streams = zip(self.streams, self.drawn, self.rows, strict=True)
        return merge(*(stream(*one) for one in streams), key=_order)


def _order(job: Job) -> tuple[float, str]:
    return job.workload.submitted_at, job.workload.name


def stream(work: Work, drawn: Drawn, rows: Sequence[Row] = ()) -> Iterator[Job]:
    """Yield the jobs of one stream, in order."""
    match work.arrives:
        case History() as history:
            for one, row in came(work, history, rows, drawn):
                yield replace(_job(work, one, row.run_s, drawn.chance), fails=row.failed)
        case Fixed() as fixed:
            yield from sorted(_fixed(work, fixed, drawn), key=_order)
        case Coming() as coming:
            yield from _coming(work, coming, drawn)
        case _:
            assert_never(work.arrives)


def _fixed(work: Work, fixed: Fixed, drawn: Drawn) -> Iterator[Job]:
    for number in range(fixed.count * len(work.shapes)):
        one = _workload(work, drawn.value, work.shapes[number % len(work.shapes)], number)
        yield _job(work, replace(one, submitted_at=fixed.begins), fixed.runs, drawn.chance)


def _coming(work: Work, coming: Coming, drawn: Drawn) -> Iterator[Job]:
    chance = drawn.chance
    weights = [one.weight for one in work.shapes]
    for number, at in enumerate(_moments(coming.a_day, chance, work.name, drawn.lasts_s)):
        ask = chance.of("shape", work.name, number).choices(work.shapes, weights)[0]
        one = replace(_workload(work, drawn.value, ask, number), submitted_at=at)
        runs_s = chance.seconds(spread(coming.runs), "runs", one.name)
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
        max_run_s=work.max_run,
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
