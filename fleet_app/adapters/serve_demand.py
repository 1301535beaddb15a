"""What a service wants and how much of it Serve may start: the autoscaling side of the fleet in Serve's controller.

Wraps Serve's own request-based policy. What that one wants goes to the arbiter at once, before any of Serve's delays;
what comes back is a count. Who gets what is never decided here. Does not know nodes or groups.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ray.serve.autoscaling_policy import replica_queue_length_autoscaling_policy

from fleet_app.adapters import serve_private
from fleet_app.adapters.serve_board import ServeBoard
from fleet_app.engine.cards import MIG, WHOLE_SHARE, Slice
from fleet_app.engine.errors import FleetError, RequestError
from fleet_app.engine.values import Shape
from fleet_app.worker.contract import PARTITION_RESOURCE, Demand, service_name

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext

logger = logging.getLogger("ray.serve.fleet")

REPEAT_S = 2.0
"""A demand that does not change is said again after this time, so that the arbiter sees that the service lives."""

UNASKED_S = 0.5
"""A policy that was not asked for this long is not being asked (Serve starts its first replica without it)."""

MIB = 1024 * 1024


def allowed(*, wanted: int, granted: int, running: int, silent: bool) -> int:
    """Return how many replicas Serve should aim at.

    What is granted bounds what is wanted, but a grant that shrinks kills nothing that runs, and an arbiter that is
    silent bounds nothing: serving does not depend on it.
    """
    return wanted if silent else min(wanted, max(granted, running))


def shape_of(bundle: Mapping[str, float]) -> Shape:
    """Return the shape of a replica's bundle as Ray spells it, parts rounded up; part of a card is no GPU in it.

    Raises RequestError for what the fleet cannot keep ready: no GPU, more than one by a part, custom resources.
    """
    part = part_of(bundle)
    gpus = bundle.get("GPU", 0) if part is None else 0
    known = {"GPU", "CPU", "memory", part.partition if part is not None else ""}
    custom = sorted(name for name, amount in bundle.items() if amount and name not in known)
    if (part is None and gpus < 1) or gpus != int(gpus) or custom:
        raise RequestError(
            f"a replica asks for {dict(bundle)}",
            where="placement_group_bundles",
            fix="Give it one bundle of CPU, memory, and whole GPUs, a fraction of one, or one partition such as "
            "mig-1g.10gb; choose nodes by label instead of by resource",
        )
    return Shape(
        gpus=int(gpus),
        cpu_milli=math.ceil(round(bundle.get("CPU", 0) * 1000, 3)),
        memory_mib=math.ceil(bundle.get("memory", 0) / MIB),
    )


def part_of(bundle: Mapping[str, float]) -> Slice | None:
    """Return the part of one card that a bundle has in place of whole GPUs: a partition, or a share of a GPU."""
    gpus = bundle.get("GPU", 0)
    partitions = {name: amount for name, amount in bundle.items() if amount and PARTITION_RESOURCE.fullmatch(name)}
    if gpus == 0 and list(partitions.values()) == [1]:
        return Slice(profile=min(partitions).removeprefix(MIG))
    return Slice(share=round(gpus * WHOLE_SHARE)) if 0 < gpus < 1 and not partitions else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Where the replicas of a service ask to be beside others, as the board spells it: empty and 0 ask for nothing."""

    spread: str = ""
    per_node: int = 0
    apart_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A service and the terms on which it asks: `floor` in replicas, `shape` of one, its `part` of a card if any.

    `wish` is where it asks its replicas to be.
    """

    wish: Wish = field(default_factory=Wish)
    service: str
    team: str
    floor: int
    shape: Shape
    part: Slice | None = None


def ask_of(service: str, bundle: Mapping[str, float], keywords: Mapping[str, object], min_replicas: int) -> Ask:
    """Return the terms of a deployment from a replica's bundle and the policy's keywords. Raises RequestError."""
    team, floor = keywords.get("team"), keywords.get("floor", min_replicas)
    if not isinstance(team, str) or not team:
        raise RequestError(f"team is {team!r}", where="policy_kwargs.team", fix="Name the team that owns it")
    if isinstance(floor, bool) or not isinstance(floor, int) or floor < 0:
        raise RequestError(f"floor is {floor!r}", where="policy_kwargs.floor", fix="Give a number of replicas")
    return Ask(
        wish=wish_of(service, keywords),
        service=service,
        team=team,
        floor=floor,
        shape=shape_of(bundle),
        part=part_of(bundle),
    )


def wish_of(service: str, keywords: Mapping[str, object]) -> Wish:
    """Return where a deployment asks its replicas to be, from the policy's keywords. Raises RequestError."""
    spread, per_node = keywords.get("spread", ""), keywords.get("per_node", 0)
    apart_from = keywords.get("apart_from", ())
    if not isinstance(spread, str):
        raise RequestError(f"spread is {spread!r}", where="policy_kwargs.spread", fix="Name a topology level")
    if isinstance(per_node, bool) or not isinstance(per_node, int) or ("per_node" in keywords and per_node < 1):
        raise RequestError(f"per_node is {per_node!r}", where="policy_kwargs.per_node", fix="Give a number of replicas")
    names = list(apart_from) if isinstance(apart_from, list | tuple) else [None]
    if not all(isinstance(name, str) and name != service for name in names):
        fix = "List other services by their names, such as [app.Deployment]"
        raise RequestError(f"apart_from is {apart_from!r}", where="policy_kwargs.apart_from", fix=fix)
    return Wish(spread=spread, per_node=per_node, apart_from=tuple(map(str, names)))


