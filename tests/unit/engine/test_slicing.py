"""V3 to V6: who gets which slice, who yields to whom, and what it is charged to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fleet_app.engine.cards import Card, Slice
from fleet_app.engine.decide import decide
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Admit, AdmitSlice, Drain, GiveSlice, Plan, Reason, TakeGrant, Wait
from fleet_app.engine.policy import FlavorQuota, Policy, Slicing
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Service, Workload
from tests.builders import (
    backfill,
    cards,
    gang,
    grant,
    node,
    part,
    policy,
    service,
    sliced,
    state,
    team,
)

SEVENTHS = ["1g.10gb"] * 7
SHARED = ["shared"]


def small(name: str = "n1", *layouts: Sequence[str], serving: bool = False, gpus: int = 0, cpus: int = 64) -> Node:
    """Return a node of an H100 type with these cards."""
    return node(name, gpus=gpus, cpus=cpus, cards=cards(*layouts), accelerator="h100", serving=serving)


def rules(*quotas: object, shares: int = 10) -> Policy:
    """Return a policy that knows slices, of these teams."""
    return policy(*quotas, slicing=Slicing(shares=shares))  # type: ignore[arg-type]  # quotas of a test


def places(plan: Plan) -> dict[str, tuple[str, int]]:
    """Return which card everybody gets."""
    given = [one for one in plan.actions if isinstance(one, AdmitSlice | GiveSlice)]
    return {one.workload if isinstance(one, AdmitSlice) else one.service: (one.node, one.card) for one in given}


def why(plan: Plan) -> dict[str, Reason]:
    return {wait.workload: wait.reason for wait in plan.waits}


ROOM: dict[str, tuple[list[str], list[Slice], Slice, bool]] = {
    "a share on an empty card": (SHARED, [], part(share=0.8), True),
    "a share fits up to the last ten-thousandth": (SHARED, [part(share=0.6)], part(share=0.4), True),
    "and not one more": (SHARED, [part(share=0.6)], part(share=0.4001), False),
    "no more users than the policy allows": (SHARED, [part(share=0.1)] * 4, part(share=0.1), False),
    "one of seven partitions": (SEVENTHS, [part(profile="1g.10gb")] * 6, part(profile="1g.10gb"), True),
    "the eighth of seven": (SEVENTHS, [part(profile="1g.10gb")] * 7, part(profile="1g.10gb"), False),
    "a partition that the card does not have": (SEVENTHS, [], part(profile="2g.20gb"), False),
    "a share of a card that is cut": (SEVENTHS, [], part(share=0.1), False),
    "a share of a whole card": ([], [], part(share=0.1), False),
    "a partition beside others": (["3g.40gb", "1g.10gb"], [part(profile="1g.10gb")], part(profile="3g.40gb"), True),
}


@pytest.mark.parametrize(("layout", "there", "wanted", "want"), ROOM.values(), ids=ROOM)
def test_a_slice_is_on_one_card_that_has_room(layout: list[str], there: list[Slice], wanted: Slice, want: bool) -> None:
    taken = [sliced(f"old-{number}", on=("n1", 0), **named(one)) for number, one in enumerate(there)]
    plan = decide(state(small("n1", layout), *taken, sliced("new", **named(wanted))), rules(shares=4), 0.0)
    assert ("new" in places(plan)) is want
    assert want or why(plan)["new"] in {Reason.NO_ROOM, Reason.TOO_LARGE_FOR_FLEET}


def named(one: Slice) -> dict[str, object]:
    return {"profile": one.profile, "share": one.share / 10_000}


def test_what_others_use_of_a_card_is_not_free() -> None:
    held = Card(index=0, layout=("shared",), foreign=(part(share=0.5),))
    plan = decide(state(node("n1", gpus=0, cards=[held]), sliced("new", share=0.6)), rules(), 0.0)
    assert places(plan) == {}


def test_a_card_that_is_being_changed_takes_nothing() -> None:
    changing = Card(index=0, layout=("shared",), becomes=())
    plan = decide(state(node("n1", gpus=0, cards=[changing]), sliced("new", share=0.6)), rules(), 0.0)
    assert places(plan) == {}


def test_the_fullest_card_is_used_up_first() -> None:
    old = [sliced("a", share=0.3, on=("n1", 0)), sliced("b", share=0.5, on=("n2", 1))]
    fleet = state(small("n1", SHARED, SHARED), small("n2", SHARED, SHARED), *old, sliced("new", share=0.2))
    assert places(decide(fleet, rules(), 0.0)) == {"new": ("n2", 1)}


def test_replicas_that_are_spread_go_where_their_service_has_fewest() -> None:
    there = service("chat", gpus=0, slice=part(share=0.2), wanted=2, spread=True, grants=[grant(node="n1", card=0)])
    fleet = state(small("n1", SHARED, serving=True), small("n2", SHARED, serving=True), there)
    assert places(decide(fleet, rules(), 0.0)) == {"chat": ("n2", 0)}


def test_replicas_go_to_servings_nodes_and_jobs_that_yield_to_both() -> None:
    chat = service("chat", gpus=0, slice=part(share=0.5), wanted=1)
    fleet = state(small("n1", SHARED), small("n2", SHARED, serving=True), chat, sliced("job", share=0.9))
    assert places(decide(fleet, rules(), 0.0)) == {"chat": ("n2", 0), "job": ("n1", 0)}


def test_cpus_are_a_limit_too() -> None:
    job = sliced("job", share=0.5, cpus=3)
    assert places(decide(state(small("n1", SHARED, cpus=2), job), rules(), 0.0)) == {}
    assert places(decide(state(small("n1", SHARED, cpus=3), job), rules(), 0.0)) == {"job": ("n1", 0)}


def test_a_slice_is_nothing_where_the_policy_knows_none() -> None:
    chat = service("chat", gpus=0, slice=part(share=0.5), wanted=1)
    plan = decide(state(small("n1", SHARED, serving=True), chat, sliced("job", share=0.5)), policy(), 0.0)
    assert plan.actions == ()
    assert why(plan) == {"job": Reason.TOO_LARGE_FOR_FLEET}


def test_a_card_in_two_flavors_is_given_once() -> None:
    """V1: eight GPUs that are said to be whole and shared at once are no whole GPUs."""
    chat = service("chat", gpus=0, slice=part(share=1.0), wanted=8)
    both = small("n1", *[SHARED] * 8, gpus=8, serving=True)
    plan = decide(state(both, chat, backfill("whole", gpus=8)), rules(), 0.0)
    assert sum(isinstance(one, GiveSlice) for one in plan.actions) == 8
    assert why(plan) == {"whole": Reason.TOO_LARGE_FOR_FLEET}


# Who yields.


def test_a_job_leaves_its_slice_for_a_replica_and_the_replica_waits_for_it() -> None:
    chat = service("chat", gpus=0, slice=part(profile="1g.10gb"), wanted=1)
    old = [sliced(f"job-{number}", profile="1g.10gb", on=("n1", 0), saved_at=float(number)) for number in range(7)]
    plan = decide(
        state(small("n1", SEVENTHS, serving=True), chat, *old, sliced("new", profile="1g.10gb")), rules(), 9.0
    )
    assert [one.workload for one in plan.actions if isinstance(one, Drain)] == ["job-6"]
    assert why(plan) == {"chat": Reason.DRAIN_UNDER_WAY, "new": Reason.NO_ROOM}


def test_shares_are_asked_back_from_as_few_as_will_do() -> None:
    chat = service("chat", gpus=0, slice=part(share=0.5), wanted=1)
    old = [sliced("large", share=0.6, on=("n1", 0)), sliced("little", share=0.3, on=("n1", 0))]
    plan = decide(state(small("n1", SHARED, serving=True), chat, *old), rules(), 0.0)
    assert [one.workload for one in plan.actions if isinstance(one, Drain)] == ["large"]


def test_half_a_gpu_is_asked_back_rather_than_whole_ones() -> None:
    """R3, R5: on the A100 nobody has to leave the card, but who borrows the team's nominal elsewhere."""
    own = team("serving", nominal=8, flavors=[FlavorQuota(flavor="h100-shared", nominal=10_000)])
    there = [
        small("n1", SHARED, serving=True),
        node("n2", gpus=0, cards=cards(SHARED), accelerator="a100", serving=True),
    ]
    chat = service("chat", gpus=0, slice=part(share=0.5), wanted=1)
    job, lent = sliced("job", share=0.6, on=("n1", 0), team="vision"), backfill("lent", gpus=8, on=["n3"], team="other")
    teams = (own, team("vision", nominal=8, lending=0), team("other", nominal=0))
    assert plan_drains(decide(state(*there, node("n3"), chat, lent), rules(*teams), 0.0)) == []
    assert plan_drains(decide(state(*there[1:], node("n3"), chat, lent), rules(*teams), 0.0)) == ["lent"]
    assert plan_drains(decide(state(*there, node("n3"), chat, lent, job), rules(*teams), 0.0)) == ["job"]


