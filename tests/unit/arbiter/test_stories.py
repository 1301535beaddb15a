"""The arbiter on a small cluster in memory: what users, Serve and operators see."""

from __future__ import annotations

import json

import pytest

from fleet_app.arbiter import status
from fleet_app.arbiter.inbox import Cancel, Drain, Forget, Move, Pause, Quarantine, Resume, Submit
from fleet_app.arbiter.notes import What
from fleet_app.engine.errors import RequestError
from fleet_app.engine.lifecycle import Phase
from tests.builders import policy, used
from tests.fakes import FakeJobs
from tests.unit.arbiter.rig import LONG, POLICY, Rig, filled, small
from tests.world import LAG_S, Behaviour

# Submitting.


def test_a_gang_gets_one_group_of_exact_nodes_and_its_job_everything_it_needs(rig: Rig) -> None:
    small(rig, training=2).submit("llm", kind="gang", nodes=2, gpus=4, cpus=8)
    rig.run(3.0)
    (group,) = rig.world.groups.values()
    assert group.name == "fleet/w/llm"
    assert [rig.world.nodes[node_id].labels["fleet/node"] for node_id, _ in group.bundles] == ["t1", "t2"]
    request = rig.world.jobs["llm"].request
    want = {
        "FLEET_ATTEMPT": "llm",
        "FLEET_GROUP_ID": group.group_id,
        "FLEET_NODES": '["t1", "t2"]',
        "FLEET_GRACE_S": "5",
    }
    assert want.items() <= request.environment.items()
    assert "FLEET_RESUME_STEP" not in request.environment
    assert request.driver_node_id == group.bundles[0][0]


def test_a_gang_of_several_shapes_gets_one_group_with_a_bundle_for_each_rank(rig: Rig) -> None:
    small(rig, training=3)
    groups = {"ps": {"gpus": 0, "cpus": 16}, "actors": {"nodes": 2, "gpus": 4}}
    spec = {"name": "both", "team": "research", "kind": "gang", "groups": groups}
    rig.post(Submit(spec=spec, entrypoint="python both.py", at=rig.world.now))
    rig.run(3.0)
    (group,) = rig.world.groups.values()
    held = [(rig.world.nodes[node_id].labels["fleet/node"], shape.gpus) for node_id, shape in group.bundles]
    assert held == [("t3", 0), ("t1", 4), ("t2", 4)]
    told = rig.world.jobs["both"].request.environment
    assert json.loads(told["FLEET_GROUPS"]) == [
        {"name": "ps", "ranks": 1, "gpus": 0, "cpu_milli": 16_000},
        {"name": "actors", "ranks": 2, "gpus": 4, "cpu_milli": 1000},
    ]
    assert rig.phases() == {"both": Phase.RUNNING}
    record = rig.reader().records()["both"]
    (row,) = status.workloads([record], None, policy())
    assert [(each["name"], each["bundles"], each["gpus"]) for each in row["groups"]] == [("ps", 1, 0), ("actors", 2, 4)]
    rig.drop()
    rig.run(2.0)
    assert rig.phases() == {"both": Phase.RUNNING}


REFUSED = {
    "an unknown team": {"name": "a", "team": "nobody"},
    "an unknown priority": {"name": "a", "priority": "royal"},
    "negative GPUs": {"name": "a", "gpus": -1},
    "far too many GPUs": {"name": "a", "gpus": 2**62},
    "a grace above the policy's longest": {"name": "a", "grace": "1h"},
}


@pytest.mark.parametrize("spec", REFUSED.values(), ids=REFUSED)
def test_what_the_policy_refuses_has_failed_and_says_why(spec: dict[str, object], rig: Rig) -> None:
    small(rig).submit(**{"name": "a", **spec})  # type: ignore[arg-type]  # a test's keywords
    rig.run(1.0)
    record = rig.reader().record("a")
    assert record is not None
    assert (record.workload.phase, bool(record.message)) == (Phase.FAILED, True)
    assert len(rig.notes(What.REFUSED, "a")) == 1


