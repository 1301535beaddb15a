"""The nominal in force: transfers move it between teams, and through what is above them, while they last (C4)."""

from __future__ import annotations

import pytest

from fleet_app.engine.calendar import Booking
from fleet_app.engine.policy import Policy, Quota
from fleet_app.engine.transfers import nominal_at, quotas_at
from tests.builders import booking, policy, team, transfer

FLAT = policy(team("research", nominal=16), team("vision", nominal=16))
DEEP = Policy(
    quotas=(
        Quota(name="org", nominal_gpus=48),
        Quota(name="lab", parent="org", nominal_gpus=16),
        Quota(name="product", parent="org", nominal_gpus=32),
        Quota(name="research", parent="lab", nominal_gpus=16),
        Quota(name="vision", parent="product", nominal_gpus=32),
    )
)
LENT = booking(transfers=[transfer("vision", 8)])

CASES: dict[str, tuple[Policy, list[Booking], float, dict[str, int]]] = {
    "before it begins all is as stated": (FLAT, [LENT], 999.0, {"org": 0, "research": 16, "vision": 16}),
    "from its start on it is moved": (FLAT, [LENT], 1000.0, {"org": 0, "research": 24, "vision": 8}),
    "at its end it goes back": (FLAT, [LENT], 2000.0, {"org": 0, "research": 16, "vision": 16}),
    "two at once add up": (
        FLAT,
        [LENT, booking("other", transfers=[transfer("vision", 4)])],
        1500.0,
        {"org": 0, "research": 28, "vision": 4},
    ),
    "nobody has less than nothing": (
        FLAT,
        [booking(transfers=[transfer("vision", 20)])],
        1500.0,
        {"org": 0, "research": 36, "vision": 0},
    ),
    "the entries above move with it, but for the one above both": (
        DEEP,
        [LENT],
        1500.0,
        {"org": 48, "lab": 24, "product": 24, "research": 24, "vision": 24},
    ),
    "a lender that left the policy lends nothing": (
        FLAT,
        [booking(transfers=[transfer("gone", 8)])],
        1500.0,
        {"org": 0, "research": 16, "vision": 16},
    ),
}


@pytest.mark.parametrize(("rules", "bookings", "now", "want"), CASES.values(), ids=CASES)
def test_quotas_at(rules: Policy, bookings: list[Booking], now: float, want: dict[str, int]) -> None:
    assert {quota.name: quota.nominal_gpus for quota in quotas_at(rules, bookings, now)} == want


def test_without_transfers_the_policy_itself_is_used() -> None:
    assert quotas_at(FLAT, [booking()], 1500.0) is FLAT.quotas


def test_the_nominal_of_one_team() -> None:
    assert nominal_at(FLAT, [LENT], "research", 1500.0) == 24
    assert nominal_at(FLAT, [LENT], "nobody", 1500.0) == 0
