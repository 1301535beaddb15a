"""Which workloads' attempts are shown as bars: those that had the most GPU-hours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleet_app.twin.report.figures import Bar

SHOWN = 48
"""Of how many workloads attempts are kept."""


def longest(bars: Iterable[Sequence[Bar]]) -> list[Sequence[Bar]]:
    """Return the attempts of the workloads that had the most, in the order in which those began."""

    def had(attempts: Sequence[Bar]) -> float:
        return sum((bar.ended_at - bar.began_at) * bar.gpus for bar in attempts)

    most = sorted(bars, key=lambda attempts: (-had(attempts), attempts[0].workload))[:SHOWN]
    return sorted(most, key=lambda attempts: (attempts[0].began_at, attempts[0].workload))
