"""Figures as charts: each a plotly figure as plain data. Pure: plotly itself draws them, in `page`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fleet_app.twin.report.compare import whole
from fleet_app.twin.report.figures import Figures

Chart = dict[str, Any]
"""A plotly figure: `data` and `layout`."""

DAY_S = 86_400.0
INSIDE = 0.12
"""From what part of the whole on a bar is large enough to have its number inside."""
COLOURS = {
    "serving": "#2563eb",
    "training": "#0f766e",
    "lent": "#f59e0b",
    "leaving": "#be185d",
    "kept ready": "#93c5fd",
    "idle": "#e5e7eb",
    "down": "#374151",
}
TEAM_COLOURS = ("#0f766e", "#f59e0b", "#7c3aed", "#2563eb", "#be185d", "#65a30d", "#0891b2", "#b45309")


def fleet(figures: Figures) -> Chart:
    """Return what all GPUs did over time, one on top of the other."""
    parts = {
        "serving": "serving_gpus",
        "training": "training_gpus",
        "lent": "lent_gpus",
        "leaving": "draining_gpus",
        "kept ready": "held_gpus",
        "idle": "idle_gpus",
        "down": "down_gpus",
    }
    days = _days(figures)
    data = [
        {
            "type": "scatter",
            "mode": "none",
            "name": name,
            "x": days,
            "y": _rounded(getattr(one, key) for one in figures.moments),
            "stackgroup": "gpus",
            "fillcolor": COLOURS[name],
            "hovertemplate": "%{y:,.0f}",
        }
        for name, key in parts.items()
        if any(getattr(one, key) >= 0.5 for one in figures.moments)
    ]
    return _chart(data, "GPUs", figures, hovermode="x unified")


def waterfall(figures: Figures) -> Chart:
    """Return what became of the money that would lie idle if nothing were lent."""
    money = figures.money
    steps = [
        ("Idle if nothing<br>were lent", money.idle_unlent, "absolute"),
        ("Lent, came to<br>something", -money.lent, "relative"),
        ("Lent, lost to<br>preemption", -money.tax, "relative"),
        ("Kept ready<br>for replicas", -money.held, "relative"),
        ("Still idle", 0.0, "total"),
    ]
    sizes = (money.idle_unlent, money.lent, money.tax, money.held, money.idle)
    data = [
        {
            "type": "waterfall",
            "x": [name for name, _, _ in steps],
            "y": [amount for _, amount, _ in steps],
            "measure": [measure for _, _, measure in steps],
            "text": [amount_text(size) for size in sizes],
            "textposition": ["inside" if size > INSIDE * money.idle_unlent else "outside" for size in sizes],
            "insidetextanchor": "middle",
            "cliponaxis": False,
            "decreasing": {"marker": {"color": COLOURS["lent"]}},
            "totals": {"marker": {"color": "#6b7280"}},
            "connector": {"line": {"color": "#9ca3af", "width": 1}},
            "hoverinfo": "skip",
        }
    ]
    chart = _chart(data, "money", None)
    # What a small bar says stands below it, and should not stand in the names of the bars.
    chart["layout"]["yaxis"]["range"] = [-0.12 * max(1.0, money.idle_unlent), 1.05 * max(1.0, money.idle_unlent)]
    return chart


def headroom(figures: Figures) -> Chart:
    """Return what serving could have at once, and what it could have back within the drain contract."""
    days = _days(figures)
    return _chart(
        [
            _line("free or kept ready: at once", days, (one.headroom_gpus for one in figures.moments), "#2563eb"),
            _line("lent: within the drain contract", days, (one.lent_gpus for one in figures.moments), "#f59e0b"),
        ],
        "GPUs",
        figures,
        hovermode="x unified",
    )


def queue(figures: Figures) -> Chart:
    """Return how many GPUs were waited for."""
    line = _line("GPUs waited for", _days(figures), (one.waiting_gpus for one in figures.moments), "#7c3aed")
    return _chart([{**line, "fill": "tozeroy"}], "GPUs", figures)


def stranded(figures: Figures) -> Chart:
    """Return the share of GPUs that lay idle beside others in use."""
    shares = (one.stranded_share * 100.0 for one in figures.moments)
    line = _line("stranded", _days(figures), shares, "#be185d")
    chart = _chart([{**line, "fill": "tozeroy"}], "% of all GPUs", figures)
    chart["layout"]["yaxis"]["rangemode"] = "tozero"
    return chart


def gantt(figures: Figures) -> Chart:
    """Return when the workloads that had the most GPU-hours had their nodes, an attempt a bar."""
    teams = sorted({bar.team for bar in figures.bars})
    rows = list(dict.fromkeys(bar.workload for bar in figures.bars))
    data = []
    for place, team in enumerate(teams):
        bars = [bar for bar in figures.bars if bar.team == team]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": team,
                "y": [bar.workload for bar in bars],
                "base": _rounded((bar.began_at / DAY_S for bar in bars), 4),
                "x": _rounded(((bar.ended_at - bar.began_at) / DAY_S for bar in bars), 4),
                "marker": {"color": TEAM_COLOURS[place % len(TEAM_COLOURS)], "line": {"width": 0.5, "color": "white"}},
                "customdata": [f"{bar.gpus} GPUs, {bar.ended}" for bar in bars],
                "hovertemplate": "%{y}: %{customdata}<extra></extra>",
            }
        )
    chart = _chart(data, "", figures, barmode="overlay", bargap=0.25, height=120 + 15 * len(rows))
    chart["layout"]["yaxis"] = {
        "categoryorder": "array",
        "categoryarray": rows[::-1],
        "automargin": True,
        "tickfont": {"size": 10},
        "dtick": 1,
    }
    chart["layout"]["xaxis"]["range"] = [0, figures.lasted_s / DAY_S]
    return chart


def returned(figures: Figures) -> Chart:
    """Return how often GPUs that were asked back were free within so many seconds."""
    seconds = _rounded(figures.given_back_curve)
    line = _line("given back", seconds, range(1, len(seconds) + 1), "#be185d")
    line |= {"fill": "tozeroy", "hovertemplate": "%{y:.0f} % within %{x:.0f} s<extra></extra>"}
    chart = _chart([line], "% of the times", None)
    chart["layout"]["xaxis"] = {"title": {"text": "seconds after they were asked back"}, "rangemode": "tozero"}
    chart["layout"]["yaxis"]["range"] = [0, 103]
    return chart


def waits(figures: Figures) -> Chart:
    """Return how long workloads of each size waited."""
    sizes = [f"{one.size} GPUs" for one in figures.waits]
    data = [
        {
            "type": "bar",
            "name": name,
            "x": sizes,
            "y": _rounded((getattr(one.waited, key) / 60.0 for one in figures.waits), 2),
            "marker": {"color": colour},
            "hovertemplate": "%{y:,.1f} min",
        }
        for name, key, colour in (
            ("half waited no longer", "p50_s", "#a7f3d0"),
            ("nine of ten", "p90_s", "#34d399"),
            ("99 of 100", "p99_s", "#047857"),
        )
    ]
    return _chart(data, "minutes", None, barmode="group")


def swept(key: str, runs: Sequence[tuple[object, Figures]]) -> Chart:
    """Return money against late requests, a point for each value of a parameter."""
    late = [whole(figures)["requests too late", "share"] * 100.0 for _, figures in runs]
    lent = [figures.money.lent for _, figures in runs]
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers+text",
            "x": _rounded(late, 5),
            "y": _rounded(lent, 0),
            "text": [str(value) for value, _ in runs],
            "textposition": "top center",
            "marker": {"size": 10, "color": "#f59e0b"},
            "line": {"color": "#d1d5db"},
            "hovertemplate": f"{key}=%{{text}}: %{{y:,.0f}}, %{{x}} % late<extra></extra>",
        }
    ]
    chart = _chart(data, "money: lent and useful", None)
    widest = max(late, default=0.0) or 0.01
    chart["layout"]["xaxis"] = {"title": {"text": "requests too late, %"}, "range": [-0.05 * widest, 1.2 * widest]}
    chart["layout"]["yaxis"]["range"] = _around(lent)
    return chart


def amount_text(amount: float) -> str:
    """Return money as people say it: 612k, 1.2M."""
    if abs(amount) >= 999_500:
        return f"{amount / 1e6:,.2f}M"
    return f"{amount / 1e3:,.0f}k" if abs(amount) >= 9_950 else f"{amount:,.0f}"


def _around(values: list[float]) -> list[float]:
    """Return a range in which all values are apart, and none at the edge."""
    margin = max(max(values) - min(values), 0.01 * max(map(abs, values)), 1.0) * 0.3
    return [min(values) - margin, max(values) + margin]


def _days(figures: Figures) -> list[float]:
    return _rounded((one.at / DAY_S for one in figures.moments), 4)


def _rounded(values: Iterable[float], digits: int = 1) -> list[float]:
    return [round(float(value), digits) for value in values]


def _line(name: str, days: list[float], values: Iterable[float], colour: str) -> Chart:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": days,
        "y": _rounded(values, 2),
        "line": {"color": colour, "width": 1.5, "shape": "hv"},
    }


def _chart(data: list[Chart], unit: str, figures: Figures | None, **layout: Any) -> Chart:
    axis = {} if figures is None else {"title": {"text": "day"}, "range": [0, figures.lasted_s / DAY_S]}
    return {
        "data": data,
        "layout": {
            "template": "plotly_white",
            "height": 340,
            "margin": {"l": 64, "r": 24, "t": 16, "b": 48},
            "font": {"family": "system-ui, sans-serif", "size": 13},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "showlegend": len(data) > 1,
            "xaxis": axis,
            "yaxis": {"title": {"text": unit}, "rangemode": "tozero", "separatethousands": True},
            **layout,
        },
    }
