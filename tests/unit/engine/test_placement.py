"""Which nodes: the smallest domain, the best fit in it, ranks in the order of the fabric (P1 to P4)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fleet_app.engine.placement import blocks, domains, has_block, most, place, uniform
from fleet_app.engine.values import Node
from tests.builders import node, nodes

TWO_LEAVES = [*nodes(2, at="s1/l1"), *nodes(4, at="s1/l2", first=3), *nodes(3, at="s2/l3", first=7)]
MIXED = [*nodes(3, prefix="a"), *(node(f"b{i}", accelerator="b200") for i in (1, 2)), node("d1", driver="560")]


def placed(
    fitting: list[Node], bundles: int, depth: int = 0, free: Mapping[str, int] | None = None
) -> list[str] | None:
    """Return the nodes chosen; `free` has the free GPUs of those that are not empty."""
    known = free or {}
    found = place(fitting, bundles, depth, lambda node: (known.get(node.name, node.capacity.gpus),))
    return None if found is None else list(found)


PLACES = {
    "one bundle takes the leaf with the fewest nodes": (TWO_LEAVES, 1, 0, {}, ["n1"]),
    "a fuller node first": (TWO_LEAVES, 1, 0, {"n4": 3}, ["n4"]),
    "a leaf that fits exactly": (TWO_LEAVES, 3, 0, {}, ["n7", "n8", "n9"]),
    "of two that fit the one whose second node is fuller too": (
        [*nodes(2, at="s1/l1"), *nodes(2, at="s1/l2", first=3)],
        2,
        0,
        {"n1": 1, "n3": 1, "n4": 3},
        ["n3", "n4"],
    ),
    "the deepest domain wins over a fuller one": (TWO_LEAVES, 2, 0, {"n1": 1, "n3": 1}, ["n1", "n2"]),
    "no leaf has five, a spine has": (TWO_LEAVES, 5, 0, {}, ["n1", "n3", "n4", "n5", "n6"]),
    "no spine has seven, the fleet has": (TWO_LEAVES, 7, 0, {}, ["n1", "n2", "n3", "n4", "n5", "n6", "n7"]),
    "a demanded leaf is not exceeded": (TWO_LEAVES, 5, 2, {}, None),
    "a demanded spine may be a leaf": (TWO_LEAVES, 3, 1, {}, ["n7", "n8", "n9"]),
    "more than there are": (TWO_LEAVES, 10, 0, {}, None),
    "none of nothing": ([], 1, 0, {}, None),
    "accelerators are not mixed": (MIXED, 4, 0, {}, None),
    "of two accelerators the one with fewer to spare": (MIXED, 2, 0, {}, ["b1", "b2"]),
    "whichever of them comes first": (
        [*MIXED, *(node(f"c{i}", accelerator="z200") for i in range(4)), *(node(f"d{i}") for i in (1, 2, 3))],
        4,
        0,
        {},
        ["c0", "c1", "c2", "c3"],
    ),
    "and of those the fuller one": (MIXED, 1, 0, {"d1": 7, "a1": 5, "b1": 6}, ["a1"]),
    "nor drivers": (MIXED, 3, 0, {}, ["a1", "a2", "a3"]),
    "a node of no known leaf is in no leaf": ([node("n1", at="s1"), node("n2", at="s1")], 2, 2, {}, None),
    "but in the fleet": ([node("n1", at=""), node("n2", at="s1/l1")], 2, 0, {}, ["n1", "n2"]),
    "ranks follow the fabric": ([node("z", at="s1/l1"), node("a", at="s1/l2")], 2, 0, {}, ["z", "a"]),
}


@pytest.mark.parametrize(("fitting", "bundles", "depth", "free", "want"), PLACES.values(), ids=PLACES)
def test_place(fitting: list[Node], bundles: int, depth: int, free: dict[str, int], want: list[str] | None) -> None:
    assert placed(fitting, bundles, depth, free) == want


def test_what_is_left_over_stays_in_the_largest_block() -> None:
    leaves = [*nodes(4, at="s1/l1"), *nodes(4, at="s1/l2", first=5), *nodes(2, at="s1/l3", first=9)]
    chosen = placed(leaves, 6, 1)
    assert chosen is not None
    assert sorted(chosen) == ["n10", "n5", "n6", "n7", "n8", "n9"]


def test_domains_are_whole_prefixes() -> None:
    found = domains([node("a", at="s1/l1"), node("b", at="s2/l1"), node("c", at="s2")], 2)
    assert {key: [one.name for one in there] for key, there in found.items()} == {
        ("s1", "l1"): ["a"],
        ("s2", "l1"): ["b"],
    }


def test_a_node_whose_place_is_not_known_so_deep_is_in_no_block() -> None:
    """P4."""
    there = [node("a", at="s1/l1"), node("b", at="s1"), node("c", at="s1/l1")]
    assert [[one.name for one in block] for block in blocks(there, 2).values()] == [["a", "c"]]
    assert (has_block(there, 2, 2), has_block(there, 3, 2), has_block(there, 3, 1)) == (True, False, True)


def test_most_counts_one_kind_in_one_domain() -> None:
    assert (most(MIXED, 0), most(TWO_LEAVES, 0), most(TWO_LEAVES, 1), most(TWO_LEAVES, 2), most([], 0)) == (
        3,
        9,
        6,
        4,
        0,
    )


def test_uniform_splits_by_accelerator_and_driver() -> None:
    assert [[one.name for one in kind] for kind in uniform(MIXED)] == [["b1", "b2"], ["a1", "a2", "a3"], ["d1"]]
