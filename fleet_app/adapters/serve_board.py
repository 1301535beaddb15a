"""The board as Serve's controller uses it: the arbiter's lease and grants, demands, and who lives in which group.

Everything here runs inside Serve's control loop, so a look is one call of about a millisecond, shared by all services,
and the arbiter is woken from a thread of its own. Does not know what a demand or a group is for.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError
from ray.experimental import internal_kv

from fleet_app.engine.errors import FaultError
from fleet_app.worker import contract
from fleet_app.worker.contract import BOARD_NAMESPACE, Adoption, BadEntryError, Demand, Grants, Lease

KV_TIMEOUT_S = 2.0
WAKE_TIMEOUT_S = 30.0
NO_REPLICA = ""
"""Stands for the replica in a claim that was made to take a group away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the arbiter last said; a service that it never spoke of has no grants."""

    lease_at: float | None = None
    grants: Mapping[str, Grants] = field(default_factory=dict)

    def silent(self, now: float) -> bool:
        """Return whether the arbiter has not been heard of for so long that Serve must help itself."""
        return self.lease_at is None or now - self.lease_at > contract.LEASE_STALE_S


class ServeBoard:
    """The board of the cluster that this process is connected to."""

    def __init__(self) -> None:
        """Connect to nothing yet."""
        self._outlook = Outlook()
        self._looked_at = float("-inf")
        self._services: set[str] = set()
        self._waker = ThreadPoolExecutor(1, thread_name_prefix="fleet-wake")
        self._waking: Future[None] | None = None

    def outlook(self, service: str, max_age_s: float = 0.05) -> Outlook:
        """Return what the arbiter last said, read again if that is older than `max_age_s`.

        While Ray's control service is away the last answer stays, and grows silent by its age.
        """
        unknown = service not in self._services
        self._services.add(service)
        if unknown or time.monotonic() - self._looked_at > max_age_s:
            with contextlib.suppress(FaultError):  # the lease that we know grows old; callers decide by that
                self._outlook = self._look()
            self._looked_at = time.monotonic()
        return self._outlook

    def publish(self, demand: Demand) -> None:
        """Say what a service wants. Raises FaultError."""
        _put(contract.demand_key(demand.service), contract.encode(demand), replace=True)

    def claim(self, group_id: str, replica: str, service: str) -> bool:
        """Take a group for a replica; return False when somebody has it already. Raises FaultError.

        The first writer of the key has the group, the arbiter included: nobody takes a group of another.
        """
        adoption = Adoption(replica=replica, service=service, at=time.time())
        return _put(contract.adopted_key(group_id), contract.encode(adoption), replace=False)

    def release(self, group_id: str) -> None:
        """Give a group up; nothing happens when nobody has it. Raises FaultError."""
        _delete(contract.adopted_key(group_id))

    def adoption(self, group_id: str) -> Adoption | None:
        """Return who has a group. Raises FaultError."""
        key = contract.adopted_key(group_id)
        return _adoption(_get_many([key]).get(key))

    def adopted(self) -> frozenset[str]:
        """Return the ids of all groups that somebody has. Raises FaultError."""
        return frozenset(key.removeprefix(contract.ADOPTED) for key in _keys(contract.ADOPTED))

    def adoptions(self) -> Mapping[str, Adoption]:
        """Return who has which group, by group id. Raises FaultError."""
        entries = _get_many(_keys(contract.ADOPTED))
        found = {key.removeprefix(contract.ADOPTED): _adoption(raw) for key, raw in sorted(entries.items())}
        return {group_id: adoption for group_id, adoption in found.items() if adoption is not None}

    def wake(self) -> None:
        """Ask the arbiter for a cycle after now, and do not wait; one request is under way and one waits at most."""
        if self._waking is None or self._waking.running() or self._waking.done():
            self._waking = self._waker.submit(_wake)

    def _look(self) -> Outlook:
        services = {contract.grants_key(name): name for name in self._services}
        raw = _get_many([contract.LEASE, *services])
        grants = {name: _grants(raw[key]) for key, name in services.items() if key in raw}
        return Outlook(
            lease_at=_lease_at(raw.get(contract.LEASE)),
            grants={name: grant for name, grant in grants.items() if grant is not None},
        )


def _wake() -> None:
    try:
        # Looked up each time: the handle of an arbiter that was replaced would lead nowhere for ever.
        arbiter = ray.get_actor(contract.ARBITER_ACTOR, namespace=contract.RAY_NAMESPACE)
        ray.wait([arbiter.wake.remote()], timeout=WAKE_TIMEOUT_S)
    except (ValueError, RayError):
        pass  # no arbiter now; when it is back it reads the board without being asked


def _lease_at(raw: bytes | None) -> float | None:
    try:
        return None if raw is None else contract.decode(Lease, raw).at
    except BadEntryError:
        return None


def _grants(raw: bytes) -> Grants | None:
    try:
        return contract.decode(Grants, raw)
    except BadEntryError:
        return None


def _adoption(raw: bytes | None) -> Adoption | None:
    try:
        return None if raw is None else contract.decode(Adoption, raw)
    except BadEntryError:
        return Adoption(replica=NO_REPLICA, service="", at=0.0)  # somebody has it, whoever that is


def _get_many(keys: Iterable[str]) -> dict[str, bytes]:
    asked = [key.encode() for key in keys]
    if not asked:
        return {}
    try:
        found = _gcs().internal_kv_multi_get(asked, BOARD_NAMESPACE, KV_TIMEOUT_S)
    except RayError as error:
        raise _unreachable(error) from error
    return {key.decode(): value for key, value in found.items()}


def _keys(prefix: str) -> list[str]:
    try:
        return [key.decode() for key in _gcs().internal_kv_keys(prefix.encode(), BOARD_NAMESPACE, KV_TIMEOUT_S)]
    except RayError as error:
        raise _unreachable(error) from error


def _put(key: str, value: bytes, *, replace: bool) -> bool:
    try:
        return bool(_gcs().internal_kv_put(key.encode(), value, replace, BOARD_NAMESPACE, KV_TIMEOUT_S))
    except RayError as error:
        raise _unreachable(error) from error


def _delete(key: str) -> None:
    try:
        _gcs().internal_kv_del(key.encode(), False, BOARD_NAMESPACE, KV_TIMEOUT_S)
    except RayError as error:
        raise _unreachable(error) from error


def _gcs() -> Any:
    client: Any = internal_kv.internal_kv_get_gcs_client()
    if client is None:
        raise FaultError("this process is not connected to Ray", where="the board")
    return client


def _unreachable(error: Exception) -> FaultError:
    return FaultError(f"Ray's control service does not answer: {error}", where="the board")
