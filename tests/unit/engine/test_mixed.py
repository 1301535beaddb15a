"""Gangs of several shapes: admitted whole, charged by their groups, refused with the group in the way (P7, O3, O4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.explain import explain
from fleet_app.engine.plan import Admit, Plan, Reason, Wait
from fleet_app.engine.policy import Packing, Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Condition
from fleet_app.engine.workload import Workload
from tests import virtual
from tests.builders import backfill, booking, gang, node, nodes, policy, service, shape, state, team

PS = (1, shape(0, cpus=16))
"""One bundle of 16 CPUs and no GPU."""

RULES = policy(team("research", nominal=32), team("vision", nominal=0), team("serving", nominal=16))


def mixed(name: str = "both", *, actors: int = 3, each: int = 8, **rest: object) -> Workload:
    return gang(name, groups={"ps": PS, "actors": (actors, shape(each))}, **rest)


def wait(plan: Plan, name: str = "both") -> Wait:
    return next(one for one in plan.waits if one.workload == name)


def starts(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {action.workload: action.nodes for action in plan.actions if isinstance(action, Admit)}


WAITS = {
    "a fleet that could never hold it": (
        state(*nodes(3), mixed()),
        (Reason.TOO_LARGE_FOR_FLEET, 1, 0, "ps"),
        (
            "needs 1 node with 16 free CPUs (ps) and 3 nodes with 8 free GPUs each (actors) together; "
            "for ps the fleet could never fit more than 0: make it smaller, or add nodes"
        ),
    ),
    "no leaf that could": (
        state(*nodes(3), *nodes(2, at="s1/l2", prefix="m"), mixed(within="leaf")),
        (Reason.TOO_LARGE_FOR_FLEET, 1, 0, "ps"),
        (
            "needs 1 node with 16 free CPUs (ps) and 3 nodes with 8 free GPUs each (actors) together on one leaf; "
            "for ps one leaf could never fit more than 0: make it smaller, or add nodes"
        ),
    ),
    "a team without so much": (
        state(*nodes(6), mixed(actors=5)),
        (Reason.TOO_LARGE_FOR_QUOTA, 40, 32, ""),
        "needs 40 GPUs; team research may never have more than 32",
    ),
    "the group that is short is named": (
        state(*nodes(4), gang("firm", gpus=4, on=["n1", "n2"], team="vision"), mixed()),
        (Reason.NO_ROOM, 3, 2, "actors"),
        (
            "needs 1 node with 16 free CPUs (ps) and 3 nodes with 8 free GPUs each (actors) together; "
            "for actors s1 has 2 free: 1 more would do; drainable there: nobody"
        ),
    ),
    "a node that only the smaller group lacks": (
        state(*nodes(4), gang("firm", gpus=0, cpus=60, on=["n1", "n2", "n3", "n4"], team="vision"), mixed()),
        (Reason.NO_ROOM, 1, 0, "ps"),
        (
            "needs 1 node with 16 free CPUs (ps) and 3 nodes with 8 free GPUs each (actors) together; "
            "for ps s1 has 0 free: 1 more would do; drainable there: nobody"
        ),
    ),
    "nodes that are kept out are named": (
        state(*nodes(3), node("q", condition=Condition.QUARANTINED), mixed()),
        (Reason.NO_ROOM, 1, 0, "ps"),
        (
            "needs 1 node with 16 free CPUs (ps) and 3 nodes with 8 free GPUs each (actors) together; "
            "for ps s1 has 0 free: 1 more would do; drainable there: nobody; quarantined there: q"
        ),
    ),
    "those of the group that is short": (
        state(
            *nodes(3),
            node("q", gpus=0, condition=Condition.QUARANTINED),
            gang("both", groups={"actors": (3, shape(8)), "ps": (1, shape(0, cpus=60))}),
        ),
        (Reason.NO_ROOM, 1, 0, "ps"),
        (
            "needs 3 nodes with 8 free GPUs each (actors) and 1 node with 60 free CPUs (ps) together; "
            "for ps s1 has 0 free: 1 more would do; drainable there: nobody; quarantined there: q"
        ),
    ),
    "a team that is in no policy": (
        state(*nodes(4), mixed(team="nobody")),
        (Reason.UNKNOWN_TEAM, 24, 0, ""),
        "team nobody is not in the policy; add it, or submit for a team that is",
    ),
}


@pytest.mark.parametrize(("seen", "want", "sentence"), WAITS.values(), ids=WAITS)
def test_waits(seen: FleetState, want: tuple[Reason, int, int, str], sentence: str) -> None:
    found = wait(decide(seen, RULES, 0.0))
    assert (found.reason, found.asked, found.available, found.group) == want
    assert explain(seen, RULES, 0.0, "both").sentence == sentence


QUOTAS = {
    "all that its cohort has left": (policy(team("research", nominal=24)), True),
    "one GPU more than that": (policy(team("research", nominal=23)), False),
}


@pytest.mark.parametrize(("rules", "want"), QUOTAS.values(), ids=QUOTAS)
def test_it_may_take_all_that_its_team_has(rules: Policy, want: bool) -> None:
    assert bool(starts(decide(state(*nodes(4), mixed()), rules, 0.0))) is want


def test_those_alike_are_short_of_the_same_group() -> None:
    firm = gang("firm", gpus=4, on=["n1", "n2", "n3"], team="vision")
    plan = decide(state(*nodes(5), firm, mixed("one"), mixed("two", submitted_at=1.0)), RULES, 5.0)
    assert {wait(plan, name).group for name in ("one", "two")} == {"actors"}


def test_each_rank_is_charged_and_seated_as_its_group_asks() -> None:
    running = mixed("running", on=["n1", "n2", "n3", "n4"])
    plan = decide(state(*nodes(4), running, gang("g", gpus=8), gang("f", gpus=8, submitted_at=1.0)), RULES, 5.0)
    assert starts(plan) == {"g": ("n1",)}
    assert wait(plan, "f").reason is Reason.QUOTA_USED
    cpus = decide(state(*nodes(4), running, gang("g", gpus=0, cpus=49)), RULES, 5.0)
    assert starts(cpus) == {"g": ("n2",)}


def test_what_one_takes_of_its_nominal_another_has_no_more_in_the_same_plan() -> None:
    """Q3."""
    plan = decide(state(*nodes(8), mixed("first"), mixed("second", submitted_at=1.0)), RULES, 5.0)
    assert list(starts(plan)) == ["first"]
    assert (wait(plan, "second").reason, wait(plan, "second").available) == (Reason.QUOTA_USED, 8)


def test_a_victim_of_several_shapes_frees_on_each_node_what_it_had_there() -> None:
    lodger = backfill("lodger", on=["n1", "n2"], groups={"a": (1, shape(6)), "b": (1, shape(2))}, team="vision")
    one = backfill("one", on=["n2"], gpus=2, team="vision")
    fleet = virtual.fleet(RULES, *nodes(2), lodger, one, gang("whole", gpus=6))
    assert starts(virtual.plan_of(fleet)) == {}
    plan = virtual.plan_of(fleet)
    assert [action.workload for action in plan.actions] == ["one"]
    assert virtual.at_rest(fleet).workload("whole").nodes == ("n2",)


def test_victims_are_those_without_whom_all_groups_fit_and_no_others() -> None:
    lodgers = [backfill(f"b{number}", gpus=8, on=[f"n{number}"], team="vision") for number in range(1, 5)]
    fleet = virtual.cycle(virtual.fleet(RULES, *nodes(5), *lodgers, mixed(actors=2)))
    assert [one.workload for one in fleet.drains] == ["b1"]
    assert virtual.at_rest(fleet).workload("both").nodes == ("n2", "n1", "n5")


def test_many_candidates_are_enough_and_none_is_needless() -> None:
    lodgers = [
        backfill(f"b{number:02}", gpus=2, on=[f"n{1 + number % 5}"], team="vision", saved_at=float(number))
        for number in range(20)
    ]
    fleet = virtual.cycle(virtual.fleet(RULES, *nodes(5), *lodgers, mixed(actors=2, each=6), now=100.0))
    assert sorted(one.workload for one in fleet.drains) == ["b08", "b09", "b13", "b14", "b18", "b19"]
    assert virtual.at_rest(fleet).workload("both").nodes == ("n1", "n4", "n5")


def test_it_waits_for_what_is_leaving_and_asks_nobody_else() -> None:
    leaving = gang("leaving", on=["n1"], team="vision")
    lodger = backfill("lodger", gpus=8, on=["n2"], team="vision")
    fleet = virtual.told_to_drain(virtual.fleet(RULES, *nodes(4), leaving, lodger, mixed(actors=3)), "leaving", 60.0)
    plan = virtual.plan_of(fleet)
    assert plan.actions == ()
    assert (wait(plan).reason, wait(plan).asked, wait(plan).available) == (Reason.DRAIN_UNDER_WAY, 4, 3)
    assert virtual.cycle(virtual.left(fleet, "leaving")).workload("both").nodes == ("n2", "n1", "n3", "n4")


def test_room_that_comes_first_is_kept_before_room_that_lies_better() -> None:
    """R6."""
    early, late = (gang(name, on=[on], team="vision") for name, on in (("early", "m1"), ("late", "n1")))
    places = [*nodes(2), *nodes(1, prefix="m", at="s2/l1")]
    fleet = virtual.fleet(RULES, *places, early, late, gang("both", groups={"a": (1, shape(8)), "b": (1, shape(4))}))
    fleet = virtual.told_to_drain(virtual.told_to_drain(fleet, "late", 90.0), "early", 30.0)
    plan = virtual.plan_of(fleet)
    assert [hold.node for hold in plan.holds] == ["n2"]
    assert virtual.cycle(virtual.left(fleet, "early")).workload("both").nodes == ("n2", "m1")


def test_while_it_waits_later_work_that_never_yields_does_not_take_its_nodes() -> None:
    """O4."""
    rules = policy(team("research", nominal=64), team("vision", nominal=64))
    firm = gang("firm", gpus=8, cpus=60, on=["n1"], team="vision")
    seen = [*nodes(4), firm, mixed(), gang("later", submitted_at=1.0, team="vision")]
    plan = decide(state(*seen), rules, 5.0)
    assert starts(plan) == {}
    assert (wait(plan).reason, wait(plan, "later").reason) == (Reason.NO_ROOM, Reason.RESERVED)
    lent = backfill("lent", submitted_at=2.0, team="vision")
    assert list(starts(decide(state(*seen, lent), rules, 5.0))) == ["lent"]


def test_what_would_do_is_kept_for_who_is_ahead() -> None:
    """O4."""
    rules = policy(team("research", nominal=64), team("vision", nominal=64))
    firm = [gang(f"firm{number}", on=[f"n{number}"], team="vision") for number in (1, 2)]
    ahead = gang("ahead", nodes=4, within="leaf", submitted_at=-2.0)
    plan = decide(state(*nodes(5), *firm, ahead, mixed(actors=2, each=2)), rules, 5.0)
    found = wait(plan)
    assert (found.reason, found.asked, found.available, found.group) == (Reason.RESERVED, 2, 0, "actors")
    assert found.blocked_by == ("ahead",)


def test_what_its_nominal_waits_for_is_not_taken_by_its_own_team() -> None:
    """O4: nominal that comes free is kept for the first that waits for it."""
    rules = policy(team("research", nominal=24))
    plan = decide(
        state(*nodes(6), gang("old", on=["n1"]), mixed(), gang("small", gpus=8, submitted_at=1.0)), rules, 5.0
    )
    assert wait(plan).reason is Reason.QUOTA_USED
    assert wait(plan, "small").reason is Reason.RESERVED


def test_what_its_team_could_never_have_is_in_nobodys_way() -> None:
    """O3."""
    large, small = mixed(actors=5), gang("small", nodes=4, submitted_at=1.0)
    plan = decide(state(*nodes(6), large, small), RULES, 5.0)
    assert wait(plan).reason is Reason.TOO_LARGE_FOR_QUOTA
    assert starts(plan) == {"small": ("n1", "n2", "n3", "n4")}


def test_it_waits_for_a_booking_that_has_one_of_its_nodes() -> None:
    """C1."""
    booked = booking("run", "n1", team="vision", start_at=50.0, end_at=9000.0)
    found = wait(decide(state(*nodes(4), booked, mixed()), RULES, 5.0))
    assert (found.reason, found.blocked_by) == (Reason.BOOKED, ("run",))


def test_backfill_of_several_shapes_lives_in_headroom_without_replicas_and_yields() -> None:
    """P6, R1."""
    serving = [*nodes(3, prefix="s", serving=True)]
    lent = backfill("lent", groups={"a": (1, shape(4)), "b": (1, shape(2))}, team="vision")
    fleet = virtual.cycle(virtual.fleet(RULES, *serving, service("chat", gpus=8, on=["s1"], wanted=1), lent))
    assert set(fleet.workload("lent").nodes) == {"s2", "s3"}
    fleet = virtual.demanded(virtual.started(fleet), "chat", 2)
    assert [one.workload for one in virtual.cycle(fleet).drains] == ["lent"]


def test_seats_follow_the_ranks() -> None:
    running = mixed(on=["n4", "n1", "n2", "n3"])
    assert running.seats == [("n4", PS[1]), ("n1", shape(8)), ("n2", shape(8)), ("n3", shape(8))]
    assert (running.gpus, running.bundles, running.shape) == (24, 4, shape(8, cpus=16))


PACKED = {
    "the fullest node that does gets the rest": (Packing(), ("n1", "n3")),
    "the emptiest does, where the policy says so": (Packing(rest_emptiest=True), ("n1", "n2")),
    "the first node with room does": (Packing(first_fit=True), ("n1", "n2")),
}


@pytest.mark.parametrize(("packing", "want"), PACKED.values(), ids=PACKED)
def test_which_node_the_rest_of_a_gang_gets(packing: Packing, want: tuple[str, ...]) -> None:
    """P10, P11: a whole node, and 2 GPUs of another."""
    facts = state(*nodes(3), gang("two", gpus=2, on=["n2"]), gang("four", gpus=4, on=["n3"]), _twelve())
    assert starts(decide(facts, replace(RULES, packing=packing), 0.0)) == {"both": want}


def _twelve() -> Workload:
    return gang("both", groups={"whole": (1, shape(8)), "rest": (1, shape(2))})
