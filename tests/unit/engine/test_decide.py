"""The decision as a whole: the order of its steps, and that nothing is a state too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fleet_app.engine.decide import decide, plan_of
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Admit, Drain, GiveGrant, Kill, Lose, Move, Plan
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from tests.builders import backfill, gang, node, policy, service, state

ROOT = Path(__file__).parents[3]


def test_nothing_decides_nothing() -> None:
    assert decide(FleetState(), Policy(), 0.0) == Plan()


def test_what_must_end_ends_then_serving_then_the_queue() -> None:
    overdue = backfill("overdue", on=["v1"], gpus=4, phase=Phase.DRAINING, deadline_at=1.0)
    lost = gang("lost", on=["gone"])
    lodger = backfill("lodger", on=["v2"], gpus=8)
    parts = [node("v1", serving=True), node("v2", serving=True), node("n1"), overdue, lost, lodger, gang("next")]
    plan = decide(state(*parts, service(wanted=2, gpus=4)), policy(), 5.0)
    assert [type(action) for action in plan.actions] == [Lose, Kill, GiveGrant, Admit]
    plan = decide(state(*parts, service(wanted=3, gpus=4)), policy(), 5.0)
    assert [type(action) for action in plan.actions] == [Lose, Kill, GiveGrant, Drain, Admit]


def test_who_is_asked_to_move_for_two_reasons_is_asked_once() -> None:
    first, second = (Move(workload="x", beneficiary=whom, why="it goes") for whom in ("n1", "n2"))
    other = Move(workload="y", beneficiary="n1", why="it goes")
    ledger = Ledger(FleetState(), Policy(), 0.0)
    assert plan_of(ledger, [first, second, other]).actions == (first, other)


def test_waits_come_by_name() -> None:
    plan = decide(state(gang("b"), gang("a"), service("c", wanted=1)), policy(), 0.0)
    assert [one.workload for one in plan.waits] == ["a", "b", "c"]


def test_the_engine_needs_nothing_but_the_standard_library() -> None:
    code = "import fleet_app.engine.decide, fleet_app.engine.explain, sys; print('ray' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, '.'); {code}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("False", "")
