"""The board on Ray's internal KV: notices and grants go out, demands, acknowledgements and beats come in.

Keys and JSON are `fleet_app.worker.contract`'s. An entry that breaks the contract is left out, as if it were not
there: whoever writes nonsense must not stop the arbiter. Does not know what the entries are for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TypeVar

from fleet_app.adapters import private
from fleet_app.arbiter.ports import Ack, Beat, BoardView, Clock, Demand, Fence, Seat
from fleet_app.engine.cards import Slice
from fleet_app.engine.policy import Affinity
from fleet_app.engine.values import Shape
from fleet_app.worker import contract

E = TypeVar("E", contract.Ack, contract.Beat, contract.Demand, contract.Adoption)

_OF_ATTEMPTS = (contract.NOTICE, contract.BEAT, contract.ACK, contract.DONE, contract.MEMBERS, contract.GONE)


class RayBoard:
    """The board of the cluster that this process is connected to."""

    def __init__(self, clock: Clock) -> None:
        """Take the clock that dates what the arbiter posts."""
        self._clock = clock

    def observe(self) -> BoardView:
        """Return everything that is posted: two round trips, whatever its number."""
        posted = private.kv_read(contract.BOARD_NAMESPACE)
        adoptions = dict(_entries(posted, contract.ADOPTED, contract.Adoption))
        return BoardView(
            acks=tuple(
                Ack(attempt=attempt, uri=ack.uri, step=ack.step, at=ack.at)
                for attempt, ack in _entries(posted, contract.ACK, contract.Ack)
            ),
            beats=tuple(
                Beat(attempt=attempt, step=beat.step, at=beat.at)
                for attempt, beat in _entries(posted, contract.BEAT, contract.Beat)
            ),
            demands=tuple(_demand(demand) for _, demand in _entries(posted, contract.DEMAND, contract.Demand)),
            adopted={group_id: adoption.replica for group_id, adoption in adoptions.items()},
            adopted_for={group_id: adoption.service for group_id, adoption in adoptions.items() if adoption.service},
            done=frozenset(_attempts(posted, contract.DONE)),
            posted=frozenset(_attempts(posted, *_OF_ATTEMPTS)),
            gone=frozenset(_attempts(posted, contract.GONE)),
        )

    def notify(self, attempt: str, deadline_at: float | None, why: str) -> None:
        """Post a drain notice where the attempt's ranks look; a later notice replaces it."""
        _post(contract.notice_key(attempt), contract.Notice(deadline_at=deadline_at, why=why))

    def clear(self, attempt: str) -> None:
        """Remove everything that stands for an attempt, or a member of one, that is over."""
        for prefix in _OF_ATTEMPTS:
            private.kv_delete(contract.BOARD_NAMESPACE, prefix + attempt)

    def publish_members(self, attempt: str, members: tuple[Seat, ...]) -> None:
        """Tell an elastic attempt which members it has; what was told before is replaced."""
        told = tuple(contract.Member(node=one.node, group_id=one.group_id, leaving=one.leaving) for one in members)
        _post(contract.members_key(attempt), contract.Members(members=told))

    def publish_grants(self, service: str, granted: int, fences: tuple[Fence, ...]) -> None:
        """Tell Serve how many replicas the service may have, and which groups stand ready for the next ones."""
        grants = contract.Grants(granted=granted, fences=tuple(map(_fence, fences)), at=self._clock.now())
        _post(contract.grants_key(service), grants)

    def renew_lease(self, at: float) -> None:
        """Say that the arbiter is alive; Serve helps itself when this is older than 10 s."""
        _post(contract.LEASE, contract.Lease(at=at, pid=os.getpid()))

    def claim(self, group_id: str) -> bool:
        """Take a group out of Serve's reach; return False when a replica has it. One's own claim counts as made."""
        key = contract.adopted_key(group_id)
        claim = contract.Adoption(replica="", service="", at=self._clock.now())
        if private.kv_claim(contract.BOARD_NAMESPACE, key, contract.encode(claim)):
            return True
        standing = private.kv_read(contract.BOARD_NAMESPACE, key)
        return any(not adoption.replica for _, adoption in _entries(standing, key, contract.Adoption))

    def forget_adoption(self, group_id: str) -> None:
        """Remove the note that a replica lives in a group, once that group is gone."""
        private.kv_delete(contract.BOARD_NAMESPACE, contract.adopted_key(group_id))


def _attempts(posted: Mapping[str, bytes], *prefixes: str) -> Iterator[str]:
    """Yield the attempts that something stands for under one of the prefixes."""
    for key in posted:
        for prefix in prefixes:
            if key.startswith(prefix):
                yield key.removeprefix(prefix)


def _post(key: str, entry: contract.Entry) -> None:
    private.kv_write(contract.BOARD_NAMESPACE, key, contract.encode(entry))


def _entries(posted: Mapping[str, bytes], prefix: str, kind: type[E]) -> Iterator[tuple[str, E]]:
    for key, raw in posted.items():
        if key.startswith(prefix):
            try:
                yield key.removeprefix(prefix), contract.decode(kind, raw)
            except contract.BadEntryError:
                continue


def _demand(posted: contract.Demand) -> Demand:
    return Demand(
        service=posted.service,
        team=posted.team,
        shape=Shape(gpus=posted.gpus, cpu_milli=posted.cpu_milli, memory_mib=posted.memory_mib),
        affinity=_affinity(posted),
        wanted=posted.wanted,
        floor=posted.floor,
        at=posted.at,
        slice=Slice(profile=posted.partition, share=posted.share) if posted.partition or posted.share else None,
    )


def _affinity(posted: contract.Demand) -> Affinity | None:
    """Return where a service asks its replicas to be; None where it asks for nothing (S8)."""
    if not (posted.spread or posted.per_node or posted.apart_from):
        return None
    return Affinity(
        service=posted.service,
        spread=posted.spread or None,
        per_node=posted.per_node or None,
        apart_from=posted.apart_from,
    )


def _fence(fence: Fence) -> contract.Fence:
    return contract.Fence(
        group_id=fence.group_id,
        node_id=fence.node_id,
        gpus=fence.shape.gpus,
        cpu_milli=fence.shape.cpu_milli,
        memory_mib=fence.shape.memory_mib,
        partition="" if fence.slice is None else fence.slice.profile,
        share=0 if fence.slice is None else fence.slice.share,
    )
