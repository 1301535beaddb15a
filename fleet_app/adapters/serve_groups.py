"""The hook in Serve's controller by which a replica moves into a group that the arbiter keeps ready for it.

Ray gives a free GPU to whoever asked first, so GPUs that are meant for a replica must not be free in between. Serve
schedules a replica of a service into a fence of that service, which thereby becomes the replica's own group; with none
ready it asks again in its next loop; a group that Serve gives back stays, and is free for the next replica of the
service.

With the arbiter silent Serve helps itself: to any fence that fits, else to what is free, or held by fences; such a
replica gets a group of Serve's own making, by which the arbiter knows it when it is back. None waits for room in Ray's
own queue: it would still wait there when an arbiter has made a fence for it.

`install` wraps one method of Serve's scheduler and two functions of Ray, all looked up by name when they are called, so
that it works on a controller that has long been running. On a Ray without the private parts that it stands on
(`serve_private.check_contract`) it does nothing; replicas then start once the arbiter removes the fences before them.
Does not know how many replicas there should be, nor on which node: the arbiter does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, TypeVar

import ray
from ray.serve._private.common import ReplicaID
from ray.serve._private.deployment_scheduler import DeploymentScheduler
from ray.util.placement_group import PlacementGroup

from fleet_app.adapters import serve_fences, serve_private
from fleet_app.adapters.serve_board import NO_REPLICA
from fleet_app.adapters.serve_demand import Ask, Desk, ask_of, desk
from fleet_app.adapters.serve_fences import Standing
from fleet_app.engine.errors import FaultError
from fleet_app.engine.layouts import SHARED
from fleet_app.worker.contract import CLASS_LABEL, PARTITION_LABEL, service_name

logger = logging.getLogger("ray.serve.fleet")

T = TypeVar("T")

SETTLED_S = 1.0
"""Ray's view of what is free lags behind what just changed by less than this."""


class Step(Enum):
    """What is to become of one replica that Serve is about to schedule."""

    PLAIN = auto()
    """Serve's own way."""
    IN_GROUP = auto()
    """Into a group of the fleet, which the request now names."""
    LATER = auto()
    """Not in this loop."""
    FAILED = auto()
    """Something is wrong with us: Serve's own way, on the nodes for serving."""


