"""What Serve's side of the fleet meets in its live tests: a stand-in for the arbiter, foreign work, and a Serve client.

The stand-in does what the tests tell it and decides nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import ray
from ray.experimental import internal_kv
from ray.util.placement_group import PlacementGroup

from fleet_app.worker import contract
from fleet_app.worker.contract import BOARD_NAMESPACE, Adoption, Demand, Fence, Grants, Lease
from tests.live.raybox import RayBox
from tests.live.waiting import eventually

PATIENCE_S = 90.0
"""A replica starts in 2 s on an idle machine; this is for a busy one."""


class Board:
    """The board, read and written directly."""

    def put(self, key: str, entry: contract.Entry) -> None:
        internal_kv._internal_kv_put(key, contract.encode(entry), namespace=BOARD_NAMESPACE)

    def demand(self, service: str) -> Demand | None:
        raw = internal_kv._internal_kv_get(contract.demand_key(service), namespace=BOARD_NAMESPACE)
        return None if raw is None else contract.decode(Demand, raw)

    def adopted(self) -> dict[str, Adoption]:
        keys = internal_kv._internal_kv_list(contract.ADOPTED, namespace=BOARD_NAMESPACE)
        raw = {key.decode(): internal_kv._internal_kv_get(key, namespace=BOARD_NAMESPACE) for key in keys}
        return {
            key.removeprefix(contract.ADOPTED): contract.decode(Adoption, value)
            for key, value in raw.items()
            if value is not None
        }

    def clear(self) -> None:
        for key in internal_kv._internal_kv_list("", namespace=BOARD_NAMESPACE):
            internal_kv._internal_kv_del(key, namespace=BOARD_NAMESPACE)


class Arbiter:
    """Keeps the lease while it is alive, makes fences and grants when it is told to."""

    def __init__(self, box: RayBox) -> None:
        self.box = box
        self.board = Board()
        self._hushed = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hush(self) -> None:
        """Fall silent for good, with a lease that is old already."""
        self._hushed.set()
        self._thread.join()
        self.board.put(contract.LEASE, Lease(at=time.time() - 2 * contract.LEASE_STALE_S, pid=0))

    def fence(self, service: str, node: str, gpus: int = 1) -> Fence:
        return self._group(contract.grant_group(service, uuid.uuid4().hex[:8]), node, gpus)

    def hold(self, node: str, beneficiary: str, gpus: int = 1) -> Fence:
        return self._group(contract.hold_group(node, beneficiary), node, gpus)

    def grant(self, service: str, granted: int, *fences: Fence) -> None:
        self.board.put(contract.grants_key(service), Grants(granted=granted, fences=fences, at=time.time()))

    def _group(self, name: str, node: str, gpus: int) -> Fence:
        node_id = self.box.node_ids[node]
        selector = [{contract.NODE_ID_LABEL: node_id}]
        bundle = {"GPU": float(gpus), "CPU": 1.0}
        group = ray.util.placement_group([bundle], "STRICT_SPREAD", name, "detached", bundle_label_selector=selector)
        assert group.wait(PATIENCE_S)
        return Fence(group_id=group.id.hex(), node_id=node_id, gpus=gpus, cpu_milli=1000, memory_mib=0)

    def _renew(self) -> None:
        while not self._hushed.wait(contract.LEASE_RENEWAL_S):
            self.board.put(contract.LEASE, Lease(at=time.time(), pid=os.getpid()))


def live_groups() -> dict[str, Mapping[str, Any]]:
    """Return the placement groups that are not removed, by id."""
    table = ray.util.placement_group_table()
    return {group_id: entry for group_id, entry in table.items() if entry["state"] != "REMOVED"}


class Serve:
    """Serve's REST interface, and its replicas."""

    def __init__(self, box: RayBox) -> None:
        self._dashboard = box.dashboard_url
        self._url = f"{box.dashboard_url}/api/serve/applications/"

    def deploy(self, *applications: Mapping[str, Any]) -> None:
        config = {"proxy_location": "Disabled", "applications": list(applications)}
        httpx.put(self._url, json=config, timeout=60).raise_for_status()

    def running(self, app: str) -> list[dict[str, Any]]:
        deployments = self._details()["applications"].get(app, {}).get("deployments", {})
        replicas = deployments.get("Echo", {}).get("replicas", [])
        return [replica for replica in replicas if replica["state"] == "RUNNING"]

    def controller(self) -> dict[str, Any]:
        """Return the controller's actor id and process id."""
        from ray.util.state import get_actor

        actor = get_actor(self._details()["controller_info"]["actor_id"], address=self._dashboard)
        return {"pid": actor.pid}

    def live_group_names(self) -> list[str]:
        """Return the placement groups of the cluster, also of one that this process is not connected to."""
        from ray.util.state import list_placement_groups

        return [group.name for group in list_placement_groups(address=self._dashboard) if group.state != "REMOVED"]

    def _details(self) -> dict[str, Any]:
        details: dict[str, Any] = httpx.get(self._url, timeout=60).raise_for_status().json()
        return details

    def await_running(self, app: str, count: int) -> list[dict[str, Any]]:
        def probe() -> list[dict[str, Any]] | None:
            there = self.running(app)
            return there if len(there) == count else None

        return eventually(probe, PATIENCE_S) or []

    def await_none(self) -> None:
        self.deploy()
        eventually(lambda: not self._details()["applications"], PATIENCE_S)


