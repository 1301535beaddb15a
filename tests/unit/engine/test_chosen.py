"""Why it had to leave and not another: the first point of R3 in which another would have cost more, in numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.chosen import choices
from fleet_app.engine.decide import decide
from fleet_app.engine.workload import Workload
from tests.builders import backfill, gang, node, policy, service, shape, state, team

RULES = policy(team(), team("a", nominal=0), team("b", nominal=0), team("serving"))
NODE = node("v1", serving=True, gpus=8)
V = backfill("v", gpus=2, team="a", on=["v1"], started_at=0.0)


def chosen(*parts: Workload, wanted: int = 2) -> dict[str, str]:
    facts = state(NODE, node("t1"), *parts, service(wanted=wanted))
    return choices(facts, RULES, 3600.0, decide(facts, RULES, 3600.0))


CASES = {
    "nobody else could be asked": ([V, gang("firm", gpus=6, on=["v1"])], "nobody else could be asked"),
    "a higher priority": (
        [V, backfill("w", gpus=6, team="a", on=["v1"], priority=2000, started_at=3600.0)],
        "w, the cheapest who stayed, has a higher priority (2000 against 1000)",
    ),
    "less is lost": (
        [V, backfill("w", gpus=3, team="a", on=["v1"]), backfill("y", gpus=3, team="a", on=["v1"])],
        "w, the cheapest of 2 that stayed, would lose 3.05 GPU-hours",
    ),
    "its team borrows more": (
        [
            V,
            replace(V, name="b", team="b"),
            gang("firm", gpus=4, on=["v1"]),
            backfill("far", team="a", gpus=1, on=["t1"]),
        ],
        "b, the cheapest who stayed, is of a team that borrows less (2 GPUs against 3 of team a)",
    ),
    "it has fewer GPUs, which lose as much": (
        [
            replace(V, saved_at=3510.0),
            replace(V, name="b", shape=shape(4), saved_at=3585.0),
            gang("firm", gpus=2, on=["v1"]),
        ],
        "b, the cheapest who stayed, has more GPUs than would be needed (4 against 2)",
    ),
    "it is younger": (
        [
            replace(V, saved_at=600.0, admitted_at=500.0),
            replace(V, name="b", saved_at=600.0, admitted_at=400.0),
            gang("firm", gpus=4, on=["v1"]),
        ],
        "b, the cheapest who stayed, has run for longer (53 min 20 s)",
    ),
    "only its name": (
        [V, replace(V, name="w"), gang("firm", gpus=4, on=["v1"])],
        "w, the cheapest who stayed, is equal but for its name",
    ),
    "another is cheaper, and not enough": (
        [V, backfill("tiny", gpus=1, team="a", on=["v1"]), gang("firm", gpus=5, on=["v1"])],
        "tiny, the cheapest who stayed, would not have been enough",
    ),
}


@pytest.mark.parametrize(("parts", "want"), CASES.values(), ids=CASES)
def test_why_it_was_chosen(parts: list[Workload], want: str) -> None:
    facts = state(NODE, node("t1"), *parts, replace(service(wanted=1), shape=V.shape))
    found = choices(facts, RULES, 3600.0, decide(facts, RULES, 3600.0))
    assert found["v"].endswith(want)
    assert found["v"].startswith("it loses ")


def test_who_leaves_together_is_named() -> None:
    found = chosen(replace(V, shape=replace(V.shape, gpus=8)), wanted=1)
    assert found == {"v": "it loses 8.13 GPU-hours since its last checkpoint; nobody else could be asked"}
    facts = state(node("n1"), one := backfill("v", gpus=4, team="a", on=["n1"]), replace(one, name="w"), gang("g"))
    both = choices(facts, RULES, 3600.0, decide(facts, RULES, 3600.0))
    assert both["v"] == "it loses 4.07 GPU-hours since its last checkpoint, with w; nobody else could be asked"


def test_it_is_compared_with_whom_its_own_beneficiary_might_have_asked() -> None:
    low = service("assistant", wanted=0, priority=5)
    facts = state(NODE, V, replace(V, name="w"), gang("firm", gpus=4, on=["v1"]), low, service(wanted=1, gpus=2))
    found = choices(facts, RULES, 3600.0, decide(facts, RULES, 3600.0))
    assert found["v"].endswith("w, the cheapest who stayed, is equal but for its name")


def test_where_nobody_is_drained_nothing_is_said() -> None:
    assert chosen(wanted=1) == {}
