"""When there is a decision, and for whom: what is left out changes nothing (the same plans: its law of that name)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine import life
from fleet_app.engine.deciding import FIRST, Deciding
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Admit, Plan
from fleet_app.engine.policy import Ordering, Policy, Pulls, Source
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Condition, Departure
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, booking, failure, gang, node, nodes, policy, quarantined, service, team

NOTHING_BESIDE = FleetState()
STRICT = policy(team("research", nominal=64, strict=True), team("vision", nominal=64), team("serving", nominal=8))


def deciding(rules: Policy, *waiting: Workload, count: int = 1) -> Deciding:
    """Return the decisions on so many nodes, for these who wait."""
    found = Deciding(rules)
    for each in nodes(count):
        found.node(None, each)
    for one in waiting:
        found.workload(None, one)
    return found


def decided(one: Deciding, now: float = 0.0) -> Plan | None:
    return one.plan(NOTHING_BESIDE, now)


def admitted(plan: Plan | None) -> list[str]:
    return [] if plan is None else [one.workload for one in plan.actions if isinstance(one, Admit)]


def carried_out(one: Deciding, plan: Plan | None) -> None:
    """Let those run that were admitted."""
    for action in () if plan is None else plan.actions:
        assert isinstance(action, Admit)
        waits = one.queues.waiting[action.workload]
        one.workload(waits, life.at_work(waits, action.nodes, 0.0))


FULL = backfill("full", gpus=8, submitted_at=0.0)
BEHIND = backfill("behind", gpus=8, submitted_at=5.0)


def full(rules: Policy = STRICT) -> tuple[Deciding, Workload]:
    """Return a full node with somebody who was refused, and who runs there."""
    one = deciding(rules, FULL, backfill("first", gpus=8, submitted_at=1.0))
    carried_out(one, decided(one))
    runs = one.books.holding[0]
    return one, runs


def without_room() -> Deciding:
    """Return a full node on which one of two may end, which is not enough for who waits."""
    one = deciding(STRICT, backfill("a", gpus=1), backfill("b", gpus=7), backfill("large", gpus=8, submitted_at=1.0))
    carried_out(one, decided(one))
    return one


LATER = {
    "who asks for the same as one that was refused": BEHIND,
    "who is behind the first in a strict queue, whatever it asks for": backfill("small", gpus=1, submitted_at=5.0),
}


@pytest.mark.parametrize("new", LATER.values(), ids=LATER)
def test_nothing_is_decided_for_who_comes_behind(new):
    one, _ = full()
    one.workload(None, new)
    assert decided(one) is None


FIRST_IN_LINE = {
    "who comes first in the order": backfill("early", gpus=8, submitted_at=0.5),
    "who is of another team": backfill("other", gpus=1, submitted_at=5.0, team="vision"),
    "who has a higher priority": gang("gang", submitted_at=5.0),
}


@pytest.mark.parametrize("new", FIRST_IN_LINE.values(), ids=FIRST_IN_LINE)
def test_it_is_decided_for_whoever_nobody_is_ahead_of(new):
    one, _ = full()
    one.workload(None, new)
    assert decided(one) is not None


CHANGED = {
    "who was asked to leave": ({"phase": Phase.DRAINING, "deadline_at": 60.0}, True),
    "who was told to end at once": ({"killed": True}, True),
    "who broke its contract": ({"broken_drains": 1}, True),
    "who has other nodes": ({"nodes": ("n2",)}, True),
    "but not who saved its work": ({"saved_at": 5.0}, False),
}


@pytest.mark.parametrize(("changes", "want"), CHANGED.values(), ids=CHANGED)
@pytest.mark.parametrize("back", [False, True], ids=["", "as it was again"])
def test_it_is_decided_for_whoever_changed(changes, want, back):
    one, runs = full()
    now = replace(runs, **changes)
    one.workload(runs, now)
    if back:
        decided(one)
        one.workload(now, runs)
    assert (decided(one) is not None) is want


def test_an_end_that_makes_room_for_the_first_is_decided():
    one, runs = full()
    one.workload(runs, None)
    assert admitted(decided(one)) == ["first"]


def test_an_end_that_makes_no_room_is_not():
    one = without_room()
    one.workload(one.books.holding[0], None)
    assert decided(one) is None


KEPT = replace(policy(team("research"), team("vision")), ordering=Ordering(keepers=1))
"""Room is kept for one that waits (O11); nobody here yields unless it is said."""

LARGE = gang("large", nodes=2, submitted_at=1.0)


def kept(*waiting: Workload) -> Deciding:
    """Return two nodes, full until 1000 s and 2000 s, on both of which somebody waits for room."""
    one = deciding(KEPT, gang("a", max_run_s=1000.0), gang("b", max_run_s=2000.0), LARGE, *waiting, count=2)
    carried_out(one, decided(one))
    assert decided(one) is None
    return one


def ends(one: Deciding, name: str) -> None:
    """Let somebody who runs end."""
    one.workload(next(runs for runs in one.books.holding if runs.name == name), None)


def test_an_end_that_makes_no_room_is_not_decided_for_who_finds_nobody_to_ask_either():
    one = kept()
    ends(one, "a")
    assert decided(one) is None
    ends(one, "b")
    assert admitted(decided(one)) == ["large"]


def test_while_somebody_yields_it_is_decided_for_who_may_ask():
    one = deciding(KEPT, backfill("lent", gpus=6, team="vision"), backfill("small", gpus=2, team="vision"))
    carried_out(one, decided(one))
    one.workload(None, gang("gang", submitted_at=1.0))
    assert decided(one).actions == ()
    ends(one, "small")
    assert decided(one) is not None


AFTER_THE_LARGE = {
    "who comes last and finds no room": (gang("new", gpus=1, submitted_at=5.0), False),
    "who comes first": (gang("new", gpus=1, submitted_at=0.5), True),
    "who asks for the same and lasts no less long": (gang("new", nodes=2, submitted_at=5.0), False),
}


@pytest.mark.parametrize(("new", "want"), AFTER_THE_LARGE.values(), ids=AFTER_THE_LARGE)
def test_where_room_is_kept_for_one_it_is_decided_for_who_could_start_or_have_it_kept(new, want):
    one = kept()
    one.workload(None, new)
    assert (decided(one) is not None) is want


def test_who_came_last_and_found_no_room_is_thought_of_when_there_is_some():
    one = kept()
    one.workload(None, gang("small", gpus=1, submitted_at=5.0, max_run_s=100.0))
    assert decided(one) is None
    ends(one, "a")
    assert admitted(decided(one, 500.0)) == ["small"]


def test_of_those_that_ask_for_the_same_the_shorter_ones_pass_and_one_after_the_other():
    long = [gang(f"long{number}", gpus=1, submitted_at=2.0, max_run_s=9000.0) for number in range(3)]
    short = [gang(f"short{number}", gpus=1, submitted_at=3.0, max_run_s=100.0) for number in range(3)]
    one = kept(*long, *short)
    ends(one, "a")
    assert admitted(decided(one, 500.0)) == ["short0", "short1", "short2"]


def test_an_end_while_nobody_waits_is_not_decided():
    one = deciding(STRICT, FULL)
    carried_out(one, decided(one))
    one.workload(one.books.holding[0], None)
    assert decided(one) is None


def test_the_first_time_it_is_decided_whatever_there_is():
    assert decided(Deciding(STRICT)) == Plan()


def test_it_is_decided_when_time_alone_calls_for_it():
    one, _ = full()
    assert one.plan(NOTHING_BESIDE, 5.0) is None
    assert one.plan(NOTHING_BESIDE, 5.0, due=True) is not None


def test_where_all_that_were_handed_over_start_more_are():
    many = [backfill(f"b{number:02}", gpus=1) for number in range(4 * FIRST)]
    assert admitted(decided(deciding(STRICT, *many))) == [one.name for one in many]


def beside(*services: Service) -> tuple[Deciding, Workload, FleetState]:
    """Return a node that is full with somebody who runs there, and the services of the fleet."""
    one = deciding(STRICT, FULL)
    carried_out(one, decided(one))
    for each in services:
        one.service(None, each)
    facts = replace(NOTHING_BESIDE, services=services)
    one.plan(facts, 1.0)
    return one, one.books.holding[0], facts


AFTER_AN_END = {
    "a service that waits for room may have it": (service("chat", wanted=1), True),
    "a service that has all that it wants needs none": (service("chat"), False),
}


@pytest.mark.parametrize(("served", "want"), AFTER_AN_END.values(), ids=AFTER_AN_END)
def test_after_an_end_it_is_decided_for_services_that_lack_something(served, want):
    one, runs, facts = beside(served)
    one.workload(runs, None)
    assert (one.plan(facts, 2.0) is not None) is want


def test_an_end_is_no_hope_for_who_may_not_start_whatever_ends():
    one = deciding(STRICT, FULL, backfill("lost", gpus=1, team="unknown"))
    carried_out(one, decided(one))
    one.workload(one.books.holding[0], None)
    assert decided(one) is None


FETCHES = replace(STRICT, pulls=Pulls(sources=(Source(name="hub", most_at_once=1),)))
STARTS = {
    "who begins on the nodes that it has makes no room": (STRICT, False),
    "who has fetched what it needs lets others fetch": (FETCHES, True),
}


@pytest.mark.parametrize(("rules", "want"), STARTS.values(), ids=STARTS)
def test_after_a_start_it_is_decided_where_pulls_are_limited(rules, want):
    one = deciding(rules, FULL)
    plan = decided(one)
    assert admitted(plan) == ["full"]
    waits = one.queues.waiting["full"]
    has = life.admitted(waits, ("n1",), 0.0)
    one.workload(waits, has)
    decided(one)
    one.workload(has, life.started(has, 5.0))
    assert (decided(one) is not None) is want


BESIDE = {
    "more growth is forecast": replace(NOTHING_BESIDE, growth_gpus=8),
    "something failed": replace(NOTHING_BESIDE, failures=(failure("x", "n1", at=1.0),)),
    "a node is kept out": replace(NOTHING_BESIDE, quarantines=(quarantined("n2"),)),
    "something is booked": replace(NOTHING_BESIDE, bookings=(booking("block", "n1"),)),
}


@pytest.mark.parametrize("facts", BESIDE.values(), ids=BESIDE)
def test_it_is_decided_when_what_is_beside_workloads_changes(facts):
    one, _ = full()
    assert one.plan(NOTHING_BESIDE, 5.0) is None
    assert one.plan(facts, 5.0) is not None
    assert one.plan(NOTHING_BESIDE, 6.0) is not None


def test_while_something_is_booked_it_is_decided_every_time():
    one, _ = full()
    facts = BESIDE["something is booked"]
    one.plan(facts, 5.0)
    assert one.plan(facts, 5.0) is not None


def test_it_is_decided_when_a_node_or_a_service_comes_or_changes():
    one, _ = full()
    for change in (
        lambda: one.node(None, node("n9")),
        lambda: one.node(node("n9"), node("n9", condition=Condition.CORDONED)),
        lambda: one.service(None, service("chat")),
        lambda: one.service(service("chat"), service("chat", wanted=1)),
    ):
        assert decided(one) is None
        change()
        assert decided(one) is not None


def test_after_a_decision_from_all_facts_the_next_is_made_too():
    one, runs = full()
    assert decided(one) is None
    goes = Departure(node="n1", why="it is old")
    leaving = FleetState(departures=(goes,), nodes=tuple(nodes(1)), workloads=(runs,))
    assert one.plan(leaving, 0.0) is not None
    assert decided(one) is not None


def test_while_somebody_waits_for_who_leaves_every_end_is_decided():
    rules = policy(team("research"), team("vision", nominal=0))
    lent, small = backfill("lent", gpus=7, team="vision", on=["n1"]), backfill("small", gpus=1, on=["n1"])
    one = deciding(rules, gang("gang", gpus=7, submitted_at=5.0))
    for runs in (lent, small):
        one.workload(None, runs)
    assert [action.workload for action in decided(one).actions] == ["lent"]
    one.workload(lent, replace(lent, phase=Phase.DRAINING, deadline_at=120.0, drained_for="gang"))
    assert decided(one).actions == ()
    assert decided(one) is None
    one.workload(small, None)
    assert decided(one) is not None


@pytest.mark.parametrize(("now", "want"), [(0.0, []), (2000.0, ["x"])], ids=["while it lasts", "not afterwards"])
def test_a_node_that_is_kept_out_takes_nothing(now, want):
    plan = deciding(STRICT, gang("x")).plan(FleetState(quarantines=(quarantined("n1"),)), now)
    assert admitted(plan) == want


WHOLE = {
    "where waiting counts": replace(STRICT, ordering=Ordering(ageing_s=60.0)),
}


@pytest.mark.parametrize("rules", WHOLE.values(), ids=WHOLE)
def test_from_all_facts_it_is_decided(rules):
    assert deciding(rules).whole(NOTHING_BESIDE)


def test_an_elastic_workload_that_runs_asks_for_all_facts():
    one = deciding(STRICT)
    assert not one.whole(NOTHING_BESIDE)
    one.workload(None, backfill("wide", gpus=1, minimum=1, at_most=2, on=["n1"]))
    assert one.whole(NOTHING_BESIDE)