@pytest.mark.parametrize("name", ["../etc", "", "a" * 64, "a b", "job.2", 7, None, ["x"]])
def test_a_name_that_cannot_be_is_refused_and_leaves_no_workload(name: object, rig: Rig) -> None:
    small(rig).post(Submit(spec={"name": name, "team": "research"}, entrypoint="true", at=1.0))
    rig.run(1.0)
    assert len(rig.notes(What.REFUSED)) == 1
    assert all(record.workload.phase is Phase.FAILED for record in rig.reader().records().values())


def test_a_name_that_is_taken_is_refused_and_the_one_that_has_it_goes_on(rig: Rig) -> None:
    small(rig).submit("a", gpus=1)
    rig.submit("a", gpus=4)
    rig.run(3.0)
    assert rig.phases() == {"a": Phase.RUNNING}
    assert "exists already" in str(rig.notes(What.REFUSED, "a")[0]["why"])


def test_a_file_that_is_no_request_is_put_aside_and_reported(rig: Rig) -> None:
    small(rig).submit("a", gpus=1)
    (rig.home / "inbox" / "000000000000-x.json").write_text("{")
    rig.run(3.0)
    assert rig.phases() == {"a": Phase.RUNNING}
    assert len(rig.notes(What.REFUSED, "arbiter")) == 1
    assert [path.name for path in (rig.home / "inbox").iterdir()] == ["refused"]


def test_a_job_that_ray_will_never_take_has_failed_and_its_gpus_are_free(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FakeJobs, request: object) -> None:
        raise RequestError("no such package")

    monkeypatch.setattr(FakeJobs, "submit", refuse)
    small(rig).submit("a", gpus=1)
    rig.run(2.0)
    record = rig.reader().record("a")
    assert record is not None
    assert (record.workload.phase, record.message) == (Phase.FAILED, "no such package")
    assert all(group.gone_at is not None for group in rig.world.groups.values())


# Serving.


def test_a_drained_jobs_gpus_are_granted_as_soon_as_ray_shows_them_free(rig: Rig) -> None:
    filled(rig).at(4.0, lambda: rig.world.want("chat", 1, gpus=2))
    rig.run(8.0)
    (freed,) = rig.notes(What.REQUEUED)
    (ready,) = rig.notes(What.GRANT_READY)
    assert float(str(ready["at"])) - float(str(freed["at"])) < LAG_S + 0.05
    assert [rig.phases()[name] for name in ("b1", "b2")].count(Phase.RUNNING) == 1


def test_a_replica_that_died_leaves_its_gpus_to_its_successor(rig: Rig) -> None:
    filled(rig, count=1).at(4.0, lambda: rig.world.want("chat", 1, gpus=2))
    rig.run(6.0)
    (group_id,) = rig.world.adopted
    rig.world.leave(group_id)
    rig.submit("greedy", gpus=2)
    rig.run(10.0)
    assert set(rig.world.adopted) == {group_id}
    assert rig.phases()["greedy"] is Phase.QUEUED


def test_a_replica_that_took_its_grant_back_keeps_it(rig: Rig) -> None:
    """Serve claims a grant in the very moment in which the arbiter wants it back: the first one has it."""
    filled(rig, count=1).at(4.0, lambda: rig.world.want("chat", 1, gpus=2))
    rig.run(6.0)
    (group_id,) = rig.world.adopted
    rig.world.want("chat", 0, gpus=2)
    rig.world.leave(group_id)
    wait = rig.loop().cycle()  # sees it idle, and removes it
    assert wait < 0.1
    assert rig.world.groups[group_id].gone_at is not None
    assert rig.world.adopted == {group_id: ""}
    rig.run(8.0)
    assert rig.world.adopted == {}


