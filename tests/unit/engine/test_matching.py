"""Groups of several shapes on nodes: a matching, not greed; the smallest domain; one kind for all GPUs (P7)."""

from __future__ import annotations

import pytest

from fleet_app.engine.matching import Sought, Tally, kept, nearest, place
from fleet_app.engine.values import Node, Shape
from fleet_app.engine.workload import Group
from tests.builders import node, nodes, shape

CPU_NODE = node("c1", gpus=0, cpus=64)
LEAVES = [*nodes(3, at="s1/l1"), *nodes(2, prefix="m", at="s1/l2")]
KINDS = [*nodes(2, prefix="a"), node("b1", accelerator="b200"), node("b2", accelerator="b200")]


def sought(*parts: tuple[int, Shape], depth: int = 0, accelerator: str | None = None) -> Sought:
    found = tuple(
        Group(name=f"g{number}", bundles=count, shape=of) for number, (count, of) in enumerate(parts, start=1)
    )
    return Sought(groups=found, depth=depth, accelerator=accelerator)


def fits_in(found: list[Node], **room: Shape):
    free = {one.name: room.get(one.name, one.capacity) for one in found}
    return lambda name, asked: asked.fits(free[name]), lambda one: (free[one.name].gpus,)


PLACES = {
    "what asks for no GPU goes where there is none": (
        sought((1, shape(0, cpus=16)), (2, shape(8))),
        [*nodes(2), CPU_NODE],
        {},
        ["c1", "n1", "n2"],
    ),
    "else to a node with GPUs": (sought((1, shape(0, cpus=16)), (1, shape(8))), [*nodes(2)], {}, ["n2", "n1"]),
    "the only node for one group is left to it": (
        sought((1, shape(4)), (1, shape(2, cpus=32))),
        [node("small", cpus=1), node("large", cpus=64)],
        {"large": shape(5, cpus=64)},
        ["small", "large"],
    ),
    "the smallest domain that holds all": (sought((1, shape(1)), (1, shape(8))), LEAVES, {}, ["m2", "m1"]),
    "a domain above when no smaller one does": (
        sought((3, shape(8)), (1, shape(0, cpus=1))),
        LEAVES,
        {},
        ["n1", "n2", "n3", "m1"],
    ),
    "never beyond the level asked for": (sought((3, shape(8)), (1, shape(0, cpus=1)), depth=2), LEAVES, {}, None),
    "a bundle a node": (sought((1, shape(1)), (1, shape(1))), nodes(1), {}, None),
    "all GPUs of one kind": (sought((2, shape(8)), (1, shape(1))), KINDS, {}, None),
    "the rest of any": (sought((1, shape(8)), (1, shape(4)), (1, shape(0, cpus=1))), KINDS, {}, ["b1", "b2", "a1"]),
    "the accelerator asked for": (
        sought((1, shape(8)), (1, shape(0, cpus=1)), accelerator="b200"),
        [*KINDS[:2], KINDS[2]],
        {},
        ["b1", "a1"],
    ),
    "no accelerator of that name": (sought((1, shape(8)), (1, shape(0)), accelerator="x"), KINDS, {}, None),
    "no GPUs at all": (sought((1, shape(0, cpus=1)), (1, shape(0, cpus=2))), KINDS[1:3], {}, ["b1", "a2"]),
    "the order of the groups is the order of the ranks": (
        sought((1, shape(2)), (1, shape(8)), (1, shape(4))),
        nodes(3),
        {},
        ["n3", "n1", "n2"],
    ),
    "no nodes": (sought((1, shape(1)), (1, shape(2))), [], {}, None),
}


@pytest.mark.parametrize(("asked", "found", "room", "want"), PLACES.values(), ids=PLACES)
def test_place(asked: Sought, found: list[Node], room: dict[str, Shape], want: list[str] | None) -> None:
    fits, tightness = fits_in(list(found), **room)
    chosen = place(asked, list(found), fits, tightness)
    assert (None if chosen is None else list(chosen)) == want


def test_the_nearest_domain_gives_the_hardest_group_its_nodes_first() -> None:
    asked = sought((2, shape(0, cpus=1)), (2, shape(8)), depth=2)
    fits, _ = fits_in(LEAVES)
    assert [[one.name for one in group] for group in nearest(asked, LEAVES, fits)] == [["n3"], ["n1", "n2"]]


def test_nodes_of_one_class_are_looked_at_together_servings_first() -> None:
    """P12, P2."""
    both = [node("a"), node("b", serving=True), node("c", serving=True), node("d")]
    fits, tightness = fits_in(both)
    assert place(sought((1, shape(8)), (2, shape(1))), both, fits, tightness) is None
    assert [[one.name for one in group] for group in nearest(sought((2, shape(8)), (1, shape(1))), both, fits)] == [
        ["b", "c"],
        [],
    ]


def test_the_nearest_nodes_are_of_one_kind_too() -> None:
    fits, _ = fits_in(KINDS)
    found = nearest(sought((3, shape(8)), (1, shape(1))), KINDS, fits)
    assert [[one.name for one in group] for group in found] == [["b1", "b2"], []]


def test_what_groups_ask_for_together() -> None:
    asked = sought((2, shape(1)), (1, shape(8)), (3, shape(0, cpus=1)))
    assert (asked.gpus, asked.bundles) == (10, 6)


def test_kept_nodes_are_those_that_fit_already_and_others_that_would_if_they_were_empty() -> None:
    asked = sought((2, shape(8)), (1, shape(4)))
    found = list(nodes(4))
    near, _ = fits_in(found, n1=shape(0), n2=shape(0), n3=shape(4, cpus=1))
    ever, _ = fits_in(found)
    assert [[one.name for one in group] for group in kept(asked, found, near, ever)] == [["n1", "n4"], ["n3"]]
    assert kept(sought((4, shape(8)), (1, shape(1))), found, near, ever) is None


def test_a_tally_follows_what_changes() -> None:
    found = {one.name: one for one in nodes(2)}
    free = {name: shape(0) for name in found}
    tally = Tally(sought((1, shape(8)), (1, shape(1))), found, lambda name, asked: asked.fits(free[name]))
    assert tally.ample == 0
    free["n1"] = shape(8)
    tally.look("n1")
    assert tally.ample == 0
    free["n2"] = shape(1)
    tally.look("n2")
    assert tally.ample == 1
    free["n1"] = shape(7)
    tally.look("n1")
    assert tally.ample == 0


def test_a_tally_counts_no_node_whose_place_is_not_known_so_deep() -> None:
    """P4."""
    found = {one.name: one for one in (node("n1", at="s1/l1"), node("n2", at="s1"))}
    asks = (1, shape(8)), (1, shape(1))
    assert [Tally(sought(*asks, depth=depth), found, lambda *_: True).ample for depth in (1, 2)] == [1, 0]
