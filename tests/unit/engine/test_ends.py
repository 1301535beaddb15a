"""When a workload has to end (D1, D5), and who is gone before a planned start (O7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.ends import Start, gone_at, gone_before, leaves_by, limit_at, over, spoken
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.policy import DrainContract
from fleet_app.engine.workload import Workload
from tests.builders import gang

NOW = 1000.0
RULES = DrainContract(longest_grace_s=300.0)
RUNS = gang("x", on=["n1"], started_at=900.0, max_run_s=600.0, grace_s=60.0)
LEAVES = replace(RUNS, phase=Phase.DRAINING, deadline_at=1010.0)

ENDS = {
    "what declared nothing may run for ever": (replace(RUNS, max_run_s=None), None, None),
    "what waits has no end yet": (gang("x", max_run_s=600.0), None, None),
    "from its admission it has its run time, then its grace": (RUNS, 1500.0, 1560.0),
    "whether it has started or not": (replace(RUNS, phase=Phase.ADMITTED, started_at=None), 1500.0, 1560.0),
    "the policy's longest grace at most": (replace(RUNS, grace_s=900.0), 1500.0, 1800.0),
    "past its time it still gets its grace": (replace(RUNS, max_run_s=50.0), 950.0, 1060.0),
    "what is leaving is gone at its deadline": (LEAVES, 1500.0, 1010.0),
    "or now, if that has passed": (replace(LEAVES, deadline_at=990.0), 1500.0, NOW),
    "what is cancelled without a deadline within its grace": (
        replace(LEAVES, phase=Phase.STOPPING, deadline_at=None),
        1500.0,
        1060.0,
    ),
    "what was asked to move by nothing but its limit (D6)": (replace(LEAVES, deadline_at=None), 1500.0, 1560.0),
    "what was killed is gone": (replace(RUNS, killed=True), 1500.0, NOW),
}


@pytest.mark.parametrize(("workload", "limit", "gone"), ENDS.values(), ids=ENDS)
def test_known_ends(workload: Workload, limit: float | None, gone: float | None) -> None:
    assert (limit_at(workload), gone_at(RULES, workload, NOW)) == (limit, gone)


def test_what_is_asked_to_leave_now_has_its_grace() -> None:
    assert leaves_by(RULES, RUNS, NOW) == 1060.0


START = Start(asked_at=2000.0, at=2300.0, after="last")

BEFORE = {
    "its run time and its grace are over just in time": (gang(max_run_s=940.0, grace_s=60.0), True),
    "they are not": (gang(max_run_s=941.0, grace_s=60.0), False),
    "of its grace the longest counts": (gang(max_run_s=700.0, grace_s=900.0), True),
    "it declares no run time": (gang(), False),
}


@pytest.mark.parametrize(("workload", "want"), BEFORE.values(), ids=BEFORE)
def test_gone_before(workload: Workload, want: bool) -> None:
    assert gone_before(RULES, workload, NOW, START) is want


SPOKEN = {
    0.2: "0 s",
    59.6: "1 min",
    7500.0: "2 h 5 min",
    14_400.0: "4 h",
    14_401.0: "4 h 1 s",
    90_061.0: "1 d 1 h",
    -5.0: "0 s",
}


@pytest.mark.parametrize(("seconds", "want"), SPOKEN.items())
def test_spoken(seconds: float, want: str) -> None:
    assert spoken(seconds) == want


def test_over_says_how_long_it_was() -> None:
    assert over(gang(max_run_s=14_400.0)) == "its maximum run time of 4 h is over"