def test_groups_that_serve_made_and_holds_that_it_took_while_no_arbiter_ran_are_its_grants(rig: Rig) -> None:
    small(rig)
    rig.run(1.0)
    rig.drop()
    rig.world.want("chat", 2, gpus=1)
    cluster = rig.loop()._ports.cluster
    node_id = rig.world.node("s1").node_id
    one = (node_id, rig.world.demands["chat"].shape)
    made = cluster.create_group("fleet/g/chat/serve-1", (one,), 1.0)
    held = cluster.create_group("fleet/h/s1/immediate headroom#1", (one,), 1.0)
    assert made
    assert held
    assert rig.world.enter(made, "chat")
    assert rig.world.enter(held, "chat")
    rig.run(3.0)
    assert set(rig.world.adopted) == {made, held}
    assert {(grant.service, grant.occupied) for grant in rig.reader().grants().values()} == {("chat", True)}
    assert rig.world.grants["chat"] == (2, ())


def test_a_service_that_fell_silent_gives_its_idle_grants_back(rig: Rig) -> None:
    small(rig).world.want("chat", 1, gpus=2)
    rig.run(2.0)
    rig.world.demands["silent"] = rig.world.demands.pop("chat")
    demand = rig.world.demands.pop("silent")
    rig.world.adopted.clear()
    rig.world.adopted_for.clear()
    assert demand.service == "chat"
    rig.run(70.0)
    assert rig.reader().grants() == {}
    assert rig.reader().demands() == {}


@pytest.mark.parametrize(("gpus", "wanted"), [(0, 1), (-1, 1), (1, -1), (1, 10**9)])
def test_a_demand_that_cannot_be_meant_is_left_out(gpus: int, wanted: int, rig: Rig) -> None:
    small(rig).world.want("chat", wanted, gpus=gpus)
    rig.run(2.0)
    assert rig.reader().demands() == {}


def test_after_a_redeployment_idle_grants_of_the_old_shape_go(rig: Rig) -> None:
    small(rig).world.want("chat", 1, gpus=1)
    rig.run(2.0)
    (group_id,) = rig.world.adopted
    rig.world.want("chat", 1, gpus=2)
    rig.run(3.0)
    assert rig.world.groups[group_id].gone_at is None
    rig.world.leave(group_id)
    rig.run(5.0)
    assert rig.world.groups[group_id].gone_at is not None
    assert [grant.shape.gpus for grant in rig.reader().grants().values()] == [2]


def test_nobody_is_admitted_where_others_are_while_a_group_beside_them_is_new(rig: Rig) -> None:
    """Ray counts a group late: what it holds is not taken out of what is somebody else's."""
    small(rig).world.use("s1", 2)
    rig.world.behaviours["a"] = LONG
    rig.run(3.0)
    rig.submit("a", gpus=1)
    rig.submit("b", gpus=2)
    rig.run(8.0)
    assert rig.phases() == {"a": Phase.RUNNING, "b": Phase.QUEUED}
    assert (rig.notes(What.ADMITTED, "b"), rig.notes(What.FAULT)) == ([], [])


# Draining, cancelling, forgetting.


def test_a_drain_on_request_checkpoints_and_resumes(rig: Rig) -> None:
    filled(rig, count=1).post(Drain(name="b1"))
    rig.run(8.0)
    assert list(rig.world.jobs) == ["b1", "b1.2"]
    assert rig.world.jobs["b1.2"].first == rig.world.jobs["b1"].ack(rig.world.now)[0]  # type: ignore[index]  # it did
    assert rig.world.notices == {}


def test_a_drain_gets_no_more_grace_than_the_policys_longest(rig: Rig) -> None:
    filled(rig, count=1).post(Drain(name="b1", grace_s=1e9))
    rig.run(3.5)
    (note,) = rig.notes(What.DRAINING)
    assert float(str(note["deadline_at"])) <= rig.world.now + 60.0


# Moving.


