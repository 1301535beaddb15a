"""Jobs that explain what was recorded of a cluster: of a series of totals, who came, started and ended when. Pure.

Between two samples as few as possible of these happened: somebody came and waits, came and runs at once, began to run
after waiting, ended. Totals do not tell equal jobs apart: of those the one that has been there for longest goes first.
A job that is there at the last sample is taken to go on for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from fleet_app.twin.readers.helios_state import Sampled
from fleet_app.twin.readers.row import Row

LONG_S = 365 * 86_400.0
MOST = 4
"""How many jobs at most are looked at that ended, or began, between two samples: all where that is not enough."""

NODE = 8
RARE = 2
"""A job of more than a node and no whole number of nodes is as unlikely as that two more came or went."""

Choice = dict[tuple[int, int], tuple[int, ...]]
"""Of so many jobs with so many GPUs together: the places of the first that are."""


@dataclass(slots=True)
class Lived:
    """A job: how many GPUs, since when it was there, and since when it ran, if it ever did."""

    gpus: int
    came_at: float
    began_at: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What happened between two samples: places of jobs that ended and that began, GPUs of those that came.

    `gave_up` are places of those that waited and are gone without having run.
    """

    ended: tuple[int, ...]
    began: tuple[int, ...]
    running: tuple[int, ...]
    waiting: tuple[int, ...]
    gave_up: tuple[int, ...] = ()

    @property
    def cost(self) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
        """Return what makes it less likely: much happened, sizes that are rarely asked for, others than the oldest."""
        came = (*self.running, *self.waiting)
        happened = len(self.ended) + len(self.began) + len(came)
        rare = sum(gpus > NODE and gpus % NODE > 0 for gpus in came)
        return happened + RARE * rare, happened, self.began, self.ended


def unfold(samples: Sequence[Sampled]) -> list[Row]:
    """Return the jobs, first come first."""
    running: list[Lived] = []
    waiting: list[Lived] = []
    found: list[tuple[Lived, float]] = []
    for one in samples:
        change = likeliest(running, waiting, one)
        found += [(running[place], one.at) for place in change.ended]
        running = [job for place, job in enumerate(running) if place not in change.ended]
        for place in change.began:
            waiting[place].began_at = one.at
            running.append(waiting[place])
        found += [(waiting[place], waiting[place].came_at) for place in change.gave_up]
        waiting = [job for place, job in enumerate(waiting) if place not in {*change.began, *change.gave_up}]
        running += [Lived(gpus, one.at, one.at) for gpus in change.running]
        waiting += [Lived(gpus, one.at) for gpus in change.waiting]
    found += [(job, samples[-1].at + LONG_S) for job in (*running, *waiting)]
    return list(_rows(sorted(found, key=lambda one: one[0].came_at)))


def _rows(lived: Iterable[tuple[Lived, float]]) -> Iterator[Row]:
    for number, (job, ended_at) in enumerate(lived):
        yield Row(
            name=f"job-{number:05}",
            team="all",
            submitted_at=job.came_at,
            run_s=ended_at - (job.came_at if job.began_at is None else job.began_at),
            gpus=job.gpus,
            started_at=job.began_at,
        )


def likeliest(running: Sequence[Lived], waiting: Sequence[Lived], now: Sampled) -> Change:
    """Return the least that has to have happened for the totals to be as they are now."""
    for most in (0, MOST, len(running) + len(waiting)):
        choices = product(_choices(running, most).items(), _choices(waiting, most).items())
        changes = (_change(running, waiting, now, ended, began) for ended, began in choices)
        found = min((one for one in changes if one is not None), key=lambda one: one.cost, default=None)
        if found is not None:
            return found
    return _all_else(running, waiting, now)


def _all_else(running: Sequence[Lived], waiting: Sequence[Lived], now: Sampled) -> Change:
    """Return that all are gone, and what is there now has come: what nothing less explains."""
    ran, waits = _sizes(now.running, now.running_gpus), _sizes(now.pending, now.pending_gpus)
    if ran is None or waits is None:
        raise ValueError(f"no jobs have the totals that were recorded at {now.at:.0f}")
    return Change(tuple(range(len(running))), (), ran, waits, tuple(range(len(waiting))))


def _choices(jobs: Sequence[Lived], most: int) -> Choice:
    found: Choice = {(0, 0): ()}
    for place, job in enumerate(jobs):
        for (count, gpus), places in list(found.items()):
            if count < most:
                found.setdefault((count + 1, gpus + job.gpus), (*places, place))
    return found


def _change(
    running: Sequence[Lived],
    waiting: Sequence[Lived],
    now: Sampled,
    ended: tuple[tuple[int, int], tuple[int, ...]],
    began: tuple[tuple[int, int], tuple[int, ...]],
) -> Change | None:
    """Return what happened if just these ended and began; None where the totals do not allow for it."""
    (ended_jobs, ended_gpus), gone = ended
    (began_jobs, began_gpus), up = began
    to_wait = _sizes(
        now.pending - len(waiting) + began_jobs, now.pending_gpus - sum(job.gpus for job in waiting) + began_gpus
    )
    to_run = _sizes(
        now.running - len(running) + ended_jobs - began_jobs,
        now.running_gpus - sum(job.gpus for job in running) + ended_gpus - began_gpus,
    )
    return None if to_wait is None or to_run is None else Change(gone, up, to_run, to_wait)


def _sizes(jobs: int, gpus: int) -> tuple[int, ...] | None:
    """Return so many jobs with so many GPUs together, as equal as can be; None where there are none such."""
    if jobs < 0 or gpus < jobs or (jobs == 0 and gpus):
        return None
    return tuple(gpus // jobs + (place < gpus % jobs) for place in range(jobs))
