"""Chance, by name: what is drawn depends on the seed and on what it is for, never on what was drawn before.

So two runs of one scenario under two policies meet the same luck, and a run that is continued needs no state of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random  # noqa: TID251 - the twin plays the world; no decision of the fleet rests on this


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Seconds that differ from case to case: the median, and the deviation of the logarithm; with 0 always the median.

    Log-normal, as start-up and checkpoint times tend to be: never negative, with a long tail. With `samples` it is one
    of those, each as often as another.
    """

    median_s: float = 0.0
    sigma: float = 0.0
    samples: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Chance:
    """All luck of one run."""

    seed: int

    def of(self, *what: object) -> Random:
        """Return the source of luck for one thing."""
        return Random("/".join(map(str, (self.seed, *what))))

    def seconds(self, spread: Spread, *what: object) -> float:
        """Return how long it takes in one case."""
        if spread.samples:
            return self.of(*what).choice(spread.samples)
        if spread.sigma == 0.0:
            return spread.median_s
        return spread.median_s * math.exp(self.of(*what).gauss(0.0, spread.sigma))

    def until(self, mean_s: float, *what: object) -> float:
        """Return how long it is until something that comes at no known time, once in `mean_s` seconds on average."""
        return self.of(*what).expovariate(1.0 / mean_s)
