"""Figures as rows of text, for whoever shows tables: a terminal and a page say the same. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleet_app.engine.ends import spoken
from fleet_app.twin.report.compare import Row
from fleet_app.twin.report.figures import Effort, Figures, Spread
from fleet_app.twin.report.spread import at_rank

Cells = Sequence[str]
Rows = tuple[Cells, Sequence[Cells]]
"""The headings of a table, and its rows."""

UNKNOWN = "-"
LONG_S = 600.0
"""From how many seconds on a time is said in larger units."""
MOST_TIMES = 10.0
"""A change of more than so many times what there was is not said in per cent."""


def classes(figures: Figures) -> Rows:
    """Return what each class of nodes did, in GPU-hours."""
    head = ("Class", "Total", "Allocated", "Lent", "Reclaimed", "Draining", "Held", "Idle", "Down", "Stranded")
    rows = []
    for one in figures.classes:
        lent = (one.total_gpu_h, one.allocated_gpu_h, one.lent_gpu_h, one.reclaimed_gpu_h)
        rest = (one.draining_gpu_h, one.held_gpu_h, one.idle_gpu_h, one.down_gpu_h)
        hours = [f"{part:,.0f}" for part in (*lent, *rest)]
        rows.append((one.node_class, *hours, f"{one.stranded_share:.2%}"))
    return head, rows


def interrupted(figures: Figures) -> Rows:
    """Return what it cost that attempts were cut short, by cause, in GPU-hours."""
    head = ("Cause", "Times", "Lost", "Leaving", "Restarting")
    rows = []
    for one in figures.interrupted:
        parts = (one.lost_gpu_h, one.leaving_gpu_h, one.restarting_gpu_h)
        rows.append((one.cause, f"{one.count:,}", *(f"{part:,.1f}" for part in parts)))
    return head, rows


def waits(figures: Figures) -> Rows:
    """Return how long workloads waited each time, by size and by team."""
    head = ("Whose", "Times", "Half within", "9 of 10", "99 of 100", "Longest", "Still wait")
    sizes = [(f"{one.size} GPUs", one.waited, one.still_waiting) for one in figures.waits]
    teams = [(one.team, one.waited, one.still_waiting) for one in figures.teams]
    rows: list[Cells] = [
        (whose, *_lasted(waited), f"{still:,}") for whose, waited, still in (*sizes, *teams) if waited.count or still
    ]
    return head, rows


def over_time(figures: Figures) -> Rows:
    """Return what was stranded, waited for and free at once: in how much of the time at most so much."""
    head = ("Over time", "Mean", "Half of it", "9 of 10", "99 of 100", "Most")
    each: list[tuple[str, str, list[float]]] = [
        ("stranded", "{:.1%}", [one.stranded_share for one in figures.moments]),
        ("GPUs waited for", "{:,.0f}", [float(one.waiting_gpus) for one in figures.moments]),
        ("GPUs free at once", "{:,.0f}", [one.headroom_gpus for one in figures.moments]),
    ]
    return head, [(what, *map(form.format, _ranked(values))) for what, form, values in each if figures.moments]


def effort(figures: Figures) -> Rows:
    """Return what GPU-hours were used for, of those of whom it is known."""
    head = ("Of whom", "Measured", "Computing", "FLOPs stated", "MFU", "10^18 FLOPs", "Money for 10^18")
    known = [("fleet", figures.effort), *((f"{one.node_class} nodes", one.effort) for one in figures.classes)]
    known += [(one.team, one.effort) for one in figures.teams]
    return head, [(whose, *_effort(one)) for whose, one in known if one.known]


def foresight(figures: Figures) -> Rows:
    """Return how good forecasts were, and whether what was kept free was enough."""
    one = figures.foresight
    quantile = "fixed" if one.quantile is None else f"p{one.quantile * 100:g}"
    head = ("Kept free by", "Looks", "Kept", "Demand grew", "Enough", "Short", "Most short", "Pinball loss")
    means = [f"{part:,.1f} GPUs" for part in (one.kept_gpus, one.grew_gpus)]
    enough = UNKNOWN if one.covered_share is None else f"{one.covered_share:.2%}"
    loss = UNKNOWN if one.pinball_gpus is None else f"{one.pinball_gpus:,.2f} GPUs"
    short = (f"{one.short_gpus:,.2f} GPUs", f"{one.most_short_gpus:,} GPUs")
    return head, [(quantile, f"{one.looks:,}", *means, enough, *short, loss)] if one.looks else []


def compared(rows: Iterable[Row], names: tuple[str, str]) -> Rows:
    """Return two runs side by side: the fleet's numbers, and of everybody's those that changed."""
    head = ("What", "Whose", *names, "Change", "")
    found: list[Cells] = []
    for row in rows:
        if row.whose and not row.changed:
            continue
        change = row.after - row.before
        numbers = (number(row.before, row.unit), number(row.after, row.unit), number(change, row.unit, sign="+"))
        found.append((row.what, row.whose or "fleet", *numbers, _times(change, row.before)))
    return head, found


def number(value: float, unit: str, sign: str = "") -> str:
    """Return a number with its unit."""
    if unit == "share":
        return f"{value:{sign}.4%}"
    if unit == "s" and abs(value) >= LONG_S:
        return f"{'-' if value < 0 else sign}{spoken(abs(value))}"
    if unit == "s":
        return f"{value:{sign},.1f} s"
    digits = 2 if unit in {"money", "GPU-h", "GPU-min"} and 0.0 < abs(value) < 10.0 else 0
    return f"{value:{sign},.{digits}f}" + ("" if unit in {"money", "times", "workloads"} else f" {unit}")


def _times(change: float, before: float) -> str:
    """Return a change in per cent of what was; nothing where hardly anything was."""
    return f"{change / before:+.1%}" if abs(change) <= MOST_TIMES * abs(before) and before else ""


def _lasted(one: Spread) -> Cells:
    return (f"{one.count:,}", *(spoken(seconds) for seconds in (one.p50_s, one.p90_s, one.p99_s, one.longest_s)))


def _ranked(values: Iterable[float]) -> list[float]:
    ordered = sorted(values)
    return [sum(ordered) / len(ordered), *(at_rank(ordered, percent) for percent in (50, 90, 99, 100))]


def _effort(one: Effort) -> Cells:
    used = f"{one.used_gpu_h / one.measured_gpu_h:.1%}" if one.measured_gpu_h else UNKNOWN
    return (
        f"{one.measured_gpu_h:,.0f} GPU-h" if one.measured_gpu_h else UNKNOWN,
        used,
        f"{one.counted_gpu_h:,.0f} GPU-h" if one.counted_gpu_h else UNKNOWN,
        UNKNOWN if one.mfu is None else f"{one.mfu:.1%}",
        f"{one.useful_exaflop:,.0f}" if one.counted_gpu_h else UNKNOWN,
        UNKNOWN if one.money_per_exaflop is None else f"{one.money_per_exaflop:,.2f}",
    )