class Groups:
    """Which groups of the fleet the replicas of this controller live in."""

    def __init__(self, desk: Desk) -> None:
        """Begin with none."""
        self._desk = desk
        self._board = desk.board
        self._held: set[str] = set()
        self._unreleased: set[str] = set()
        self._given_back: dict[str, list[str]] = {}
        self._settled_at = 0.0

    def recover(self) -> None:
        """Free the groups whose replica died while there was no controller. Raises FaultError."""
        for group_id, adoption in self._board.adoptions().items():
            if adoption.replica != NO_REPLICA and not serve_private.replica_lives(adoption.replica):
                self._board.release(group_id)
                self._given_back.setdefault(adoption.service, []).append(group_id)

    def prepare(self, scheduler: Any, request: Any) -> Step:
        """Choose how a replica of a service is scheduled, and write its group into the request. Raises FaultError."""
        deployment, replica = request.replica_id.deployment_id, request.replica_id.to_full_id_str()
        bundle = serve_private.bundle_of(request)
        ask = ask_of(service_name(deployment.app_name, deployment.name), bundle, *serve_private.policy_of(request))
        self._retry_releases()
        silent = self._board.outlook(ask.service).silent(time.time())
        fences = _unclaimed(self._board.adopted()) if silent else ()
        group_id = self._own_fence(ask, replica) or self._any_fence(ask, replica, fences)
        if group_id is not None:
            self._held.add(group_id)
            request.gang_placement_group = serve_fences.group_handle(group_id, bundle)
            request.gang_pg_index = 0
            return Step.IN_GROUP
        if silent and self._make_way(ask, fences):
            _alone(request)
            if ask.part is not None and ask.part.share:
                serve_private.add_label(request, PARTITION_LABEL, SHARED)  # or Ray would break a whole GPU for it
            return Step.PLAIN
        self._desk.announce_waiting(ask, serve_private.replicas(scheduler, deployment))
        return Step.LATER

    def cancel(self, request: Any) -> None:
        """Undo `prepare` for a replica that Serve could not schedule after all."""
        self.give_back(request.gang_placement_group.id.hex())
        request.gang_placement_group = request.gang_pg_index = None

    def give_back(self, group_id: str) -> bool:
        """Free a group for the next replica of its service; return False when it is none of the fleet's."""
        try:
            adoption = self._board.adoption(group_id)
            if adoption is None:
                return False
            self._given_back.setdefault(adoption.service, []).append(group_id)
            self._board.release(group_id)
        except FaultError:
            if group_id not in self._held:
                return False
            self._unreleased.add(group_id)
        self._held.discard(group_id)
        self._board.wake()
        return True

    def group_of(self, replica: str) -> PlacementGroup | None:
        """Return the group of the fleet that a replica lives in. Raises FaultError."""
        for group_id, adoption in self._board.adoptions().items():
            if adoption.replica == replica:
                self._held.add(group_id)
                return serve_fences.group_handle(group_id)
        return None

    def _own_fence(self, ask: Ask, replica: str) -> str | None:
        grants = self._board.outlook(ask.service).grants.get(ask.service)
        ready = () if grants is None else grants.fences
        fences = map(serve_fences.told, ready)
        fitting = [fence.group_id for fence in fences if serve_fences.serves(fence, ask.shape, ask.part)]
        mine = dict.fromkeys([*self._given_back.get(ask.service, ()), *fitting])
        taken = self._board.adopted() if mine else frozenset()
        return next((group for group in mine if group not in taken and self._claim(group, ask, replica)), None)

    def _claim(self, group_id: str, ask: Ask, replica: str) -> bool:
        """Take a group, if nobody else did and it still stands; in this order, so that it cannot go in between."""
        if not self._board.claim(group_id, replica, ask.service):
            return False
        self._forget(group_id)
        usable = False
        try:
            fence = serve_fences.read(group_id)
            usable = fence is not None and serve_fences.serves(fence, ask.shape, ask.part)
        finally:
            if not usable:
                self._board.release(group_id)
        return usable

    def _any_fence(self, ask: Ask, replica: str, fences: tuple[Standing, ...]) -> str | None:
        usable = serve_fences.by_preference(ask, fences)
        return next((fence.group_id for fence in usable if self._claim(fence.group_id, ask, replica)), None)

    def _make_way(self, ask: Ask, fences: tuple[Standing, ...]) -> bool:
        """Remove the fences that stand in a replica's way.

        Return False when there is no room for it even so, or when it is another replica's turn first.
        """
        if time.monotonic() < self._settled_at:
            return False
        rooms = serve_fences.free_rooms(ask.part)
        gone = serve_fences.in_the_way(ask.shape, rooms, fences)
        if not gone and not any(ask.shape.fits(room) for room in rooms.values()):
            return False
        self._settled_at = time.monotonic() + SETTLED_S
        for fence in gone:
            if self._board.claim(fence.group_id, NO_REPLICA, ask.service):
                logger.warning("the arbiter is silent: %s makes way for a replica of %s", fence.name, ask.service)
                _remove(serve_fences.group_handle(fence.group_id))
                self._board.release(fence.group_id)
        return True

    def _forget(self, group_id: str) -> None:
        for groups in self._given_back.values():
            if group_id in groups:
                groups.remove(group_id)

    def _retry_releases(self) -> None:
        for group_id in sorted(self._unreleased):
            self._board.release(group_id)
            self._unreleased.discard(group_id)


_remove = ray.util.remove_placement_group
_installed: list[Groups] = []
_logged: set[str] = set()


