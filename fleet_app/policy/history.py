"""The policy's sections about what is over: for how long it is at hand, and what it cost.

The engine reads none of it but the price. Does not know where anything is kept.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleet_app.policy.section import Section
from fleet_app.policy.units import PositiveSeconds


class History(Section):
    """For how long what is over is at hand.

    A workload that has ended is listed for `keep_ended`, and Ray keeps its job and log that long, as long as they are
    no more than `most_ended`: the earliest go first. After that it is in the journal's archive, under its name, which
    stays taken.
    """

    keep_ended: PositiveSeconds = 7 * 86_400.0
    most_ended: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 5000


class Accounting(Section):
    """What a GPU-hour costs, in the policy's money."""

    price_per_gpu_hour: Annotated[float, Field(strict=True, ge=0, le=1_000_000, allow_inf_nan=False)] = 0.0
