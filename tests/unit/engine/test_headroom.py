"""S7: how many GPUs the immediate tier holds, by forecast where the policy asks for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine import headroom
from fleet_app.engine.decide import decide
from fleet_app.engine.forecast import History
from fleet_app.engine.plan import GiveGrant
from fleet_app.engine.policy import Headroom
from tests.builders import node, policy, service, state, team

FIXED = Headroom(immediate_gpus=3)
ASKED = replace(FIXED, quantile=0.99)

HELD = {
    "nobody asks for a forecast": (FIXED, 14, 3, ""),
    "it is what demand may grow by": (ASKED, 14, 14, "holding 14 GPUs free: p99 growth in 90 s is 14"),
    "nothing, when it never grew": (ASKED, 0, 0, "holding 0 GPUs free: p99 growth in 90 s is 0"),
    "at most so many": (
        replace(ASKED, maximum_gpus=10),
        14,
        10,
        "holding 10 GPUs free: p99 growth in 90 s is 14, at most 10 are to be held",
    ),
    "at least so many": (
        replace(ASKED, minimum_gpus=4),
        1,
        4,
        "holding 4 GPUs free: p99 growth in 90 s is 1, at least 4 are to be held",
    ),
    "the fixed number while nobody knows": (
        ASKED,
        None,
        3,
        "holding 3 GPUs free: too little is known of demand for a forecast",
    ),
}


@pytest.mark.parametrize(("rules", "growth", "want", "says"), HELD.values(), ids=HELD)
def test_what_is_held(rules: Headroom, growth: int | None, want: int, says: str) -> None:
    assert (headroom.immediate_gpus(rules, growth), headroom.sentence(rules, growth)) == (want, says)


def history(*wanted: float) -> History:
    return History(first_at=0.0, every_s=60.0, wanted_gpus=wanted)


STEADY = tuple(7.0 * minute for minute in range(102))

KNOWN = {
    "by how much it rose within a start-up": (ASKED, STEADY, 14),
    "a hundred rises are needed to know one in a hundred": (ASKED, STEADY[:101], None),
    "ten to know one in ten": (replace(ASKED, quantile=0.9), STEADY[:12], 14),
    "nobody asks": (FIXED, STEADY, None),
    "of parts of a GPU a whole one": (replace(ASKED, quantile=0.5), (0.0, 0.2, 0.4, 0.6), 1),
}


@pytest.mark.parametrize(("rules", "wanted", "want"), KNOWN.values(), ids=KNOWN)
def test_growth(rules: Headroom, wanted: tuple[float, ...], want: int | None) -> None:
    assert headroom.growth_gpus(rules, history(*wanted), 60.0 * (len(wanted) - 1)) == want


def test_a_decision_holds_what_is_forecast() -> None:
    rules = replace(policy(team("serving", nominal=64)), headroom=ASKED)
    facts = replace(state(node("v1", serving=True), service(wanted=1)), growth_gpus=5)
    given = [action for action in decide(facts, rules, 0.0).actions if isinstance(action, GiveGrant)]
    assert len(given) == 6
