"""The difference between two policies, as a list."""

from __future__ import annotations

import pytest

from fleet_app.policy.diff import Change, diff_policies
from fleet_app.policy.load import parse_policy
from tests.unit.policy.texts import policy, with_line

NOMINAL = "organisations.lab.teams.research.nominal"
CASES = {
    "nothing changed": ("name: test", "name: test", ()),
    "a number": ("{nominal: 48}", "{nominal: 40}", (Change(path=NOMINAL, old=48, new=40),)),
    "a duration keeps its unit": ("grace: 60s", "grace: 90s", (Change(path="drain.grace", old="1m", new="1m30s"),)),
    "a duration written otherwise is the same": ("grace: 60s", "grace: 1m", ()),
    "a limit that goes": (
        "{nominal: 0, borrowing_limit: 40}",
        "{nominal: 0}",
        (Change(path="organisations.lab.teams.batch.borrowing_limit", old=40, new=None),),
    ),
    "a list": (
        "teams: [serving]",
        "teams: [serving, batch]",
        (Change(path="classes.serving-production.teams", old=["serving"], new=["serving", "batch"]),),
    ),
}


@pytest.mark.parametrize(("old", "new", "want"), CASES.values(), ids=CASES)
def test_diff(old, new, want):
    assert diff_policies(policy(), parse_policy(with_line(old, new))) == want


def test_a_team_that_comes_is_one_change_with_all_it_has():
    grown = parse_policy(with_line("      research:", "      guests: {nominal: 0}\n      research:"))
    assert diff_policies(policy(), grown) == (
        Change(
            path="organisations.lab.teams.guests",
            old=None,
            new={"nominal": 0, "weight": 1, "queue": "best-effort", "quota": {}, "teams": {}},
        ),
    )