def application(name: str, *, least: int = 0, most: int = 2, **more: Any) -> dict[str, Any]:
    """Return an application with one service of one GPU a replica, quick to scale."""
    return {
        "name": name,
        "route_prefix": None,
        "import_path": "tests.live.echo_service:app",
        "deployments": [
            {
                "name": "Echo",
                "max_ongoing_requests": 1,
                "graceful_shutdown_timeout_s": 1,
                "graceful_shutdown_wait_loop_s": 0.1,
                "health_check_period_s": 0.5,
                "ray_actor_options": {"num_gpus": 1, "num_cpus": 1},
                "placement_group_bundles": [{"GPU": 1, "CPU": 1}],
                "autoscaling_config": {
                    "min_replicas": least,
                    "max_replicas": most,
                    "target_ongoing_requests": 1,
                    "upscale_delay_s": 0,
                    "downscale_delay_s": 0.5,
                    "metrics_interval_s": 0.1,
                    "look_back_period_s": 0.5,
                    "policy": {
                        "policy_function": "fleet_app.adapters.serve_policy:FleetPolicy",
                        "policy_kwargs": {"team": "search"},
                    },
                },
                **more,
            }
        ],
    }


@ray.remote(num_cpus=0)
class Client:
    """Calls an application from a process of the box: the router behind a handle lives as long as its process."""

    def __init__(self, app: str) -> None:
        from ray import serve

        self._handle = serve.get_app_handle(app)

    def begin(self, requests: int) -> None:
        self._answers = [self._handle.remote(600.0) for _ in range(requests)]

    async def ask(self) -> dict[str, Any]:
        answer: dict[str, Any] = await self._handle.remote()
        return answer


@contextlib.contextmanager
def client(app: str) -> Iterator[Any]:
    """Yield a client of an application; what it has under way ends with it."""
    one = Client.remote(app)  # type: ignore[attr-defined]
    try:
        yield one
    finally:
        ray.kill(one)


@contextlib.contextmanager
def load(app: str, requests: int) -> Iterator[float]:
    """Keep that many requests of an application under way; yields the moment of the first."""
    with client(app) as one:
        began = time.time()
        ray.get(one.begin.remote(requests), timeout=PATIENCE_S)
        yield began


@contextlib.contextmanager
def foreign_task(box: RayBox, node: str) -> Iterator[Callable[[], bool]]:
    """Queue a task of somebody else for a GPU of a node; yields whether it ever got one."""

    @ray.remote(num_cpus=0, num_gpus=1, max_retries=0)
    def take() -> bool:
        return True

    task = take.options(label_selector={contract.NODE_ID_LABEL: box.node_ids[node]}).remote()
    try:
        yield lambda: bool(ray.wait([task], timeout=0)[0])
    finally:
        ray.cancel(task, force=True)


def ask(app: str) -> dict[str, Any]:
    """Return where a replica of an application says that it runs."""
    with client(app) as one:
        answer: dict[str, Any] = ray.get(one.ask.remote(), timeout=PATIENCE_S)
        return answer


def remove_group(group_id: str) -> None:
    """Remove a placement group."""
    from ray._raylet import PlacementGroupID

    ray.util.remove_placement_group(PlacementGroup(PlacementGroupID.from_hex(group_id)))
