"""Planned starts: by which known ends, on which nodes, and who passes meanwhile (O4, O7, O10, R6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Admit, Plan, Reason
from fleet_app.engine.policy import Ordering
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload
from tests.builders import backfill, gang, node, nodes, policy, shape, state, team

NOW = 1000.0
RULES = policy(team("research", nominal=16), team("vision", nominal=16), longest_grace_s=300.0)
RULES = replace(RULES, drain=replace(RULES.drain, min_run_s=200.0))
A = gang("a", team="vision", on=["n1"], max_run_s=1200.0)
B = gang("b", team="vision", on=["n2"], max_run_s=2200.0)
X = gang("x", nodes=2, submitted_at=100.0)
PARTS = gang("x", groups={"wide": (1, shape(8)), "thin": (1, shape(4))}, submitted_at=100.0)
OWN = backfill("own", gpus=8, on=["n2"], team="research", attempt=2, started_at=900.0)

Parts = list[Node | Workload]


def decided(*parts: Node | Workload) -> Plan:
    return decide(state(*parts), RULES, NOW)


def planned(plan: Plan, name: str = "x") -> tuple[float | None, str]:
    wait = next(one for one in plan.waits if one.workload == name)
    return wait.planned_at, wait.planned_after


PLANS: dict[str, tuple[Parts, tuple[float | None, str]]] = {
    "when the last in the way is asked, and the longest grace after that": ([*nodes(2), A, B, X], (2500.0, "b")),
    "where it is possible first": ([*nodes(3), A, B, replace(A, name="c", nodes=("n3",)), X], (1500.0, "c")),
    "an end that is not known is no plan": ([*nodes(2), A, replace(B, max_run_s=None), X], (None, "")),
    "but elsewhere it is in nobody's way": ([*nodes(3), A, replace(B, max_run_s=None), X], (1500.0, "a")),
    "what is free needs no end": ([*nodes(2), A, X], (1500.0, "a")),
    "its own team's backfill can be asked then": (
        [*nodes(2), A, backfill("own", gpus=8, on=["n2"], team="research"), X],
        (1500.0, "a"),
    ),
    "but not what has a higher priority": (
        [*nodes(2), A, backfill("own", gpus=8, on=["n2"], team="research", priority=60_000), X],
        (None, ""),
    ),
    "nor what was drained before, and runs undisturbed for a while": (
        [*nodes(2), A, OWN, replace(X, submitted_at=950.0)],
        (None, ""),
    ),
    "also for a while only by its own end": (
        [*nodes(2), A, replace(OWN, max_run_s=500.0), replace(X, submitted_at=950.0)],
        (1700.0, "own"),
    ),
    "so can what passed it": (
        [*nodes(2), A, backfill("late", gpus=8, on=["n2"], team="vision", started_at=200.0), X],
        (1500.0, "a"),
    ),
    "another team's may be inside its nominal by then": (
        [*nodes(2), A, backfill("lent", gpus=8, on=["n2"], team="vision"), X],
        (None, ""),
    ),
    "what can be asked anyway makes room once, though its end is known too": (
        [
            *nodes(2),
            A,
            backfill("own", gpus=4, on=["n2"], team="research", max_run_s=1100.0),
            gang("firm", team="vision", gpus=4, on=["n2"]),
            X,
        ],
        (None, ""),
    ),
    "also of an elastic one": (
        [
            *nodes(2),
            A,
            backfill("own", gpus=4, on=["n2", "n3"], team="research", minimum=1, max_run_s=1100.0),
            gang("firm", team="vision", gpus=4, on=["n2"]),
            node("n3", gpus=4),
            X,
        ],
        (None, ""),
    ),
    "unless it declares its end": (
        [*nodes(2), A, backfill("lent", gpus=8, on=["n2"], team="vision", max_run_s=1600.0), X],
        (1900.0, "lent"),
    ),
    "work of the team has to be gone from its books": (
        [*nodes(3), replace(A, team="research"), replace(B, team="research"), X],
        (2200.0 + 120.0 + 300.0, "b"),
    ),
    "no plan where that has no end, whatever ends elsewhere": (
        [*nodes(3), replace(A, team="research"), replace(B, team="research", max_run_s=None), X],
        (None, ""),
    ),
    "nor where all that ends is not enough": (
        [*nodes(4), A, replace(B, team="research"), gang("more", on=["n3"], gpus=1), X],
        (None, ""),
    ),
    "and stays planned while that leaves": (
        [
            *nodes(3),
            gang("a", on=["n1"], max_run_s=900.0, phase=Phase.DRAINING, deadline_at=1100.0, expired=True),
            X,
        ],
        (1400.0, "a"),
    ),
    "what never could be has no start": ([*nodes(1), A, X], (None, "")),
    "inside one domain": (
        [
            *(node("n1", at="s1/l1"), node("n2", at="s1/l2"), node("n3", at="s1/l2")),
            *(A, gang("c", team="vision", on=["n3"], max_run_s=1900.0)),
            replace(X, within="leaf"),
        ],
        (2200.0, "c"),
    ),
    "of several shapes too: when the last in the way is asked": ([*nodes(2), A, B, PARTS], (2500.0, "b")),
    "the wide one on the node that comes first, the thin one beside the other": (
        [*nodes(2), A, gang("c", team="vision", gpus=4, on=["n2"]), PARTS],
        (1500.0, "a"),
    ),
    "both on nodes that hold no more than the thin one are no plan": (
        [*nodes(2), gang("c", team="vision", gpus=4, on=["n2"]), gang("d", team="vision", gpus=2, on=["n1"]), A, PARTS],
        (None, ""),
    ),
    "of several shapes, for the team's own books": (
        [*nodes(3), replace(A, team="research"), PARTS],
        (2200.0 - 1000.0 + 120.0 + 300.0, "a"),
    ),
    "of several shapes, in one domain": (
        [
            *(node("n1", at="s1/l1"), node("n2", at="s1/l2"), node("n3", at="s1/l2")),
            *(A, gang("c", team="vision", on=["n3"], max_run_s=1900.0)),
            replace(PARTS, within="leaf"),
        ],
        (2200.0, "c"),
    ),
}


@pytest.mark.parametrize(("parts", "want"), PLANS.values(), ids=PLANS)
def test_planned_start(parts: Parts, want: tuple[float | None, str]) -> None:
    assert planned(decided(*parts)) == want


def test_the_second_of_two_that_ask_for_the_same_has_no_planned_start() -> None:
    plan = decided(*nodes(2), A, B, X, gang("y", nodes=2, submitted_at=200.0))
    assert planned(plan, "y") == (None, "")


# Node n1 is half full until 1200, and n2 is free: x, which needs both, is planned for 1500 and everybody asked by 1200.
HALF = gang("half", team="vision", gpus=4, on=["n1"], max_run_s=1200.0)

PASSES = {
    "gone before anybody is asked": (gang("s", team="vision", gpus=4, max_run_s=80.0, submitted_at=200.0), True),
    "a little too long": (gang("s", team="vision", gpus=4, max_run_s=81.0, submitted_at=200.0), False),
    "a short one with a long grace": (
        gang("s", team="vision", gpus=4, max_run_s=10.0, grace_s=200.0, submitted_at=200.0),
        False,
    ),
    "without an end": (gang("s", team="vision", gpus=4, submitted_at=200.0), False),
    "what yields to it": (backfill("s", team="vision", gpus=4, submitted_at=200.0), True),
    "of its own team too, beside its nominal": (gang("s", gpus=4, max_run_s=80.0, submitted_at=200.0), True),
    "of its own team, too long": (gang("s", gpus=4, max_run_s=90.0, submitted_at=200.0), False),
}


TWO = gang("x", groups={"a": (1, shape(8)), "b": (1, shape(8, cpus=1))}, submitted_at=100.0)


@pytest.mark.parametrize("large", [X, TWO], ids=["of one shape", "of several"])
@pytest.mark.parametrize(("small", "want"), PASSES.values(), ids=PASSES)
def test_who_passes_a_planned_start(small: Workload, want: bool, large: Workload) -> None:
    plan = decided(*nodes(2), HALF, large, small)
    assert planned(plan) == (1500.0, "half")
    assert [action.workload for action in plan.actions if isinstance(action, Admit)] == ["s"] * want
    if not want:
        assert plan.waits[0].reason is Reason.RESERVED
        assert plan.waits[0].blocked_by == ("x",)


def test_two_that_differ_in_their_ends_are_two_questions() -> None:
    long = gang("long", team="vision", gpus=4, max_run_s=900.0, submitted_at=200.0)
    plan = decided(*nodes(2), HALF, X, long, replace(long, name="short", max_run_s=60.0))
    assert [action.workload for action in plan.actions if isinstance(action, Admit)] == ["short"]


def test_of_what_is_coming_what_comes_first_is_waited_for() -> None:
    slow = gang("slow", team="vision", on=["n1"], phase=Phase.STOPPING, deadline_at=1200.0)
    quick = [
        replace(
            slow, name=f"quick-{number}", nodes=(f"n{number}",), deadline_at=1050.0, shape=replace(slow.shape, gpus=4)
        )
        for number in (2, 3)
    ]
    parts = [node("n1", at="s1/l1"), node("n2", at="s1/l1"), node("n3", at="s1/l2"), slow, *quick]
    plan = decided(*parts, X)
    assert {hold.node for hold in plan.holds} == {"n2", "n3"}


KEEPERS = {
    "for all of them where the policy says nothing": (None, []),
    "for the first two": (2, []),
    "for the first alone": (1, ["small"]),
    "for nobody": (0, ["small"]),
}


@pytest.mark.parametrize(("keepers", "want"), KEEPERS.values(), ids=KEEPERS)
def test_room_is_kept_for_the_first_that_wait(keepers: int | None, want: list[str]) -> None:
    """O11: two gangs wait for a leaf each, and a small one comes after them."""
    busy = [gang("busy", on=["n1"]), gang("also", on=["m1"])]
    large = [gang(f"first-{gpus}", nodes=2, gpus=gpus, within="leaf", submitted_at=8.0 - gpus) for gpus in (8, 7)]
    facts = state(*nodes(2), *nodes(2, prefix="m", at="s1/l2"), *busy, *large, gang("small", submitted_at=50.0))
    plan = decide(facts, replace(policy(), ordering=Ordering(keepers=keepers)), NOW)
    assert [one.workload for one in plan.actions if isinstance(one, Admit)] == want


@pytest.mark.parametrize(("keepers", "want"), KEEPERS.values(), ids=KEEPERS)
def test_room_is_kept_for_the_first_of_several_shapes_too(keepers: int | None, want: list[str]) -> None:
    """O11, of mixed gangs."""
    busy = [gang("busy", gpus=4, on=["n1"]), gang("also", gpus=4, on=["m1"])]
    shapes = [{"whole": (1, shape(8)), "rest": (1, shape(rest))} for rest in (5, 6)]
    large = [gang(f"rest-{at}", groups=one, within="leaf", submitted_at=float(at)) for at, one in enumerate(shapes)]
    facts = state(*nodes(2), *nodes(2, prefix="m", at="s1/l2"), *busy, *large, gang("small", submitted_at=50.0))
    plan = decide(facts, replace(policy(), ordering=Ordering(keepers=keepers)), NOW)
    assert [one.workload for one in plan.actions if isinstance(one, Admit)] == want
