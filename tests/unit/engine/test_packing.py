"""Emptying nodes into the room that others have (F2)."""

from __future__ import annotations

import pytest

from fleet_app.engine.packing import Item, Moved, Packing, Step
from fleet_app.engine.values import Shape
from tests.builders import shape

EVERYWHERE = frozenset({"n1", "n2", "n3", "n4"})


def item(what: str, gpus: int, targets: frozenset[str] = EVERYWHERE) -> Item:
    return Item(kind=Moved.REPLICA, what=what, grant="g", shape=shape(gpus), lost_gpu_s=0.0, targets=targets)


def packing(on: dict[str, list[Item]], *, fixed: dict[str, int] | None = None) -> tuple[Packing, dict[str, Shape]]:
    """Return a packing of nodes of 8 GPUs with these items, and of `fixed` ones with so many free; and its room."""
    room = {name: shape(8 - sum(one.shape.gpus for one in there)) for name, there in on.items()}
    room |= {name: shape(free) for name, free in (fixed or {}).items()}
    return Packing(room, on, list(fixed or {}), [name for name in on if name not in (fixed or {})]), room


def said(steps: list[Step]) -> list[str]:
    room_for = (f" for {step.room_for}" if step.room_for else "" for step in steps)
    return [f"{s.item.what} {s.source}-{s.target}{why}" for s, why in zip(steps, room_for, strict=True)]


ALONE: dict[str, tuple[dict[str, list[Item]], dict[str, int], list[str]]] = {
    "the fullest node that has room": (
        {"n1": [item("a", 1)], "n2": [item("b", 2)], "n3": [item("c", 7)]},
        {},
        ["a n1-n3"],
    ),
    "first where nothing can be emptied": ({"n1": [item("a", 1)], "n2": [item("b", 7)]}, {"n3": 5}, ["a n1-n3"]),
    "the largest first": ({"n1": [item("a", 1), item("b", 3)]}, {"n3": 3, "n4": 2}, ["b n1-n3", "a n1-n4"]),
    "only where it may go": ({"n1": [item("a", 1, frozenset({"n4"}))]}, {"n3": 1, "n4": 2}, ["a n1-n4"]),
    "not where it is": ({"n1": [item("a", 1)]}, {}, []),
    "all or nothing": ({"n1": [item("a", 1), item("b", 3)]}, {"n3": 3}, []),
    "room is made where something stays": (
        {"n1": [item("a", 4)], "n2": [item("b", 2), item("c", 3)]},
        {"n3": 3},
        ["c n2-n3 for a", "a n1-n2"],
    ),
    "room is not made where nothing would stay": ({"n1": [item("a", 6)], "n2": [item("c", 3)]}, {"n3": 3}, []),
    "half the room is no room": (
        {"n1": [item("a", 6)], "n2": [item("b", 2), item("c", 2), item("d", 2)]},
        {"n3": 2},
        [],
    ),
    "but where what stays cannot move": (
        {"n1": [item("a", 6)], "n3": [item("c", 3)]},
        {"n3": 4, "n4": 3},
        ["c n3-n4 for a", "a n1-n3"],
    ),
}


@pytest.mark.parametrize(("on", "fixed", "want"), ALONE.values(), ids=ALONE)
def test_emptying_one_node(on: dict[str, list[Item]], fixed: dict[str, int], want: list[str]) -> None:
    packed, room = packing(on, fixed=fixed)
    before = dict(room)
    assert said(packed.empty("n1", displace=True)) == want
    assert (room["n1"].gpus == 8) == bool(want)
    assert sum(free.gpus for free in room.values()) == sum(free.gpus for free in before.values())
    assert want or room == before


def test_without_displacing_nothing_makes_room() -> None:
    packed, _ = packing({"n1": [item("a", 4)], "n2": [item("b", 2), item("c", 3)]}, fixed={"n3": 3})
    assert packed.empty("n1", displace=False) == []


def test_what_has_taken_something_is_not_emptied_and_what_is_empty_takes_nothing() -> None:
    packed, _ = packing({"n1": [item("a", 1)], "n2": [item("b", 2)], "n3": [item("c", 7)]})
    assert said(packed.empty("n1", displace=True)) == ["a n1-n3"]
    assert said(packed.empty("n3", displace=True)) == []
    assert said(packed.empty("n2", displace=True)) == []