class Lull:
    """The most that was wanted of late. Keeps only what may still become the most."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._recent: deque[tuple[float, int]] = deque()

    def most(self, wanted: int, now: float, within_s: float) -> int:
        """Take in what is wanted `now` (seconds), and return the most within the last `within_s`."""
        while self._recent and self._recent[-1][1] <= wanted:
            self._recent.pop()
        self._recent.append((now, wanted))
        while now - self._recent[0][0] > within_s:
            self._recent.popleft()
        return self._recent[0][1]


class Desk:
    """All services of one Serve controller, as far as the arbiter has been told of them."""

    def __init__(self, board: ServeBoard) -> None:
        """Speak to the arbiter over `board`."""
        self.board = board
        self._said: dict[str, Demand] = {}
        self._asked_at: dict[str, float] = {}
        self._lulls: dict[str, Lull] = {}
        self._complaints: dict[str, str] = {}

    def answer(self, ask: Ask, wanted: int, running: int, lull_s: float) -> int:
        """Tell the arbiter what is wanted and return how many replicas Serve should aim at. Raises FaultError.

        Less is announced only after it was less for `lull_s`, Serve's own downscale delay: a lull of a second must
        not send lent GPUs back and forth.
        """
        now = time.monotonic()
        self._asked_at[ask.service] = now
        self.announce(ask, self._lulls.setdefault(ask.service, Lull()).most(wanted, now, lull_s))
        outlook = self.board.outlook(ask.service)
        grants = outlook.grants.get(ask.service)
        granted = 0 if grants is None else grants.granted
        return allowed(wanted=wanted, granted=granted, running=running, silent=outlook.silent(time.time()))

    def announce(self, ask: Ask, wanted: int) -> None:
        """Say what a service wants, if that is new or was not said for a while. Raises FaultError."""
        now, said = time.time(), self._said.get(ask.service)
        demand = Demand(
            service=ask.service,
            team=ask.team,
            gpus=ask.shape.gpus,
            cpu_milli=ask.shape.cpu_milli,
            memory_mib=ask.shape.memory_mib,
            spread=ask.wish.spread,
            per_node=ask.wish.per_node,
            apart_from=ask.wish.apart_from,
            wanted=wanted,
            floor=ask.floor,
            at=now,
            partition="" if ask.part is None else ask.part.profile,
            share=0 if ask.part is None else ask.part.share,
        )
        news = said is None or replace(demand, at=said.at) != said
        if not news and said is not None and 0 <= now - said.at < REPEAT_S:
            return
        self.board.publish(demand)
        self._said[ask.service] = demand
        if news:
            self.board.wake()

    def announce_waiting(self, ask: Ask, replicas: int) -> None:
        """Say that a service has `replicas` that run or wait for a group, where its policy does not say it itself.

        Serve starts the first replica of a deployment, and those after a scale to zero, without asking the policy.
        """
        asked_at = self._asked_at.get(ask.service, float("-inf"))
        if time.monotonic() - asked_at > UNASKED_S:
            self.announce(ask, replicas)

    def complain(self, service: str, error: object) -> None:
        """Log what is wrong with a service, once for as long as it stays the same."""
        sentence = error.sentence() if isinstance(error, FleetError) else repr(error)
        if self._complaints.get(service) != sentence:
            self._complaints[service] = sentence
            logger.warning("%s is not shared by the fleet: %s", service, sentence)


@functools.cache
def desk() -> Desk:
    """Return the one desk of this process."""
    return Desk(ServeBoard())


def decide(context: AutoscalingContext, keywords: Mapping[str, object]) -> int:
    """Return how many replicas a deployment should have; whatever goes wrong, that is what its traffic needs."""
    wanted = wanted_of(context)
    service = service_name(context.app_name or "", context.deployment_name)
    try:
        ask = ask_of(service, _bundle(context, keywords), keywords, context.capacity_adjusted_min_replicas)
        lull_s = 0.0 if context.config is None else context.config.downscale_delay_s
        return desk().answer(ask, wanted, context.current_num_replicas, lull_s)
    except Exception as error:  # noqa: BLE001  # the one guard of this entry, which runs in Serve's own loop
        desk().complain(service, error)
        return wanted


def wanted_of(context: AutoscalingContext) -> int:
    """Return what Serve's own policy wants, within the deployment's bounds."""
    desired, _ = replica_queue_length_autoscaling_policy(context)
    # Serve rounds up; the sixth digit is where its own quotient of floats begins to lie.
    whole = math.ceil(round(desired, 6))
    return max(context.capacity_adjusted_min_replicas, min(context.capacity_adjusted_max_replicas, whole))


def _bundle(context: AutoscalingContext, keywords: Mapping[str, object]) -> Mapping[str, float]:
    """Return what a replica asks for, as the deployment says or, where that cannot be read, as the keywords do."""
    deployed = serve_private.deployed_bundle(context)
    if deployed is not None:
        return deployed
    stated = {"GPU": keywords.get("gpus", 0), "CPU": keywords.get("cpus", 0), "memory": keywords.get("memory", 0)}
    return {name: float(amount) for name, amount in stated.items() if isinstance(amount, int | float)}
