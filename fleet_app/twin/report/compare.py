"""Two runs side by side: what changed, by how much, and for whom. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleet_app.twin.report.figures import Figures, TeamUse, Waits

SAME = 0.005
"""A change of less than so much of what there was is none, for whom things are asked to have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number of both runs: of what, whose (empty for the whole fleet), in which unit, before and after."""

    what: str
    whose: str
    unit: str
    before: float
    after: float

    @property
    def changed(self) -> bool:
        """Return whether it is another number, for practical purposes."""
        return abs(self.after - self.before) > SAME * max(abs(self.before), abs(self.after))


def compare(before: Figures, after: Figures) -> tuple[Row, ...]:
    """Return the numbers of two runs side by side: the fleet's, then each service's, team's and size's."""
    return (*_fleet(before, after), *_services(before, after), *_teams(before, after), *_waits(before, after))


def whole(figures: Figures) -> dict[tuple[str, str], float]:
    """Return the numbers by which whole runs are compared, by name and unit."""
    money = figures.money
    requests = sum(one.requests for one in figures.services)
    late = sum(one.late for one in figures.services)
    return {
        ("lent and useful", "money"): money.lent,
        ("cost of preemption", "money"): money.tax,
        ("kept ready", "money"): money.held,
        ("idle", "money"): money.idle,
        ("requests too late", "share"): late / requests if requests else 0.0,
        ("GPUs short", "GPU-min"): sum(one.short_gpu_min for one in figures.services),
        ("of them beyond the drain contract", "GPU-min"): sum(one.overdue_gpu_min for one in figures.services),
        ("lent", "GPU-h"): sum(one.lent_gpu_h for one in figures.classes),
        ("of it into preemption", "share"): figures.tax_share,
        ("asked to leave", "times"): sum(one.asked for one in figures.teams),
        ("drain contracts broken", "times"): sum(one.breaks for one in figures.teams),
        ("given back within (p99)", "s"): figures.given_back.p99_s,
        ("given back within (longest)", "s"): figures.given_back.longest_s,
        ("replica ready after a drain (p99)", "s"): figures.ready_after_drain.p99_s,
        ("replica ready after a drain (longest)", "s"): figures.ready_after_drain.longest_s,
        ("ended", "workloads"): figures.ended,
        ("still wait", "workloads"): sum(one.still_waiting for one in figures.waits),
    }


def _fleet(before: Figures, after: Figures) -> Iterator[Row]:
    now = whole(after)
    for (what, unit), number in whole(before).items():
        yield Row(what=what, whose="", unit=unit, before=number, after=now[what, unit])


def _services(before: Figures, after: Figures) -> Iterator[Row]:
    old, new = ({one.service: one for one in figures.services} for figures in (before, after))
    for name in sorted({*old, *new}):
        pairs = (old.get(name), new.get(name))
        for what, unit, numbers in (
            ("GPUs short", "GPU-min", [0.0 if one is None else one.short_gpu_min for one in pairs]),
            ("requests too late", "requests", [0.0 if one is None else one.late for one in pairs]),
            ("replica ready (p99)", "s", [0.0 if one is None else one.ready.p99_s for one in pairs]),
        ):
            yield Row(what=what, whose=name, unit=unit, before=numbers[0], after=numbers[1])


def _teams(before: Figures, after: Figures) -> Iterator[Row]:
    old, new = ({one.team: one for one in figures.teams} for figures in (before, after))
    for name in sorted({*old, *new}):
        pairs = (old.get(name), new.get(name))
        for what, unit, numbers in (
            ("its own used", "GPU-h", [0.0 if one is None else one.own_gpu_h for one in pairs]),
            ("borrowed", "GPU-h", [0.0 if one is None else one.borrowed_gpu_h for one in pairs]),
            ("reclaimed", "GPU-h", [0.0 if one is None else one.reclaimed_gpu_h for one in pairs]),
            ("useful work", "GPU-h", [0.0 if one is None else one.useful_gpu_h for one in pairs]),
            ("asked to leave", "times", [0.0 if one is None else one.asked for one in pairs]),
        ):
            yield Row(what=what, whose=name, unit=unit, before=numbers[0], after=numbers[1])
        yield from _waited(name, pairs)


def _waits(before: Figures, after: Figures) -> Iterator[Row]:
    old, new = ({one.size: one for one in figures.waits} for figures in (before, after))
    for size in dict.fromkeys([*old, *new]):
        yield from _waited(f"{size} GPUs", (old.get(size), new.get(size)))


def _waited(whose: str, pair: tuple[Waits | TeamUse | None, Waits | TeamUse | None]) -> Iterator[Row]:
    """Yield how long somebody waited, where they got nodes in both runs, and how many still wait."""
    old, new = pair
    if old is not None and new is not None and old.waited.count and new.waited.count:
        for what, key in (("waited (p50)", "p50_s"), ("waited (p99)", "p99_s")):
            seconds = (getattr(old.waited, key), getattr(new.waited, key))
            yield Row(what=what, whose=whose, unit="s", before=seconds[0], after=seconds[1])
    left = [0 if one is None else one.still_waiting for one in pair]
    yield Row(what="still wait", whose=whose, unit="workloads", before=left[0], after=left[1])
