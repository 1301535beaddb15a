"""How good forecasts of demand were, and whether what was kept free was enough: told moment by moment, counted here.

Each time somebody looks ahead (rules F6, S7) a growth within a start-up is foreseen for a quantile, and so many GPUs
are kept free. What demand then really grew by is the highest that was wanted within that time, less what was wanted.
The forecast's error is the pinball loss, q (y - f) where y is above f and (1 - q) (f - y) else, in GPUs (Koenker and
Bassett, Regression Quantiles, Econometrica 46, 1978): the forecast that is right for the quantile has the least.
Coverage is how often what was kept free was enough.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from fleet_app.twin.record import Demanded, Foreseen
from fleet_app.twin.report.figures import Foresight


@dataclass(slots=True)
class Open:
    """One look ahead that is not over: what was foreseen and wanted, and the most that was wanted since."""

    foreseen: Foreseen
    wanted: int
    most: int


@dataclass(slots=True)
class ForesightCount:
    """What is counted: looks ahead that are over, their loss, and by how much too little was kept free."""

    wanted: dict[str, int] = field(default_factory=dict)
    open: deque[Open] = field(default_factory=deque)
    looks: int = 0
    enough: int = 0
    kept_gpus: int = 0
    grew_gpus: int = 0
    short_gpus: int = 0
    most_short_gpus: int = 0
    forecasts: int = 0
    loss: float = 0.0
    quantile: float | None = None

    def demanded(self, one: Demanded) -> None:
        """See what a service wants from now on."""
        self.close(one.at)
        self.wanted[one.service] = one.gpus
        now = sum(self.wanted.values())
        for each in self.open:
            each.most = max(each.most, now)

    def foreseen(self, one: Foreseen) -> None:
        """See a look ahead."""
        self.close(one.at)
        now = sum(self.wanted.values())
        self.open.append(Open(foreseen=one, wanted=now, most=now))

    def close(self, now: float) -> None:
        """Count the looks ahead that are over by a moment."""
        while self.open and self.open[0].foreseen.at + self.open[0].foreseen.within_s < now:
            self._count(self.open.popleft())

    def _count(self, one: Open) -> None:
        grew, told = one.most - one.wanted, one.foreseen
        short = max(0, grew - told.kept_gpus)
        self.looks += 1
        self.enough += short == 0
        self.kept_gpus += told.kept_gpus
        self.grew_gpus += grew
        self.short_gpus += short
        self.most_short_gpus = max(self.most_short_gpus, short)
        if told.growth_gpus is not None and told.quantile is not None:
            self.forecasts += 1
            self.quantile = told.quantile
            self.loss += pinball(told.quantile, grew, told.growth_gpus)

    def figures(self) -> Foresight:
        """Return it in numbers."""
        looks = max(1, self.looks)
        return Foresight(
            looks=self.looks,
            forecasts=self.forecasts,
            quantile=self.quantile,
            pinball_gpus=self.loss / self.forecasts if self.forecasts else None,
            covered_share=self.enough / self.looks if self.looks else None,
            kept_gpus=self.kept_gpus / looks,
            grew_gpus=self.grew_gpus / looks,
            short_gpus=self.short_gpus / looks,
            most_short_gpus=self.most_short_gpus,
        )


def pinball(quantile: float, came: float, foreseen: float) -> float:
    """Return the loss of a forecast of a quantile."""
    above = came - foreseen
    return quantile * above if above >= 0 else (quantile - 1.0) * above
