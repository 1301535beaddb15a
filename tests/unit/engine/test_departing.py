"""N1, N2: who is asked to leave a node that goes away, and by when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine import departing
from fleet_app.engine.decide import decide
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Admit, Drain, Expire, Move
from fleet_app.engine.values import Condition, Departure, Node
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, departure, gang, node, policy, service, state

NOW = 1000.0
N1, N2 = node("n1", condition=Condition.CORDONED), node("n2", condition=Condition.CORDONED)
MOVABLE = gang(on=["n1"], movable=True)

LEFT: dict[str, tuple[list[Departure], list[Node | Workload | Service], list[str]]] = {
    "an empty node is let go": ([departure()], [N1], []),
    "committed work is asked to move": ([departure()], [N1, MOVABLE], ["move gang"]),
    "once": ([departure()], [N1, replace(MOVABLE, phase=Phase.DRAINING)], []),
    "of two of its nodes too": (
        [departure("n1"), departure("n2")],
        [N1, N2, gang(on=["n1", "n2"], movable=True)],
        ["move gang"],
    ),
    "who cannot be asked to is let be": ([departure()], [N1, gang(on=["n1"])], []),
    "what yields has its grace": ([departure()], [N1, backfill(on=["n1"])], ["drain backfill by 1120"]),
    "who leaves already is let be": ([departure()], [N1, backfill(on=["n1"], phase=Phase.STOPPING)], []),
    "but others on that node are not": (
        [departure()],
        [N1, backfill("a", on=["n1"], phase=Phase.STOPPING), backfill("b", on=["n1"])],
        ["drain b by 1120"],
    ),
    "a replica is Serve's to move": ([departure("v1")], [node("v1", serving=True), service(on=["v1"])], []),
    "a node beside it is nobody's concern": ([departure()], [N1, gang(on=["n2"], movable=True)], []),
    "before its end committed work has its grace": (
        [departure(gone_at=NOW + 500)],
        [N1, MOVABLE],
        ["drain gang by 1120"],
    ),
    "or less where the end is nearer": ([departure(gone_at=NOW + 30)], [N1, MOVABLE], ["drain gang by 1030"]),
    "an end that has passed is now": ([departure(gone_at=NOW - 30)], [N1, MOVABLE], ["drain gang by 1000"]),
    "who is moving has until then too": (
        [departure(gone_at=NOW + 30)],
        [N1, replace(MOVABLE, phase=Phase.DRAINING)],
        ["drain gang by 1030"],
    ),
    "and who could not be asked to move": (
        [departure(gone_at=NOW + 30)],
        [N1, gang(on=["n1"])],
        ["drain gang by 1030"],
    ),
    "of two nodes of a gang the one that ends first counts": (
        [departure("n1"), departure("n2", NOW + 40), departure("n3", NOW + 20)],
        [N1, N2, node("n3"), gang(on=["n1", "n2", "n3"], movable=True)],
        ["drain gang by 1020"],
    ),
    "a node that is not there has nobody": ([departure("n9")], [N1, MOVABLE], []),
}


def said(one: Drain | Move) -> str:
    return f"drain {one.workload} by {one.deadline_at:.0f}" if isinstance(one, Drain) else f"move {one.workload}"


@pytest.mark.parametrize(("going", "parts", "want"), LEFT.values(), ids=LEFT)
def test_a_departure(going: list[Departure], parts: list[Node | Workload | Service], want: list[str]) -> None:
    ledger = Ledger(state(*parts, *going), policy(), NOW)
    assert list(map(said, departing.step(ledger, going))) == want


def test_the_order_of_the_facts_means_nothing() -> None:
    going = [departure("n2", NOW + 40), departure("n1", NOW + 40)]
    parts = [N1, N2, backfill("a", on=["n1"]), backfill("b", on=["n2"])]
    both = [list(departing.step(Ledger(state(*parts), policy(), NOW), order)) for order in (going, going[::-1])]
    assert both[0] == both[1]


def test_who_says_why_names_the_node() -> None:
    (notice,) = departing.step(Ledger(state(N1, MOVABLE), policy(), NOW), [departure()])
    assert (notice.beneficiary, notice.why) == ("the end of n1", "n1 goes away: it is cordoned")


def test_who_is_to_leave_is_asked_once_in_a_decision_and_what_waits_goes_elsewhere() -> None:
    facts = state(N1, node("n3"), backfill(on=["n1"]), gang("new"), departure())
    plan = decide(facts, policy(), NOW)
    assert [type(one) for one in plan.actions] == [Drain, Admit]
    assert [one.nodes for one in plan.actions if isinstance(one, Admit)] == [("n3",)]


def test_whose_time_is_over_is_told_that_and_not_also_to_leave_the_node() -> None:
    over = replace(backfill(on=["n1"]), max_run_s=60.0, admitted_at=NOW - 100.0)
    plan = decide(state(N1, over, departure()), policy(), NOW)
    assert [type(one) for one in plan.actions] == [Expire]


def test_what_it_has_counts_as_coming_free() -> None:
    ledger = Ledger(state(N1, backfill(on=["n1"], gpus=8)), policy(), NOW)
    list(departing.step(ledger, [departure()]))
    assert (ledger.leaving, ledger.coming["n1"].gpus) == ({"backfill"}, 8)
