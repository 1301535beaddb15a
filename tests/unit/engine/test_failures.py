"""Which nodes a failure may be held against, and for how long a node is kept out (H3, H4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.failures import Quarantined
from tests.builders import failure, quarantined

KEPT = quarantined("n1", since=0.0, until=1000.0)

MOMENTS = {
    "while it lasts": (KEPT, 500.0, True),
    "until its end": (KEPT, 999.9, True),
    "and not at it": (KEPT, 1000.0, False),
    "nor after it": (KEPT, 1001.0, False),
    "nor once it was released": (replace(KEPT, released_at=400.0), 500.0, False),
}


@pytest.mark.parametrize(("kept", "now", "want"), MOMENTS.values(), ids=MOMENTS)
def test_when_a_node_is_kept_out(kept: Quarantined, now: float, want: bool) -> None:
    assert kept.binds(now) is want


def test_whoever_is_known_to_be_at_fault_is_the_only_suspect() -> None:
    assert failure("g", "n1", "n2").suspects == ("n1", "n2")
    assert failure("g", "n1", "n2", node="n2").suspects == ("n2",)
