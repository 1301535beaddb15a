"""P7, P12: groups of several shapes find nodes whenever there is a way, and a count of nodes alike knows it too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import event, given
from hypothesis import strategies as st

from fleet_app.engine.matching import Sought, Tally, nearest, place
from fleet_app.engine.values import Node, NodeClass, Shape
from tests.builders import node, shape
from tests.laws.effort import tries
from tests.laws.reference import together
from tests.strategies import groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Groups, nodes, and what is free on each."""

    sought: Sought
    nodes: tuple[Node, ...]
    room: dict[str, Shape]

    def fits(self, name: str, asked: Shape) -> bool:
        return asked.fits(self.room[name])

    def placed(self) -> tuple[str, ...] | None:
        return place(self.sought, self.nodes, self.fits, lambda one: (self.room[one.name].gpus,))

    def shapes(self) -> list[Shape]:
        return [group.shape for group in self.sought.groups for _ in range(group.bundles)]

    def has_a_way(self, depth: int) -> bool:
        """Return whether some domain so deep holds all of them, by trying."""
        kinds = {
            (one.accelerator, one.driver)
            for one in self.nodes
            if self.sought.accelerator in {None, one.accelerator} or not self.sought.gpus
        }
        parts = {(one.domains[:depth], one.node_class) for one in self.nodes if len(one.domains) >= depth}
        return any(
            together([self.options(asked, part, of, kind) for asked in self.shapes()], set())
            for part, of in parts
            for kind in kinds
        )

    def options(self, asked: Shape, part: tuple[str, ...], of: NodeClass, kind: tuple[str, str]) -> set[str]:
        return {
            one.name
            for one in self.nodes
            if len(one.domains) >= len(part)
            and (one.domains[: len(part)], one.node_class) == (part, of)
            and (not asked.gpus or (one.accelerator, one.driver) == kind)
            and self.fits(one.name, asked)
        }


@st.composite
def questions(draw: st.DrawFn) -> Question:
    found: list[Node] = []
    for number in range(draw(st.integers(2, 7))):
        where = draw(st.sampled_from(["a/a", "a/a", "a/b", "b/a", "a"]))
        kind = draw(st.sampled_from(["h100", "h100", "h100", "a100"]))
        serving = draw(st.sampled_from([False, False, False, True]))
        found.append(node(f"n{number}", at=where, accelerator=kind, serving=serving))
    room = {
        one.name: shape(draw(st.sampled_from([0, 1, 2, 4])), cpus=draw(st.sampled_from([1, 3, 6]))) for one in found
    }
    sought = Sought(
        groups=draw(groups()),
        depth=draw(st.integers(0, 2)),
        accelerator=draw(st.sampled_from([None, None, "h100", "b200"])),
    )
    return Question(sought=sought, nodes=tuple(found), room=room)


@tries(600)
@given(asked=questions())
def test_a_joint_placement_is_found_whenever_there_is_one(asked: Question) -> None:
    found = asked.placed()
    event("found" if found else "none")
    assert (found is not None) == asked.has_a_way(asked.sought.depth)
    assert (found is not None) == bool(Tally(asked.sought, {one.name: one for one in asked.nodes}, asked.fits).ample)
    if found is None:
        near = nearest(asked.sought, asked.nodes, asked.fits)
        assert any(len(one) < group.bundles for one, group in zip(near, asked.sought.groups, strict=True))
        return
    by_name = {one.name: one for one in asked.nodes}
    assert len(set(found)) == len(found) == asked.sought.bundles
    assert all(asked.fits(name, wants) for name, wants in zip(found, asked.shapes(), strict=True))
    bound = [by_name[name] for name, wants in zip(found, asked.shapes(), strict=True) if wants.gpus]
    assert len({(one.accelerator, one.driver) for one in bound}) <= 1
    assert {one.accelerator for one in bound} <= {asked.sought.accelerator or one.accelerator for one in bound}
    deepest = max(depth for depth in (0, 1, 2) if asked.has_a_way(depth))
    assert shared([by_name[name].domains for name in found]) >= deepest


@tries(200)
@given(asked=questions(), changes=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 6))))
def test_a_tally_that_follows_says_what_a_new_one_says(asked: Question, changes: list[tuple[int, int, int]]) -> None:
    by_name = {one.name: one for one in asked.nodes}
    followed = Tally(asked.sought, by_name, asked.fits)
    for which, gpus, cpus in changes:
        name = asked.nodes[which % len(asked.nodes)].name
        asked.room[name] = shape(gpus, cpus=cpus)
        followed.look(name)
        assert followed.ample == Tally(asked.sought, by_name, asked.fits).ample


def shared(paths: Sequence[tuple[str, ...]]) -> int:
    """Return how many levels all paths have in common."""
    depth = 0
    while all(len(path) > depth for path in paths) and len({path[depth] for path in paths}) == 1:
        depth += 1
    return depth
