"""Replicas apart and spread (S8): how many on a node, beside whom not, over which domains."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.explain import explain
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Drain, GiveGrant, GiveSlice, Reason, Repartition, TakeGrant
from fleet_app.engine.policy import Affinity, Policy, Slicing
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, cards, grant, node, nodes, part, policy, service, sliced, state

TWO = [node("v1", serving=True), node("v2", serving=True)]
LEAVES = [node(f"v{i}", serving=True, at=f"s1/l{1 + i // 3}") for i in range(1, 5)]


def ruled(*affinities: Affinity) -> Policy:
    return replace(policy(), affinities=affinities)


def wishing(one: Service, **wish: object) -> Service:
    """Return a service that asks itself where its replicas are to be."""
    return replace(one, affinity=Affinity(service=one.name, **wish))  # type: ignore[arg-type]  # fields of an Affinity


ONE_EACH = ruled(Affinity(service="chat", per_node=1))
APART = ruled(Affinity(service="chat", apart_from=("other",)))
CHAT_2 = service(wanted=2)
OTHER = service("other", wanted=1, on=["v1"])

CASES: dict[str, tuple[Policy, list[Node | Workload | Service], dict[str, int]]] = {
    "as many on a node as may be": (ONE_EACH, [*TWO, service(wanted=2)], {"v1": 1, "v2": 1}),
    "and no more": (ONE_EACH, [*TWO, service(wanted=5)], {"v1": 1, "v2": 1}),
    "those that run count": (ONE_EACH, [*TWO, service(wanted=2, on=["v2"])], {"v1": 1}),
    "none beside the other": (APART, [*TWO, OTHER, service(wanted=3)], {"v2": 3}),
    "whichever of the two says it": (
        ruled(Affinity(service="other", apart_from=("chat",))),
        [*TWO, OTHER, service(wanted=3)],
        {"v2": 3},
    ),
    "without affinities the fullest node": (policy(), [*TWO, OTHER, service(wanted=3)], {"v1": 3}),
    "over the domains of a level": (
        ruled(Affinity(service="chat", spread="leaf")),
        [*LEAVES, service(wanted=4)],
        {"v1": 2, "v3": 2},
    ),
    "of an outer level, whatever lies inside them": (
        ruled(Affinity(service="chat", spread="spine")),
        [*TWO[:1], node("w1", at="s1/l2", serving=True), *nodes(2, prefix="z", at="s2/l3", serving=True), CHAT_2],
        {"v1": 1, "z1": 1},
    ),
    "and over the nodes inside them": (
        ruled(Affinity(service="chat", spread="leaf")),
        [*LEAVES, service(wanted=4, spread=True)],
        {"v1": 1, "v2": 1, "v3": 1, "v4": 1},
    ),
    "a service may ask for that itself": (
        policy(),
        [*TWO, wishing(service(wanted=5), per_node=1)],
        {"v1": 1, "v2": 1},
    ),
    "beside what the policy says the stricter holds": (
        ruled(Affinity(service="chat", per_node=2)),
        [*TWO, wishing(service(wanted=5), per_node=1)],
        {"v1": 1, "v2": 1},
    ),
    "whichever of them that is": (ONE_EACH, [*TWO, wishing(service(wanted=5), per_node=2)], {"v1": 1, "v2": 1}),
    "over which level the policy says first": (
        ruled(Affinity(service="chat", spread="leaf")),
        [*LEAVES, wishing(service(wanted=4), spread="spine")],
        {"v1": 2, "v3": 2},
    ),
    "else the service": (ONE_EACH, [*LEAVES, wishing(service(wanted=2), spread="leaf")], {"v1": 1, "v3": 1}),
    "apart from another that it names": (policy(), [*TWO, OTHER, wishing(CHAT_2, apart_from=("other",))], {"v2": 2}),
    "whoever of one team names the other": (
        policy(),
        [*TWO, wishing(OTHER, apart_from=("chat",)), CHAT_2],
        {"v2": 2},
    ),
    "but of two teams only who asks is kept away": (
        policy(),
        [*TWO, wishing(replace(OTHER, team="research"), apart_from=("chat",)), CHAT_2],
        {"v1": 2},
    ),
    "a grant that is taken back is in nobody's way": (
        APART,
        [TWO[0], service("other", grants=[grant("g", node="v1", occupied=False)]), service(wanted=1)],
        {"v1": 1},
    ),
}


@pytest.mark.parametrize(("rules", "parts", "want"), CASES.values(), ids=CASES)
def test_where_replicas_go(rules: Policy, parts: list[Node | Workload | Service], want: dict[str, int]) -> None:
    plan = decide(state(*parts), rules, 100.0)
    given = (one for one in plan.actions if isinstance(one, GiveGrant) and one.service == "chat")
    assert Counter(one.node for one in given) == want


def test_nobody_is_drained_where_it_would_not_help_and_it_says_why() -> None:
    facts = state(*TWO, OTHER, backfill("b", gpus=7, on=["v1"]), service(wanted=9, gpus=8))
    plan = decide(facts, APART, 100.0)
    assert [one for one in plan.actions if isinstance(one, Drain | TakeGrant)] == []
    [wait] = plan.waits
    assert (wait.workload, wait.reason, wait.asked, wait.available) == ("chat", Reason.APART, 1, 0)
    told = explain(facts, APART, 100.0, "chat").sentence
    assert "it would be beside what it is kept apart from" in told


def test_who_is_in_the_way_elsewhere_is_drained_there() -> None:
    lodgers = [backfill("b1", gpus=4, on=["v1"]), backfill("b2", gpus=8, on=["v2"])]
    plan = decide(state(*TWO, OTHER, *lodgers, service(wanted=1)), APART, 100.0)
    assert [one.workload for one in plan.actions if isinstance(one, Drain)] == ["b2"]


SHARED = ["shared"]
CUT = [node(f"v{i}", gpus=0, cards=cards(SHARED), serving=True, accelerator="h100") for i in (1, 2)]
PART = part(share=0.1)


def small(name: str = "chat", wanted: int = 1, on: str = "", *, spread: bool = False) -> Service:
    """Return a service whose replicas are a tenth of a GPU each."""
    granted = [grant(f"{name}-0", node=on, card=0)] if on else []
    return service(name, gpus=0, slice=PART, wanted=wanted, grants=granted, spread=spread)


BOTH = [
    node("v1", gpus=2, cards=cards((), (), SHARED), serving=True, accelerator="h100"),
    node("v2", gpus=0, cards=cards(SHARED), serving=True, accelerator="h100"),
]
LEAF_OF = {"v1": "s1/l1", "v2": "s1/l1", "v3": "s1/l2"}
FAR = [node(name, gpus=0, cards=cards(SHARED), serving=True, accelerator="h100", at=at) for name, at in LEAF_OF.items()]

PARTS: dict[str, tuple[Policy, list[Node | Workload | Service], dict[str, int]]] = {
    "as many on a node as may be": (ONE_EACH, [*CUT, small(wanted=2)], {"v1": 1, "v2": 1}),
    "and no more": (ONE_EACH, [*CUT, small(wanted=5)], {"v1": 1, "v2": 1}),
    "those that run count": (ONE_EACH, [*CUT, small(wanted=2, on="v2")], {"v1": 1}),
    "none beside the other": (APART, [*CUT, small("other", on="v1"), small(wanted=3)], {"v2": 3}),
    "nor beside whole replicas of it": (APART, [*BOTH, OTHER, small(wanted=3)], {"v2": 3}),
    "nor beside those that it just got": (APART, [*BOTH, service("other", wanted=1), small(wanted=3)], {"v2": 3}),
    "over the domains of a level": (
        ruled(Affinity(service="chat", spread="leaf")),
        [*FAR, small(wanted=4)],
        {"v1": 2, "v3": 2},
    ),
    "and over the nodes inside them": (
        ruled(Affinity(service="chat", spread="leaf")),
        [*FAR, small(wanted=4, spread=True)],
        {"v1": 1, "v2": 1, "v3": 2},
    ),
    "a service may ask for that itself": (policy(), [*CUT, wishing(small(wanted=5), per_node=1)], {"v1": 1, "v2": 1}),
    "without affinities the fullest card": (policy(), [*CUT, small("other", on="v2"), small(wanted=3)], {"v2": 3}),
}


@pytest.mark.parametrize(("rules", "parts", "want"), PARTS.values(), ids=PARTS)
def test_where_replicas_on_parts_of_cards_go(
    rules: Policy, parts: list[Node | Workload | Service], want: dict[str, int]
) -> None:
    plan = decide(state(*parts), replace(rules, slicing=Slicing()), 100.0)
    given = (one for one in plan.actions if isinstance(one, GiveSlice) and one.service == "chat")
    assert Counter(one.node for one in given) == want


def test_a_whole_replica_keeps_off_a_node_with_parts_of_who_it_is_apart_from() -> None:
    rules = replace(APART, slicing=Slicing())
    there = [*BOTH, node("v3", gpus=2, serving=True)]
    plan = decide(state(*there, small("other", on="v1"), service(wanted=1)), rules, 100.0)
    assert [one.node for one in plan.actions if isinstance(one, GiveGrant)] == ["v3"]


def test_what_is_kept_off_every_card_with_room_says_so_and_a_card_elsewhere_is_cut_for_it() -> None:
    rules = replace(ONE_EACH, slicing=Slicing(repartition=True, settle_s=0.0))
    facts = state(CUT[0], small(wanted=2, on="v1"))
    [wait] = decide(facts, rules, 100.0).waits
    assert (wait.workload, wait.reason, wait.asked, wait.available) == ("chat", Reason.APART, 1, 0)
    assert "it would be beside what it is kept apart from" in explain(facts, rules, 100.0, "chat").sentence
    spare = node("v2", gpus=1, cards=cards(()), serving=True, accelerator="h100")
    plan = decide(state(CUT[0], spare, small(wanted=2, on="v1")), rules, 100.0)
    assert [(one.node, one.layout) for one in plan.actions if isinstance(one, Repartition)] == [("v2", ("shared",))]
    assert [one.reason for one in plan.waits] == [Reason.REPARTITION_UNDER_WAY]


def test_a_job_leaves_its_part_only_where_the_replica_may_be() -> None:
    jobs = [
        replace(sliced(f"b{i}", share=0.95), nodes=(f"v{i}",), card=0, phase=Phase.RUNNING, started_at=at)
        for i, at in ((1, 99.0), (2, 0.0))
    ]
    rules = replace(APART, slicing=Slicing())
    plan = decide(state(*CUT, small("other", on="v1"), *jobs, small()), rules, 100.0)
    assert [one.workload for one in plan.actions if isinstance(one, Drain)] == ["b2"]