def moving(rig: Rig, **spec: object) -> Rig:
    """Ask a gang that saves its work every 8 s to move, at 5 s; its first checkpoint is due at 10 s."""
    small(rig, training=2).world.behaviours["llm"] = Behaviour(steps=1000, ack_every=8)
    rig.submit("llm", kind="gang", gpus=4, **spec)
    rig.at(5.0, lambda: rig.post(Move(name="llm")))
    return rig


def test_a_move_waits_for_the_next_checkpoint_and_goes_on_from_there_first_in_the_queue(rig: Rig) -> None:
    moving(rig).run(8.0)
    record = rig.reader().record("llm")
    assert record is not None
    assert (record.workload.phase, record.workload.deadline_at) == (Phase.DRAINING, None)
    assert rig.world.notices == {"llm": None}
    rig.at(8.0, lambda: rig.post(Quarantine(node=record.workload.nodes[0], reason="x", who="ada")))
    rig.run(14.0)
    assert list(rig.world.jobs) == ["llm", "llm.2"]
    assert rig.world.jobs["llm.2"].first == 8
    after = rig.reader().record("llm")
    assert after is not None
    assert (after.workload.requeued, after.workload.broken_drains) == (True, 0)
    assert after.workload.nodes != record.workload.nodes
    assert rig.world.count("kill") == rig.world.count("stop") == 0


def test_a_move_survives_the_arbiter_and_is_told_once(rig: Rig) -> None:
    moving(rig)
    rig.at(6.0, rig.drop)
    rig.run(14.0)
    assert rig.phases() == {"llm": Phase.RUNNING}
    assert (rig.world.count("move", "llm"), len(rig.notes(What.MOVING))) == (1, 1)


def test_who_does_not_come_to_a_checkpoint_is_never_killed(rig: Rig) -> None:
    moving(rig).world.behaviours["llm"] = Behaviour(steps=10_000, yields_in_s=None)
    rig.run(1000.0)
    assert rig.phases() == {"llm": Phase.DRAINING}
    assert rig.cycles < 2000, "it is not looked for all the time"


def test_a_drain_gives_a_move_a_deadline(rig: Rig) -> None:
    moving(rig).world.behaviours["llm"] = Behaviour(steps=1000, yields_in_s=None)
    rig.at(7.0, lambda: rig.post(Drain(name="llm", grace_s=3.0)))
    rig.run(9.0)
    assert rig.world.notices == {"llm": rig.notes(What.DRAINING)[0]["deadline_at"]}
    rig.run(12.0)
    assert rig.world.count("kill") == 1


def test_one_that_was_asked_to_move_may_come_to_its_own_end(rig: Rig) -> None:
    moving(rig).world.behaviours["llm"] = Behaviour(steps=8, ack_every=20)
    rig.run(14.0)
    assert rig.phases() == {"llm": Phase.SUCCEEDED}


def test_one_that_was_asked_to_move_and_fails_has_failed(rig: Rig) -> None:
    moving(rig).world.behaviours["llm"] = Behaviour(steps=1000, ack_every=20, fails_at=6)
    rig.run(40.0)
    assert rig.phases() == {"llm": Phase.FAILED}


def test_whoever_is_told_by_a_signal_cannot_be_moved(rig: Rig) -> None:
    moving(rig, notice="signal").run(7.0)
    assert rig.phases() == {"llm": Phase.RUNNING}
    assert "told to leave by a signal" in str(rig.notes(What.REFUSED, "llm")[0]["why"])


NOT_NOW = {
    "move what waits": ("w", Move(name="w")),
    "move nobody": ("nobody", Move(name="nobody")),
    "drain what waits": ("w", Drain(name="w")),
    "forget what waits": ("w", Forget(name="w")),
    "cancel nobody": ("nobody", Cancel(name="nobody")),
    "drain nobody": ("nobody", Drain(name="nobody")),
}


