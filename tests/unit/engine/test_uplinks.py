"""Work that spans domains keeps off the uplinks that other such work uses, where it can (P9)."""

from __future__ import annotations

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Admit
from fleet_app.engine.uplinks import uplinks, use
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload
from tests.builders import backfill, gang, node, nodes, policy, state, team

RULES = policy(team("research", nominal=1000), team("vision", nominal=1000))
LEAVES = ("s1/l1", "s1/l2", "s1/l3", "s1/l4")


def fabric(count: int = 2) -> list[Node]:
    """Return one spine of four leaves with so many nodes each: a1, a2, b1, ..."""
    return [one for prefix, at in zip("abcd", LEAVES, strict=True) for one in nodes(count, prefix=prefix, at=at)]


USED: dict[str, tuple[list[Workload], set[str]]] = {
    "nobody uses any": ([], set()),
    "work of one node uses none": ([gang(on=["a1"])], set()),
    "nor does work inside one leaf": ([gang(nodes=2, on=["a1", "a2"])], set()),
    "work on two leaves uses both of theirs": ([gang(nodes=2, on=["a1", "b1"])], {"s1/l1", "s1/l2"}),
    "backfill too": ([backfill(nodes=2, on=["c1", "d1"])], {"s1/l3", "s1/l4"}),
}


@pytest.mark.parametrize(("running", "want"), USED.values(), ids=USED)
def test_used(running: list[Workload], want: set[str]) -> None:
    ledger = Ledger(state(*fabric(), *running), RULES, 100.0)
    assert {"/".join(path) for path in uplinks(ledger, 2)} == want
    assert uplinks(ledger, 1) == frozenset()


def test_on_two_spines_the_spines_uplinks_are_used_too() -> None:
    ledger = Ledger(state(node("n1", at="s1/l1"), node("n2", at="s2/l1")), RULES, 100.0)
    uplinks(ledger, 2)
    use(ledger, ("n1", "n2"))
    assert uplinks(ledger, 2) == {("s1",), ("s2",), ("s1", "l1"), ("s2", "l1")}


def spanning(*names: str) -> Workload:
    return gang("x", nodes=len(names), team="vision", on=list(names))


PLACED: dict[str, tuple[list[Node | Workload], tuple[str, ...]]] = {
    "two leaves that nobody leaves": (
        [
            *fabric(3),
            gang("x", nodes=2, team="vision", on=["c1", "d1"]),
            *(gang(f"f{n}", on=[n]) for n in ("a1", "b1")),
        ],
        ("a2", "a3", "b2", "b3"),
    ),
    "two other leaves that nobody leaves": (
        [
            *fabric(3),
            gang("x", nodes=2, team="vision", on=["a1", "b1"]),
            *(gang(f"f{n}", on=[n]) for n in ("c1", "d1")),
        ],
        ("c2", "c3", "d2", "d3"),
    ),
    "used ones where there are no others": (
        [*fabric(3)[:6], spanning("a1", "b1")],
        ("a2", "a3", "b2", "b3"),
    ),
}


@pytest.mark.parametrize(("parts", "want"), PLACED.values(), ids=PLACED)
def test_a_gang_of_four_goes_to(parts: list[Node | Workload], want: tuple[str, ...]) -> None:
    plan = decide(state(*parts, gang("new", nodes=4)), RULES, 100.0)
    assert [action.nodes for action in plan.actions if isinstance(action, Admit)] == [want]


def test_two_that_start_at_once_keep_apart_too() -> None:
    plan = decide(state(*fabric(), gang("p", nodes=4), gang("q", nodes=4)), RULES, 100.0)
    placed = [{name[0] for name in action.nodes} for action in plan.actions if isinstance(action, Admit)]
    assert len(placed) == 2
    assert placed[0].isdisjoint(placed[1])