def test_nobody_is_asked_while_enough_is_coming_anyway() -> None:
    chat = service("chat", gpus=0, slice=part(share=0.5), wanted=1)
    going = sliced("going", share=0.6, on=("n1", 0), phase=Phase.DRAINING, deadline_at=50.0)
    stays = sliced("stays", share=0.4, on=("n1", 0))
    plan = decide(state(small("n1", SHARED, serving=True), chat, going, stays), rules(), 0.0)
    assert plan.actions == ()
    assert why(plan) == {"chat": Reason.DRAIN_UNDER_WAY}


def test_an_idle_slice_that_nobody_wants_is_taken_back_and_a_spare_one_goes_to_who_needs_it() -> None:
    idle = grant("g1", node="n1", card=0, occupied=False)
    other = service("other", gpus=0, slice=part(share=0.9), grants=[idle])
    plan = decide(state(small("n1", SHARED, serving=True), other), rules(), 0.0)
    assert [one.grant for one in plan.actions if isinstance(one, TakeGrant)] == ["g1"]


def test_a_service_below_its_floor_takes_what_another_has_above_its_own() -> None:
    idle = [grant(f"g{number}", node="n1", card=0, occupied=False) for number in (1, 2)]
    rich = service("a-rich", gpus=0, slice=part(share=0.5), wanted=2, floor=1, grants=idle)
    poor = service("poor", gpus=0, slice=part(share=0.5), wanted=1, floor=1)
    plan = decide(state(small("n1", SHARED, serving=True), rich, poor), rules(), 0.0)
    assert [one.grant for one in plan.actions if isinstance(one, TakeGrant)] == ["g1"]
    assert why(plan)["poor"] is Reason.DRAIN_UNDER_WAY


