"""Who yields to a gang of several shapes, where they are many: domain by domain (R1 to R6, P7)."""

from __future__ import annotations

import pytest

from fleet_app.engine import mixed_reclaim
from fleet_app.engine.eligibility import asker
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.policy import Policy
from fleet_app.engine.reclaim import EXACT_UP_TO
from fleet_app.engine.workload import Workload
from tests.builders import backfill, gang, node, policy, shape, state, team

NOW = 1000.0
LENT = policy(team("a", nominal=1000), team("b", nominal=0))
WANTS = gang("x", team="a", groups={"wide": (1, shape(8)), "thin": (1, shape(4))}, within="leaf", submitted_at=2000.0)
FLEET = [node(f"{leaf}{number}", at=f"s1/{leaf}") for leaf in "mn" for number in (1, 2)]


def crowd(on: str, *, saved_at: float = NOW) -> list[Workload]:
    """Return eight jobs that fill a node."""
    return [backfill(f"{on}-{number}", team="b", on=[on], saved_at=saved_at) for number in range(8)]


CASES: dict[str, tuple[list[Workload], Policy, list[str] | None]] = {
    "the domain where it costs least": (
        [*crowd("m1", saved_at=0.0), *crowd("m2", saved_at=0.0), *crowd("n1"), *crowd("n2", saved_at=900.0)],
        LENT,
        [*(f"n1-{number}" for number in range(8)), *(f"n2-{number}" for number in range(4))],
    ),
    "the only domain where all would be enough": (
        [*crowd("n1"), *crowd("n2"), *crowd("m1"), gang("firm", team="b", gpus=5, on=["m2"])],
        LENT,
        [*(f"n1-{number}" for number in range(8)), *(f"n2-{number}" for number in range(4))],
    ),
    "nobody where all would be too few in each": (
        [*crowd("m1"), gang("f1", team="b", gpus=5, on=["m2"]), *crowd("n1"), gang("f2", team="b", gpus=5, on=["n2"])],
        LENT,
        None,
    ),
    "nobody where that takes more than is borrowed": (
        [*crowd("m1"), *crowd("m2"), *crowd("n1"), *crowd("n2")],
        policy(team("a", nominal=1000), team("b", nominal=24)),
        None,
    ),
}


@pytest.mark.parametrize(("there", "rules", "want"), CASES.values(), ids=CASES)
def test_of_many(there: list[Workload], rules: Policy, want: list[str] | None) -> None:
    assert len(there) > EXACT_UP_TO
    ledger = Ledger(state(*FLEET, *there), rules, NOW)
    found = mixed_reclaim.find(ledger, asker(ledger, WANTS), FLEET, lambda _: True)
    assert (None if found is None else [one.name for one in found.victims]) == want
