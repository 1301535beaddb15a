"""The arbiter on a small cluster in memory: what the world does to it, and what it costs when nothing happens."""

from __future__ import annotations

import pytest

from fleet_app.arbiter.inbox import Drain, SetPolicy
from fleet_app.arbiter.notes import What
from fleet_app.engine.errors import FaultError
from fleet_app.engine.lifecycle import Phase
from tests.fakes import FakeCluster, FakeJobs
from tests.unit.arbiter.rig import LONG, POLICY, Rig, filled, small
from tests.world import Behaviour

# The world.


def test_gpus_that_somebody_else_uses_are_seen_named_and_not_given(rig: Rig) -> None:
    small(rig).world.use("s1", 3)
    rig.world.node("s1").foreign_at -= 1.0
    rig.submit("a", gpus=2)
    rig.run(3.0)
    assert rig.phases() == {"a": Phase.QUEUED}
    snapshot = rig.reader().snapshot()
    assert snapshot is not None
    (node,) = snapshot.state.nodes
    assert (node.foreign.gpus, node.foreign_owners) == (3, ("actor Somebody",))
    rig.world.use("s1", 0)
    rig.run(6.0)
    assert rig.phases() == {"a": Phase.RUNNING}


def test_an_admission_that_a_stranger_forestalled_is_taken_back(rig: Rig) -> None:
    small(rig)
    rig.run(2.0)
    rig.world.use("s1", 4)
    rig.submit("a", gpus=2)
    rig.run(20.0)
    assert len(rig.notes(What.WITHDRAWN, "a")) == 1
    assert rig.phases() == {"a": Phase.QUEUED}
    assert rig.world.jobs == {}


def test_a_gang_that_lost_a_node_starts_again_elsewhere_from_its_checkpoint(rig: Rig) -> None:
    small(rig, serving=0, training=3).world.behaviours["llm"] = LONG
    rig.submit("llm", kind="gang", nodes=2, gpus=4)
    rig.run(6.0)
    lost = rig.reader().records()["llm"].workload.nodes[0]
    rig.world.lose_node(lost)
    rig.run(12.0)
    workload = rig.reader().records()["llm"].workload
    assert (workload.phase, workload.attempt, workload.broken_drains) == (Phase.RUNNING, 2, 0)
    assert lost not in workload.nodes


def test_groups_of_the_fleet_that_nobody_owns_are_removed(rig: Rig) -> None:
    small(rig)
    cluster, node_id = rig.loop()._ports.cluster, rig.world.node("s1").node_id
    for name in ("fleet/w/ghost", "fleet/h/s1/ghost#1"):
        assert cluster.create_group(name, ((node_id, rig.world.nodes[node_id].total - rig.world.used(node_id)),), 1.0)
        rig.run(rig.world.now - rig.began + 1.0)
        assert all(group.gone_at is not None for group in rig.world.groups.values())


