"""The answer to "why?" as a person reads it: one sentence a reason, with its numbers and names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.calendar import Booking
from fleet_app.engine.errors import NotFoundError
from fleet_app.engine.explain import SHOWN, explain, sentence_of
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Reason, Wait
from fleet_app.engine.policy import Headroom, Policy
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Service, Workload
from tests.builders import (
    backfill,
    booking,
    gang,
    grant,
    node,
    nodes,
    policy,
    service,
    shape,
    sliced,
    state,
    team,
    transfer,
)

RULES = policy(team("research", nominal=64), team("guest", nominal=0), team("serving", nominal=16))
SPINES = [*nodes(4, at="s1/l1"), *nodes(4, prefix="m", at="s2/l1")]
BUSY = [gang(f"busy-{i}", on=[f"m{i}"]) for i in (1, 2, 3)]
GUEST = backfill("guest-1", team="guest", gpus=8, on=["n1"])
STUCK = gang("stuck", team="guest", on=["n1"])


def sentence(
    *parts: Node | Workload | Service | Booking, name: str = "x", rules: Policy = RULES, now: float = 100.0
) -> str:
    return explain(state(*parts), rules, now, name).sentence


WORKLOADS: dict[str, tuple[list[Node | Workload | Service | Booking], str]] = {
    "no room on one spine": (
        [*SPINES, *BUSY, GUEST, gang("firm", on=["n2"]), gang("x", nodes=4, within="spine")],
        (
            "needs 4 whole nodes on one spine; spine s1 has 2 free, s2 has 1: 2 more on s1 would do; "
            "drainable there: guest-1"
        ),
    ),
    "one node short, and nobody to ask": (
        [*SPINES, *BUSY, gang("firm", on=["n2"]), gang("x", nodes=4, within="spine")],
        (
            "needs 4 whole nodes on one spine; spine s1 has 3 free, s2 has 1: 1 more on s1 would do; "
            "drainable there: nobody"
        ),
    ),
    "no room anywhere": (
        [node("n1"), STUCK, gang("x")],
        "needs 1 whole node; s1 has 0 free: 1 more would do; drainable there: nobody",
    ),
    "a part of a node": (
        [node("n1"), STUCK, gang("x", gpus=3)],
        "needs 1 node with 3 free GPUs; s1 has 0 free: 1 more would do; drainable there: nobody",
    ),
    "parts of several, and some draining": (
        [
            *nodes(2),
            backfill("leaves", team="guest", gpus=8, on=["n1"], phase=Phase.DRAINING, deadline_at=200.0),
            gang("firm", on=["n2"]),
            gang("x", nodes=2, gpus=3),
        ],
        (
            "needs 2 nodes with 3 free GPUs each; s1 has 0 free: 2 more would do; "
            "draining there: 1; drainable there: nobody"
        ),
    ),
    "quota used by others of the team": (
        [*nodes(9), *(gang(f"g{i}", on=[f"n{i}"]) for i in range(1, 8)), gang("x", nodes=2)],
        "needs 16 GPUs; team research has 8 left of its quota: 8 more would do",
    ),
    "never in its quota": (
        [*nodes(9), gang("x", nodes=9)],
        "needs 72 GPUs; team research may never have more than 64",
    ),
    "never in the fleet": (
        [*nodes(2), gang("x", nodes=4)],
        "needs 4 whole nodes; the fleet could never fit more than 2: make it smaller, or add nodes",
    ),
    "never on one leaf": (
        [node("n1", at="s1/l1"), node("n2", at="s1/l2"), gang("x", nodes=2, within="leaf")],
        "needs 2 whole nodes on one leaf; one leaf could never fit more than 1: make it smaller, or add nodes",
    ),
    "a team that is in no policy": (
        [node("n1"), gang("x", team="nobody")],
        "team nobody is not in the policy; add it, or submit for a team that is",
    ),
    "one node of each class, where two of one are needed": (
        [
            *(*nodes(2), node("v1", serving=True), node("v2", serving=True)),
            *(gang("firm", on=["n1"]), gang("other", team="serving", on=["v1"]), backfill("x", gpus=8, nodes=2)),
        ],
        (
            "needs 2 whole nodes; s1 has 2 free: 1 more would do; drainable there: nobody; "
            "its nodes have to be of one class, and neither has more than 1 of 2 for it"
        ),
    ),
    "contracts broken, and more than its team has": (
        [*nodes(9), backfill("x", gpus=8, nodes=9, broken_drains=4)],
        (
            "broke the drain contract 4 times and lost the right to lent capacity; "
            "needs 72 GPUs, team research has no more than 64 of its own"
        ),
    ),
    "contracts broken, and what its team has is used": (
        [*nodes(9), *(backfill(f"b{i}", gpus=8, on=[f"n{i}"]) for i in range(1, 9)), backfill("x", broken_drains=4)],
        (
            "needs 1 GPUs; team research has 0 left of its quota: 1 more would do; "
            "it broke the drain contract 4 times and lost the right to lent capacity"
        ),
    ),
    "kept for one ahead": (
        [
            node("n1"),
            gang("runs", gpus=4, on=["n1"]),
            gang("large", submitted_at=1.0),
            gang("x", gpus=4, submitted_at=2),
        ],
        "needs 1 node with 4 free GPUs; what would do is kept for large, ahead of it",
    ),
    "somebody has to leave": (
        [node("n1"), GUEST, gang("x")],
        "needs 1 whole node; 0 are free, the rest is coming: waiting for guest-1 to exit",
    ),
    "somebody was told to leave before": (
        [
            node("n1"),
            backfill("leaves", gpus=8, on=["n1"], phase=Phase.DRAINING, deadline_at=130.0, drained_for="x"),
            gang("x"),
        ],
        "needs 1 whole node; 0 are free, the rest is coming: waiting for leaves to exit",
    ),
    "it is about to start": ([node("n1"), gang("x")], "starts in the next cycle on n1: n1 fits"),
    "others are about to start too": (
        [*nodes(3), gang("a"), gang("x"), gang("z")],
        "starts in the next cycle on n2: n2 fits",
    ),
    "it runs": ([node("n1"), gang("x", on=["n1"])], "is running on n1"),
    "it has a partition": (
        [node("n1"), sliced("x", profile="1g.10gb", on=("n1", 2))],
        "is running on card 2 of n1, with a partition 1g.10gb",
    ),
    "it has a share": (
        [node("n1"), sliced("x", share=0.25, on=("n1", 0))],
        "is running on card 0 of n1, with 0.25 of a shared GPU",
    ),
    "it drains": (
        [node("n1"), gang("x", on=["n1"], phase=Phase.DRAINING, deadline_at=130.0, drained_for="chat")],
        "is draining for chat: 30 s left on n1",
    ),
    "it was asked to move": (
        [node("n1"), gang("x", on=["n1"], phase=Phase.DRAINING, drained_for="window")],
        "is asked to move at its next checkpoint, for window: no deadline; until then on n1",
    ),
    "somebody was asked to move for it": (
        [
            node("n1"),
            gang("llm", team="guest", on=["n1"], phase=Phase.DRAINING, drained_for="x"),
            gang("x", submitted_at=1.0),
        ],
        (
            "needs 1 whole node; s1 has 0 free: 1 more would do; drainable there: nobody; "
            "llm was asked to move for it at its next checkpoint"
        ),
    ),
    "its time is over": (
        [
            node("n1"),
            gang("x", on=["n1"], phase=Phase.DRAINING, deadline_at=130.0, max_run_s=7200.0, expired=True),
        ],
        "its maximum run time of 2 h is over: 30 s left on n1",
    ),
    "what would do is booked for others": (
        [node("n1"), node("n2"), booking("run", "n2", team="guest"), gang("x", nodes=2)],
        (
            "needs 2 whole nodes; 1 are open to it, what else would do is booked: run; "
            "run is for guest, from in 15 min for 16 min 40 s"
        ),
    ),
    "what its team has booked brings it more": (
        [*SPINES, node("n5"), booking("run", transfers=[transfer("serving", 16)]), gang("x", nodes=9)],
        (
            "needs 72 GPUs; team research has 64 left of its quota: run will bring more; "
            "run is for research, from in 15 min for 16 min 40 s"
        ),
    ),
    "it drains for maintenance": (
        [
            node("n1"),
            booking("shut", team=None),
            gang("x", on=["n1"], phase=Phase.DRAINING, deadline_at=130.0, drained_for="shut"),
        ],
        ("is draining for shut: 30 s left on n1; shut is for maintenance, from in 15 min for 16 min 40 s"),
    ),
    "it was asked to move for a booking": (
        [node("n1"), booking(), gang("x", team="guest", on=["n1"], phase=Phase.DRAINING, drained_for="run")],
        (
            "is asked to move at its next checkpoint, for run: no deadline; until then on n1; "
            "run is for research, from in 15 min for 16 min 40 s"
        ),
    ),
    "its start is planned": (
        [node("n1"), gang("llm", team="guest", on=["n1"], max_run_s=7000.0), gang("x", submitted_at=1.0)],
        (
            "needs 1 whole node; s1 has 0 free: 1 more would do; drainable there: nobody; "
            "planned start in 2 h 5 min, when llm has ended"
        ),
    ),
    "a person asked it to": (
        [node("n1"), gang("x", on=["n1"], phase=Phase.DRAINING, deadline_at=90.0)],
        "is draining for whoever asked: 0 s left on n1",
    ),
}


@pytest.mark.parametrize(("parts", "want"), WORKLOADS.values(), ids=WORKLOADS)
def test_a_workload(parts: list[Node | Workload | Service | Booking], want: str) -> None:
    assert sentence(*parts) == want


V1 = node("v1", serving=True)

SERVICES: dict[str, tuple[list[Node | Workload | Service | Booking], str]] = {
    "it has what it wants": ([V1, service(wanted=1, on=["v1"])], "has 1 running and 0 granted"),
    "it is about to": (
        [V1, service(wanted=2, on=["v1"], grants=[grant("g", node="v1", occupied=False)])],
        "has 1 running and 1 granted",
    ),
    "a drain is under way": (
        [V1, backfill(gpus=8, on=["v1"]), service(wanted=1)],
        "has 0 running; room is coming free from a drain",
    ),
    "a drain that was begun is under way": (
        [
            V1,
            backfill("b", gpus=8, on=["v1"], phase=Phase.DRAINING, deadline_at=130.0, drained_for="chat"),
            service(wanted=1),
        ],
        "has 0 running; room is coming free from a drain; it waits for b (8 GPUs)",
    ),
    "its nominal is used up": (
        [V1, node("v2", serving=True), service(wanted=3, gpus=8, on=["v1", "v2"])],
        (
            "has 2 running; team serving has 0 GPUs left of its nominal, a replica needs 8; "
            "its team's nominal is used by chat (16 GPUs)"
        ),
    ),
    "no room": (
        [node("v1", serving=True, condition=Condition.DOWN), service(wanted=1)],
        "has 0 running; no serving node has room for one more, and nothing that can be drained there would make it",
    ),
    "no room, for others have it": (
        [
            node("v1", serving=True, foreign=shape(1), owners=["actor X"]),
            gang("firm", gpus=5, on=["v1"]),
            service("other", wanted=1, gpus=2, on=["v1"]),
            service(wanted=1),
        ],
        (
            "no serving node has room for one more, and nothing that can be drained there would make it; "
            "serving's nodes are held by firm (5 GPUs), other (2 GPUs), foreign actor X (1 GPUs)"
        ),
    ),
    "no such team": (
        [V1, service(wanted=1, team="nobody")],
        "has 0 running; team nobody is not in the policy: add it, or name a team that is",
    ),
}


@pytest.mark.parametrize(("parts", "want"), SERVICES.values(), ids=SERVICES)
def test_a_service(parts: list[Node | Workload | Service | Booking], want: str) -> None:
    assert sentence(*parts, name="chat").endswith(want)
    assert sentence(*parts, name="chat").startswith("wants ")


def test_a_service_says_what_is_held_free_by_forecast() -> None:
    rules = replace(RULES, headroom=Headroom(quantile=0.99))
    known = replace(state(V1, service(wanted=1, on=["v1"])), growth_gpus=14)
    assert explain(known, rules, 0.0, "chat").sentence.endswith("; holding 14 GPUs free: p99 growth in 90 s is 14")


def test_who_is_ahead_of_it() -> None:
    parts = [node("n1"), STUCK, gang("a", submitted_at=1.0), gang("x", submitted_at=2.0), backfill("z")]
    assert [one.workload for one in explain(state(*parts), RULES, 5.0, "x").ahead] == ["a"]


def test_who_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="nothing called 'nobody' waits or runs"):
        explain(state(node("n1")), RULES, 0.0, "nobody")


def test_a_wait_without_rooms_has_a_sentence_too() -> None:
    wait = Wait(workload="x", reason=Reason.NO_ROOM, asked=4, available=3)
    assert sentence_of(wait, gang("x", nodes=4), now=0.0) == (
        "needs 4 nodes with 8 free GPUs each; the fleet has 3 free: 1 more would do"
    )
    within = Wait(workload="x", reason=Reason.NO_ROOM, asked=4, available=3, level="leaf")
    assert "the best leaf has 3 free" in sentence_of(within, gang("x", nodes=4, within="leaf"), now=0.0)


def test_a_drain_of_nobody_in_particular() -> None:
    wait = Wait(workload="x", reason=Reason.DRAIN_UNDER_WAY, asked=1, available=0)
    assert sentence_of(wait, gang("x"), now=0.0).endswith("waiting for what is leaving to exit")


def test_many_domains_and_names_are_counted_not_listed() -> None:
    spines = [node(f"n{i}", at=f"s{i}/l1", gpus=16) for i in range(1, 9)]
    firm = [gang(f"firm-{i}", team="guest", gpus=9, on=[f"n{i}"]) for i in range(1, 9)]
    lodgers = [backfill(f"v{i}", team="guest", gpus=1, on=["n1"]) for i in range(1, 8)]
    said = sentence(*spines, *firm, *lodgers, gang("x", gpus=7, nodes=9), name="x", rules=policy(team(nominal=640)))
    assert "could never fit more than 8" in said
    said = sentence(*spines, *firm, *lodgers, gang("y", nodes=2, within="spine", gpus=8), name="y")
    assert said.count(" has ") <= SHOWN


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_sentence(reason: Reason) -> None:
    wait = Wait(workload="x", reason=reason, asked=2, available=1, blocked_by=("y",))
    assert sentence_of(wait, gang("x"), ("y",), now=0.0)