@pytest.mark.parametrize(("name", "request_"), NOT_NOW.values(), ids=NOT_NOW)
def test_what_cannot_be_done_now_is_refused(name: str, request_: Drain | Forget | Cancel | Move, rig: Rig) -> None:
    filled(rig).submit("w", gpus=4, notice="library")
    rig.run(4.0)
    rig.post(request_)
    rig.run(6.0)
    assert len(rig.notes(What.REFUSED, name)) == 1


def test_a_cancel_is_a_signal_at_once_and_a_kill_at_the_deadline(rig: Rig) -> None:
    small(rig).world.behaviours["deaf"] = Behaviour(steps=1000, yields_in_s=None)
    rig.submit("deaf", gpus=1, grace="4s")
    rig.run(3.0)
    rig.post(Cancel(name="deaf"))
    rig.run(6.0)
    assert rig.phases() == {"deaf": Phase.STOPPING}
    rig.run(8.5)
    assert rig.phases() == {"deaf": Phase.STOPPED}


def test_a_kill_takes_the_group_along_whatever_holds_on_to_it(rig: Rig) -> None:
    small(rig).world.behaviours["deaf"] = Behaviour(steps=1000, yields_in_s=None)
    rig.submit("deaf", gpus=1)
    rig.run(3.0)
    rig.post(Drain(name="deaf", grace_s=2.0))
    rig.run(7.0)
    moments = {kind: at for at, kind, _ in rig.world.log if kind in {"kill", "remove"}}
    assert moments["remove"] == moments["kill"]


def test_a_cancel_gives_a_draining_job_no_more_time(rig: Rig) -> None:
    small(rig).world.behaviours["deaf"] = Behaviour(steps=1000, yields_in_s=None)
    rig.submit("deaf", gpus=1, grace="60s")
    rig.run(3.0)
    rig.post(Drain(name="deaf", grace_s=2.0))
    rig.at(4.0, lambda: rig.post(Cancel(name="deaf")))
    rig.run(7.0)
    assert rig.phases() == {"deaf": Phase.STOPPED}


@pytest.mark.parametrize("notice", ["library", "signal"])
def test_when_its_run_time_is_over_a_job_saves_its_work_and_ends_for_good(rig: Rig, notice: str) -> None:
    small(rig).world.behaviours["long"] = Behaviour(steps=1000)
    rig.submit("long", gpus=1, max_run_time="4s", notice=notice)
    rig.run(12.0)
    record = rig.reader().records()["long"]
    assert (record.workload.phase, record.workload.broken_drains) == (Phase.STOPPED, 0)
    assert record.message == "its maximum run time of 4 s is over"
    [asked] = rig.notes(What.DRAINING, "long")
    [ended] = rig.notes(What.STOPPED, "long")
    assert asked["why"] == ended["message"] == record.message
    assert record.checkpoint is not None
    assert not rig.notes(What.REQUEUED, "long")


@pytest.mark.parametrize(("ack_every", "broken"), [(1, 0), (1000, 1)], ids=["having saved", "having saved nothing"])
def test_who_does_not_end_when_its_run_time_is_over_is_killed_at_its_deadline(
    rig: Rig, ack_every: int, broken: int
) -> None:
    small(rig).world.behaviours["deaf"] = Behaviour(steps=1000, yields_in_s=None, ack_every=ack_every)
    rig.submit("deaf", gpus=1, max_run_time="4s", grace="2s")
    rig.run(12.0)
    record = rig.reader().records()["deaf"]
    assert (record.workload.phase, rig.world.count("kill", "deaf")) == (Phase.STOPPED, 1)
    assert record.workload.broken_drains == broken
    assert record.message == "its maximum run time of 4 s is over, and so is its grace"


