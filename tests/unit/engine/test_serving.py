"""Replicas first: grants given, kept and taken back; the tiers; whose room is used before a drain (S1 to S6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.plan import Drain, GiveGrant, Plan, Reason, TakeGrant
from fleet_app.engine.policy import Policy
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Grant, Service, Workload
from tests.builders import backfill, gang, grant, node, policy, service, state, team

OWN = policy(team("serving", nominal=64), team("research", nominal=64))


def said(plan: Plan) -> list[str]:
    """Return what happens to grants and lodgers, in order."""
    found = []
    for action in plan.actions:
        match action:
            case GiveGrant():
                found.append(f"give {action.service} {action.node}")
            case TakeGrant():
                found.append(f"take {action.service} {action.grant}")
            case Drain():
                found.append(f"drain {action.workload} for {action.beneficiary}")
    return found


def serve(*parts: Node | Workload | Service, rules: Policy = OWN) -> list[str]:
    """Return what is decided for services."""
    return said(decide(state(*parts), rules, 0.0))


V1, V2 = node("v1", serving=True, gpus=4), node("v2", serving=True, gpus=4)


def idle(name: str, where: str = "v1") -> Grant:
    return grant(name, node=where, occupied=False)


GRANTS = {
    "as many as are wanted": ([V1, service(wanted=2)], ["give chat v1", "give chat v1"]),
    "never fewer than the floor": ([V1, service(wanted=0, floor=1)], ["give chat v1"]),
    "those that it has count": ([V1, service(wanted=2, on=["v1"])], ["give chat v1"]),
    "an idle grant is one too": ([V1, service(wanted=1, grants=[idle("g1")])], []),
    "on serving's nodes only": ([node("t1"), service(wanted=1)], []),
    "on no node in doubt": ([node("v1", serving=True, condition=Condition.DRAINING), service(wanted=1)], []),
    "on the fullest node": ([V1, V2, backfill(on=["v2"], gpus=2), service(wanted=1)], ["give chat v2"]),
    "with spread, away from its own": ([V1, V2, service(wanted=2, on=["v1"], spread=True)], ["give chat v2"]),
    "a whole replica or none": ([V1, service(wanted=2, gpus=3)], ["give chat v1"]),
    "surplus is taken back": ([V1, service(wanted=1, grants=[idle("g1"), idle("g2")])], ["take chat g2"]),
    "a replica that runs is not": ([V1, service(wanted=0, on=["v1"])], []),
    "an idle grant on a node in doubt is replaced": (
        [node("v1", serving=True, condition=Condition.CORDONED), V2, service(wanted=1, grants=[idle("g1")])],
        ["take chat g1", "give chat v2"],
    ),
    "an idle grant on a node that has become training's too": (
        [node("v1"), V2, service(wanted=1, grants=[idle("g1")])],
        ["take chat g1", "give chat v2"],
    ),
    "one on a node that is gone is forgotten": ([V2, service(wanted=0, grants=[idle("g1", "v9")])], ["take chat g1"]),
    "who runs beyond what is wanted keeps its place": ([V1, service(wanted=1, on=["v1", "v1"])], []),
}


@pytest.mark.parametrize(("parts", "want"), GRANTS.values(), ids=GRANTS)
def test_grants(parts: list[Node | Workload | Service], want: list[str]) -> None:
    assert serve(*parts) == want


def test_room_is_drained_for_a_replica_and_given_when_it_has_come() -> None:
    full = backfill("lodger", gpus=4, on=["v1"])
    plan = decide(state(V1, full, service(wanted=1, gpus=4)), OWN, 0.0)
    assert said(plan) == ["drain lodger for chat"]
    assert [(one.workload, one.reason) for one in plan.waits] == [("chat", Reason.DRAIN_UNDER_WAY)]


def test_what_is_coming_free_is_waited_for() -> None:
    stays, leaving = backfill("v", gpus=4, on=["v1"]), replace(backfill("leaving", gpus=4, on=["v2"]), killed=True)
    assert serve(V1, V2, stays, leaving, service(wanted=1, gpus=4)) == []


def test_who_would_not_make_room_stays() -> None:
    there = [backfill(gpus=2, on=["v1"]), service("x", gpus=2, on=["v1"])]
    plan = decide(state(V1, *there, service(gpus=4, wanted=1)), OWN, 0.0)
    assert said(plan) == []
    assert [(one.workload, one.reason) for one in plan.waits] == [("chat", Reason.NO_ROOM)]


QUOTA = {
    "serving never borrows": (policy(team("serving", nominal=1)), ["give chat v1"], Reason.QUOTA_USED),
    "what is lent comes back": (policy(team("serving", nominal=4), team("research", nominal=0)), None, None),
    "a team that is in no policy has nothing": (policy(team("research")), [], Reason.UNKNOWN_TEAM),
}


@pytest.mark.parametrize(("rules", "want", "reason"), QUOTA.values(), ids=QUOTA)
def test_quota(rules: Policy, want: list[str] | None, reason: Reason | None) -> None:
    lent = backfill("lent", gpus=3, on=["t1"])
    plan = decide(state(V1, node("t1"), *([lent] if want is None else []), service(wanted=2)), rules, 0.0)
    assert said(plan) == (want if want is not None else ["give chat v1", "drain lent for chat"])
    assert [one.reason for one in plan.waits] == ([Reason.DRAIN_UNDER_WAY] if want is None else [reason])


def test_a_replica_without_gpus_of_no_known_team_is_refused_too() -> None:
    plan = decide(state(V1, service(wanted=1, gpus=0, team="nobody")), OWN, 0.0)
    assert [one.reason for one in plan.waits] == [Reason.UNKNOWN_TEAM]


TIERS = {
    "GPUs are kept free beyond what is wanted": ([V1, service(wanted=1)], 2, ["give chat v1"] * 3),
    "by whole replicas": ([V1, service(wanted=0, gpus=3)], 5, ["give chat v1"]),
    "in turn": ([V1, service("a"), service("b")], 3, ["give a v1", "give a v1", "give b v1"]),
    "inside the team's nominal": ([V1, V2, service(wanted=3)], 9, ["give chat v1"] * 4 + ["give chat v2"] * 2),
    "drained for, if need be": ([V1, backfill("v", gpus=4, on=["v1"]), service()], 1, ["drain v for chat"]),
    "nobody waits for it": ([V1, gang("g", gpus=4, on=["v1"]), service()], 1, []),
}


@pytest.mark.parametrize(("parts", "gpus", "want"), TIERS.values(), ids=TIERS)
def test_immediate_tier(parts: list[Node | Workload | Service], gpus: int, want: list[str]) -> None:
    rules = policy(team("serving", nominal=6), team("research", nominal=64), immediate_gpus=gpus)
    plan = decide(state(*parts), rules, 0.0)
    assert said(plan) == want
    assert [one for one in plan.waits if one.workload == "chat" and one.reason is Reason.NO_ROOM] == []


def test_each_service_gets_one_in_turn_and_floors_come_first() -> None:
    asked = [service("a", wanted=4), service("b", wanted=4), service("c", wanted=4, floor=2)]
    assert serve(node("v1", serving=True, gpus=5), *asked) == [
        "give c v1",
        "give c v1",
        "give a v1",
        "give b v1",
        "give c v1",
    ]


SPARE = {
    "before anybody is drained, another's spare grant is used": (
        [V1, V2, backfill("v", gpus=4, on=["v2"]), service("a", grants=[idle("a1")], gpus=4), service("b", wanted=1)],
        ["take a a1"],
    ),
    "what another wants it keeps": (
        [V1, service("a", wanted=1, grants=[idle("a1")], gpus=4), service("b", wanted=1)],
        [],
    ),
    "unless who asks is below its floor": (
        [V1, service("a", wanted=1, grants=[idle("a1")], gpus=4), service("b", floor=1)],
        ["take a a1"],
    ),
    "and the other is not": (
        [V1, service("a", floor=1, grants=[idle("a1")], gpus=4), service("b", floor=1)],
        [],
    ),
    "never where a replica runs": (
        [V1, service("a", wanted=0, on=["v1"], gpus=4), service("b", floor=1)],
        [],
    ),
    "as few as are enough": (
        [V1, service("a", wanted=4, grants=[idle(f"a{i}") for i in range(4)]), service("b", floor=1, gpus=2)],
        ["take a a2", "take a a3"],
    ),
    "with a drain on the same node where neither is enough": (
        [
            V1,
            backfill("v", gpus=2, on=["v1"]),
            service("a", wanted=1, grants=[idle("a1")], gpus=2),
            service("b", floor=1, gpus=4),
        ],
        ["take a a1", "drain v for b"],
    ),
}


@pytest.mark.parametrize(("parts", "want"), SPARE.values(), ids=SPARE)
def test_spare_grants_of_others(parts: list[Node | Workload | Service], want: list[str]) -> None:
    rules = policy(team("serving", nominal=64), team("research", nominal=64), immediate_gpus=0)
    assert serve(*parts, rules=rules) == want


def test_the_immediate_tier_of_another_is_used_before_anybody_is_drained() -> None:
    rules = policy(team("serving", nominal=64), team("research", nominal=64), immediate_gpus=4)
    kept = service("a", grants=[idle("a1")], gpus=4)
    lodger = backfill("v", gpus=4, on=["v2"])
    assert serve(V1, V2, lodger, kept, service("b", wanted=1, gpus=3), rules=rules)[0] == "take a a1"


def test_what_is_taken_of_an_immediate_tier_is_not_put_back_but_the_rest_of_it_is_raised() -> None:
    rules = policy(team("serving", nominal=64), team("research", nominal=64), immediate_gpus=3)
    kept = service("a", grants=[idle("a1"), idle("a2")])
    full = gang("g", gpus=2, on=["v2"])
    assert serve(V1, V2, full, kept, service("b", wanted=1, gpus=3), rules=rules) == ["take a a2", "give a v2"]


def test_a_floor_is_met_out_of_what_the_team_has_idle_when_its_nominal_is_used_up() -> None:
    rules = policy(team("serving", nominal=2))
    other = service("a", wanted=2, grants=[idle("a1"), idle("a2")])
    assert serve(V1, V2, other, service("b", floor=1), rules=rules) == ["take a a1"]
    assert serve(V1, V2, service("a", wanted=2, grants=[idle("a2")]), service("b", floor=1), rules=rules) == [
        "give b v1"
    ]


def test_a_floor_takes_nothing_of_its_team_that_would_not_be_enough() -> None:
    rules = policy(team("serving", nominal=2))
    other = service("a", wanted=1, grants=[idle("a1")])
    assert serve(V1, V2, other, service("b", floor=1, gpus=4), rules=rules) == []


def test_a_grant_that_was_taken_for_the_quota_is_not_taken_for_the_room_as_well() -> None:
    idle = service("a", gpus=2, wanted=1, grants=[grant("g", node="v1", occupied=False)])
    lodger = backfill("b", team="research", gpus=2, on=["v1"])
    rules = policy(team("research"), team("serving", nominal=4))
    parts = (node("v1", gpus=4, serving=True), idle, service("c", gpus=3, floor=1), lodger)
    assert said(decide(state(*parts), rules, 0.0)) == ["take a g", "drain b for c"]


BIG, MATE, ONE = service("big", gpus=4), service("mate", gpus=2, on=["v2"]), service(wanted=1)
LARGER = {
    "a replica goes where a larger one has no place any more": (
        [V1, V2, BIG, backfill(gpus=2, on=["v1"]), MATE],
        0,
        ["give chat v2"],
    ),
    "even if somebody has to leave for it": (
        [V1, V2, BIG, backfill("v", gpus=2, on=["v2"]), MATE],
        0,
        ["drain v for chat"],
    ),
    "or to have left": (
        [V1, V2, BIG, replace(backfill("v", gpus=2, on=["v2"]), killed=True), MATE],
        0,
        [],
    ),
    "and takes the place of a larger one where nothing else would do": (
        [V1, V2, BIG, gang("g", gpus=2, on=["v2"]), MATE],
        0,
        ["give chat v1"],
    ),
    "nobody's place is larger where all replicas have one size": (
        [V1, V2, backfill(gpus=2, on=["v1"]), MATE],
        0,
        ["give chat v1"],
    ),
    "the largest counts first": (
        [V1, node("v3", serving=True, gpus=3), service("three", gpus=3), BIG, backfill(gpus=2, on=["v1"]), ONE],
        0,
        ["give chat v3"],
    ),
    "one that is to be spread is": (
        [V1, V2, BIG, replace(MATE, name="chat", wanted=2, spread=True)],
        0,
        ["give chat v1"],
    ),
    "nor is a larger one's spare grant used before somebody leaves elsewhere": (
        [V1, V2, service("big", gpus=4, grants=[idle("b1")]), backfill("v", gpus=2, on=["v2"]), MATE],
        4,
        ["drain v for chat"],
    ),
    "but one of its own size": (
        [V1, V2, BIG, MATE, service("alike", gpus=2, grants=[idle("a1", "v2")])],
        2,
        ["take alike a1"],
    ),
    "and a larger one's where a drain would cost a place as well": (
        [V1, V2, service("big", gpus=4, grants=[idle("b1")]), backfill("v", gpus=4, on=["v2"])],
        4,
        ["take big b1"],
    ),
}


def test_nobody_loses_a_grant_for_a_place_that_comes_to_nothing() -> None:
    """S6, S9: v1 would have room with that of `has`, but the nominal is lent, and nobody gives enough of it back."""
    rules = policy(team("serving", nominal=5), team("other", nominal=2), team("lent", nominal=0), immediate_gpus=2)
    parts = [
        *(node("v1", serving=True, gpus=2), node("v2", serving=True, gpus=4), node("t", gpus=8)),
        *(backfill("b1", gpus=1, on=["v1"], team="serving"), backfill("b2", gpus=4, on=["v2"], team="other")),
        *(backfill("b3", gpus=1, on=["t"], team="serving"), backfill("b4", gpus=1, on=["t"], team="lent")),
        gang("g", gpus=6, on=["t"], team="other"),
        *(service(gpus=2, wanted=2, floor=1), service("has", grants=[idle("c", "v1")]), service("big", gpus=4)),
    ]
    assert serve(*parts, rules=rules) == []


@pytest.mark.parametrize(("parts", "gpus", "want"), LARGER.values(), ids=LARGER)
def test_larger_places_are_spared(parts: list[Node | Workload | Service], gpus: int, want: list[str]) -> None:
    """S9: places count as if all who yield had left, and are taken only where S6 finds nothing else."""
    rules = policy(team("serving", nominal=64), team("research", nominal=64), immediate_gpus=gpus)
    there = any(isinstance(part, Service) and part.name == "chat" for part in parts)
    assert serve(*parts, *([] if there else [service(gpus=2, wanted=1)]), rules=rules) == want