def test_what_a_job_acknowledged_with_its_last_breath_is_not_lost(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    observe = FakeJobs.observe

    def slow(self: FakeJobs) -> object:
        rig.world.now += 0.35  # it acknowledges, goes, and is over for Ray, all while Ray is being asked
        return observe(self)

    small(rig).world.behaviours["b"] = Behaviour(steps=1000, ack_every=100, said_in_s=0.0)
    rig.submit("b", gpus=2, notice="library")
    rig.run(5.2)
    monkeypatch.setattr(FakeJobs, "observe", slow)
    rig.post(Drain(name="b"))
    rig.run(12.0)
    assert list(rig.world.jobs) == ["b", "b.2"]
    assert rig.world.jobs["b.2"].first == rig.world.jobs["b"].step(rig.world.now) > 0


def test_what_outlives_its_job_is_killed_after_a_while(rig: Rig) -> None:
    small(rig).world.behaviours["a"] = Behaviour(steps=1, leaves_behind_s=1e6)
    rig.submit("a", gpus=4)
    rig.run(8.0)
    assert rig.phases() == {"a": Phase.RUNNING}
    rig.run(20.0)
    assert rig.phases() == {"a": Phase.SUCCEEDED}


def test_a_port_that_fails_is_noted_and_tried_again_and_stops_nothing_else(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = FakeCluster.create_group
    failures = 0

    def flaky(self: FakeCluster, name: str, *rest: object) -> str | None:
        nonlocal failures
        if name == "fleet/w/a" and failures < 5:
            failures += 1
            raise FaultError("the GCS is away")
        return create(self, name, *rest)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(FakeCluster, "create_group", flaky)
    small(rig).submit("a", gpus=1)
    rig.submit("b", gpus=1)
    rig.run(2.0)
    assert rig.phases()["b"] is Phase.RUNNING
    rig.run(8.0)
    assert rig.phases()["a"] is Phase.RUNNING
    assert [note["times"] for note in rig.notes(What.FAULT)] == [1, 2, 4]


def test_a_cluster_that_cannot_be_seen_changes_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(rig)
    observe = FakeCluster.observe

    def blind(self: FakeCluster) -> object:
        raise FaultError("the GCS is away")

    monkeypatch.setattr(FakeCluster, "observe", blind)
    rig.run(8.0)
    monkeypatch.setattr(FakeCluster, "observe", observe)
    rig.run(15.0)
    assert rig.phases() == {"b1": Phase.RUNNING, "b2": Phase.RUNNING}
    assert list(rig.world.jobs) == ["b1", "b2"]


def test_a_submission_that_got_through_late_is_not_run_twice(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = FakeJobs.submit

    def slow(self: FakeJobs, request: object) -> None:
        if len(rig.world.jobs) == 0:
            submit(self, request)  # type: ignore[arg-type]  # passed on
            raise FaultError("it timed out")
        submit(self, request)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(FakeJobs, "submit", slow)
    small(rig).submit("a", gpus=1)
    rig.run(4.0)
    assert (rig.phases(), list(rig.world.jobs)) == ({"a": Phase.RUNNING}, ["a"])


def test_serving_goes_on_while_the_job_server_is_away(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: FakeJobs) -> object:
        raise FaultError("the dashboard is away")

    filled(rig, count=1)
    with monkeypatch.context() as patched:
        patched.setattr(FakeJobs, "observe", away)
        rig.world.want("chat", 1, gpus=2)
        rig.run(6.0)
        assert len(rig.world.adopted) == 1
        assert rig.phases() == {"b1": Phase.RUNNING}
    rig.run(10.0)
    assert rig.phases() == {"b1": Phase.RUNNING}
    assert list(rig.world.jobs) == ["b1"]


def test_a_gang_that_failed_may_have_lost_a_node_that_ray_does_not_miss_yet(rig: Rig) -> None:
    small(rig, serving=0, training=3).world.behaviours["llm"] = Behaviour(steps=1000, fails_at=3, said_in_s=0.1)
    rig.submit("llm", kind="gang", nodes=2, gpus=4)
    rig.run(8.0)
    assert rig.phases() == {"llm": Phase.RUNNING}
    rig.world.behaviours["llm"] = LONG
    rig.world.lose_node(rig.reader().records()["llm"].workload.nodes[1])
    rig.run(14.0)
    assert rig.phases() == {"llm": Phase.RUNNING}
    assert list(rig.world.jobs) == ["llm", "llm.2"]


def test_a_gang_that_failed_on_living_nodes_has_failed(rig: Rig) -> None:
    small(rig, serving=0, training=2).world.behaviours["llm"] = Behaviour(fails_at=3)
    rig.submit("llm", kind="gang", nodes=2, gpus=4)
    rig.run(30.0)
    assert rig.phases() == {"llm": Phase.FAILED}


# The policy.


def test_another_policy_is_in_force_at_once_and_says_what_it_changed(rig: Rig) -> None:
    small(rig)
    rig.post(
        SetPolicy(
            text=POLICY.replace("research: {nominal: 64}", "research: {nominal: 0}\n      lab: {nominal: 8}"), who="me"
        )
    )
    rig.submit("a", team="lab", gpus=1)
    rig.run(3.0)
    assert rig.phases() == {"a": Phase.RUNNING}
    (note,) = rig.notes(What.POLICY)
    assert note["who"] == "me"
    assert "organisations.org.teams.research.nominal" in {change["path"] for change in note["changes"]}  # type: ignore[attr-defined]  # a list
    rig.drop()
    rig.submit("b", team="lab", gpus=1)
    rig.run(6.0)
    assert rig.phases()["b"] is Phase.RUNNING


def test_a_policy_that_is_none_changes_nothing(rig: Rig) -> None:
    small(rig).post(SetPolicy(text="version: 99", who="me"))
    rig.run(1.0)
    assert len(rig.notes(What.REFUSED)) == 1
    assert (rig.home / "policy.yaml").read_text() == POLICY


# The cost of doing nothing.


def test_an_idle_fleet_is_looked_at_once_a_second_and_nothing_is_written(rig: Rig) -> None:
    small(rig, serving=2, training=2)
    rig.run(2.0)
    effects, cycles = len(rig.effects), rig.cycles
    written = (rig.home / "journal.db-wal").stat().st_size
    rig.run(12.0)
    assert (len(rig.effects), (rig.home / "journal.db-wal").stat().st_size) == (effects, written)
    assert rig.cycles - cycles <= 11


def test_processes_are_only_looked_for_when_something_ends(rig: Rig) -> None:
    filled(rig)
    rig.run(10.0)
    jobs = rig.loop()._ports.jobs
    assert jobs._inner.counted == 0  # type: ignore[attr-defined]  # behind the crashing one
    rig.post(Drain(name="b1"))
    rig.run(12.0)
    assert jobs._inner.counted > 0  # type: ignore[attr-defined]  # as above
