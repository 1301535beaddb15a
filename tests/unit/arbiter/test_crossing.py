"""A node is asked to cross to another class: what is refused, and how it comes to be of that class."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet_app.arbiter import status
from fleet_app.arbiter.inbox import MoveBoundary, StayBoundary
from fleet_app.arbiter.notes import What
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.values import NodeClass
from fleet_app.policy.load import load_policy, to_engine
from tests.unit.arbiter.rig import POLICY, Rig, small
from tests.world import Behaviour

BOUNDARY = POLICY + "boundary: {serving: serving, training: research, most_nodes_a_week: 1}\n"
SERVING, TRAINING = NodeClass.SERVING, NodeClass.TRAINING


@pytest.fixture
def shared(rig: Rig, tmp_path: Path) -> Rig:
    """Return a fleet of one node for serving and two for training, whose policy lets one cross a week."""
    (tmp_path / "policy.yaml").write_text(BOUNDARY)
    return small(rig, serving=1, training=2)


def cross(*nodes: str, to: NodeClass = SERVING) -> MoveBoundary:
    return MoveBoundary(nodes=nodes, to=to, who="ada")


def classes(rig: Rig) -> dict[str, str]:
    snapshot = rig.reader().snapshot()
    rules = to_engine(load_policy(rig.home / "policy.yaml"))
    rows = status.nodes(snapshot, (), (), rules)
    return {str(row["name"]): f"{row['class']} {row['condition']} {row['becomes'] or ''}".strip() for row in rows}


def test_committed_work_moves_off_at_its_checkpoint_and_the_node_serves_then(shared: Rig) -> None:
    shared.world.behaviours["llm"] = Behaviour(steps=1000, ack_every=8)
    shared.submit("llm", kind="gang", gpus=4)
    shared.at(4.0, lambda: shared.post(cross("t1")))
    shared.run(8.0)
    assert classes(shared)["t1"] == "training cordoned serving"
    assert shared.phases() == {"llm": Phase.DRAINING}
    shared.drop()
    shared.run(20.0)
    assert classes(shared)["t1"] == "serving ready"
    record = shared.reader().record("llm")
    assert record is not None
    assert (record.workload.nodes, record.workload.phase) == (("t2",), Phase.RUNNING)
    assert shared.world.jobs["llm.2"].first == 8
    assert shared.world.count("kill") == 0
    shared.world.want("chat", 6)
    shared.run(25.0)
    assert {grant.node for grant in shared.reader().grants().values()} == {"s1", "t1"}
    assert [note["to"] for note in shared.notes(What.RELABELLED, "t1")] == ["serving"]


def test_nominal_goes_along_in_the_same_step(shared: Rig, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(BOUNDARY.replace("nominal: 64", "nominal: 8", 1).replace("64", "4", 1))
    shared.world.want("chat", 8)
    shared.run(3.0)
    assert len(shared.reader().grants()) == 4
    shared.post(cross("t1"))
    shared.run(6.0)
    assert len(shared.reader().grants()) == 8
    shared.submit("wide", kind="gang", nodes=1, gpus=4)
    shared.submit("more", kind="gang", nodes=1, gpus=4)
    shared.run(10.0)
    assert sorted(shared.phases().values()) == [Phase.QUEUED, Phase.RUNNING]


REFUSED = {
    "a node that is not there": (cross("nobody"), "no node of that name"),
    "a node that is of that class": (cross("s1"), "serving's already"),
    "more than may cross in a week": (cross("t1", "t2"), "0 nodes crossed within a week, and 1 may"),
}


@pytest.mark.parametrize(("asked", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(asked: MoveBoundary, why: str, shared: Rig) -> None:
    shared.post(asked)
    shared.run(1.0)
    assert why in str(shared.notes(What.REFUSED, asked.nodes[0])[0]["why"])
    assert set(classes(shared).values()) == {"serving ready", "training ready"}


def test_a_crossing_is_called_off_and_the_node_is_open_again(shared: Rig) -> None:
    """B6: also across a death; and another may cross in the same week."""
    shared.world.behaviours["llm"] = Behaviour(steps=1000, ack_every=500)
    shared.submit("llm", kind="gang", gpus=4)
    shared.at(4.0, lambda: shared.post(cross("t1")))
    shared.run(8.0)
    assert classes(shared)["t1"] == "training cordoned serving"
    shared.post(StayBoundary(nodes=("t1",), who="grace"))
    shared.run(10.0)
    shared.drop()
    shared.run(12.0)
    assert classes(shared)["t1"] == "training ready"
    assert shared.phases() == {"llm": Phase.DRAINING}
    (told,) = shared.notes(What.CROSSING_CALLED_OFF, "t1")
    assert (told["stays"], told["to"], told["who"]) == ("training", "serving", "grace")
    shared.post(cross("t2"))
    shared.run(16.0)
    assert classes(shared) == {"s1": "serving ready", "t1": "training ready", "t2": "serving ready"}


def test_what_cannot_be_called_off(shared: Rig) -> None:
    shared.post(StayBoundary(nodes=("t1",), who="grace"))
    shared.run(2.0)
    shared.post(cross("t1"))
    shared.run(6.0)
    shared.post(StayBoundary(nodes=("t1",), who="grace"))
    shared.run(8.0)
    why = [str(note["why"]) for note in shared.notes(What.REFUSED, "t1")]
    assert "no node of that name crosses" in why[0]
    assert "serving's already" in why[1]
    assert classes(shared)["t1"] == "serving ready"


def test_no_node_crosses_twice_in_a_week(shared: Rig, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(BOUNDARY.replace("a_week: 1", "a_week: 9"))
    shared.post(cross("t1"))
    shared.run(2.0)
    shared.post(cross("t1", to=TRAINING))
    shared.run(3.0)
    assert classes(shared)["t1"] == "serving ready"
    assert "crossed within a week" in str(shared.notes(What.REFUSED, "t1")[0]["why"])


def test_without_a_boundary_in_the_policy_nothing_crosses(rig: Rig) -> None:
    small(rig, training=1).post(cross("t1"))
    rig.run(1.0)
    assert "the policy says nothing of it" in str(rig.notes(What.REFUSED, "t1")[0]["why"])


def test_the_boundary_is_recommended_from_what_was_wanted(shared: Rig) -> None:
    shared.world.want("chat", 7)
    shared.run(130.0)
    snapshot, rows = shared.reader().snapshot(), list(shared.reader().wanted().items())
    found = status.boundary(snapshot, to_engine(load_policy(shared.home / "policy.yaml")), rows)
    plan = found["plan"]
    assert isinstance(plan, dict)
    assert (plan["peak_gpus"], plan["serving_gpus"], [step["node"] for step in plan["steps"]]) == (7, 4, ["t1"])
    assert status.boundary(None, to_engine(load_policy(shared.home / "policy.yaml")), rows)["plan"] is None
