"""B5, N3: who is asked to leave a node that crosses, and when it has its other class."""

from __future__ import annotations

import pytest

from fleet_app.engine import relabelling
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Drain, Move, Relabel
from fleet_app.engine.values import Condition, Crossing, Node, NodeClass
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, crossing, gang, grant, node, policy, service, state

N1 = node("n1", condition=Condition.CORDONED)
V1 = node("v1", serving=True, condition=Condition.CORDONED)

CROSSINGS: dict[str, tuple[Crossing, list[Node | Workload | Service], list[str]]] = {
    "an empty node has its class at once": (crossing("n1"), [N1], ["n1 serving"]),
    "backfill may stay": (crossing("n1"), [N1, backfill(on=["n1"])], ["n1 serving"]),
    "committed work is asked to move": (crossing("n1"), [N1, gang(on=["n1"], movable=True)], ["move gang"]),
    "once": (crossing("n1"), [N1, gang(on=["n1"], movable=True, phase=Phase.DRAINING)], []),
    "who cannot be asked is waited for": (crossing("n1"), [N1, gang(on=["n1"])], []),
    "who is leaving is waited for": (
        crossing("n1"),
        [N1, gang(on=["n1"], movable=True, phase=Phase.STOPPING)],
        [],
    ),
    "a replica is waited for": (
        crossing("v1", to=NodeClass.TRAINING),
        [V1, service(on=["v1"])],
        [],
    ),
    "an idle grant until it was taken back": (
        crossing("v1", to=NodeClass.TRAINING),
        [V1, service(grants=[grant(node="v1", occupied=False)])],
        [],
    ),
    "without any the node is training's": (crossing("v1", to=NodeClass.TRAINING), [V1, service()], ["v1 training"]),
    "a node that is lost stays what it was": (crossing("n1"), [node("n1", condition=Condition.DOWN)], []),
    "one that is not there too": (crossing("n1"), [node("n2")], []),
    "one that has crossed is left alone": (crossing("n1", moved_at=5.0), [N1, gang(on=["n1"], movable=True)], []),
    "of a pool's node backfill has to leave": (
        crossing("n1", machine="m1"),
        [N1, backfill(on=["n1"])],
        ["drain backfill"],
    ),
    "and is waited for": (
        crossing("n1", machine="m1"),
        [N1, backfill(on=["n1"], phase=Phase.DRAINING, deadline_at=50.0)],
        [],
    ),
    "and committed work, whichever way it goes": (
        crossing("v1", to=NodeClass.TRAINING, machine="m1"),
        [V1, gang(on=["v1"], movable=True)],
        ["move gang"],
    ),
    "an empty one has its class at once too": (crossing("n1", machine="m1"), [N1], ["n1 serving"]),
    "of one that was made anew nobody is asked": (
        crossing("n1", machine="m1", moved_at=5.0),
        [N1, backfill(on=["n1"])],
        [],
    ),
}


@pytest.mark.parametrize(("asked", "parts", "want"), CROSSINGS.values(), ids=CROSSINGS)
def test_a_crossing(asked: Crossing, parts: list[Node | Workload | Service], want: list[str]) -> None:
    ledger = Ledger(state(*parts, asked), policy(), 10.0)
    assert list(map(said, relabelling.step(ledger, [asked]))) == want


def test_one_that_has_crossed_keeps_no_other_from_it() -> None:
    asked = [crossing("n0", moved_at=5.0), crossing("n1"), crossing("n2", moved_at=5.0)]
    ledger = Ledger(state(node("n0", serving=True), N1, node("n2", serving=True)), policy(), 10.0)
    assert list(map(said, relabelling.step(ledger, asked))) == ["n1 serving"]


def test_a_gang_on_two_nodes_that_cross_is_asked_once() -> None:
    asked = [crossing("n1"), crossing("n2")]
    ledger = Ledger(state(N1, node("n2"), gang(on=["n1", "n2"], movable=True)), policy(), 10.0)
    assert list(map(said, relabelling.step(ledger, asked))) == ["move gang"]


def said(action: Drain | Move | Relabel) -> str:
    if isinstance(action, Drain | Move):
        assert action.beneficiary == "the class boundary"
        return f"{'move' if isinstance(action, Move) else 'drain'} {action.workload}"
    return f"{action.node} {action.node_class}"
