"""What others use is never taken for free, whatever is made and removed beside it, and however late Ray shows it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.ports import BundleView, GroupView, NodeView
from fleet_app.arbiter.sightings import SETTLE_S, Sightings, sighted
from tests.builders import shape
from tests.laws.effort import tries

TOTAL = 8
STEPS = st.tuples(st.sampled_from([0.02, 0.1, 0.3, 1.0]), st.sampled_from(["make", "remove", "look"]))


class Node:
    """A node that a stranger uses a part of, and Ray's view of it, which is `lag_s` late."""

    def __init__(self, foreign: int, lag_s: float) -> None:
        self.now, self.foreign, self.lag_s = 0.0, foreign, lag_s
        self.made: dict[str, float] = {}
        self.gone: dict[str, float] = {}

    def make(self) -> None:
        if len(self.made) + self.foreign < TOTAL:
            self.made[f"g{len(self.made) + len(self.gone)}"] = self.now

    def remove(self) -> None:
        for name in list(self.made)[:1]:
            if self.shows(name):
                del self.made[name]
                self.gone[name] = self.now

    def shows(self, name: str) -> bool:
        return self.now >= self.made[name] + self.lag_s

    def look(self) -> Facts:
        counted = sum(map(self.shows, self.made)) + sum(self.now < at + self.lag_s for at in self.gone.values())
        free = shape(TOTAL - self.foreign - counted)
        view = NodeView(node_id="id1", labels={}, alive=True, draining=False, total=shape(TOTAL), available=free)
        bundles = (BundleView(node_id="id1", shape=shape(1)),)
        groups = [GroupView(group_id=name, name=name, state="CREATED", bundles=bundles) for name in self.made]
        return Facts(now=self.now, nodes={"n1": view}, groups={one.name: one for one in groups})


@tries(200)
@given(st.integers(0, TOTAL), st.sampled_from([0.0, 0.1, 0.45]), st.lists(STEPS, max_size=20))
def test_what_is_foreign_is_never_undercounted(foreign: int, lag_s: float, steps: list[tuple[float, str]]) -> None:
    node = Node(foreign, lag_s)
    known = sighted(Sightings(), Book(), node.look())
    for after_s, what in steps:
        node.now = round(node.now + after_s, 3)
        if what != "look":
            getattr(node, what)()
        known = sighted(known, Book(), node.look())
        assert known.foreign["n1"].gpus >= foreign
    for _ in range(2):
        node.now += SETTLE_S
        known = sighted(known, Book(), node.look())
    assert known.foreign["n1"].gpus == foreign, "and all is known once nothing is made or removed"