def install() -> bool:
    """Patch Serve in this process, once; return whether it is patched.

    Does nothing outside of Serve's controller, and nothing but log when this Ray is not the one that we know. Never
    raises: it is called by `FleetPolicy`, or by Serve itself when RAY_SERVE_CONTROLLER_CALLBACK_IMPORT_PATH names it.
    """
    if _installed or not serve_private.in_controller():
        return bool(_installed)
    missing = serve_private.check_contract()
    if missing:
        logger.warning("%s", _unknown_ray(missing).sentence())
        return False
    groups = Groups(desk())
    _guarded("recover", groups.recover, None)
    _wrap(DeploymentScheduler, "_schedule_replica", lambda original: _schedule(groups, original))
    _wrap(ray.util, "remove_placement_group", lambda original: _removal(groups, original))
    _wrap(ray.util, "get_placement_group", lambda original: _lookup(groups, original))
    _installed.append(groups)
    logger.info("replicas of fleet services move into groups that the arbiter keeps ready")
    return True


def _schedule(groups: Groups, original: Callable[..., bool]) -> Callable[..., bool]:
    def schedule_replica(scheduler: Any, scheduling_request: Any, *args: Any, **kwargs: Any) -> bool:
        step = Step.PLAIN
        if _guarded("recognise", lambda: serve_private.is_service(scheduling_request), False):
            step = _guarded("schedule", lambda: groups.prepare(scheduler, scheduling_request), Step.FAILED)
        if step is Step.LATER:
            return False  # it stays among the pending ones, which Serve goes through again in its next loop
        if step is Step.FAILED:
            _guarded("confine", lambda: _alone(scheduling_request), None)
        done = original(scheduler, scheduling_request, *args, **kwargs)
        if step is Step.IN_GROUP and not done:
            _guarded("cancel", lambda: groups.cancel(scheduling_request), None)
        return done

    return schedule_replica


def _removal(groups: Groups, original: Callable[..., None]) -> Callable[..., None]:
    def remove_placement_group(placement_group: PlacementGroup) -> None:
        if not _guarded("give back", lambda: groups.give_back(placement_group.id.hex()), False):
            original(placement_group)

    return remove_placement_group


def _lookup(groups: Groups, original: Callable[..., PlacementGroup]) -> Callable[..., PlacementGroup]:
    def get_placement_group(placement_group_name: str) -> PlacementGroup:
        if ReplicaID.is_full_id_str(placement_group_name):
            found = _guarded("look up", lambda: groups.group_of(placement_group_name), None)
            if found is not None:
                return found
        return original(placement_group_name)

    return get_placement_group


def _unclaimed(adopted: frozenset[str]) -> tuple[Standing, ...]:
    return tuple(fence for fence in serve_fences.read_all() if fence.group_id not in adopted)


def _alone(request: Any) -> None:
    """Let Serve place a replica itself: in a group of its own, on the nodes for serving where there are such nodes."""
    serve_private.give_group(request)
    if serve_fences.serving_nodes():
        serve_private.add_label(request, CLASS_LABEL, serve_fences.SERVING)


def _wrap(owner: Any, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    setattr(owner, name, wrapper(getattr(owner, name)))


def _guarded(what: str, step: Callable[[], T], otherwise: T) -> T:
    """Return what a step of ours returns; when it fails, log that and return `otherwise`."""
    try:
        return step()
    except Exception as error:  # the one guard of the hook, which runs in Serve's own loop
        sentence = f"{what}: {error!r}"
        if sentence not in _logged:
            _logged.add(sentence)
            logger.warning("the fleet leaves a replica to Serve, %s", sentence, exc_info=error)
        return otherwise


def _unknown_ray(missing: tuple[str, ...]) -> FaultError:
    return FaultError(
        f"Ray {ray.__version__} lacks {'; '.join(missing)}",
        where="Serve's controller",
        fix="Use a Ray that is supported; until then replicas start later, beside the groups that are kept for them",
    )
