"""The arbiter on a small cluster in memory: nodes that fail, what runs on them, and who keeps them out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.arbiter.inbox import Quarantine, Release
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.ports import ClusterView, Death
from fleet_app.engine.lifecycle import Phase
from tests.fakes import FakeCluster
from tests.unit.arbiter.rig import LONG, Rig, small
from tests.world import Behaviour


def kept_out(rig: Rig) -> dict[str, str]:
    """Return the nodes that are quarantined now, and why."""
    snapshot = rig.reader().snapshot()
    assert snapshot is not None
    return {told.node: told.reason for told in snapshot.state.quarantines if told.released_at is None}


def nodes_of(rig: Rig, name: str) -> tuple[str, ...]:
    return rig.reader().records()[name].workload.nodes


def test_a_node_that_was_lost_with_a_gang_on_it_is_kept_out_when_it_is_back(rig: Rig) -> None:
    small(rig, serving=0, training=3).world.behaviours["llm"] = LONG
    rig.submit("llm", kind="gang", nodes=2, gpus=4)
    rig.run(6.0)
    lost = nodes_of(rig, "llm")[0]
    rig.world.lose_node(lost)
    rig.run(20.0)
    assert rig.phases() == {"llm": Phase.RUNNING}
    assert kept_out(rig) == {}
    rig.run(50.0)
    assert kept_out(rig) == {lost: "it was lost with llm on it"}
    rig.world.add_node(lost)
    rig.submit("next", gpus=4)
    rig.run(55.0)
    assert rig.phases()["next"] is Phase.QUEUED
    rig.post(Release(node=lost, who="ada"))
    rig.run(60.0)
    assert rig.phases()["next"] is Phase.RUNNING
    assert [note["owner"] for note in rig.notes(What.RELEASED, lost)] == ["ada"]
    assert kept_out(rig) == {}


def test_a_node_that_is_soon_back_is_not_kept_out(rig: Rig) -> None:
    small(rig, serving=0, training=1).world.behaviours["llm"] = LONG
    rig.submit("llm", kind="gang", gpus=4)
    rig.run(6.0)
    rig.world.lose_node("t1")
    rig.run(16.0)
    rig.world.add_node("t1")
    rig.run(60.0)
    assert (rig.phases(), nodes_of(rig, "llm")) == ({"llm": Phase.RUNNING}, ("t1",))
    assert rig.notes(What.QUARANTINED) == []


def test_a_node_that_is_not_seen_for_a_moment_changes_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    observe = FakeCluster.observe

    def partly(self: FakeCluster) -> ClusterView:
        view = observe(self)
        return replace(view, nodes=tuple(node for node in view.nodes if node.labels["fleet/node"] != "t1"))

    small(rig, serving=0, training=2).world.behaviours["llm"] = LONG
    rig.submit("llm", kind="gang", nodes=2, gpus=4)
    rig.run(6.0)
    before = len(rig.reader().events())
    monkeypatch.setattr(FakeCluster, "observe", partly)
    rig.run(30.0)
    monkeypatch.setattr(FakeCluster, "observe", observe)
    rig.run(80.0)
    assert rig.reader().records()["llm"].workload.attempt == 1
    assert len(rig.reader().events()) == before
    monkeypatch.setattr(FakeCluster, "observe", partly)
    rig.run(125.0)
    assert kept_out(rig) == {"t1": "it was lost with llm on it"}
    assert rig.phases() == {"llm": Phase.QUEUED}


def test_a_gang_whose_rank_died_starts_again_first_in_its_class_and_without_that_node(rig: Rig) -> None:
    small(rig, serving=0, training=3).world.behaviours["llm"] = Behaviour(steps=20, fails_at=3)
    rig.submit("llm", kind="gang", nodes=2, gpus=4)
    rig.run(1.5)
    bad = nodes_of(rig, "llm")[1]
    rig.world.deaths["llm"] = Death(node_id=rig.world.node(bad).node_id, why="SIGKILL")
    rig.submit("later", kind="gang", nodes=2, gpus=4)
    rig.at(3.0, lambda: rig.world.behaviours.update(llm=Behaviour(steps=20)))
    rig.run(15.0)
    record = rig.reader().records()["llm"]
    assert (record.workload.phase, record.workload.attempt, record.restarts) == (Phase.RUNNING, 2, 0)
    assert rig.world.jobs["llm.2"].first == 2  # from the checkpoint that it acknowledged
    assert bad not in record.workload.nodes
    assert kept_out(rig) == {bad: "a rank of llm died on it: SIGKILL"}
    assert rig.phases()["later"] is Phase.QUEUED
    rig.drop()  # and a new arbiter knows it all
    rig.run(16.0)
    assert list(kept_out(rig)) == [bad]


def test_gangs_that_are_half_back_let_go_rather_than_wait_for_each_other(rig: Rig) -> None:
    small(rig, serving=0, training=4)
    for name in ("one", "two"):
        rig.world.behaviours[name] = LONG
        rig.submit(name, kind="gang", nodes=2, gpus=4)
    rig.run(4.0)
    for name in ("one", "two"):
        rig.world.lose_node(nodes_of(rig, name)[0])
    rig.run(20.0)
    assert sorted(rig.phases().items()) == [("one", Phase.RUNNING), ("two", Phase.QUEUED)]
    standing = [group.name for group in rig.world.groups.values() if group.gone_at is None]
    assert standing == ["fleet/w/one.2"]


def test_three_gangs_that_fail_on_a_node_keep_it_out(rig: Rig) -> None:
    small(rig, serving=0, training=1)
    for name in "abc":
        rig.world.behaviours[name] = Behaviour(steps=9, fails_at=1)
        rig.submit(name, kind="gang", gpus=1)
    rig.run(6.0)
    assert kept_out(rig) == {"t1": "3 workloads failed on it: a, b, c"}


def test_a_person_keeps_a_node_out_and_it_comes_back_by_itself(rig: Rig) -> None:
    small(rig).world.behaviours["a"] = LONG
    rig.submit("a", gpus=2)
    rig.run(3.0)
    rig.post(Quarantine(node="s1", reason="fan noise", for_s=10.0, who="ada"))
    rig.submit("b", gpus=1)
    rig.run(8.0)
    assert rig.phases() == {"a": Phase.RUNNING, "b": Phase.QUEUED}
    assert kept_out(rig) == {"s1": "fan noise"}
    rig.run(20.0)
    assert rig.phases() == {"a": Phase.RUNNING, "b": Phase.RUNNING}
    [note] = rig.notes(What.RELEASED, "s1")
    assert note["why"] == "its quarantine is over"


REFUSED = {
    "a node that nobody knows": (Quarantine(node="n9", reason="x", who="ada"), "n9: no node of that name"),
    "a release of what is not kept out": (Release(node="s1", who="ada"), "s1: it is not quarantined"),
}


@pytest.mark.parametrize(("request_", "want"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(rig: Rig, request_: Quarantine | Release, want: str) -> None:
    small(rig).post(request_)
    rig.run(2.0)
    [note] = rig.notes(What.REFUSED, request_.node)
    assert str(note["why"]).startswith(want)