# What it is charged to.


def test_slices_of_a_team_are_charged_in_whole_gpus_rounded_up() -> None:
    """V6: eight sevenths are two GPUs, seven are one."""
    old = [sliced(f"job-{number}", profile="1g.10gb", on=("n1", number // 7)) for number in range(7)]
    fleet = state(small("n1", SEVENTHS, SEVENTHS), *old, sliced("eighth", profile="1g.10gb"))
    assert places(decide(fleet, rules(team("research", nominal=2)), 0.0)) == {"eighth": ("n1", 1)}
    plan = decide(fleet, rules(team("research", nominal=1), team("other", nominal=9)), 0.0)
    assert [(wait.workload, wait.reason, wait.asked, wait.available) for wait in plan.waits] == [
        ("eighth", Reason.QUOTA_USED, 1, 0)
    ]


def test_slices_count_against_the_gangs_of_their_team() -> None:
    fleet = state(small("n1", SHARED), node("n2"), sliced("job", share=0.1, on=("n1", 0)), gang("gang", gpus=8))
    assert why(decide(fleet, rules(team("research", nominal=9)), 0.0)) == {}
    plan = decide(fleet, rules(team("research", nominal=8)), 0.0)
    assert why(plan) == {"gang": Reason.QUOTA_USED}
    assert [(one.workload, one.beneficiary) for one in plan.actions if isinstance(one, Drain)] == [("job", "gang")]


GIVE_BACK = {
    "its own team's": ([sliced("job", share=0.1, on=("n1", 0))], ["job"]),
    "not another team's, though that is cheaper": (
        [sliced("job", share=0.1, on=("n1", 0)), sliced("a-job", share=0.1, on=("n1", 0), team="a")],
        ["job"],
    ),
    "all that make up the GPU": (
        [sliced(f"job-{number}", profile="1g.10gb", on=("n1", 1)) for number in range(3)],
        ["job-0", "job-1", "job-2"],
    ),
}


@pytest.mark.parametrize(("there", "want"), GIVE_BACK.values(), ids=GIVE_BACK)
def test_which_slices_give_back_the_nominal_of_a_gang(there: list[Workload], want: list[str]) -> None:
    """V6."""
    fleet = state(small("n1", SHARED, SEVENTHS), node("n2"), *there, gang("gang", gpus=8))
    plan = decide(fleet, rules(team("research", nominal=8), team("a", nominal=8)), 0.0)
    assert [one.workload for one in plan.actions if isinstance(one, Drain)] == want


def test_they_give_back_what_the_first_gang_lacks_and_not_yet_what_the_next_does() -> None:
    there = [sliced(f"job-{number}", profile="1g.10gb", on=("n1", number // 7)) for number in range(8)]
    gangs = [gang("first", gpus=7, submitted_at=1.0), gang("next", gpus=8, submitted_at=2.0)]
    plan = decide(state(small("n1", SEVENTHS, SEVENTHS), node("n2"), *there, *gangs), rules(team(nominal=8)), 0.0)
    assert [one.beneficiary for one in plan.actions if isinstance(one, Drain)] == ["first"]


def test_a_job_on_a_slice_is_not_admitted_before_its_teams_gang_that_waits_for_nominal() -> None:
    running = gang("running", gpus=1, on=["n2"])
    fleet = state(small("n1", SHARED), node("n2"), running, gang("gang", gpus=8), sliced("job", share=0.1))
    plan = decide(fleet, rules(team("research", nominal=8)), 0.0)
    assert why(plan) == {"gang": Reason.QUOTA_USED, "job": Reason.QUOTA_USED}


def test_no_job_leaves_for_a_gang_that_its_leaving_would_not_help() -> None:
    others = [sliced(f"job-{number}", share=0.5, on=("n1", 0)) for number in range(2)]
    fleet = state(small("n1", SHARED), node("n2"), gang("old", gpus=7, on=["n2"]), *others, gang("gang", gpus=3))
    assert plan_drains(decide(fleet, rules(team("research", nominal=8)), 0.0)) == []


def plan_drains(plan: Plan) -> list[str]:
    return [one.workload for one in plan.actions if isinstance(one, Drain)]


def seventh(nominal: int, borrowing: int | None = None, lending: int | None = None) -> list[FlavorQuota]:
    return [FlavorQuota(flavor="h100-mig-1g.10gb", nominal=nominal, borrowing_limit=borrowing, lending_limit=lending)]


def jobs(name: str, count: int, **rest: object) -> list[Workload]:
    return [sliced(f"{name}-{number}", profile="1g.10gb", team=name, **rest) for number in range(count)]


NONE = seventh(0, 0)

FLAVORED: dict[str, tuple[list[FlavorQuota], list[FlavorQuota], list[FlavorQuota], dict[str, int]]] = {
    "each has what is its own": (seventh(2, 0), seventh(1, 0), [], {"a": 2, "b": 1}),
    "what nobody uses is lent": (seventh(0), NONE, seventh(2), {"a": 2, "b": 0}),
    "not above a borrowing limit": (seventh(0, 1), NONE, seventh(2), {"a": 1, "b": 0}),
    "not above a lending limit": (seventh(0), NONE, seventh(4, 0, 1), {"a": 1, "b": 0}),
    "without numbers a team has nothing of its own": ([], seventh(1, 0, 0), [], {"a": 0, "b": 1}),
    "of two that borrow each has its turn": (seventh(0), seventh(0), seventh(4), {"a": 2, "b": 2}),
}


@pytest.mark.parametrize(("a", "b", "c", "want"), FLAVORED.values(), ids=FLAVORED)
def test_a_flavor_with_numbers_has_books_of_its_own(
    a: list[FlavorQuota], b: list[FlavorQuota], c: list[FlavorQuota], want: dict[str, int]
) -> None:
    """V5: whatever the plain numbers are."""
    quotas = [team(name, nominal=9, flavors=own) for name, own in (("a", a), ("b", b), ("c", c))]
    plan = decide(state(small("n1", SEVENTHS), *jobs("a", 4), *jobs("b", 4)), rules(*quotas), 0.0)
    assert {name: sum(one.startswith(f"{name}-") for one in places(plan)) for name in ("a", "b")} == want


def test_what_a_flavor_lends_comes_back_to_the_replica_that_owns_it() -> None:
    quotas = [team("a", flavors=seventh(0)), team("serving", flavors=seventh(1))]
    chat = service("chat", gpus=0, slice=part(profile="1g.10gb"), wanted=1)
    borrower = jobs("a", 1, on=("n2", 0))
    fleet = state(small("n1", SEVENTHS, serving=True), small("n2", SEVENTHS), chat, *borrower)
    plan = decide(fleet, rules(*quotas), 0.0)
    assert plan_drains(plan) == ["a-0"]
    assert why(plan) == {"chat": Reason.DRAIN_UNDER_WAY}


def test_and_one_after_another_to_all_its_replicas() -> None:
    quotas = [team("a", flavors=seventh(0)), team("serving", flavors=seventh(2))]
    chat = service("chat", gpus=0, slice=part(profile="1g.10gb"), wanted=2)
    fleet = state(small("n1", SEVENTHS, serving=True), small("n2", SEVENTHS), chat, *jobs("a", 2, on=("n2", 0)))
    assert plan_drains(decide(fleet, rules(*quotas), 0.0)) == ["a-0", "a-1"]


def test_what_is_lent_is_no_reason_to_wait_where_only_a_card_is_missing() -> None:
    quotas = [team("a", flavors=seventh(0)), team("serving", flavors=seventh(1))]
    chat = service("chat", gpus=0, slice=part(profile="1g.10gb"), wanted=1)
    there = [grant(f"g{number}", node="n1", card=0) for number in range(7)]
    full = service("full", gpus=0, slice=part(profile="1g.10gb"), wanted=7, team="other", grants=there)
    fleet = state(small("n1", SEVENTHS, serving=True), small("n2", SEVENTHS), chat, full, *jobs("a", 1, on=("n2", 0)))
    plan = decide(fleet, rules(*quotas, team("other", flavors=seventh(7, 0, 0))), 0.0)
    assert why(plan) == {"chat": Reason.NO_ROOM}


WIDE = backfill("wide", nodes=2)


@pytest.mark.parametrize(("wanted", "starts"), [(0, True), (1, False)], ids=["no replica", "a replica"])
def test_work_of_several_bundles_keeps_off_a_node_on_which_a_replica_gets_a_slice(wanted: int, starts: bool) -> None:
    """P6."""
    chat = service("chat", gpus=0, slice=part(share=0.5), wanted=wanted)
    fleet = state(small("v1", SHARED, [], gpus=1, serving=True), small("v2", [], gpus=1, serving=True), chat, WIDE)
    plan = decide(fleet, rules(), 0.0)
    assert any(isinstance(one, Admit) for one in plan.actions) is starts


def test_only_who_borrows_gives_back_what_a_flavor_lends() -> None:
    """R2, R4: the cheapest of all is in its own nominal, and stays."""
    quotas = [team("a", flavors=seventh(0)), team("b", flavors=seventh(1)), team("serving", flavors=seventh(1))]
    chat = service("chat", gpus=0, slice=part(profile="1g.10gb"), wanted=1)
    owner, borrower = jobs("b", 1, on=("n2", 0), saved_at=9.0), jobs("a", 1, on=("n2", 0), saved_at=1.0)
    fleet = state(small("n1", SEVENTHS, serving=True), small("n2", SEVENTHS), chat, *owner, *borrower)
    assert plan_drains(decide(fleet, rules(*quotas), 9.0)) == ["a-0"]


def test_no_grant_is_taken_for_a_service_that_has_no_quota_for_it() -> None:
    """I6: it would be given back in the next cycle, and taken again."""
    idle = [grant(f"g{number}", node="n1", card=0, occupied=False) for number in (1, 2)]
    rich = service("a-rich", gpus=0, slice=part(share=0.5), wanted=2, floor=1, grants=idle)
    poor = service("poor", gpus=0, slice=part(share=0.5), wanted=1, floor=1, team="poor")
    teams = [team("serving"), team("poor", nominal=1)]
    busy = gang("old", gpus=1, team="poor", on=["n2"])
    plan = decide(state(small("n1", SHARED, serving=True), node("n2"), busy, rich, poor), rules(*teams), 0.0)
    assert plan.actions == ()
    assert why(plan) == {"poor": Reason.QUOTA_USED}


def test_gangs_and_jobs_of_several_bundles_get_no_slice() -> None:
    """V4, whatever a spec would say."""
    odd = [gang("gang", gpus=0, slice=part(share=0.1)), sliced("two", share=0.1, nodes=2)]
    plan = decide(state(small("n1", SHARED), *odd), rules(), 0.0)
    assert why(plan) == {"gang": Reason.TOO_LARGE_FOR_FLEET, "two": Reason.TOO_LARGE_FOR_FLEET}


def test_of_those_that_borrow_it_is_the_turn_of_the_smallest_dominant_share() -> None:
    """O5, V5: who has most of one flavor comes last for another."""
    sharing = [FlavorQuota(flavor="h100-shared", nominal=40_000), *seventh(7)]
    quotas = [team("a", nominal=0), team("b", nominal=0), team("c", nominal=0, flavors=sharing)]
    has = [sliced(f"old-{number}", share=1.0, team="a", on=("n1", number)) for number in range(2)]
    fleet = state(small("n1", SHARED, SHARED, ["1g.10gb"]), *has, *jobs("a", 1), *jobs("b", 1))
    assert places(decide(fleet, rules(*quotas), 0.0)) == {"b-0": ("n1", 2)}


def test_a_strict_queue_is_one_for_each_flavor() -> None:
    """O6, V5: who waits for one flavor is in nobody's way for another."""
    strict = team("research", strict=True)
    head, behind, other = (
        sliced("head", profile="3g.40gb", submitted_at=1.0),
        sliced("behind", profile="3g.40gb", submitted_at=2.0),
        sliced("other", share=0.1, submitted_at=3.0),
    )
    cut = small("n1", ["3g.40gb"], SHARED)
    plan = decide(state(cut, sliced("old", profile="3g.40gb", on=("n1", 0)), head, behind, other), rules(strict), 0.0)
    assert places(plan) == {"other": ("n1", 1)}
    assert why(plan) == {"head": Reason.NO_ROOM, "behind": Reason.BEHIND}


REFUSED: dict[str, tuple[Workload | Service, Reason]] = {
    "a team that nobody knows": (sliced("x", share=0.1, team="nobody"), Reason.UNKNOWN_TEAM),
    "a partition that no card has": (sliced("x", profile="7g.80gb"), Reason.TOO_LARGE_FOR_FLEET),
    "an accelerator that is not there": (sliced("x", share=0.1, accelerator="a30"), Reason.TOO_LARGE_FOR_FLEET),
    "a team without nominal": (sliced("x", share=0.1, team="poor"), Reason.TOO_LARGE_FOR_QUOTA),
    "a replica of a team that nobody knows": (
        service("x", gpus=0, slice=part(share=0.1), wanted=1, team="nobody"),
        Reason.UNKNOWN_TEAM,
    ),
    "a replica of a team without nominal": (
        service("x", gpus=0, slice=part(share=0.1), wanted=1, team="poor"),
        Reason.TOO_LARGE_FOR_QUOTA,
    ),
}


@pytest.mark.parametrize(("asker", "want"), REFUSED.values(), ids=REFUSED)
def test_a_no_has_one_reason(asker: Workload | Service, want: Reason) -> None:
    fleet = state(small("n1", SHARED, serving=True), asker)
    plan = decide(fleet, rules(team("research"), team("poor", nominal=0)), 0.0)
    assert [(wait.workload, wait.reason) for wait in plan.waits] == [("x", want)]


def test_waits_for_slices_are_in_the_order_of_names_like_all_others() -> None:
    fleet = state(small("n1", SHARED), sliced("b", share=1.0), sliced("a", share=1.0, submitted_at=1.0))
    plan = decide(fleet, rules(), 0.0)
    assert plan.waits == (Wait(workload="a", reason=Reason.NO_ROOM, asked=1, available=0),)


def test_an_idle_slice_on_a_node_that_takes_nothing_new_is_taken_back() -> None:
    """S5."""
    closed = replace(small("v1", SHARED, serving=True), condition=Condition.CORDONED)
    has = service(
        "chat", gpus=0, slice=part(share=0.5), wanted=1, grants=[grant("x", node="v1", occupied=False, card=0)]
    )
    plan = decide(state(closed, has), rules(), 0.0)
    assert [one.why for one in plan.actions if isinstance(one, TakeGrant)] == ["v1 takes no new replicas"]


def test_the_cpus_of_a_slice_that_is_coming_are_kept_too() -> None:
    """R6."""
    there = [small("v1", SHARED, serving=True), sliced("job", share=1.0, on=("v1", 0))]
    chat = service("chat", gpus=0, cpus=8, slice=part(share=0.5), wanted=1)
    plan = decide(state(*there, chat), rules(), 0.0)
    assert plan_drains(plan) == ["job"]
    assert [(hold.beneficiary, hold.shape.cpu_milli) for hold in plan.holds] == [("chat", 8000)]
