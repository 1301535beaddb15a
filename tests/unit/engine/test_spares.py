"""Spares (P8): kept from new committed work, for gangs that were torn down, and lent to what yields meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.explain import explain
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Admit
from fleet_app.engine.policy import Ordering, Policy, Spares
from fleet_app.engine.spares import spares_of
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Workload
from tests.builders import backfill, gang, node, nodes, policy, shape, state

FLEET = [*nodes(3, at="s1/l1"), *nodes(3, prefix="m", at="s2/l1")]


def keeping(count: int = 1, level: str | None = "spine") -> Policy:
    return replace(policy(), spares=Spares(level=level, nodes=count))


WHICH = {
    "the last of each domain": (keeping(), FLEET, {"n3", "m3"}),
    "of each outer domain, whatever lies inside it": (
        keeping(),
        [*FLEET, node("n4", at="s1/l9"), node("z", at="s2/l9")],
        {"n4", "z"},
    ),
    "of each inner one": (
        keeping(1, "leaf"),
        [*FLEET, node("n4", at="s1/l9"), node("s", at="s3")],
        {"n3", "n4", "m3"},
    ),
    "of the fleet without a level": (keeping(2, None), FLEET, {"m2", "m3"}),
    "not where something firm runs": (keeping(), [*FLEET, gang("g", on=["n3", "m3", "m2"])], {"n2", "m1"}),
    "what yields may be there": (keeping(), [*FLEET, backfill("b", on=["n3"])], {"n3", "m3"}),
    "only sound ones": (keeping(), [node("n1"), node("n2", condition=Condition.CORDONED)], {"n1"}),
    "only whole ones": (keeping(), [node("n1"), node("n2", foreign=shape(1))], {"n1"}),
    "only training's": (keeping(), [node("n1"), node("n2", serving=True)], {"n1"}),
    "no more than there are": (keeping(9), [node("n1")], {"n1"}),
}


@pytest.mark.parametrize(("rules", "parts", "want"), WHICH.values(), ids=WHICH)
def test_which_nodes_are_spares(rules: Policy, parts: list[Node | Workload], want: set[str]) -> None:
    assert spares_of(Ledger(state(*parts), rules, 0.0)) == want


USES: dict[str, tuple[list[Workload], dict[str, tuple[str, ...]]]] = {
    "new committed work leaves them": ([gang("g", nodes=2)], {"g": ("n1", "n2")}),
    "and waits rather than take one": ([gang("g", nodes=3, within="spine")], {}),
    "what was torn down takes one": ([gang("g", nodes=3, within="spine", requeued=True)], {"g": ("n1", "n2", "n3")}),
    "what yields may have them": ([backfill(f"b{i}", gpus=8) for i in range(6)], {f"b{i}": () for i in range(6)}),
}


@pytest.mark.parametrize(("queued", "want"), USES.values(), ids=USES)
def test_who_may_use_them(queued: list[Workload], want: dict[str, tuple[str, ...]]) -> None:
    plan = decide(state(*FLEET, *queued), keeping(), 100.0)
    starts = {one.workload: one.nodes for one in plan.actions if isinstance(one, Admit)}
    assert starts.keys() == want.keys()
    assert all(starts[name] == on for name, on in want.items() if on)


def test_a_gang_that_lost_a_node_finds_another_though_the_fleet_was_full() -> None:
    full = [gang("other", on=["m1", "m2"]), *(gang(f"g{i}", submitted_at=5.0) for i in range(9))]
    down = replace(FLEET[0], condition=Condition.DOWN)
    torn = gang("torn", nodes=2, within="spine", requeued=True)
    plan = decide(state(down, *FLEET[1:], *full, torn), keeping(), 100.0)
    assert next(one for one in plan.actions if isinstance(one, Admit)).workload == "torn"


def test_who_was_torn_down_is_not_refused_with_those_that_are_older() -> None:
    rules = replace(keeping(), ordering=Ordering(ageing_s=10.0))
    torn = gang("torn", nodes=3, within="spine", requeued=True, submitted_at=95.0)
    plan = decide(state(*FLEET, gang("old", nodes=3, within="spine"), torn), rules, 100.0)
    assert [one.workload for one in plan.actions if isinstance(one, Admit)] == ["torn"]


def test_who_waits_is_told_what_is_kept_as_spares() -> None:
    told = explain(state(*FLEET, gang("g", nodes=3, within="spine")), keeping(), 100.0, "g").sentence
    assert told.endswith("1 more on s1 would do; drainable there: nobody; kept as spares there: n3")
