"""What a node's cards are cut into, as Ray's label and resources tell it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fleet_app.arbiter.partitions import layouts_of, pieces_in
from fleet_app.arbiter.ports import NodeView
from fleet_app.engine.layouts import Layout
from fleet_app.engine.values import NOTHING, Shape

SEVENTHS: Layout = ("1g.10gb",) * 7
MIXED: Layout = ("3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb")


def view(*, gpus: int = 0, label: str = "", accelerator: str = "H100", slices: Mapping[str, int]) -> NodeView:
    labels = {"ray.io/accelerator-type": accelerator} | ({"fleet/partition": label} if label else {})
    total = Shape(gpus=gpus)
    return NodeView(
        node_id="a", labels=labels, alive=True, draining=False, total=total, available=NOTHING, slices=slices
    )


CASES: dict[str, tuple[NodeView, list[Layout]]] = {
    "GPUs are whole cards": (view(gpus=2, slices={"shared": 20_000}), [(), ()]),
    "but where the label says that they are shared": (
        view(gpus=2, label="shared", slices={"shared": 20_000}),
        [("shared",), ("shared",)],
    ),
    "partitions that one card holds are on one": (view(slices={"mig-1g.10gb": 7}), [SEVENTHS]),
    "more are on cards that are alike": (view(slices={"mig-1g.10gb": 14}), [SEVENTHS, SEVENTHS]),
    "also where each has several profiles": (
        view(slices={"mig-1g.10gb": 4, "mig-2g.20gb": 2, "mig-3g.40gb": 2}),
        [MIXED, MIXED],
    ),
    "what no cards that are alike could have is packed": (
        view(slices={"mig-1g.10gb": 8, "mig-3g.40gb": 1}),
        [("3g.40gb", "1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb"), ("1g.10gb",) * 4],
    ),
    "cut cards come before whole ones": (view(gpus=1, slices={"mig-1g.10gb": 7, "shared": 10_000}), [SEVENTHS, ()]),
    "what the accelerator has not is alone on its card": (
        view(accelerator="L4", slices={"mig-1g.10gb": 2}),
        [("1g.10gb",), ("1g.10gb",)],
    ),
    "of a label that nobody understands GPUs are no cards": (view(gpus=2, label="odd", slices={}), []),
    "a node without any has none": (view(slices={}), []),
}


@pytest.mark.parametrize(("seen", "want"), CASES.values(), ids=CASES)
def test_layouts_of(seen: NodeView, want: list[Layout]) -> None:
    assert layouts_of(seen) == tuple(want)


def test_pieces_are_counted_as_ray_counts_them() -> None:
    assert pieces_in((SEVENTHS, ("shared",), ("shared",), ())) == {"mig-1g.10gb": 7, "shared": 20_000}
