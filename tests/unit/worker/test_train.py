"""Ray Train is as the fleet needs it, and learns of a notice in its own words."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pandas", reason="Ray Train needs the extra `demo`")

from fleet_app.worker import train
from fleet_app.worker.contract import Notice
from fleet_app.worker.drain import DrainWatch


def worker(rank: int, node_id: str) -> Any:
    return SimpleNamespace(
        distributed_context=SimpleNamespace(world_rank=rank), metadata=SimpleNamespace(node_id=node_id)
    )


def test_this_version_of_ray_train_has_all_that_the_fleet_builds_on() -> None:
    train.check_contract()


def test_what_ray_train_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(train.worker.RayTrainWorker, "mark_preempt")
    with pytest.raises(train.ContractError, match="mark_preempt"):
        train.check_contract()


def test_a_method_that_takes_other_arguments_is_missing_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train._WORKER_GROUP, "_create_placement_group", lambda self, everything: None)
    with pytest.raises(train.ContractError, match="_create_placement_group"):
        train.check_contract()


def test_a_notice_takes_every_node_with_its_ranks() -> None:
    info = train.preemption_info(
        Notice(deadline_at=12.5, why="drain"), [worker(0, "a"), worker(1, "b"), worker(2, "a")]
    )
    assert info.deadline_ms == 12_500
    assert info.preempted_node_to_ranks == {"a": [0, 2], "b": [1]}


def test_to_be_asked_to_move_has_no_deadline() -> None:
    assert train.preemption_info(Notice(deadline_at=None, why="move"), [worker(0, "a")]).deadline_ms is None


class Told:
    """A worker that notes what it is told, and sets `heard` when that has a deadline."""

    def __init__(self, heard: threading.Event) -> None:
        self.infos: list[Any] = []
        self.heard = heard
        self.distributed_context = SimpleNamespace(world_rank=0)
        self.metadata = SimpleNamespace(node_id="a")
        self.actor = SimpleNamespace(mark_preempt=SimpleNamespace(remote=self.tell))

    def tell(self, info: Any) -> None:
        self.infos.append(info)
        if info.deadline_ms is not None:
            self.heard.set()


def test_a_worker_that_was_asked_to_move_hears_of_the_deadline_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "LOOK_S", 0.001)
    watch = DrainWatch(lambda: None, lambda _: None, poll_s=0.001)
    heard = threading.Event()
    told = Told(heard)
    bell = train._Bell(watch, [told])
    watch.signalled(Notice(deadline_at=None, why="move"))
    bell.start()
    watch.signalled(Notice(deadline_at=12.5, why="drain"))
    assert heard.wait(30.0)
    bell.join(30.0)
    assert told.infos[-1].deadline_ms == 12_500
    assert len(told.infos) <= 2
