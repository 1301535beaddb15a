"""What a run of the twin comes to, as tables. Knows figures; does not know where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table

from fleet_app.cli.show import duration, plain
from fleet_app.cli.tables import empty
from fleet_app.twin.report import cells
from fleet_app.twin.report.closed import Closed
from fleet_app.twin.report.compare import whole
from fleet_app.twin.report.figures import Figures, Spread


def tables(figures: Figures, estimate: Closed | None) -> Iterable[tuple[str, Table]]:
    """Yield every table of a run, with what it is about."""
    yield "What serving's GPUs came to", money(figures, estimate)
    yield "Classes of nodes (GPU-hours)", of_cells(cells.classes(figures))
    yield "Teams (GPU-hours)", teams(figures)
    if figures.services:
        yield "Services", services(figures)
    yield "Waits for nodes, by GPUs and by team", waits(figures)
    yield "Attempts cut short (GPU-hours)", of_cells(cells.interrupted(figures))
    if figures.moments:
        yield "Over time: stranded, waited for, free", of_cells(cells.over_time(figures))
    if figures.foresight.looks:
        yield "Demand foreseen, and kept free for", of_cells(cells.foresight(figures))
    if figures.effort.known:
        yield "What the hours were used for", of_cells(cells.effort(figures))


def money(figures: Figures, estimate: Closed | None) -> Table:
    """Return what became of serving's GPUs, in money, with an estimate by arithmetic beside it."""
    table = empty("", "RUN", "SHARE", *(["ESTIMATE"] if estimate else []))
    one = figures.money
    rows = (
        ("used by serving", one.serving, None),
        ("idle if nothing were lent", one.idle_unlent, estimate and estimate.idle_money),
        ("  lent, and came to something", one.lent, estimate and estimate.lent_money * (1.0 - estimate.tax_share)),
        ("  lent, and went into preemption", one.tax, estimate and estimate.lent_money * estimate.tax_share),
        ("  kept ready for replicas", one.held, None),
        ("  idle", one.idle, None),
        ("down", one.down, None),
    )
    for what, amount, estimated in rows:
        beside = [] if estimate is None else ["-" if estimated is None else f"{estimated:,.0f}"]
        table.add_row(what, f"{amount:,.0f}", share(amount, one.total), *beside)
    return table


def teams(figures: Figures) -> Table:
    """Return what each team had, lent and borrowed, and what that is worth."""
    table = empty(
        "TEAM", "NOMINAL", "OWN", "LENT", "UNUSED", "BORROWED", "USEFUL", "LOST", "RECLAIMED", "ASKED", "BROKE", "WORTH"
    )
    for one in figures.teams:
        parts = (one.nominal_gpu_h, one.own_gpu_h, one.lent_gpu_h, one.unused_gpu_h, one.borrowed_gpu_h)
        table.add_row(
            plain(one.team),
            *(f"{part:,.0f}" for part in (*parts, one.useful_gpu_h)),
            f"{one.lost_gpu_h:,.1f}",
            f"{one.reclaimed_gpu_h:,.0f}",
            f"{one.asked:,}",
            str(one.breaks),
            f"{one.own_money + one.borrowed_money:,.0f}",
        )
    return table


def services(figures: Figures) -> Table:
    """Return what each service's requests and replicas met."""
    table = empty("SERVICE", "MEAN GPUS", "PEAK", "REQUESTS", "LATE", "SHORT", "OVERDUE", "READY p50", "p99", "LONGEST")
    for one in figures.services:
        table.add_row(
            plain(one.service),
            f"{one.mean_gpus:,.0f}",
            f"{one.peak_gpus:,}",
            f"{one.requests:,.0f}",
            f"{one.late / one.requests if one.requests else 0.0:.3%}",
            f"{one.short_gpu_min:,.0f} GPU-min",
            f"{one.overdue_gpu_min:,.1f} GPU-min",
            *(duration(seconds) for seconds in (one.ready.p50_s, one.ready.p99_s, one.ready.longest_s)),
        )
    return table


def waits(figures: Figures) -> Table:
    """Return how long workloads of each size waited each time."""
    table = empty("GPUS", "TIMES", "p50", "p90", "p99", "LONGEST", "STILL WAIT")
    for one in figures.waits:
        table.add_row(one.size, *_spread(one.waited), str(one.still_waiting))
    table.add_section()
    for team in figures.teams:
        if team.waited.count or team.still_waiting:
            table.add_row(plain(team.team), *_spread(team.waited), str(team.still_waiting))
    table.add_section()
    table.add_row("given back", *_spread(figures.given_back), "")
    table.add_row("replica ready after a drain", *_spread(figures.ready_after_drain), "")
    return table


def of_cells(rows: cells.Rows) -> Table:
    """Return rows of text as a table."""
    head, body = rows
    table = empty(*(heading.upper() for heading in head))
    for row in body:
        table.add_row(*map(plain, row))
    return table


def swept(key: str, runs: Sequence[tuple[object, Figures]]) -> Table:
    """Return the numbers of one run for each value of a parameter."""
    head, rows = swept_cells(key, runs)
    table = empty(*map(plain, head))
    for row in rows:
        table.add_row(*row)
    return table


def swept_cells(key: str, runs: Sequence[tuple[object, Figures]]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of a sweep."""
    found = [whole(figures) for _, figures in runs]
    rows = [[what, *(cells.number(one[what, unit], unit) for one in found)] for what, unit in found[0]]
    return [key, *(str(value) for value, _ in runs)], rows


def share(part: float, whole_: float) -> str:
    """Return a part of a whole in per cent."""
    return f"{part / whole_:.1%}" if whole_ else "-"


def _spread(one: Spread) -> tuple[str, ...]:
    return (f"{one.count:,}", *(duration(seconds) for seconds in (one.p50_s, one.p90_s, one.p99_s, one.longest_s)))
