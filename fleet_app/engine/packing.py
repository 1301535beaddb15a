"""Emptying one node after another into the room that others have: where each thing goes (rule F2).

Knows things that may move, room, and which nodes may take what. Does not know who may move, nor why a node is to be
emptied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from fleet_app.engine.values import Shape

TRIED = 16
"""How many nodes of either sort are looked at, those with the most room first, to make room on one of them."""


class Moved(StrEnum):
    """What sort of thing moves, in the order in which it is worth moving: the cheapest first."""

    GRANT = "idle grant"
    REPLICA = "replica"
    JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something on a node that may move, and the nodes that may take it; `grant` is empty for a job."""

    kind: Moved
    what: str
    grant: str
    shape: Shape
    lost_gpu_s: float
    targets: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An item goes from one node to another; `room_for` names what it makes room for on its old one, if it does."""

    item: Item
    source: str
    target: str
    room_for: str = ""


class Packing:
    """Room as the steps so far leave it; what came to nothing has changed nothing.

    A node that has given something takes nothing, but for what it made room for, and one that has taken something is
    never emptied. So whatever makes room may go first, in any order, and everything else after it, in any order.
    """

    def __init__(
        self, room: dict[str, Shape], items: Mapping[str, Sequence[Item]], fixed: Sequence[str], able: Sequence[str]
    ) -> None:
        """Begin with the room as it is; `fixed` are nodes that stay in use whatever moves, `able` could be emptied."""
        self._room = room
        self._items = items
        self._fixed = frozenset(fixed)
        self._pools = (_Pool(fixed, room), _Pool(able, room))
        self._taking: set[str] = set()

    def empty(self, node: str, *, displace: bool) -> list[Step]:
        """Return the steps that empty a node, the largest thing first; none when it takes or one finds no place.

        With `displace` what finds no place may go where smaller things make room for it.
        """
        if node in self._taking:
            return []
        done: list[Step] = []
        barred = {node}
        for item in _largest_first(self._items[node]):
            if not (self._put(item, node, barred, done) or (displace and self._displace(item, node, barred, done))):
                self._undo(done, 0)
                return []
        for name in barred:
            self._pool_of(name).remove(name)
        for step in done:
            if not step.room_for:
                self._room[node] += step.item.shape
        self._taking.update(step.target for step in done)
        self._taking |= barred
        return done

    def _put(self, item: Item, source: str, barred: Collection[str], done: list[Step], room_for: str = "") -> bool:
        """Move an item to the fullest node that has room, first where nothing can be emptied; say whether it did."""
        for pool in self._pools:
            target = pool.find(item, barred)
            if target is not None:
                self._do(Step(item=item, source=source, target=target, room_for=room_for), done)
                return True
        return False

    def _displace(self, item: Item, source: str, barred: set[str], done: list[Step]) -> bool:
        """Move an item to a node on which smaller things make room and something stays; say whether it did."""
        hosts = [name for pool in self._pools for name in pool.roomiest(item, barred)]
        for host in hosts:
            begun, chosen = len(done), self._in_the_way(item, host)
            if chosen and all(self._put(one, host, {*barred, host}, done, item.what) for one in chosen):
                self._do(Step(item=item, source=source, target=host), done)
                barred.add(host)
                return True
            self._undo(done, begun)
        return False

    def _in_the_way(self, item: Item, host: str) -> list[Item]:
        """Return smaller things of which none can be spared to make room on a host; none when nothing would stay."""
        room, chosen = self._room[host], []
        for one in _largest_first(self._items.get(host, ())):
            if one.shape.gpus < item.shape.gpus and not item.shape.fits(room):
                room += one.shape
                chosen.append(one)
        for one in list(chosen):
            if item.shape.fits(room - one.shape):
                room -= one.shape
                chosen.remove(one)
        stays = host in self._fixed or len(chosen) < len(self._items[host])
        return chosen if stays and item.shape.fits(room) else []

    def _do(self, step: Step, done: list[Step]) -> None:
        self._pool_of(step.target).change(step.target, Shape() - step.item.shape)
        if step.room_for:
            self._pool_of(step.source).change(step.source, step.item.shape)
        done.append(step)

    def _undo(self, done: list[Step], begun: int) -> None:
        for step in reversed(done[begun:]):
            self._pool_of(step.target).change(step.target, step.item.shape)
            if step.room_for:
                self._pool_of(step.source).change(step.source, Shape() - step.item.shape)
        del done[begun:]

    def _pool_of(self, name: str) -> _Pool:
        return self._pools[0] if name in self._fixed else self._pools[1]


class _Pool:
    """Nodes that may take something in, by how many GPUs they have free: the fullest that has room is found at once."""

    def __init__(self, names: Iterable[str], room: dict[str, Shape]) -> None:
        self._room = room
        self._by_free: dict[int, dict[str, None]] = defaultdict(dict)
        for name in names:
            self._by_free[room[name].gpus][name] = None

    def remove(self, name: str) -> None:
        """Offer a node no more."""
        del self._by_free[self._room[name].gpus][name]

    def find(self, item: Item, barred: Collection[str]) -> str | None:
        """Return the fullest node that has room for the item and may take it."""
        for free in sorted(gpus for gpus in self._by_free if gpus >= item.shape.gpus):
            for name in self._by_free[free]:
                if name in item.targets and name not in barred and item.shape.fits(self._room[name]):
                    return name
        return None

    def roomiest(self, item: Item, barred: Collection[str]) -> list[str]:
        """Return the nodes that may take the item, those with the most GPUs free first: at most TRIED."""
        ordered = (name for free in sorted(self._by_free, reverse=True) for name in self._by_free[free])
        return list(islice((name for name in ordered if name in item.targets and name not in barred), TRIED))

    def change(self, name: str, by: Shape) -> None:
        """Count more room on a node, or less."""
        self.remove(name)
        self._room[name] += by
        self._by_free[self._room[name].gpus][name] = None


def _largest_first(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda one: (-one.shape.gpus, one.what, one.grant))