def test_short_work_passes_a_gang_that_keeps_its_planned_start(rig: Rig) -> None:
    small(rig, serving=0, training=2)
    for name in ("runs", "large", "long", "short"):
        rig.world.behaviours[name] = Behaviour(steps=1000)
    rig.submit("runs", kind="gang", gpus=4, max_run_time="20s", grace="2s")
    rig.run(2.0)
    rig.submit("large", kind="gang", nodes=2, gpus=4)
    rig.run(4.0)
    rig.submit("long", kind="gang", gpus=4, max_run_time="60s", grace="2s")
    rig.submit("short", kind="gang", gpus=4, max_run_time="3s", grace="2s")
    rig.run(12.0)
    want = {"runs": Phase.RUNNING, "large": Phase.QUEUED, "long": Phase.QUEUED, "short": Phase.STOPPED}
    assert rig.phases() == want
    rig.run(28.0)
    assert rig.phases()["large"] is Phase.RUNNING


def test_a_forgotten_workload_takes_its_ray_jobs_along_and_frees_its_name(rig: Rig) -> None:
    small(rig).submit("a", gpus=1)
    rig.world.behaviours["a"] = Behaviour(steps=1)
    rig.run(4.0)
    rig.post(Forget(name="a"))
    rig.run(6.0)
    assert (rig.phases(), list(rig.world.jobs)) == ({}, [])
    rig.submit("a", gpus=1)
    rig.run(8.0)
    assert list(rig.world.jobs) == ["a"]


# Pausing.


def test_while_paused_nothing_is_admitted_drained_or_granted(rig: Rig) -> None:
    filled(rig).post(Pause())
    rig.run(4.0)
    rig.world.want("chat", 1, gpus=2)
    rig.submit("new", gpus=1)
    rig.run(8.0)
    assert rig.reader().paused()
    assert rig.phases() == {"b1": Phase.RUNNING, "b2": Phase.RUNNING, "new": Phase.QUEUED}
    assert rig.reader().grants() == {}
    snapshot = rig.reader().snapshot()
    assert snapshot is not None
    assert snapshot.plan.actions, "it goes on deciding"
    rig.post(Resume())
    rig.run(12.0)
    assert len(rig.reader().grants()) == 1


def test_a_pause_extends_no_deadline(rig: Rig) -> None:
    small(rig).world.behaviours["deaf"] = Behaviour(steps=1000, yields_in_s=None)
    rig.submit("deaf", gpus=1)
    rig.run(3.0)
    rig.post(Drain(name="deaf", grace_s=2.0))
    rig.post(Pause())
    rig.run(7.0)
    assert rig.world.count("kill", "deaf") == 1
    assert rig.phases() == {"deaf": Phase.QUEUED}


def test_a_drain_is_noted_with_why_it_and_not_another(rig: Rig) -> None:
    filled(rig)
    rig.world.want("chat", 1)
    rig.run(9.0)
    (asked, *_) = rig.notes(What.DRAINING)
    assert str(asked["chosen"]).startswith("it loses 0.0")
    assert "stayed" in str(asked["chosen"])


def test_a_session_that_nobody_uses_ends_for_good_and_measurements_alone_are_not_journaled(rig: Rig) -> None:
    small(rig)
    (rig.home / "policy.yaml").write_text(POLICY + "idle: {after: 20s}\n")
    rig.world.behaviours["notebook"] = Behaviour(steps=1000, ack_every=1000)
    rig.submit("notebook", gpus=1, interactive=True, notice="library")
    for second in range(3, 60, 3):
        now = rig.began + second
        rig.at(float(second), lambda now=now: rig.world.usage.update(notebook=used("notebook", since=0.0, until=now)))
    rig.run(15.0)
    first = rig.reader().snapshot()
    rig.run(18.0)
    assert rig.reader().snapshot() == first
    rig.run(60.0)
    assert rig.phases() == {"notebook": Phase.STOPPED}
    (asked,) = rig.notes(What.DRAINING, "notebook")
    assert str(asked["why"]).startswith("it was idle for 23 s: at most 0 % of its GPUs")
