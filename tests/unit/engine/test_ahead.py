"""Who comes first, and why: the turns that were taken, not the order of the queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.ahead import watched
from fleet_app.engine.decide import decide
from fleet_app.engine.policy import Ordering, Policy, Quota, Slicing
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload
from tests.builders import backfill, cards, gang, node, nodes, policy, sliced, state, team
from tests.unit.engine.test_turns import jobs, shared

X = gang("x", submitted_at=5.0)
MINE = backfill("x", team="a", submitted_at=50.0)
NESTED = policy(
    team("idle", nominal=12),
    *(Quota(name=name, parent="org") for name in ("lab", "shop")),
    team("a", nominal=0, parent="lab"),
    *(team(name, nominal=0, parent="shop") for name in ("b", "beside")),
)
"""The shop borrows more than the lab, but of its teams b less than the lab's a."""

CASES: dict[str, tuple[Policy, list[Node | Workload], dict[str, tuple[str, str]]]] = {
    "a higher priority": (
        policy(team()),
        [*nodes(2), gang("g", priority=60_000, submitted_at=9.0), X],
        {"g": ("higher priority", "starts now with 8 GPUs")},
    ),
    "what was torn down": (
        policy(team()),
        [node("n1"), replace(gang("g", submitted_at=9.0), requeued=True), X],
        {"g": ("was torn down through no wish of its own", "starts now with 8 GPUs")},
    ),
    "what is earlier, and keeps what it waits for": (
        policy(team()),
        [node("n1"), gang("firm", gpus=1, on=["n1"]), gang("g", submitted_at=4.0), X],
        {"g": ("earlier", "waits, and 1 node is kept for it")},
    ),
    "what is as early": (
        policy(team()),
        [node("n1"), gang("g", submitted_at=5.0), X],
        {"g": ("as early, and first by name", "starts now with 8 GPUs")},
    ),
    "what somebody leaves for": (
        policy(team(), team("guest", nominal=0)),
        [node("n1"), backfill("b", team="guest", gpus=8, on=["n1"]), gang("g"), X],
        {"g": ("earlier", "waits for 8 GPUs that are coming free for it")},
    ),
    "what can never start": (
        policy(team()),
        [node("n1"), gang("g", nodes=9), X],
        {"g": ("earlier", "waits: too-large-for-fleet")},
    ),
    "a team that borrows less, though it came later": (
        shared(a=1, b=2),
        [node("n1", gpus=12), backfill("old", team="a", gpus=2, on=["n1"]), MINE, *jobs("b", 6, at=60.0)],
        {
            **{
                f"b-0{number}": (
                    (
                        f"its team borrows less for its weight (b would have {number + 1} GPUs at weight 2, "
                        "a would have 3 GPUs at weight 1)"
                    ),
                    "starts now with 1 GPUs",
                )
                for number in range(5)
            }
        },
    ),
    "who waited longer than a period": (
        replace(policy(team()), ordering=Ordering(ageing_s=40.0)),
        [node("n1"), gang("g", submitted_at=5.0), gang("x", submitted_at=50.0, requeued=True)],
        {"g": ("waited 1 min 35 s, which counts as 2 steps up", "starts now with 8 GPUs")},
    ),
    "who was refused with another, if it is earlier": (
        policy(team()),
        [node("n1"), gang("firm", gpus=1, on=["n1"]), *(gang(f"g{at}", submitted_at=at) for at in (1.0, 2.0, 6.0)), X],
        {
            "g1.0": ("earlier", "waits, and 1 node is kept for it"),
            "g2.0": ("earlier", "waits: no-room"),
        },
    ),
    "shorter work, where that comes first": (
        replace(policy(team()), ordering=Ordering(shortest_first=True)),
        [node("n1"), gang("g", submitted_at=9.0, max_run_s=60.0), gang("x", submitted_at=5.0, max_run_s=90.0)],
        {"g": ("declared a shorter run time, 1 min", "starts now with 8 GPUs")},
    ),
    "what does not borrow, whatever its team has borrowed": (
        policy(team("a", nominal=8), team("b", nominal=8)),
        [
            *nodes(3),
            backfill("lent", team="a", gpus=4, on=["n1"]),
            gang("g", team="b", submitted_at=1.0),
            gang("x", team="a", submitted_at=5.0),
        ],
        {"g": ("earlier", "starts now with 8 GPUs")},
    ),
    "of a priority that no class has what borrows in the order in which it came, beside what does not": (
        NESTED,
        [
            node("n1", gpus=12),
            backfill("old", team="a", gpus=2, on=["n1"]),
            backfill("older", team="beside", gpus=6, on=["n1"]),
            backfill("g", team="b", priority=7, submitted_at=1.0),
            gang("never", team="a", gpus=1, priority=7, submitted_at=2.0),
            backfill("x", team="a", priority=7, submitted_at=5.0),
        ],
        {"g": ("earlier", "starts now with 1 GPUs"), "never": ("earlier", "waits: too-large-for-quota")},
    ),
    "for slices, what gets one": (
        replace(policy(team()), slicing=Slicing()),
        [
            node("n1", gpus=0, cards=cards(["shared"]), accelerator="h100"),
            sliced("g", share=0.5, submitted_at=1.0),
            sliced("x", share=0.25, submitted_at=5.0),
        ],
        {"g": ("earlier", "starts now with 0.5 of a shared GPU")},
    ),
    "a share that is the same": (
        shared(a=1, b=1),
        [node("n1", gpus=12), *jobs("b", 2), MINE],
        {"b-00": ("earlier", "starts now with 1 GPUs")},
    ),
}


@pytest.mark.parametrize(("rules", "parts", "want"), CASES.values(), ids=CASES)
def test_who_comes_first(rules: Policy, parts: list[Node | Workload], want: dict[str, tuple[str, str]]) -> None:
    _, ahead = watched(state(*parts), rules, 100.0, "x")
    assert {one.workload: (one.why, one.outcome) for one in ahead} == want


def test_in_a_strict_queue_what_is_behind_says_so() -> None:
    rules = policy(replace(team("a", nominal=8), strict=True), team("other", nominal=8))
    firm, large, small = gang("firm", team="other", gpus=6, on=["n1"]), *(jobs("a", 2, gpus=4))
    _, ahead = watched(state(node("n1"), firm, large, small, MINE), rules, 100.0, "x")
    assert [(one.workload, one.outcome) for one in ahead] == [
        ("a-00", "waits: no-room"),
        ("a-01", "waits in the same strict queue"),
    ]


def test_what_is_watched_is_what_is_decided() -> None:
    facts = state(node("n1"), gang("g"), X, MINE)
    plan, _ = watched(facts, policy(), 100.0, "x")
    assert plan == decide(facts, policy(), 100.0, watch="x")


def test_who_does_not_wait_has_nobody_ahead() -> None:
    seen = state(node("n1"), gang("x", on=["n1"]), gang("g"), gang("h"))
    assert watched(seen, policy(), 100.0, "x")[1] == ()
