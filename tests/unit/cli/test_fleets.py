"""What `fleet status` says of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from fleet_app.cli.fleets import _pools

SEEN: dict[str, Any] = {"age_s": 3.0, "pods": 4, "waiting_pods": 0, "machines": 4, "held_pods": 2}
SAID = {
    "all is well": ({}, "seen 3s ago: 4 pods on 4 nodes, 2 held"),
    "it never answered": (
        {"age_s": None, "troubles": ["look: no answer"]},
        "never answered: 4 pods on 4 nodes, 2 held; look: no answer",
    ),
    "pods wait, and nodes are cordoned": (
        {"waiting_pods": 1, "cordoned": ["m1", "m2"]},
        "seen 3s ago: 4 pods on 4 nodes, 1 waiting for one, 2 held; cordoned: m1, m2",
    ),
    "nodes are asked for": (
        {"asked": [{"class": "training", "nodes": 7, "why": "because"}]},
        "seen 3s ago: 4 pods on 4 nodes, 2 held; 7 nodes for training asked for (because)",
    ),
}


@pytest.mark.parametrize(("more", "want"), SAID.values(), ids=SAID)
def test_what_is_said_of_kubernetes(more: dict[str, Any], want: str) -> None:
    assert _pools(SEEN | more) == want
