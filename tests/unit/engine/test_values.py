"""Shapes and nodes."""

from __future__ import annotations

import pytest

from fleet_app.engine.values import NOTHING, Condition, Shape
from tests.builders import node, shape

FITS = {
    "nothing fits into nothing": (NOTHING, NOTHING, True),
    "what is exactly as large fits": (shape(8, cpus=4, memory_mib=1), shape(8, cpus=4, memory_mib=1), True),
    "one GPU too many does not": (shape(9), shape(8), False),
    "one thousandth of a CPU too many does not": (Shape(cpu_milli=1001), Shape(cpu_milli=1000), False),
    "one MiB too many does not": (shape(memory_mib=2), shape(memory_mib=1), False),
    "nothing does not fit where something is owed": (NOTHING, Shape(gpus=-1), False),
}


@pytest.mark.parametrize(("asked", "room", "want"), FITS.values(), ids=FITS)
def test_fits(asked: Shape, room: Shape, want: bool) -> None:
    assert asked.fits(room) is want


def test_shapes_add_and_subtract_part_by_part() -> None:
    one, other = Shape(gpus=1, cpu_milli=20, memory_mib=300), Shape(gpus=4, cpu_milli=5, memory_mib=6)
    assert one + other == Shape(gpus=5, cpu_milli=25, memory_mib=306)
    assert one - other == Shape(gpus=-3, cpu_milli=15, memory_mib=294)


def test_what_is_owed_can_be_read_as_nothing() -> None:
    assert Shape(gpus=-3, cpu_milli=15, memory_mib=-1).at_least_nothing() == Shape(cpu_milli=15)


@pytest.mark.parametrize(("some", "want"), [(NOTHING, True), (Shape(gpus=-1), True), (Shape(memory_mib=1), False)])
def test_is_nothing(some: Shape, want: bool) -> None:
    assert some.is_nothing() is want


@pytest.mark.parametrize("condition", Condition)
def test_only_a_ready_node_takes_new_work(condition: Condition) -> None:
    assert node(condition=condition).placeable is (condition is Condition.READY)


NOTHING_LEFT = {
    "nothing": (Shape(), True),
    "less than nothing": (Shape(gpus=-1, cpu_milli=-1, memory_mib=-1), True),
    "a GPU": (Shape(gpus=1), False),
    "a thousandth of a CPU": (Shape(cpu_milli=1), False),
    "a MiB": (Shape(memory_mib=1), False),
    "a GPU where too much of the rest is taken": (Shape(gpus=1, cpu_milli=-1, memory_mib=-1), False),
}


@pytest.mark.parametrize(("left", "want"), NOTHING_LEFT.values(), ids=NOTHING_LEFT)
def test_when_nothing_is_left(left: Shape, want: bool) -> None:
    assert left.is_nothing() is want
