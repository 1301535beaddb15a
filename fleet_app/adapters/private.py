"""The parts of Ray that are not public, all in one place: what we use, and a check that it still works.

Each function says which private thing it stands on; `check_contract` tries them all, and is run when the arbiter
starts and by a live test. Returns plain facts in Ray's own units. Does not know the arbiter's ports.
Needs a process that is connected to Ray. Ray's exceptions leave here as FaultError.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import ray
from ray._private import state as ray_state
from ray._private import worker as ray_worker
from ray._private.authentication.http_token_authentication import get_auth_headers_if_auth_enabled
from ray.core.generated import common_pb2 as untyped_common_pb2
from ray.core.generated import gcs_pb2 as untyped_gcs_pb2
from ray.exceptions import RayError
from ray.util.state.exception import RayStateApiException

from fleet_app.engine.errors import FaultError
from fleet_app.worker import contract, environment

GCS_TIMEOUT_S = 10.0
"""A call to the GCS that takes longer is given up: FaultError."""

GROUP_ID = re.compile(r"[0-9a-f]{36}")
BUNDLE_RESOURCE = re.compile(r"bundle_group_(?P<index>\d+)_(?P<group_id>[0-9a-f]{36})")
CREATED = "CREATED"
HEAD_RESOURCE = "node:__internal_head__"
WORKER_LOST = re.compile(r"SYSTEM_ERROR(?!.*exit code \d)", re.DOTALL)
"""In the text of a death: a signal or a crash ended the worker, not Ray; and it did not leave with an exit code."""

LIVE_ACTOR_STATES = ("DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING")

gcs_pb2: Any = untyped_gcs_pb2
common_pb2: Any = untyped_common_pb2

P = ParamSpec("P")
R = TypeVar("R")

Resources = tuple[Mapping[str, float], Mapping[str, float]]
"""Total and available resources of a node, as Ray counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFact:
    """A node, alive or not."""

    node_id: str
    address: str
    labels: Mapping[str, str]
    alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFact:
    """A bundle: the node it is on (None while on none), and the node that its label selector names."""

    node_id: str | None
    pinned_to: str | None
    resources: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFact:
    """A placement group that is not removed."""

    group_id: str
    name: str
    namespace: str
    state: str
    bundles: tuple[BundleFact, ...]

    @property
    def placed(self) -> dict[int, str]:
        """Return the node of each bundle that has one, by bundle index."""
        return {index: bundle.node_id for index, bundle in enumerate(self.bundles) if bundle.node_id is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorFact:
    """An actor that is not dead; `attempt` is the fleet's attempt that it belongs to, None for none."""

    class_name: str
    name: str
    namespace: str
    job_id: str
    pid: int
    node_id: str
    group_id: str
    gpus: float
    detached: bool
    attempt: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeathFact:
    """An actor whose worker process was lost; `at_ms` is in milliseconds since the epoch."""

    class_name: str
    node_id: str
    pid: int
    at_ms: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A private thing of Ray that does not work as we need it."""

    thing: str
    error: str


def faulty(function: Callable[P, R]) -> Callable[P, R]:
    """Turn whatever Ray raises into a FaultError that names the call."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RAY_ERRORS as error:
            raise FaultError(f"Ray failed: {error}", where=function.__qualname__) from error

    return wrapped


# Besides its own errors, Ray raises these three when it is not connected or its GCS does not answer.
RAY_ERRORS = (RayError, RayStateApiException, RuntimeError, ConnectionError, TimeoutError)


# Nodes, groups, actors: ray._private.state's accessor to the GCS.


def _accessor() -> Any:
    return ray_state.state._connect_and_get_accessor()  # what Ray's own state API uses


@faulty
def nodes() -> tuple[NodeFact, ...]:
    """Return every node that Ray remembers, by id."""
    return tuple(sorted(map(_node, ray.nodes()), key=lambda node: node.node_id))


def _node(row: Mapping[str, Any]) -> NodeFact:
    return NodeFact(
        node_id=row["NodeID"],
        address=row["NodeManagerAddress"],
        labels=dict(row["Labels"] or {}),
        alive=row["Alive"],
    )


@faulty
def resources() -> dict[str, Resources]:
    """Return total and available resources of each live node, by node id."""
    available = ray_state.state.available_resources_per_node()
    total_by_node = ray_state.state.total_resources_per_node()
    return {node_id: (total, available.get(node_id, {})) for node_id, total in total_by_node.items()}


@faulty
def draining() -> frozenset[str]:
    """Return the ids of nodes that Ray is draining."""
    return frozenset(ray_state.state.get_draining_nodes())


@faulty
def groups() -> tuple[GroupFact, ...]:
    """Return the placement groups that are not removed.

    Ray remembers removed groups for ever, and sends them all: 13 us each, so this is not for every cycle.
    """
    facts = map(_live, _accessor().get_placement_group_table())
    return tuple(fact for fact in facts if fact is not None)


@faulty
def group_by_id(group_id_hex: str) -> GroupFact | None:
    """Return one group, None when it is removed or was never there."""
    return _live(_accessor().get_placement_group_info(group_id(group_id_hex)))


@faulty
def group_by_name(name: str) -> GroupFact | None:
    """Return the group of that name in the fleet's namespace, None when there is none that lives."""
    return _live(_accessor().get_placement_group_by_name(name, contract.RAY_NAMESPACE))


def _live(raw: bytes | None) -> GroupFact | None:
    row = None if raw is None else gcs_pb2.PlacementGroupTableData.FromString(raw)
    return None if row is None or row.state == gcs_pb2.PlacementGroupTableData.REMOVED else _group(row)


def group_id(group_id_hex: str) -> Any:
    """Return Ray's own form of a group's id. Raises FaultError when it is not one."""
    if GROUP_ID.fullmatch(group_id_hex) is None:  # Ray itself would make the nil id of it
        raise FaultError("no id of a placement group", where=group_id_hex)
    return ray.PlacementGroupID.from_hex(group_id_hex)


def _group(row: Any) -> GroupFact:
    return GroupFact(
        group_id=row.placement_group_id.hex(),
        name=row.name,
        namespace=row.ray_namespace,
        state=gcs_pb2.PlacementGroupTableData.PlacementGroupState.Name(row.state),
        bundles=tuple(
            BundleFact(
                node_id=_node_id(bundle.node_id),
                pinned_to=bundle.label_selector.get(contract.NODE_ID_LABEL),
                resources=dict(bundle.unit_resources),
            )
            for bundle in sorted(row.bundles, key=lambda bundle: bundle.bundle_id.bundle_index)
        ),
    )


def placements(of_nodes: Mapping[str, Resources]) -> dict[str, dict[int, str]]:
    """Return, by group id and bundle index, the node of each bundle, as nodes' resources tell it (0.1 s late)."""
    placed: dict[str, dict[int, str]] = {}
    for node_id, (total, _) in of_nodes.items():
        for match in filter(None, map(BUNDLE_RESOURCE.fullmatch, total)):
            placed.setdefault(match["group_id"], {})[int(match["index"])] = node_id
    return placed


def _node_id(raw: bytes) -> str | None:
    return raw.hex() if raw.strip(b"\xff") else None  # Ray's nil is all ones, or nothing


@faulty
def actors(state: str) -> tuple[ActorFact, ...]:
    """Return the actors in a state of Ray's actor table (one of LIVE_ACTOR_STATES)."""
    table = _accessor().get_actor_table(None, state)
    return tuple(_actor(gcs_pb2.ActorTableData.FromString(raw)) for raw in table)


def live_actors() -> Iterator[ActorFact]:
    """Yield every actor that is not dead. One call a state: the dead, whom Ray remembers for long, are left out."""
    for state in LIVE_ACTOR_STATES:
        yield from actors(state)


def _actor(row: Any) -> ActorFact:
    return ActorFact(
        class_name=row.class_name,
        name=row.name,
        namespace=row.ray_namespace,
        job_id=row.job_id.hex(),
        pid=row.pid,
        node_id=row.node_id.hex(),
        group_id=row.placement_group_id.hex(),
        gpus=gpus_in(row.required_resources),
        detached=row.is_detached,
        attempt=_attempt(row.serialized_runtime_env),
    )


@faulty
def lost_actors(ray_job_id: str) -> tuple[DeathFact, ...]:
    """Return the actors of one Ray job whose processes died by no doing of the program or of Ray, earliest first."""
    table = _accessor().get_actor_table(ray.JobID.from_hex(ray_job_id), "DEAD")
    deaths = filter(None, (_death(gcs_pb2.ActorTableData.FromString(raw)) for raw in table))
    return tuple(sorted(deaths, key=lambda death: (death.at_ms, death.node_id, death.pid)))


def _death(row: Any) -> DeathFact | None:
    told = row.death_cause.actor_died_error_context
    if told.reason != common_pb2.ActorDiedErrorContext.WORKER_DIED or not WORKER_LOST.search(told.error_message):
        return None
    return DeathFact(
        class_name=row.class_name,
        node_id=(row.node_id or row.address.node_id).hex(),
        pid=row.pid,
        at_ms=int(row.end_time),
        why=told.error_message,
    )


def gpus_in(required: Mapping[str, float]) -> float:
    """Return the GPUs in a demand; inside a group they go by `GPU_group_<id>` and `GPU_group_<index>_<id>`."""
    return max((value for key, value in required.items() if key == "GPU" or key.startswith("GPU_group_")), default=0.0)


def _attempt(serialized_runtime_env: str) -> str | None:
    variables = json.loads(serialized_runtime_env or "{}").get("env_vars") or {}
    attempt: str | None = variables.get(environment.ENV_ATTEMPT)
    return attempt


# The board and packages: ray._raylet.GcsClient.


def _gcs() -> Any:
    worker: Any = ray_worker.global_worker
    worker.check_connected()
    return worker.gcs_client


@faulty
def kv_read(namespace: bytes, prefix: str = "") -> dict[str, bytes]:
    """Return every key of a namespace that starts with `prefix`, and its value: two round trips."""
    keys = _gcs().internal_kv_keys(prefix.encode(), namespace, timeout=GCS_TIMEOUT_S)
    if not keys:
        return {}
    values: Mapping[bytes, bytes] = _gcs().internal_kv_multi_get(keys, namespace, timeout=GCS_TIMEOUT_S)
    return {key.decode(): value for key, value in sorted(values.items())}


@faulty
def kv_write(namespace: bytes, key: str, value: bytes) -> None:
    """Set a key."""
    _gcs().internal_kv_put(key.encode(), value, True, namespace, timeout=GCS_TIMEOUT_S)


@faulty
def kv_claim(namespace: bytes, key: str, value: bytes) -> bool:
    """Set a key that is not there yet; return False when it is, and leave it."""
    return bool(_gcs().internal_kv_put(key.encode(), value, False, namespace, timeout=GCS_TIMEOUT_S))


@faulty
def kv_delete(namespace: bytes, key: str) -> None:
    """Remove a key; nothing happens when it is not there."""
    _gcs().internal_kv_del(key.encode(), False, namespace, timeout=GCS_TIMEOUT_S)


@faulty
def pin_package(uri: str, seconds: int) -> None:
    """Keep a package of a runtime environment in the GCS for so long, used or not."""
    _gcs().pin_runtime_env_uri(uri, seconds, timeout=GCS_TIMEOUT_S)


# Authentication: ray._private.authentication.


@faulty
def auth_headers() -> dict[str, str]:
    """Return the HTTP headers that Ray's dashboard asks for: none unless RAY_AUTH_MODE is token."""
    return dict(get_auth_headers_if_auth_enabled({}))


# The check.


def check_contract() -> tuple[Problem, ...]:
    """Return what of the above does not work in this process, as far as can be seen without changing the fleet."""
    tries: dict[str, Callable[[], bool]] = {
        "total and available resources of every live node": _resources_cover_nodes,
        "draining nodes": lambda: draining() <= {node.node_id for node in nodes()},
        "marker resource of the head node": _one_head,
        "placement groups: all, by id, by name, in resources": _groups_agree,
        "actor table by state": lambda: all(len(actor.node_id) % 2 == 0 for actor in live_actors()),
        "causes of actors' deaths": lambda: lost_actors("ffffffff") == (),
        "internal KV: write, list, read, remove": _kv_works,
        "pinning of packages": lambda: pin_package("gcs://_ray_pkg_0000000000000000.zip", 1) is None,
        "headers for the dashboard": lambda: isinstance(auth_headers(), dict),
        "Ray namespace of this process": lambda: ray.get_runtime_context().namespace == contract.RAY_NAMESPACE,
    }
    return tuple(problem for thing, works in tries.items() if (problem := _try(thing, works)) is not None)


def _try(thing: str, works: Callable[[], bool]) -> Problem | None:
    try:
        return None if works() else Problem(thing=thing, error="it does not answer as expected")
    except (FaultError, AttributeError, TypeError, KeyError, ValueError) as error:
        return Problem(thing=thing, error=f"{type(error).__name__}: {error}")


def _resources_cover_nodes() -> bool:
    alive = {node.node_id for node in nodes() if node.alive}
    known = resources()
    return bool(alive) and alive <= known.keys() and all(total and "memory" in total for total, _ in known.values())


def _kv_works() -> bool:
    namespace, key, value = b"fleet-contract-check", "check/one", b"1"
    kv_write(namespace, key, value)
    read = kv_read(namespace, "check/")
    kv_delete(namespace, key)
    return read == {key: value} and kv_read(namespace, "check/") == {}


def _one_head() -> bool:
    return sum(HEAD_RESOURCE in total for total, _ in resources().values()) == 1


def _groups_agree() -> bool:
    placed = placements(resources())
    return group_by_name("fleet/of no such name") is None and all(
        placed.get(group.group_id) == group.placed for group in groups() if group.state == CREATED
    )
