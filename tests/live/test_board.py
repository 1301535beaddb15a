"""What is posted on the board is read as it was meant, on both sides."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from fleet_app.adapters import private
from fleet_app.adapters.board import RayBoard
from fleet_app.arbiter.ports import Ack, Beat, BoardView, Demand, Fence
from fleet_app.engine.values import Shape
from fleet_app.worker import contract
from tests.clock import Clock
from tests.live.raybox import RayBox

pytestmark = pytest.mark.live

NOW = 1_700_000_000.25
SHAPE = Shape(gpus=4, cpu_milli=1500, memory_mib=2048)


@pytest.fixture
def board(connected: RayBox) -> Iterator[RayBoard]:
    wipe()
    yield RayBoard(Clock(NOW))
    wipe()


def wipe() -> None:
    for key in posted():
        private.kv_delete(contract.BOARD_NAMESPACE, key)


def posted() -> dict[str, bytes]:
    return private.kv_read(contract.BOARD_NAMESPACE)


def post(key: str, entry: contract.Entry) -> None:
    private.kv_write(contract.BOARD_NAMESPACE, key, contract.encode(entry))


def test_an_empty_board_shows_nothing(board: RayBoard) -> None:
    assert board.observe() == BoardView()


def test_what_jobs_and_serve_post_is_seen(board: RayBoard) -> None:
    post(contract.ack_key("llm.2"), contract.Ack(uri="file:///c/7", step=7, at=NOW))
    post(contract.beat_key("llm.2"), contract.Beat(step=9, at=NOW))
    demand = contract.Demand(
        service="chat.Model", team="a", gpus=4, cpu_milli=1500, memory_mib=2048, wanted=3, floor=1, at=NOW
    )
    post(contract.demand_key("chat.Model"), demand)
    post(contract.adopted_key("ab12"), contract.Adoption(replica="chat#Model#x", service="chat.Model", at=NOW))
    assert board.observe() == BoardView(
        acks=(Ack(attempt="llm.2", uri="file:///c/7", step=7, at=NOW),),
        beats=(Beat(attempt="llm.2", step=9, at=NOW),),
        demands=(Demand(service="chat.Model", team="a", shape=SHAPE, wanted=3, floor=1, at=NOW),),
        adopted={"ab12": "chat#Model#x"},
        adopted_for={"ab12": "chat.Model"},
        posted=frozenset({"llm.2"}),
    )


def test_an_entry_that_breaks_the_contract_is_left_out_and_the_rest_is_seen(board: RayBoard) -> None:
    private.kv_write(contract.BOARD_NAMESPACE, contract.beat_key("bad"), b"not json")
    private.kv_write(contract.BOARD_NAMESPACE, contract.ack_key("bad"), b'{"step": 1}')
    post(contract.beat_key("good"), contract.Beat(step=1, at=NOW))
    want = BoardView(beats=(Beat(attempt="good", step=1, at=NOW),), posted=frozenset({"good", "bad"}))
    assert board.observe() == want


def test_what_the_arbiter_posts_keeps_the_contract(board: RayBoard) -> None:
    board.notify("llm", NOW + 60, "yields to chat.Model")
    board.publish_grants("chat.Model", 2, (Fence(group_id="ab12", node_id="cd34", shape=SHAPE),))
    board.renew_lease(NOW)
    fence = contract.Fence(group_id="ab12", node_id="cd34", gpus=4, cpu_milli=1500, memory_mib=2048)
    notice = contract.decode(contract.Notice, posted()[contract.notice_key("llm")])
    assert notice == contract.Notice(deadline_at=NOW + 60, why="yields to chat.Model")
    grants = contract.decode(contract.Grants, posted()[contract.grants_key("chat.Model")])
    assert grants == contract.Grants(granted=2, fences=(fence,), at=NOW)
    assert contract.decode(contract.Lease, posted()[contract.LEASE]) == contract.Lease(at=NOW, pid=os.getpid())


def test_work_that_is_complete_says_so(board: RayBoard) -> None:
    post(contract.done_key("llm"), contract.Beat(step=9, at=NOW))
    assert board.observe() == BoardView(done=frozenset({"llm"}), posted=frozenset({"llm"}))


def test_clearing_an_attempt_leaves_the_next_attempt_alone(board: RayBoard) -> None:
    for attempt in ("llm", "llm.2"):
        board.notify(attempt, NOW, "")
        post(contract.ack_key(attempt), contract.Ack(uri="u", step=1, at=NOW))
        post(contract.beat_key(attempt), contract.Beat(step=1, at=NOW))
        post(contract.done_key(attempt), contract.Beat(step=1, at=NOW))
    board.clear("llm")
    board.clear("llm")
    assert sorted(posted()) == ["ack/llm.2", "beat/llm.2", "done/llm.2", "notice/llm.2"]


def test_of_replica_and_arbiter_the_first_to_write_has_the_group(board: RayBoard) -> None:
    post(contract.adopted_key("ab12"), contract.Adoption(replica="r", service="s", at=NOW))
    assert not board.claim("ab12")
    assert board.claim("cd34")
    assert board.claim("cd34"), "one's own claim counts as made"
    assert board.observe().adopted == {"ab12": "r", "cd34": ""}


def test_an_adoption_is_forgotten_also_twice(board: RayBoard) -> None:
    post(contract.adopted_key("ab12"), contract.Adoption(replica="r", service="s", at=NOW))
    board.forget_adoption("ab12")
    board.forget_adoption("ab12")
    assert board.observe().adopted == {}
