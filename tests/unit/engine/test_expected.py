"""When somebody who waits may start: an estimate from ends that are known, else who has none (O9)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.calendar import Booking
from fleet_app.engine.expected import Expected, expected
from fleet_app.engine.explain import explain
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.policy import FlavorQuota, Pulls, Slicing, Source
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, booking, cards, gang, node, nodes, policy, service, shape, sliced, state, team
from tests.strategies import IMAGE

NOW = 1000.0
RULES = policy(
    team("research", nominal=16), team("vision", nominal=16), team("serving", nominal=8), longest_grace_s=300.0
)
A = gang("a", team="vision", on=["n1"], max_run_s=1200.0)
B = gang("b", team="vision", on=["n2"], max_run_s=2200.0)
FIRM = gang("firm", team="vision", on=["n1"])
X = gang("x", nodes=2, submitted_at=100.0)
LEFT = ", if all goes as declared and nobody else comes"

Parts = list[Node | Workload | Service | Booking]

ESTIMATES: dict[str, tuple[Parts, str]] = {
    "when the last in the way has had its time and its grace": (
        [*nodes(2), A, B, X],
        f"in about 22 min, when b has left{LEFT}",
    ),
    "for who is second in line too: once the first has had its own time": (
        [*nodes(1), A, gang("first", max_run_s=600.0, submitted_at=50.0), gang("x", submitted_at=100.0)],
        f"in about 17 min 20 s, when first has left{LEFT}",
    ),
    "for backfill, which has no planned start": (
        [*nodes(1), A, backfill("x", gpus=8)],
        f"in about 5 min 20 s, when a has left{LEFT}",
    ),
    "when who leaves for it has left": (
        [*nodes(1), backfill("lent", gpus=8, on=["n1"], grace_s=60.0), gang("x")],
        f"in about 1 min, when lent has left{LEFT}",
    ),
    "who leaves at once is named too": (
        [*nodes(1), backfill("lent", gpus=8, on=["n1"], grace_s=0.0), gang("x")],
        f"any moment now, when lent has left{LEFT}",
    ),
    "and nobody who left before that": (
        [*nodes(2), A, backfill("lent", gpus=8, on=["n2"], grace_s=0.0), gang("x", nodes=2)],
        f"in about 5 min 20 s, when a has left{LEFT}",
    ),
    "when a deadline has come that was set before": (
        [*nodes(1), gang("a", on=["n1"], team="vision", phase=Phase.STOPPING, deadline_at=1050.0), gang("x")],
        f"in about 50 s, when a has left{LEFT}",
    ),
    "when two have left at once": (
        [*nodes(2), A, replace(A, name="c", nodes=("n2",)), X],
        f"in about 5 min 20 s, when a, c have left{LEFT}",
    ),
    "when a booking is over": (
        [*nodes(1), booking("run", "n1", team="vision", start_at=900.0, end_at=2200.0), gang("x")],
        f"in about 20 min{LEFT}",
    ),
    "not where somebody has no end": (
        [*nodes(2), A, replace(FIRM, nodes=("n2",)), X],
        "unknown, because firm has no declared end",
    ),
    "nor where several have none, the committed and the largest first": (
        [
            *nodes(3),
            gang("small", team="vision", gpus=5, on=["n1"]),
            replace(FIRM, nodes=("n2",)),
            backfill("lent", team="vision", gpus=3, on=["n3"]),
            gang("other", team="vision", gpus=5, on=["n3"]),
            X,
        ],
        "unknown, because firm, other, small and 1 more have no declared end",
    ),
    "nor behind somebody for whom nothing follows": (
        [*nodes(1), FIRM, gang("first", submitted_at=50.0), gang("x", gpus=4, submitted_at=100.0)],
        "unknown, because firm has no declared end",
    ),
    "nor where its team's nominal is used without an end": (
        [*nodes(4), gang("own", on=["n3"]), replace(FIRM, nodes=("n4",)), X],
        "unknown, because own has no declared end",
    ),
    "nor where replicas use it": (
        [*nodes(4), *nodes(1, prefix="s", serving=True), service("chat", team="research", on=["s1"], wanted=1), X],
        "unknown, because chat has no declared end",
    ),
    "nor where its cohort is full": (
        [
            *nodes(6),
            *(gang(f"own{i}", on=[f"n{i}"]) for i in (1, 2)),
            *(replace(FIRM, name=f"firm{i}", nodes=(f"n{i}",)) for i in (3, 4)),
            replace(FIRM, name="served", team="serving", nodes=("n5",)),
            backfill("x", gpus=8, team="vision"),
        ],
        "unknown, because firm3, firm4, own1 and 2 more have no declared end",
    ),
    "nor where it lost the right to what is lent, and its own team uses what it has": (
        [*nodes(4), *(gang(f"own{i}", on=[f"n{i}"]) for i in (1, 2)), backfill("x", gpus=8, broken_drains=3)],
        "unknown, because own1, own2 have no declared end",
    ),
    "but where that ends, it follows": (
        [
            *nodes(4),
            gang("own", on=["n1"]),
            replace(A, team="research", nodes=("n2",)),
            backfill("x", gpus=8, broken_drains=3),
        ],
        f"in about 5 min 20 s, when a has left{LEFT}",
    ),
    "nor where a node is simply missing": (
        [*nodes(1), node("n2", foreign=replace(X.shape, gpus=1)), X],
        "unknown, because nothing that is known to end would make room",
    ),
}


@pytest.mark.parametrize(("parts", "want"), ESTIMATES.values(), ids=ESTIMATES)
def test_estimate(parts: Parts, want: str) -> None:
    found = explain(state(*parts), RULES, NOW, "x").expected
    assert found is not None
    assert found.sentence(NOW) == want


S = nodes(1, prefix="s", serving=True)
FULL = service("other", gpus=8, on=["s1"], wanted=1, team="vision")

REPLICAS: dict[str, tuple[Parts, str]] = {
    "when who leaves for it has left": (
        [*S, backfill("lent", gpus=8, on=["s1"], grace_s=60.0), service("chat", gpus=8, wanted=1)],
        f"in about 1 min, when lent has left{LEFT}",
    ),
    "when its team's nominal comes free": (
        [*S, *nodes(1), replace(A, team="serving"), service("chat", gpus=8, wanted=1)],
        f"in about 5 min 20 s, when a has left{LEFT}",
    ),
    "of several the next that finds no place now": (
        [
            *S,
            node("s2", serving=True),
            replace(A, team="serving", shape=shape(4), nodes=("n1",)),
            *nodes(1),
            service("chat", gpus=4, wanted=2),
        ],
        f"in about 5 min 20 s, when a has left{LEFT}",
    ),
    "not where its team's nominal is used without an end": (
        [*S, *nodes(1), replace(FIRM, team="serving"), service("chat", gpus=8, wanted=1)],
        "unknown, because firm has no declared end",
    ),
    "nor where other replicas have its nodes": (
        [*S, FULL, service("chat", gpus=8, wanted=1)],
        "unknown, because other has no declared end",
    ),
    "nor where its own have all of its team's nominal": (
        [*S, node("s2", serving=True), service("chat", gpus=8, on=["s1"], wanted=2)],
        "unknown, because its own replicas have all that there is for it",
    ),
    "nor where a node is simply missing": (
        [*nodes(2), service("chat", gpus=8, wanted=1)],
        "unknown, because nothing that is known to end would make room",
    ),
    "not by who yields to it anyway": (
        [*S, backfill("lent", gpus=8, on=["s1"]), FULL, service("chat", gpus=8, wanted=1)],
        "unknown, because other has no declared end",
    ),
}


@pytest.mark.parametrize(("parts", "want"), REPLICAS.values(), ids=REPLICAS)
def test_estimate_of_a_replica(parts: Parts, want: str) -> None:
    found = explain(state(*parts), RULES, NOW, "chat").expected
    assert found is not None
    assert found.sentence(NOW) == want


def test_who_has_what_a_cap_counts_is_named_and_nobody_else() -> None:
    """V9."""
    own = FlavorQuota(flavor="h100-whole", nominal=8)
    rules = policy(replace(team("research", nominal=32), flavors=(own,)), team("vision", nominal=32))
    there = [node(f"h{number}", accelerator="H100") for number in range(3)]
    parts = [gang("own", on=["h0"]), gang("old", on=["a0"]), gang("other", on=["h1"], team="vision")]
    waits = [*there, node("a0", accelerator="A100"), *parts, gang("x", accelerator="H100")]
    found = explain(state(*waits), rules, NOW, "x").expected
    assert found == Expected(because="own has no declared end")


NONE: dict[str, Parts] = {
    "what no wait will start": [*nodes(1), X],
    "what is about to start": [*nodes(2), X],
    "what runs": [*nodes(1), gang("x", on=["n1"])],
    "a service that has what it wants": [*S, service("x", gpus=8, on=["s1"], wanted=1)],
    "a service of a team that is in no policy": [*S, service("x", gpus=8, wanted=1, team="nobody")],
}


@pytest.mark.parametrize("parts", NONE.values(), ids=NONE)
def test_there_is_no_estimate_of(parts: Parts) -> None:
    assert explain(state(*parts), RULES, NOW, "x").expected is None


def test_behind_another_in_a_strict_queue_it_is_said_who_that_is() -> None:
    rules = policy(team("research", strict=True), team("vision"))
    wide = gang("wide", nodes=2, submitted_at=50.0)
    found = explain(state(*nodes(2), FIRM, wide, gang("x", submitted_at=100.0)), rules, NOW, "x").expected
    assert found == Expected(because="wide is ahead of it, and firm has no declared end")


def test_pulls_are_over_at_once() -> None:
    rules = replace(RULES, pulls=Pulls(sources=(Source(name="registry", most_at_once=1),)))
    parts = [gang("first", artifacts=[IMAGE]), gang("x", artifacts=[IMAGE], submitted_at=1.0)]
    found = explain(state(*nodes(2), *parts), rules, NOW, "x").expected
    assert found == Expected(at=NOW)
    assert found.sentence(NOW) == f"any moment now{LEFT}"


def test_a_card_that_has_to_be_cut_first_is_waited_for() -> None:
    rules = replace(RULES, slicing=Slicing(repartition=True, settle_s=0.0))
    facts = state(node("n1", gpus=1, accelerator="h100", cards=cards(())), sliced("x", profile="1g.10gb"))
    found = explain(facts, rules, NOW, "x").expected
    assert found == Expected(because="a card has to be cut first")


def test_a_line_that_is_too_long_is_not_followed_to_its_end() -> None:
    """It starts at none of the moments that were looked at: not before the next one."""
    ends = [gang(f"a{i}", team="vision", gpus=1, on=["n1"], max_run_s=1000.0 + 100.0 * i) for i in range(1, 8)]
    found = expected(state(*nodes(1), *ends, gang("x")), RULES, NOW, "x", effort=0)
    assert found == Expected(at=1300.0, beyond=True)
    assert found.sentence(NOW) == "not before 5 min from now: the line is too long to be followed further"
