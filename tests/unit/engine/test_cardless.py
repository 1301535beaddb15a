"""V3 to V7: why there is no slice for somebody, in a sentence."""

from __future__ import annotations

import pytest

from fleet_app.engine.explain import explain, sentence_of
from fleet_app.engine.plan import Reason, Wait
from fleet_app.engine.policy import Slicing
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Service, Workload
from tests.builders import cards, node, part, policy, service, sliced, state, team

TEAMS = (team("research", nominal=1), team("serving"), team("poor", nominal=0), team("strict", strict=True))
RULES = policy(*TEAMS, slicing=Slicing(repartition=True))
SHARED = node("n1", gpus=0, cards=cards(["shared"]))
SERVING = node("n1", gpus=0, cards=cards(["shared"]), serving=True)
CUT = node("n1", gpus=0, cards=cards(["1g.10gb"] * 2), accelerator="h100")
TWO = node("n1", gpus=0, cards=cards(["shared"], ["shared"]))
FULL = sliced("old", share=1.0, team="serving", on=("n1", 0))

SENTENCES: dict[str, tuple[list[Node | Workload | Service], str]] = {
    "no card has room": (
        [SHARED, FULL, sliced("x", share=0.25)],
        "needs 0.25 of a shared GPU; none of the 1 shared cards that the fleet has is free for it",
    ),
    "all partitions are taken": (
        [CUT, *(sliced(f"old-{i}", profile="1g.10gb", on=("n1", 0)) for i in range(2)), sliced("x", profile="1g.10gb")],
        "needs a partition 1g.10gb; none of the 2 such partitions that the fleet has is free for it",
    ),
    "no card could ever have one": (
        [SHARED, sliced("x", profile="1g.10gb")],
        "needs a partition 1g.10gb; no card that it may use has one, and none can be cut for it",
    ),
    "the quota is used": (
        [
            node("n1", gpus=0, cards=cards(["shared"], ["shared"])),
            sliced("o", share=1.0, on=("n1", 0)),
            sliced("x", share=0.5),
        ],
        "needs 0.5 of a shared GPU, which counts as 1 in its quota; team research has 0 left there",
    ),
    "the team may never have one": (
        [SHARED, sliced("x", share=0.5, team="poor")],
        "needs 0.5 of a shared GPU, which counts as 1 in its quota; team poor may never have more than 0 there",
    ),
    "nobody knows the team": (
        [SHARED, sliced("x", share=0.5, team="nobody")],
        "team nobody is not in the policy; add it, or name a team that is",
    ),
    "it is behind another": (
        [
            SHARED,
            FULL,
            sliced("first", share=0.5, team="strict", submitted_at=-1.0),
            sliced("x", share=0.5, team="strict"),
        ],
        "team strict takes its queue strictly in order; first is ahead of it",
    ),
    "a card is being cut": (
        [node("n1", gpus=1, cards=cards([]), accelerator="h100"), sliced("x", profile="1g.10gb")],
        "needs a partition 1g.10gb; it waits for an empty card to be cut for it",
    ),
    "it starts": (
        [SHARED, sliced("x", share=0.5)],
        "starts in the next cycle on n1: 0.5 of a shared GPU on card 0 of n1",
    ),
    "others start too": (
        [SHARED, sliced("a", share=0.25), sliced("x", share=0.5), sliced("z", share=0.125)],
        "starts in the next cycle on n1: 0.5 of a shared GPU on card 0 of n1",
    ),
    "a service that has what it wants": (
        [SERVING, service("x", gpus=0, slice=part(share=0.5), wanted=1)],
        "wants 1 replicas, each with 0.5 of a shared GPU, has 0 running and 0 granted",
    ),
    "a service that waits for a job": (
        [SERVING, FULL, service("x", gpus=0, slice=part(share=0.5), wanted=1)],
        (
            "wants 1 replicas, each with 0.5 of a shared GPU, has 0 running; "
            "needs 0.5 of a shared GPU; waiting for what is leaving to exit"
        ),
    ),
}


@pytest.mark.parametrize(("parts", "want"), SENTENCES.values(), ids=SENTENCES)
def test_why(parts: list[Node | Workload | Service], want: str) -> None:
    assert explain(state(*parts), RULES, 0.0, "x").sentence == want


def test_a_wait_alone_is_a_sentence_too() -> None:
    wait = Wait(workload="x", reason=Reason.NO_ROOM, asked=1, available=0)
    assert sentence_of(wait, sliced("x", share=0.5), now=0.0) == "needs 0.5 of a shared GPU; no card has room for it"


def test_who_is_ahead_in_the_line_for_slices_is_who_asks_for_slices() -> None:
    waiting = [sliced("first", share=1.0), sliced("x", share=1.0, submitted_at=1.0)]
    found = explain(state(SHARED, FULL, *waiting), RULES, 2.0, "x")
    assert [one.workload for one in found.ahead] == ["first"]
