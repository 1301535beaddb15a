"""Which nodes are kept out for what happened on them, and until when (H1 to H4)."""

from __future__ import annotations

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.explain import explain
from fleet_app.engine.failures import Cause, Failure, Quarantined
from fleet_app.engine.plan import Admit, Lose, Plan, Quarantine, Release
from fleet_app.engine.policy import Health
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, failure, gang, grant, node, nodes, policy, quarantined, service, state

NOW = 500.0
HEALTH = Health(tolerance_s=30.0, quarantine_s=100.0, failures=3, window_s=200.0, most_percent=10)

Part = Node | Workload | Service | Failure | Quarantined


def planned(*parts: Part) -> Plan:
    return decide(state(*parts), policy(health=HEALTH), NOW)


def kept_out(*parts: Part) -> dict[str, str]:
    return {one.node: one.why for one in planned(*parts).actions if isinstance(one, Quarantine)}


def away(for_s: float) -> Node:
    return node("n1", condition=Condition.DOWN, down_since=NOW - for_s)


def lost(who: str = "g", name: str = "n1") -> Failure:
    return failure(who, "n1", "n2", at=NOW - 1, cause=Cause.NODE, node=name)


def died(who: str = "g", name: str = "n1", at: float = NOW - 1) -> Failure:
    return failure(who, "n1", "n2", at=at, cause=Cause.RANK, node=name, why="SIGKILL")


def failed(who: str, *on: str, at: float = NOW - 1) -> Failure:
    return failure(who, *(on or ("n1",)), at=at)


WHO_IS_KEPT_OUT: dict[str, tuple[list[Part], set[str]]] = {
    "nobody, when nothing happened": ([], set()),
    "a node that is lost with something on it": ([away(30.0), lost()], {"n1"}),
    "a node that is gone altogether": ([lost(name="n9")], {"n9"}),
    "not a node that may still come back": ([away(29.9), lost()], set()),
    "not a node that came back": ([lost()], set()),
    "not a node that went away with nothing on it": ([away(3000.0)], set()),
    "the node on which a rank died": ([died()], {"n1"}),
    "not the second node of a gang whose ranks die everywhere": ([died(), died(name="n2", at=NOW)], {"n1"}),
    "nor when the first is kept out already": (
        [quarantined("n1", since=NOW - 1), died(), died(name="n2", at=NOW)],
        set(),
    ),
    "both nodes, when ranks of two gangs died": ([died(), died("h", "n2")], {"n1", "n2"}),
    "the node on which three gangs failed": ([failed("a"), failed("b"), failed("c", "n1", "n2")], {"n1"}),
    "not one on which one gang failed three times": ([failed("a", at=NOW - i) for i in (1, 2, 3)], set()),
    "not for what is older than the window": ([failed("a"), failed("b"), failed("c", at=NOW - 200)], set()),
    "a lost node's other failures count as well": ([lost("a"), failed("b"), failed("c")], {"n1"}),
    "not for failures where another node was at fault": (
        [failed("a"), failed("b"), lost("c", name="n2")],
        set(),
    ),
    "only one on suspicion, when three gangs failed on the same two": (
        [failed("a", "n1", "n2"), failed("b", "n1", "n2"), failed("c", "n1", "n2")],
        {"n1"},
    ),
    "nobody on suspicion, when one is out already": (
        [quarantined("n3"), failed("a"), failed("b"), failed("c")],
        set(),
    ),
    "not twice": ([quarantined("n1"), died()], set()),
    "not for what was before its release": ([quarantined("n1", released_at=NOW - 1), died()], set()),
    "for what came after its release": ([quarantined("n1", released_at=NOW - 2), died()], {"n1"}),
    "not at the end of its quarantine, for the same again": ([quarantined("n1", until=NOW), died()], set()),
}


@pytest.mark.parametrize(("parts", "want"), WHO_IS_KEPT_OUT.values(), ids=WHO_IS_KEPT_OUT)
def test_who_is_kept_out(parts: list[Part], want: set[str]) -> None:
    there = {part.name for part in parts if isinstance(part, Node)}
    sound = [one for one in nodes(4) if one.name not in there]
    assert kept_out(*sound, *parts).keys() == want


def test_a_large_fleet_keeps_out_a_tenth_of_its_nodes_on_suspicion_the_worst_first() -> None:
    everywhere = [one.name for one in nodes(20)]
    found = kept_out(*nodes(20), *(failed(who, *everywhere) for who in "abc"), failed("d", "n7"))
    assert found == {"n1": "3 workloads failed on it: a, b, c", "n7": "4 workloads failed on it: a, b, c and 1 more"}


def test_a_quarantine_has_an_owner_a_reason_and_an_end() -> None:
    [action] = planned(*nodes(2), died()).actions
    assert action == Quarantine(node="n1", until=NOW + 100.0, owner="fleet", why="a rank of g died on it: SIGKILL")


def test_a_node_in_doubt_ends_nothing_and_takes_nothing() -> None:
    running, waiting = gang("g", on=["n1", "n2"]), gang("next")
    assert planned(away(29.9), node("n2"), running, waiting).actions == ()
    [end] = planned(away(30.0), node("n2"), running, waiting).actions
    assert isinstance(end, Lose)


def test_what_runs_on_a_node_in_quarantine_goes_on_and_nothing_new_comes() -> None:
    runs, waits = gang("runs", gpus=4, on=["n1"]), backfill("waits")
    chat = service(wanted=1, gpus=4, grants=[grant("g", node="s1")])
    parts = [node("n1"), node("s1", serving=True), runs, waits, chat, quarantined("n1"), quarantined("s1")]
    plan = planned(*parts)
    assert plan.actions == ()
    assert {one.workload for one in plan.waits} == {"waits"}


def test_nothing_is_placed_on_a_node_in_the_decision_that_keeps_it_out() -> None:
    plan = planned(node("n1"), died(), gang("next"))
    assert [type(action) for action in plan.actions] == [Quarantine]


def test_a_node_takes_work_again_in_the_decision_that_releases_it() -> None:
    plan = planned(node("n1"), quarantined("n1", until=NOW), gang("next"))
    assert [type(action) for action in plan.actions] == [Release, Admit]
    plan = planned(node("n1"), quarantined("n1", until=NOW, released_at=NOW), gang("next"))
    assert [type(action) for action in plan.actions] == [Admit]


def test_who_waits_is_told_which_nodes_are_kept_out() -> None:
    parts = [*nodes(2, at="s1/l1"), node("n3", at="s2/l1"), quarantined("n1"), quarantined("n2"), gang("g", nodes=2)]
    found = explain(state(*parts), policy(), NOW, "g")
    assert found.sentence.endswith("drainable there: nobody; quarantined there: n1, n2")
