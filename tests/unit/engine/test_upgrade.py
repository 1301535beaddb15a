"""A driver is rolled domain by domain, in windows that can be honoured (C11)."""

from __future__ import annotations

import pytest

from fleet_app.engine.calendar import Booking
from fleet_app.engine.errors import ConflictError, RequestError
from fleet_app.engine.upgrade import Roll, roll
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Service, Workload
from tests.builders import booking, gang, node, policy, service, state, team

RULES = policy(team("research"), team("serving", nominal=32))
LEAVES = [node(f"{leaf}{n}", at=f"s1/{leaf}", driver="550") for leaf in ("a", "b") for n in (1, 2)]
HOW = Roll(driver="560", level="leaf", start_at=10_000.0, window_s=1000.0, pause_s=100.0)
Parts = list[Node | Workload | Service | Booking]

CASES: dict[str, tuple[Parts, list[tuple[str, tuple[str, ...], float]]]] = {
    "one leaf after another": (
        [*LEAVES],
        [("driver-560-s1-a", ("a1", "a2"), 10_000.0), ("driver-560-s1-b", ("b1", "b2"), 11_100.0)],
    ),
    "what has the driver already is left alone": (
        [*LEAVES[:2], node("b1", at="s1/b", driver="560")],
        [("driver-560-s1-a", ("a1", "a2"), 10_000.0)],
    ),
    "after what is booked there": (
        [*LEAVES[:2], booking("run", "a2", start_at=9000.0, end_at=12_500.0)],
        [("driver-560-s1-a", ("a1", "a2"), 12_500.0)],
    ),
    "after what ends there": (
        [*LEAVES[:2], gang(on=["a1"], max_run_s=15_000.0)],
        [("driver-560-s1-a", ("a1", "a2"), 15_120.0)],
    ),
}


@pytest.mark.parametrize(("parts", "want"), CASES.values(), ids=CASES)
def test_roll(parts: Parts, want: list[tuple[str, tuple[str, ...], float]]) -> None:
    asks = roll(state(*parts), RULES, 0.0, HOW)
    assert [(ask.name, ask.nodes, ask.start_at) for ask in asks] == want
    assert all(ask.team is None and ask.end_at == ask.start_at + 1000.0 for ask in asks)


def test_never_below_the_floor_of_a_service() -> None:
    serving = [node(f"{leaf}1", at=f"s1/{leaf}", driver="550", serving=True) for leaf in ("a", "b")]
    chat = service(gpus=4, floor=2, on=["a1", "a1"])
    assert len(roll(state(*serving, chat), RULES, 0.0, HOW)) == 2
    with pytest.raises(ConflictError, match="chat would have room for 2 of the 3 replicas of its floor"):
        roll(state(*serving, service(gpus=4, floor=3, on=["a1", "a1"])), RULES, 0.0, HOW)


def test_a_level_that_is_not_there() -> None:
    with pytest.raises(RequestError, match="the policy has no level 'rack'"):
        roll(state(*LEAVES), RULES, 0.0, Roll(driver="560", level="rack", start_at=0.0))
