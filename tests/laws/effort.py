"""How hard the laws are tried: `FLEET_LAWS=deep` for twenty times the examples, chosen anew each time."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

DEEP = os.environ.get("FLEET_LAWS") == "deep"


def tries(examples: int, *, steps: int = 20) -> settings:
    """Return settings for that many examples, the same ones each time; with `deep`, twenty times as many new ones."""
    return settings(
        max_examples=examples * (20 if DEEP else 1),
        stateful_step_count=steps,
        derandomize=not DEEP,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
