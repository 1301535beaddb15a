"""What ends without anybody asking for its room (D2, D3, D5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine import draining
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Expire, Kill, Lose
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Workload
from tests.builders import gang, node, policy, state

NOW = 100.0
SOUND = node("n1")
LIMITED = gang("g", on=["n1"], started_at=40.0, max_run_s=60.0)
DRAINING = gang("g", on=["n1"], phase=Phase.DRAINING, deadline_at=NOW)

CASES = {
    "what runs goes on": (gang("g", on=["n1"]), SOUND, []),
    "what waits has nothing to end": (gang("g"), SOUND, []),
    "before its deadline it may go on": (replace(DRAINING, deadline_at=NOW + 0.1), SOUND, []),
    "at its deadline it is killed": (DRAINING, SOUND, [Kill]),
    "once": (replace(DRAINING, killed=True), SOUND, []),
    "a drain without a deadline is not killed": (replace(DRAINING, deadline_at=None), SOUND, []),
    "a cancelled one is the arbiter's to end": (replace(DRAINING, phase=Phase.STOPPING), SOUND, []),
    "a node that is down ends it": (gang("g", on=["n1"]), node("n1", condition=Condition.DOWN), [Lose]),
    "a node that is gone ends it": (gang("g", on=["n1", "n2"]), SOUND, [Lose]),
    "a drain on a lost node is lost, not killed": (DRAINING, node("n1", condition=Condition.DOWN), [Lose]),
    "a cancelled one is not lost as well": (gang("g", on=["n2"], phase=Phase.STOPPING), SOUND, []),
    "before its run time is over it may go on": (replace(LIMITED, max_run_s=60.1), SOUND, []),
    "when its run time is over it is asked to end": (LIMITED, SOUND, [Expire]),
    "it may not have started": (replace(LIMITED, phase=Phase.ADMITTED, started_at=None), SOUND, [Expire]),
    "one that was asked to move is asked to end then (D6)": (
        replace(LIMITED, phase=Phase.DRAINING, deadline_at=None),
        SOUND,
        [Expire],
    ),
    "once asked it has its grace": (replace(LIMITED, phase=Phase.DRAINING, deadline_at=200.0), SOUND, []),
    "then it is killed": (replace(LIMITED, phase=Phase.DRAINING, deadline_at=NOW), SOUND, [Kill]),
    "who is cancelled need not be asked": (replace(LIMITED, phase=Phase.STOPPING), SOUND, []),
    "on a lost node it is lost": (LIMITED, node("n1", condition=Condition.DOWN), [Lose]),
    "a node in quarantine does not end it": (gang("g", on=["n1"]), node("n1", condition=Condition.QUARANTINED), []),
}


@pytest.mark.parametrize(("workload", "there", "want"), CASES.values(), ids=CASES)
def test_what_ends(workload: Workload, there: Node, want: list[type]) -> None:
    ledger = Ledger(state(there, workload), policy(), NOW)
    assert [type(action) for action in draining.step(ledger)] == want


def test_what_ends_already_keeps_nothing_else_from_ending() -> None:
    ended = [
        replace(DRAINING, name="a", killed=True),
        replace(DRAINING, name="b", phase=Phase.STOPPING),
        gang("c", on=["gone"]),
        replace(DRAINING, name="d"),
        replace(LIMITED, name="e"),
    ]
    ledger = Ledger(state(node("n1", gpus=64), *ended), policy(), NOW)
    assert [(type(action), action.workload) for action in draining.step(ledger)] == [
        (Lose, "c"),
        (Kill, "d"),
        (Expire, "e"),
    ]


def test_whose_run_time_is_over_has_its_grace_and_comes_free() -> None:
    ledger = Ledger(state(SOUND, replace(LIMITED, grace_s=900.0)), policy(longest_grace_s=600.0), NOW)
    [asked] = draining.step(ledger)
    assert asked == Expire(workload="g", deadline_at=700.0, why="its maximum run time of 1 min is over")
    assert ledger.soon("n1").gpus == 8


def test_a_kill_says_whose_time_was_over() -> None:
    late = replace(LIMITED, phase=Phase.DRAINING, deadline_at=NOW, expired=True)
    [kill] = draining.step(Ledger(state(SOUND, late), policy(), NOW))
    assert kill == Kill(workload="g", why="its maximum run time of 1 min is over, and so is its grace")


def test_what_is_lost_comes_free_on_the_nodes_that_are_left() -> None:
    ledger = Ledger(state(SOUND, gang("g", on=["n1", "gone"])), policy(), NOW)
    [lost] = draining.step(ledger)
    assert isinstance(lost, Lose)
    assert (lost.node, ledger.free["n1"].gpus, ledger.soon("n1").gpus) == ("gone", 0, 8)
