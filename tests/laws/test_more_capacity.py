"""More capacity makes nobody wait who is first to see the difference (docs/adr/0005 says why no more is promised)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.decide import steps
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Admit, Alike, Reason, Wait
from fleet_app.engine.policy import Pulls
from fleet_app.engine.values import Node
from tests import virtual
from tests.builders import gang, node, policy
from tests.laws.effort import tries
from tests.strategies import crowded, fleets, scattered
from tests.virtual import Fleet, fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a workload in its turn: where it starts, or whether room is coming for it."""

    workload: str
    nodes: tuple[str, ...]
    coming: bool
    alike: tuple[str, ...]


def answers(seen: Fleet) -> list[Answer]:
    """Return what became of everybody, in the order of the turns."""
    ledger = Ledger(seen.state, seen.policy, seen.now)
    found = []
    for part in steps(ledger, seen.state):
        if isinstance(part, Admit):
            found.append(Answer(workload=part.workload, nodes=part.nodes, coming=False, alike=()))
        elif isinstance(part, Wait):
            coming = part.reason is Reason.DRAIN_UNDER_WAY
            found.append(Answer(workload=part.workload, nodes=(), coming=coming, alike=()))
        elif isinstance(part, Alike):
            found[-1] = replace(found[-1], alike=part.names)
    return found


@st.composite
def more(draw: st.DrawFn) -> tuple[Node, ...]:
    """Return one or two empty training nodes of one leaf, known or new."""
    at = "/".join([draw(st.sampled_from(["a", "b"])), draw(st.sampled_from(["a", "b", "new"])), "a"])
    gpus = draw(st.sampled_from([2, 4, 8]))
    count = draw(st.integers(1, 2))
    name = draw(st.sampled_from(["a-new", "z-new"]))
    return tuple(node(f"{name}{i}", at=at, gpus=gpus, accelerator="h100", driver="550") for i in range(count))


@tries(400)
@given(
    seen=st.one_of(fleets(), scattered(), crowded().map(lambda crowd: crowd[0])),
    new=more(),
)
def test_the_first_to_see_the_difference_is_not_worse_off(seen: Fleet, new: tuple[Node, ...]) -> None:
    depth = len(seen.policy.levels)
    new = tuple(replace(one, domains=one.domains[:depth]) for one in new)
    # A cold node may have to be waited for, and a larger fleet may keep more unsound nodes out: see the ADR.
    seen = replace(seen, failures=(), policy=replace(seen.policy, pulls=Pulls()))
    before, after = answers(seen), answers(replace(seen, nodes=(*seen.nodes, *new)))
    for was, now in zip(before, after, strict=False):
        if was != now:
            assert now.workload == was.workload
            assert now.nodes or not was.nodes, (was, now)
            assert now.nodes or now.coming or not was.coming, (was, now)
            return


def test_a_later_one_may_be_worse_off_for_an_earlier_one_lies_better() -> None:
    """The smallest example: two gangs and three nodes, and one node more."""
    nodes = [node("n1", at="s1/l1"), node("n2", at="s1/l2"), node("x1", at="s1/l3", accelerator="x")]
    wide, picky = gang("wide", nodes=2), gang("picky", accelerator="x", submitted_at=1.0)
    seen = fleet(policy(), *nodes, wide, picky)
    assert virtual.cycle(seen).running() == {"wide", "picky"}
    larger = replace(seen, nodes=(*seen.nodes, node("x2", at="s1/l3", accelerator="x")))
    assert virtual.cycle(larger).running() == {"wide"}
