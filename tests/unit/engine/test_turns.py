"""Who is next: fair by weight among those that borrow (O5), and in order where a team's queue is strict (O6)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.explain import explain
from fleet_app.engine.plan import Admit, Reason
from fleet_app.engine.policy import Policy, Quota
from fleet_app.engine.workload import Workload
from tests.builders import backfill, gang, node, policy, state, team


def shared(**weights: int) -> Policy:
    """Return a policy in which `idle` owns 12 GPUs that the named teams borrow by weight."""
    borrowers = [replace(team(name, nominal=0), weight=weight) for name, weight in weights.items()]
    return policy(team("idle", nominal=12), *borrowers)


def jobs(name: str, count: int, *, at: float = 0.0, gpus: int = 1) -> list[Workload]:
    return [backfill(f"{name}-{number:02d}", team=name, gpus=gpus, submitted_at=at + number) for number in range(count)]


def admitted(rules: Policy, *workloads: Workload, gpus: int = 12) -> list[str]:
    plan = decide(state(node("n1", gpus=gpus), *workloads), rules, 100.0)
    return [action.workload for action in plan.actions if isinstance(action, Admit)]


SHARES = {
    "equal weights, though one came first": ({"a": 1, "b": 1}, {"a": 6, "b": 6}),
    "twice the weight": ({"a": 1, "b": 2}, {"a": 4, "b": 8}),
    "three teams": ({"a": 1, "b": 2, "c": 3}, {"a": 2, "b": 4, "c": 6}),
    "weights with no common factor": ({"a": 5, "b": 7}, {"a": 5, "b": 7}),
}


@pytest.mark.parametrize(("weights", "want"), SHARES.values(), ids=SHARES)
def test_what_is_lent_is_shared_by_weight(weights: dict[str, int], want: dict[str, int]) -> None:
    waiting = [one for number, name in enumerate(weights) for one in jobs(name, 12, at=20.0 * number)]
    got = Counter(name.partition("-")[0] for name in admitted(shared(**weights), *waiting))
    assert got == want


NESTED = {
    "an organisation's weight is shared by its teams": (
        {"lab": 1, "shop": 1},
        {"a": ("lab", 1), "b": ("lab", 1), "c": ("shop", 1)},
        {"a": 3, "b": 3, "c": 6},
    ),
    "weights count at every level": (
        {"lab": 2, "shop": 1},
        {"a": ("lab", 1), "b": ("lab", 3), "c": ("shop", 5)},
        {"a": 2, "b": 6, "c": 4},
    ),
    "a team beside an organisation": (
        {"lab": 1},
        {"a": ("lab", 1), "b": ("lab", 1), "c": ("org", 2)},
        {"a": 2, "b": 2, "c": 8},
    ),
    "three levels": (
        {"lab": 1, "shop": 1, "cell": 1, "wing": 1},
        {"a": ("cell", 1), "b": ("cell", 1), "c": ("wing", 1), "d": ("shop", 1)},
        {"a": 1, "b": 2, "c": 3, "d": 6},
    ),
}
ABOVE = {"lab": "org", "shop": "org", "cell": "lab", "wing": "lab"}


@pytest.mark.parametrize(("weights", "teams", "want"), NESTED.values(), ids=NESTED)
def test_what_is_lent_is_shared_at_every_level(
    weights: dict[str, int], teams: dict[str, tuple[str, int]], want: dict[str, int]
) -> None:
    organisations = [Quota(name=name, parent=ABOVE[name], weight=weight) for name, weight in weights.items()]
    below = [team(name, nominal=0, parent=parent, weight=weight) for name, (parent, weight) in teams.items()]
    waiting = [one for number, name in enumerate(reversed(teams)) for one in jobs(name, 12, at=20.0 * number)]
    got = admitted(policy(team("idle", nominal=12), *organisations, *below), *waiting)
    assert Counter(name.partition("-")[0] for name in got) == want


def test_what_an_organisation_has_left_of_its_own_is_not_borrowed() -> None:
    lab = [Quota(name="lab", parent="org", nominal_gpus=6), Quota(name="shop", parent="org")]
    teams = [team("a", nominal=0, parent="lab"), team("b", nominal=0, parent="shop")]
    got = admitted(policy(team("idle", nominal=6), *lab, *teams), *jobs("b", 12), *jobs("a", 12, at=50.0))
    assert Counter(name.partition("-")[0] for name in got) == {"a": 9, "b": 3}


def test_what_a_team_has_already_counts() -> None:
    has = backfill("old", team="a", gpus=4, on=["n1"])
    got = Counter(name.partition("-")[0] for name in admitted(shared(a=1, b=1), has, *jobs("a", 9), *jobs("b", 9)))
    assert got == {"a": 2, "b": 6}


def test_within_its_nominal_a_team_goes_by_order_alone() -> None:
    rules = policy(team("a", nominal=6), team("b", nominal=6))
    assert admitted(rules, *jobs("a", 3, at=0.0), *jobs("b", 3, at=10.0)) == [
        *("a-00", "a-01", "a-02"),
        *("b-00", "b-01", "b-02"),
    ]


def test_and_does_at_any_depth() -> None:
    rules = policy(Quota(name="lab", parent="org"), team("a", nominal=6, parent="lab"), team("b", nominal=6))
    assert admitted(rules, *jobs("b", 1, at=0.0), *jobs("a", 1, at=1.0), *jobs("b", 2, at=2.0)[1:], gpus=3) == [
        *("b-00", "a-00", "b-01"),
    ]


def test_a_teams_own_work_stays_in_order() -> None:
    got = [name for name in admitted(shared(a=1, b=1), *jobs("a", 6), *jobs("b", 6)) if name.startswith("a")]
    assert got == sorted(got)


def test_what_was_torn_down_goes_before_any_share() -> None:
    torn = replace(backfill("torn", team="a", gpus=4, submitted_at=50.0), requeued=True)
    has = backfill("old", team="a", gpus=6, on=["n1"])
    assert admitted(shared(a=1, b=1), has, torn, *jobs("b", 9))[0] == "torn"


def test_higher_priority_goes_before_any_share() -> None:
    rules = policy(team("a", nominal=8), team("b", nominal=0))
    assert admitted(rules, gang("g", team="a", gpus=8, submitted_at=90.0), *jobs("b", 9), gpus=8) == ["g"]


FULL = gang("firm", team="other", gpus=6, on=["n1"])
LARGE, SMALL = jobs("a", 1, at=1.0, gpus=4)[0], replace(jobs("a", 1, at=2.0)[0], name="small")
STRICT = {
    "best effort lets the small one pass": (False, LARGE, ["small"]),
    "strictly in order it waits": (True, LARGE, []),
    "what could never start holds nobody up": (True, replace(LARGE, bundles=100), ["small"]),
}


@pytest.mark.parametrize(("strict", "large", "want"), STRICT.values(), ids=STRICT)
def test_a_strict_queue_is_taken_in_order(strict: bool, large: Workload, want: list[str]) -> None:
    rules = policy(replace(team("a", nominal=8), strict=strict), team("other", nominal=8))
    assert admitted(rules, FULL, large, SMALL, gpus=8) == want


def test_who_waits_for_a_drain_is_not_passed_in_a_strict_queue() -> None:
    rules = policy(replace(team("a", nominal=10), strict=True), team("lent", nominal=0), team("other", nominal=6))
    parts = [node("n1"), node("n2"), FULL, backfill("lent", team="lent", gpus=8, on=["n2"])]
    whole = gang("whole", team="a", gpus=8, submitted_at=1.0)
    plan = decide(state(*parts, whole, SMALL), rules, 100.0)
    assert {wait.workload: wait.reason for wait in plan.waits} == {
        "whole": Reason.DRAIN_UNDER_WAY,
        "small": Reason.BEHIND,
    }


def test_other_teams_pass_a_strict_queue_and_who_is_behind_is_told() -> None:
    rules = policy(replace(team("a", nominal=8), strict=True), team("b", nominal=8), team("other", nominal=8))
    (other,) = jobs("b", 1, at=3.0)
    facts = state(node("n1"), FULL, LARGE, SMALL, other)
    assert admitted(rules, FULL, LARGE, SMALL, other, gpus=8) == [other.name]
    told = explain(facts, rules, 100.0, "small")
    wait = decide(facts, rules, 100.0).wait_of("small")
    assert wait is not None
    assert (wait.reason, wait.asked, wait.available, wait.blocked_by) == (Reason.BEHIND, 1, 0, ("a-00",))
    assert told.sentence == "team a takes its queue strictly in order; a-00 is ahead of it"


def test_in_a_strict_queue_nobody_passes_who_waits_for_a_drain_either() -> None:
    """O12: what is free for it is kept for it."""
    rules = policy(replace(team("a", nominal=9), strict=True), team("guest", nominal=0))
    guest = backfill("guest", team="guest", gpus=8, on=["n1"])
    large, small = gang("large", team="a", submitted_at=1.0), gang("small", team="a", gpus=1, submitted_at=2.0)
    plan = decide(state(node("n1"), node("n2", gpus=1), guest, large, small), rules, 100.0)
    assert [(wait.workload, wait.reason) for wait in plan.waits] == [
        ("large", Reason.DRAIN_UNDER_WAY),
        ("small", Reason.ITS_TURN),
    ]


def test_in_a_strict_queue_several_may_be_first_each_for_its_accelerator() -> None:
    rules = policy(replace(team("a", nominal=64), strict=True), team("other", nominal=64))
    there = [node("h1", accelerator="H100"), node("a1", accelerator="A100")]
    firm = [gang(f"firm-{one.name}", team="other", gpus=1, on=[one.name]) for one in there]
    first = [gang("h", team="a", accelerator="H100"), gang("a", team="a", accelerator="A100", submitted_at=1.0)]
    small = gang("small", team="a", gpus=1, accelerator="A100", submitted_at=2.0)
    plan = decide(state(*there, *firm, *first, small), rules, 100.0)
    assert {wait.workload: (wait.reason, wait.blocked_by) for wait in plan.waits} == {
        "h": (Reason.NO_ROOM, ()),
        "a": (Reason.NO_ROOM, ()),
        "small": (Reason.BEHIND, ("a",)),
    }
