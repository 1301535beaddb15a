"""How hard the laws are tried: `FLEET_LAWS=deep` for twenty times the examples, chosen anew; `quick` for a tenth."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EFFORT = os.environ.get("FLEET_LAWS", "")
DEEP = EFFORT == "deep"
FACTORS = {"deep": 20.0, "quick": 0.1}


def tries(examples: int, *, steps: int = 20) -> settings:
    """Return settings for that many examples, the same ones each time; with `deep`, twenty times as many new ones."""
    return settings(
        max_examples=max(1, round(examples * FACTORS.get(EFFORT, 1.0))),
        stateful_step_count=steps,
        derandomize=not DEEP,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
