"""Serve's side of the fleet on a real Ray: how much a service may run, and how its replicas get their GPUs.

The arbiter is a stand-in: what is tested is what Serve does with what an arbiter says, and without one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray

from tests.live import raybox
from tests.live.fleet_stand_in import (
    PATIENCE_S,
    Arbiter,
    Board,
    Serve,
    application,
    ask,
    foreign_task,
    live_groups,
    load,
    remove_group,
)
from tests.live.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("serve-policy")]

APP = "shop"
SERVICE = "shop.Echo"
SERVING = {"fleet/class": "serving"}


@pytest.fixture(scope="module")
def box() -> Iterator[raybox.RayBox]:
    nodes = [
        raybox.NodeSpec(name="one", gpus=1, labels=SERVING),
        raybox.NodeSpec(name="two", gpus=2, labels=SERVING),
        raybox.NodeSpec(name="training", gpus=2, labels={"fleet/class": "training"}),
    ]
    with raybox.boot(nodes) as box:
        ray.init(address=box.address, namespace="fleet", log_to_driver=False)
        yield box
        ray.shutdown()


@pytest.fixture
def serve(box: raybox.RayBox) -> Iterator[Serve]:
    serve = Serve(box)
    yield serve
    serve.await_none()
    for group_id in live_groups():
        remove_group(group_id)
    eventually(lambda: not live_groups(), PATIENCE_S)
    Board().clear()


@pytest.fixture
def arbiter(box: raybox.RayBox, serve: Serve) -> Iterator[Arbiter]:
    arbiter = Arbiter(box)
    arbiter.start()
    yield arbiter
    arbiter.hush()


def kill(process: dict[str, Any]) -> None:
    os.kill(process["pid"], signal.SIGKILL)


def test_a_replica_waits_for_its_fence_and_moves_into_it_past_foreign_work(
    box: raybox.RayBox, serve: Serve, arbiter: Arbiter
) -> None:
    serve.deploy(application(APP, least=1))
    demand = eventually(lambda: arbiter.board.demand(SERVICE), PATIENCE_S)
    assert (demand.team, demand.wanted, demand.floor, demand.gpus, demand.cpu_milli) == ("search", 1, 1, 1, 1000)
    assert not serve.running(APP), "nothing is granted yet, though GPUs are free"
    fence = arbiter.fence(SERVICE, "one")
    with foreign_task(box, "one") as got_a_gpu:
        arbiter.grant(SERVICE, 1, fence)
        (replica,) = serve.await_running(APP, 1)
        assert replica["node_id"] == fence.node_id
        assert ask(APP)["group"] == fence.group_id
        assert arbiter.board.adopted()[fence.group_id].replica == replica["actor_name"]
        assert not got_a_gpu()


def test_the_successor_of_a_killed_replica_takes_over_its_group(
    box: raybox.RayBox, serve: Serve, arbiter: Arbiter
) -> None:
    fence = arbiter.fence(SERVICE, "one")
    arbiter.grant(SERVICE, 1, fence)
    serve.deploy(application(APP, least=1))
    (first,) = serve.await_running(APP, 1)
    arbiter.grant(SERVICE, 1)  # an arbiter that lists only those that stand ready
    with foreign_task(box, "one") as got_a_gpu:
        kill(first)
        eventually(lambda: [r for r in serve.running(APP) if r["pid"] != first["pid"]], PATIENCE_S)
        assert ask(APP)["group"] == fence.group_id
        assert not got_a_gpu()


def test_a_new_version_takes_over_the_group_of_the_old_one(serve: Serve, arbiter: Arbiter) -> None:
    fence = arbiter.fence(SERVICE, "one")
    arbiter.grant(SERVICE, 1, fence)
    serve.deploy(application(APP, least=1, most=1))
    (first,) = serve.await_running(APP, 1)
    options = {"num_gpus": 1, "num_cpus": 1, "runtime_env": {"env_vars": {"VERSION": "2"}}}
    serve.deploy(application(APP, least=1, most=1, ray_actor_options=options))
    eventually(lambda: [r for r in serve.running(APP) if r["pid"] != first["pid"]], PATIENCE_S)
    assert ask(APP)["group"] == fence.group_id


def test_traffic_asks_for_replicas_and_gets_what_is_granted_and_gives_it_back(
    box: raybox.RayBox, serve: Serve, arbiter: Arbiter
) -> None:
    first, second = arbiter.fence(SERVICE, "one"), arbiter.fence(SERVICE, "two")
    arbiter.grant(SERVICE, 1, first, second)
    serve.deploy(application(APP, most=3))
    eventually(lambda: arbiter.board.demand(SERVICE), PATIENCE_S)
    with load(APP, 3):
        eventually(lambda: wanted(arbiter) == 3, PATIENCE_S)
        serve.await_running(APP, 1)
        arbiter.grant(SERVICE, 2, first, second)
        serve.await_running(APP, 2)
        assert set(arbiter.board.adopted()) == {first.group_id, second.group_id}
        arbiter.grant(SERVICE, 1, first, second)
        shrunk_at = time.time()
        # Said again twice, so the policy has seen the grant for longer than Serve's delay of a downscale.
        eventually(lambda: said_at(arbiter) > shrunk_at + 2, PATIENCE_S)
        assert len(serve.running(APP)) == 2, "a grant that shrinks stops nothing"
    with foreign_task(box, "one") as got_a_gpu:
        eventually(lambda: not arbiter.board.adopted(), PATIENCE_S)
        assert {first.group_id, second.group_id} <= set(live_groups())
        assert not got_a_gpu()


def wanted(arbiter: Arbiter) -> int:
    demand = arbiter.board.demand(SERVICE)
    return 0 if demand is None else demand.wanted


def said_at(arbiter: Arbiter) -> float:
    demand = arbiter.board.demand(SERVICE)
    return 0.0 if demand is None else demand.at


def test_with_a_silent_arbiter_a_replica_takes_a_fence_of_somebody_else(serve: Serve, arbiter: Arbiter) -> None:
    """I11."""
    other = arbiter.fence("other.Service", "one")
    arbiter.hold("two", "immediate", gpus=2)
    arbiter.grant(SERVICE, 0)
    arbiter.hush()
    serve.deploy(application(APP, least=1))
    serve.await_running(APP, 1)
    assert ask(APP)["group"] == other.group_id


def test_with_a_silent_arbiter_a_fence_of_another_shape_makes_way(
    box: raybox.RayBox, serve: Serve, arbiter: Arbiter
) -> None:
    big = arbiter.hold("two", "immediate", gpus=2)
    elsewhere = arbiter.hold("training", "gang", gpus=2)
    arbiter.hush()
    serve.deploy(application(APP, least=3, most=3))
    replicas = serve.await_running(APP, 3)
    assert {replica["node_id"] for replica in replicas} == {box.node_ids["one"], box.node_ids["two"]}
    assert big.group_id not in live_groups()
    assert elsewhere.group_id in live_groups(), "a hold for training is in nobody's way"


def test_replicas_outlive_the_controller_and_so_does_what_it_knows_of_their_groups(
    serve: Serve, arbiter: Arbiter
) -> None:
    first, second = arbiter.fence(SERVICE, "one"), arbiter.fence(SERVICE, "two")
    arbiter.grant(SERVICE, 2, first, second)
    serve.deploy(application(APP, least=1))
    serve.await_running(APP, 1)
    with load(APP, 2):
        before = serve.await_running(APP, 2)
        adopted = arbiter.board.adopted()
        assert set(adopted) == {first.group_id, second.group_id}
        kill(serve.controller())
        eventually(lambda: serve.controller()["pid"] is not None, PATIENCE_S)
        after = serve.await_running(APP, 2)
        assert {r["pid"] for r in after} == {r["pid"] for r in before}
        assert arbiter.board.adopted() == adopted
    eventually(lambda: len(arbiter.board.adopted()) == 1, PATIENCE_S)
    assert {first.group_id, second.group_id} <= set(live_groups())


def test_a_group_whose_replica_died_with_the_controller_is_free_for_the_successor(
    serve: Serve, arbiter: Arbiter
) -> None:
    fence = arbiter.fence(SERVICE, "one")
    arbiter.grant(SERVICE, 1, fence)
    serve.deploy(application(APP, least=1, most=1))
    (first,) = serve.await_running(APP, 1)
    kill(serve.controller())
    kill(first)
    eventually(lambda: [r for r in serve.running(APP) if r["pid"] != first["pid"]], PATIENCE_S)
    assert ask(APP)["group"] == fence.group_id


def test_without_a_fleet_serve_is_as_it_was() -> None:
    with raybox.boot([raybox.NodeSpec(name="plain", gpus=1)]) as box:
        serve = Serve(box)
        serve.deploy(application(APP, least=1))
        (replica,) = serve.await_running(APP, 1)
        assert serve.live_group_names() == [replica["actor_name"]]
        serve.await_none()
        assert serve.live_group_names() == []
