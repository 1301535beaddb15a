"""One HTML file about a run, two runs, or a sweep, that needs nothing else: plotly's own code is in it.

Written for who pays for the GPUs: what it came to first, in words and money; then why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from plotly import io as plotly_io
from plotly.offline import get_plotlyjs

from fleet_app.twin.report import cells, charts
from fleet_app.twin.report.cells import Cells
from fleet_app.twin.report.charts import Chart, amount_text
from fleet_app.twin.report.closed import Closed
from fleet_app.twin.report.compare import Row
from fleet_app.twin.report.figures import Figures

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #111827; max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: 0 }
h2 { font-size: 1.15rem; margin: 2.2rem 0 0 }
p.about, p.note { color: #4b5563; margin: .2rem 0 1rem }
.tiles { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0 }
.tile { border: 1px solid #e5e7eb; border-radius: .5rem; padding: .6rem 1rem; min-width: 9rem; flex: 1 }
.tile b { display: block; font-size: 1.5rem }
.tile span { color: #4b5563; font-size: .85rem }
table { border-collapse: collapse; width: 100%; font-size: .9rem; margin: .6rem 0 }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid #e5e7eb }
th:first-child, td:first-child { text-align: left }
.scroll { overflow-x: auto }
@media print { .tile, h2 { break-inside: avoid } }
"""


def of_run(figures: Figures, about: str, estimate: Closed | None) -> str:
    """Return the page about one run."""
    return _page(figures.name, about, _run(figures, estimate))


def of_two(before: Figures, after: Figures, compared: Sequence[Row]) -> str:
    """Return the page about two runs: what changed and for whom, then each of them."""
    names = (before.name, after.name)
    said = f"<p>{escape(changed_in_words(compared, names))}</p>"
    body = [said, _section("What changed, and for whom", "", _table(*cells.compared(compared, names)))]
    for figures in (before, after):
        body += [f"<h1>{escape(figures.name)}</h1>", *_run(figures, None)]
    return _page(f"{before.name} and {after.name}", "Two runs of the twin, side by side.", body)


def of_sweep(key: str, runs: Sequence[tuple[object, Figures]], table: tuple[Cells, list[Cells]]) -> str:
    """Return the page about runs that differ in one parameter."""
    body = [
        _section(
            "Money against late requests",
            f"Each point is a run with another {key}: up is more money made of idle GPUs, left is fewer late requests.",
            _drawn(charts.swept(key, runs)),
        ),
        _section("In numbers", "", _table(*table)),
    ]
    return _page(f"{runs[0][1].name}: {key}", "One parameter of the policy, tried at several values.", body)


def _run(figures: Figures, estimate: Closed | None) -> list[str]:
    money = figures.money
    return [
        _tiles(figures),
        f"<p>{escape(in_words(figures, estimate))}</p>",
        _section(
            "What became of the idle money",
            f"GPUs that serving is guaranteed but does not use, at {money.price_per_gpu_hour:g} a GPU-hour; all money "
            "is in the currency of that price.",
            _drawn(charts.waterfall(figures)),
        ),
        _section("The fleet over time", "What every GPU did.", _drawn(charts.fleet(figures))),
        _section(
            "Headroom",
            "What serving could have at once, and what it could have back within minutes.",
            _drawn(charts.headroom(figures)),
        ),
        _section("The queue", "GPUs that gangs and jobs waited for.", _drawn(charts.queue(figures))),
        _section("How long they waited", "Each time until nodes were given, by size.", _drawn(charts.waits(figures))),
        *_returned(figures),
        _section(
            "Fragmentation",
            "Idle GPUs on nodes that others use in part: too few in one place for work that needs whole nodes.",
            _drawn(charts.stranded(figures)),
        ),
        _section(
            "Gangs and jobs",
            "Those that had the most GPU-hours; a bar is a time on nodes, a gap is a wait.",
            _drawn(charts.gantt(figures)),
        ),
        _section(
            "Teams",
            "GPU-hours: own use, lent and unused add up to what is the team's own; reclaimed is what others lacked who "
            "gave it GPUs back. The last column is money.",
            _teams(figures),
        ),
        *([_section("Services", "", _services(figures))] if figures.services else []),
        *_known(figures),
        *([_section("What else happened", "", _list(figures.notes))] if figures.notes else []),
    ]


IN_WORDS = {
    "lent and useful": "idle GPUs put to use are worth {} instead of {}",
    "idle": "serving's GPUs worth {} instead of {} lie idle",
    "GPUs short": "services lack {} instead of {}",
    "asked to leave": "work is asked to leave {} times instead of {}",
    "still wait": "{} workloads instead of {} wait at the end",
}


def changed_in_words(compared: Iterable[Row], names: tuple[str, str]) -> str:
    """Return what another run comes to beside the first, in a sentence."""
    parts = [
        IN_WORDS[row.what].format(cells.number(row.after, row.unit), cells.number(row.before, row.unit))
        for row in compared
        if not row.whose and row.changed and row.what in IN_WORDS
    ]
    return f"{names[1]} beside {names[0]}: {'; '.join(parts) or 'nothing changed for the fleet as a whole'}."


def _returned(figures: Figures) -> Iterator[str]:
    if figures.given_back_curve:
        note = "Of the times that GPUs were asked back, in how many they were free within so many seconds."
        yield _section("How fast GPUs came back", note, _drawn(charts.returned(figures)))


