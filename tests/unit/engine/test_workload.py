"""What a workload asks for and has, rank by rank."""

from __future__ import annotations

import pytest

from fleet_app.engine.values import Shape
from fleet_app.engine.workload import Grant, Workload, exchanged
from tests.builders import gang, shape

GROUPS = {"ps": (1, shape(0, cpus=16)), "actors": (2, shape(8))}

RANKS: dict[str, tuple[Workload, list[Shape], int, list[str]]] = {
    "one bundle": (gang(gpus=4), [shape(4)], 4, []),
    "several alike": (gang(nodes=3, gpus=4), [shape(4)] * 3, 12, []),
    "group after group": (gang(groups=GROUPS), [shape(0, cpus=16), shape(8), shape(8)], 16, []),
    "on its nodes": (gang(gpus=4, on=["n1", "n2"]), [shape(4)] * 2, 8, ["n1", "n2"]),
    "groups on theirs": (
        gang(groups=GROUPS, on=["n1", "n2", "n3"]),
        [shape(0, cpus=16), shape(8), shape(8)],
        16,
        ["n1", "n2", "n3"],
    ),
}


@pytest.mark.parametrize(("one", "shapes", "gpus", "nodes"), RANKS.values(), ids=RANKS)
def test_ranks(one: Workload, shapes: list[Shape], gpus: int, nodes: list[str]) -> None:
    assert list(one.shapes) == shapes
    assert one.gpus == gpus
    assert one.seats == list(zip(nodes, shapes, strict=False))


A, B, C, D = (Grant(name=name, node="n1") for name in "abcd")
EXCHANGED = {
    "nothing changed": ([A, B], [A, B], [], []),
    "one came last": ([A], [A, B], [], [B]),
    "one came first": ([B], [A, B], [], [A]),
    "one went": ([A, B, C], [A, C], [B], []),
    "one became another": ([A, B, C], [A, D, C], [B], [D]),
    "between two that changed others are named as well": ([A, B, C], [D, B], [A, B, C], [D, B]),
    "all came": ([], [A, B], [], [A, B]),
    "all went": ([A, B], [], [A, B], []),
    "of two that are the same one went": ([A, A], [A], [A], []),
}


@pytest.mark.parametrize(("old", "new", "gone", "come"), EXCHANGED.values(), ids=EXCHANGED)
def test_exchanged(old, new, gone, come):
    assert exchanged(old, new) == (gone, come)
