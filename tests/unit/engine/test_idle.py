"""Sessions that nobody uses end (W1), and nothing else does for it, nor by what is not known (W3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.ends import over
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Expire
from fleet_app.engine.policy import Idle
from fleet_app.engine.telemetry import FRESH_S, Usage
from fleet_app.engine.workload import Workload
from tests.builders import backfill, gang, node, policy, state, used

RULES = replace(policy(), idle=Idle(after_s=1000.0, used_percent=5))
SESSION = backfill("x", on=["n1"], interactive=True, grace_s=30.0)
LONG = replace(SESSION, started_at=-2000.0)

CASES: dict[str, tuple[Workload, Usage, bool]] = {
    "nobody used it for so long": (SESSION, used(), True),
    "somebody used it a little": (SESSION, used(percent=5), True),
    "somebody used it": (SESSION, used(percent=6), False),
    "not for long enough": (SESSION, used(since=1.0), False),
    "not since it started": (replace(SESSION, started_at=1.0), used(since=-500.0), False),
    "a gang may be a session": (gang("x", on=["n1"], interactive=True), used(), True),
    "work that is no session is left alone": (replace(SESSION, interactive=False), used(), False),
    "it has not started": (replace(SESSION, phase=Phase.ADMITTED, started_at=None), used(), False),
    "it was asked to move, some time or other": (replace(SESSION, phase=Phase.DRAINING), used(), True),
    "it was told to leave": (replace(SESSION, phase=Phase.DRAINING, deadline_at=9999.0), used(), False),
    "another was measured": (SESSION, used("y"), False),
    "as old as a measurement may be": (
        replace(SESSION, started_at=-2000.0),
        used(since=-FRESH_S, until=1000.0 - FRESH_S),
        True,
    ),
    "nobody measured it lately": (
        replace(SESSION, started_at=-2000.0),
        used(since=-FRESH_S - 1, until=999.0 - FRESH_S),
        False,
    ),
}


@pytest.mark.parametrize(("workload", "usage", "want"), CASES.values(), ids=CASES)
def test_who_is_idle_ends(workload: Workload, usage: Usage, want: bool) -> None:
    plan = decide(state(node("n1"), workload, usage), RULES, 1000.0)
    assert [one.workload for one in plan.actions if isinstance(one, Expire)] == ["x"] * want


def test_it_is_told_why_in_numbers_and_its_room_is_coming() -> None:
    full = replace(SESSION, shape=replace(SESSION.shape, gpus=8))
    plan = decide(state(node("n1"), full, gang("g"), used(percent=3)), RULES, 1000.0)
    assert plan.actions == (
        Expire(
            workload="x",
            deadline_at=1030.0,
            why="it was idle for 16 min 40 s: at most 3 % of its GPUs were used",
        ),
    )
    assert [wait.reason for wait in plan.waits] == ["drain-under-way"]


ENDS = {
    "nobody used it": (replace(SESSION, deadline_at=50.0), "nobody used it for as long as the policy allows"),
    "before its time was over": (
        replace(SESSION, deadline_at=50.0, max_run_s=3600.0),
        "nobody used it for as long as the policy allows",
    ),
    "its time was over": (
        replace(SESSION, deadline_at=3700.0, max_run_s=3600.0),
        "its maximum run time of 1 h is over",
    ),
}


@pytest.mark.parametrize(("workload", "want"), ENDS.values(), ids=ENDS)
def test_why_a_session_ends(workload: Workload, want: str) -> None:
    assert over(workload) == want