def _known(figures: Figures) -> Iterator[str]:
    """Yield the tables of which there is anything to say."""
    note = (
        "GPU-hours; all but lent and reclaimed adds up. Draining was asked to leave, held was kept for somebody, "
        "stranded lay idle beside others in use, reclaimed is what those lacked who gave GPUs back."
    )
    yield _section("Classes of nodes", note, _table(*cells.classes(figures)))
    yield _section("Waits in numbers", "Each time until nodes were given.", _table(*cells.waits(figures)))
    if figures.interrupted:
        note = "GPU-hours that were worked for nothing, went into leaving, and into starting again."
        yield _section("Attempts cut short", note, _table(*cells.interrupted(figures)))
    if figures.foresight.looks:
        note = (
            "Every few minutes somebody looked ahead: how many GPUs were kept free, how many more were then wanted, "
            "and how often there were enough. The loss is the forecast's error; the smaller, the better."
        )
        yield _section("Demand foreseen", note, _table(*cells.foresight(figures)))
    if figures.effort.known:
        note = (
            "Of the hours that are measured, how much GPUs computed; of those whose model's FLOPs are stated, how much "
            "of the peak came of them (MFU), and what 10^18 useful FLOPs cost."
        )
        yield _section("What the hours were used for", note, _table(*cells.effort(figures)))


def in_words(figures: Figures, estimate: Closed | None) -> str:
    """Return what a run comes to, in a few sentences."""
    money, lent = figures.money, figures.money.lent + figures.money.tax
    back = f"taking it back cost {money.tax:,.0f} of it ({_share(money.tax, lent)})"
    said = [
        f"In {_long(figures.lasted_s)}, serving left GPUs worth {money.idle_unlent:,.0f} unused.",
        f"{lent:,.0f} of that was lent to work that yields ({_share(lent, money.idle_unlent)}); {back}.",
        f"{money.held:,.0f} was kept ready for replicas, and {money.idle:,.0f} lay idle.",
    ]
    if figures.given_back.count:
        said.append(
            f"GPUs were asked back {figures.given_back.count:,} times, and free within "
            f"{figures.given_back.p50_s:.0f} s half of the time, within {figures.given_back.longest_s:.0f} s always."
        )
    if estimate is not None:
        said.append(f"By arithmetic alone, {estimate.lent_money:,.0f} could have been lent.")
    return " ".join(said)


def _long(seconds: float) -> str:
    return f"{seconds / 86_400:.0f} days" if seconds >= 2 * 86_400 else f"{seconds / 3600:.1f} hours"


def _tiles(figures: Figures) -> str:
    money, requests = figures.money, sum(one.requests for one in figures.services)
    late = sum(one.late for one in figures.services)
    tiles = [
        (amount_text(money.lent), "worth of idle GPUs put to use (money)"),
        (f"{figures.tax_share:.1%}", "of lent time lost to preemption"),
        (f"{late / requests:.3%}" if requests else "-", "of requests too late"),
        (f"{figures.given_back.longest_s:.0f} s", "longest until GPUs were back"),
        (str(sum(one.breaks for one in figures.teams)), "drain contracts broken"),
    ]
    cells = "".join(f'<div class="tile"><b>{escape(big)}</b><span>{escape(small)}</span></div>' for big, small in tiles)
    return f'<div class="tiles">{cells}</div>'


def _teams(figures: Figures) -> str:
    head = (
        "Team",
        "Nominal",
        "Own use",
        "Lent",
        "Unused",
        "Borrowed",
        "Reclaimed",
        "Useful work",
        "Lost",
        "Asked to leave",
        "Worth",
    )
    rows = [
        (
            one.team,
            *(f"{part:,.0f}" for part in (one.nominal_gpu_h, one.own_gpu_h, one.lent_gpu_h, one.unused_gpu_h)),
            *(f"{part:,.0f}" for part in (one.borrowed_gpu_h, one.reclaimed_gpu_h, one.useful_gpu_h, one.lost_gpu_h)),
            f"{one.asked:,} times",
            f"{one.own_money + one.borrowed_money:,.0f}",
        )
        for one in figures.teams
    ]
    return _table(head, rows)


def _services(figures: Figures) -> str:
    head = (
        "Service",
        "Mean GPUs",
        "Peak",
        "Requests",
        "Too late",
        "GPU-minutes short",
        "Beyond the contract",
        "Replica ready, 99 of 100",
    )
    rows = [
        (
            one.service,
            f"{one.mean_gpus:,.0f}",
            f"{one.peak_gpus:,}",
            f"{one.requests / 1e6:,.1f}M",
            f"{one.late / one.requests if one.requests else 0.0:.3%}",
            f"{one.short_gpu_min:,.0f}",
            f"{one.overdue_gpu_min:,.0f}",
            f"{one.ready.p99_s:,.0f} s",
        )
        for one in figures.services
    ]
    return _table(head, rows)


def _drawn(chart: Chart) -> str:
    drawn: str = plotly_io.to_html(
        chart,
        full_html=False,
        include_plotlyjs=False,
        validate=True,
        config={"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["select2d", "lasso2d"]},
    )
    return drawn


def _section(title: str, note: str, body: str) -> str:
    return f'<h2>{escape(title)}</h2><p class="note">{escape(note)}</p>{body}'


def _table(head: Cells, rows: Iterable[Cells]) -> str:
    def line(cells: Cells, tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f'<div class="scroll"><table><thead>{line(head, "th")}</thead><tbody>{body}</tbody></table></div>'


def _list(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "none"


def _page(title: str, about: str, body: Iterable[str]) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        f"<script>{get_plotlyjs()}</script></head><body>"
        f'<h1>{escape(title)}</h1><p class="about">{escape(about)}</p>{"".join(body)}</body></html>\n'
    )
