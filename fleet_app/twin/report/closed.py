"""What lending brings by arithmetic alone: the estimate on the back of an envelope that a run is held against.

Knows nothing of gangs, drains or placement: that is what a run is for.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What it rests on: serving's GPUs, their use, the hours they are idle, and what is lost by taking them back."""

    guaranteed_gpus: int
    mean_gpus: int
    trough_gpus: int
    low_h_a_day: float
    preemptions_a_day: float
    loses_s: float
    price_per_gpu_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The estimate: what is idle with a fixed split, what can be lent of that, and what preemption takes of it."""

    idle_gpu_h: float
    idle_money: float
    lent_gpu_h: float
    lent_money: float
    tax_gpu_h: float
    tax_share: float


def closed(assumed: Assumed, hours: float) -> Closed:
    """Return the estimate for so many hours."""
    spare = assumed.guaranteed_gpus - assumed.trough_gpus
    days = hours / 24.0
    idle = (assumed.guaranteed_gpus - assumed.mean_gpus) * hours
    lent = spare * assumed.low_h_a_day * days
    tax = spare * assumed.preemptions_a_day * days * assumed.loses_s / 3600.0
    price = assumed.price_per_gpu_hour
    return Closed(
        idle_gpu_h=idle,
        idle_money=idle * price,
        lent_gpu_h=lent,
        lent_money=lent * price,
        tax_gpu_h=tax,
        tax_share=tax / lent if lent else 0.0,
    )
