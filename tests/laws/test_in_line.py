"""Strict queues against a slow reference: who asks is who would ask if each might start in its turn (O6, O12, I6)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from fleet_app.engine.plan import HOPELESS, ROOM_COMES, Drain, Plan
from fleet_app.engine.workload import Workload
from tests import virtual
from tests.builders import backfill, gang, node, policy, shape, team
from tests.laws.effort import tries
from tests.laws.reference import case_of, check
from tests.laws.test_coming_to_rest import MOST_CYCLES, went_on
from tests.virtual import Fleet, plan_of


@st.composite
def lines(draw: st.DrawFn) -> Fleet:
    """Return nodes that are full of lodgers or partly free, and a strict queue of gangs that would like them."""
    nominal = draw(st.sampled_from([4, 8, 12, 16, 24]))
    rules = policy(team("a", nominal=nominal, strict=True), team("lent", nominal=0), team("other", nominal=32))
    most = draw(st.sampled_from([None, None, 2]))
    rules = replace(rules, drain=replace(rules.drain, most_per_cycle=most, min_run_s=50.0))
    places = [node(f"n{number}", gpus=draw(st.sampled_from([4, 8, 8]))) for number in range(draw(st.integers(2, 5)))]
    there: list[Workload] = []
    for place in places:
        left = place.capacity.gpus
        while left > 0 and (gpus := draw(st.sampled_from([0, 1, 2, 4, 8]))):
            there.append(draw(lodgers(f"b{len(there):02}", place.name, min(gpus, left))))
            left -= min(gpus, left)
    queue = [draw(gangs(f"g{number}", number)) for number in range(draw(st.integers(2, 6)))]
    return virtual.fleet(rules, *places, *there, *queue, now=1000.0)


@st.composite
def lodgers(draw: st.DrawFn, name: str, on: str, gpus: int) -> Workload:
    """Return somebody on a node: most yield and only borrow."""
    if draw(st.integers(0, 5)) == 0:
        return gang(name, team="other", gpus=gpus, on=[on], started_at=0.0)
    saved_at = draw(st.sampled_from([0.0, 500.0, 990.0]))
    grace_s = draw(st.sampled_from([30.0, 120.0]))
    attempt = draw(st.sampled_from([1, 1, 1, 2]))
    since = draw(st.sampled_from([0.0, 990.0]))
    return backfill(
        name, team="lent", gpus=gpus, on=[on], saved_at=saved_at, grace_s=grace_s, attempt=attempt, started_at=since
    )


@st.composite
def gangs(draw: st.DrawFn, name: str, place: int) -> Workload:
    """Return one of the queue; its place is when it came."""
    at, gpus, count = float(place + 1), draw(st.sampled_from([2, 4, 4, 8])), draw(st.sampled_from([1, 1, 1, 2]))
    kind = draw(st.sampled_from(["plain", "plain", "plain", "plain", "mixed", "elastic", "yields"]))
    if kind == "yields":
        return backfill(f"y{name}", team="a", gpus=gpus, submitted_at=at)
    if kind == "mixed":
        return gang(name, team="a", groups={"x": (1, shape(gpus)), "y": (1, shape(2))}, submitted_at=at)
    if kind == "elastic":
        return gang(name, team="a", gpus=gpus, minimum=1, at_most=count, submitted_at=at)
    return gang(name, team="a", gpus=gpus, nodes=count, submitted_at=at)


def asked(plan: Plan) -> dict[str, str]:
    """Return for whom each leaves that is asked to."""
    return {one.workload: one.beneficiary for one in plan.actions if isinstance(one, Drain)}


def freely(fleet: Fleet) -> Fleet:
    """Return the fleet with a queue that is not strict."""
    quotas = tuple(replace(quota, strict=False) for quota in fleet.policy.quotas)
    return replace(fleet, policy=replace(fleet.policy, quotas=quotas))


def alone(fleet: Fleet, names: list[str]) -> Plan:
    """Return what is decided where only these wait, and their queue is not strict."""
    others = {one.name for one in fleet.workloads if not one.holding} - set(names)
    return plan_of(freely(replace(fleet, workloads=tuple(one for one in fleet.workloads if one.name not in others))))


def in_line(fleet: Fleet) -> list[Workload]:
    """Return the queue in order."""
    return sorted(
        (one for one in fleet.workloads if not one.holding), key=lambda one: (-one.priority, one.submitted_at)
    )


def has_room(plan: Plan, name: str) -> bool:
    """Return whether one starts, or its room is kept or coming."""
    wait = plan.wait_of(name)
    return wait is None or wait.reason in ROOM_COMES


def with_room(fleet: Fleet, plan: Plan) -> tuple[list[str], Workload | None]:
    """Return who of the queue has room, up to the first that could start ever and has none, and that one."""
    found: list[str] = []
    for one in in_line(fleet):
        wait = plan.wait_of(one.name)
        if wait is None or wait.reason in ROOM_COMES:
            found.append(one.name)
        elif wait.reason not in HOPELESS:
            return found, one
    return found, None


@tries(400)
@given(fleet=lines())
def test_those_in_line_ask_as_if_each_might_start_and_as_many_as_could(fleet: Fleet) -> None:
    """O12: the same leave as for those that have room alone, in a queue that is not strict; the next asks nobody."""
    plan = plan_of(fleet)
    check(case_of(fleet))
    names, following = with_room(fleet, plan)
    event(f"{len(names)} have room, {len(set(asked(plan).values()))} ask")
    assert asked(alone(fleet, names)) == asked(plan)
    if following is not None and not following.name.startswith("y"):
        event("one more asks in vain")
        assert not has_room(alone(fleet, [*names, following.name]), following.name)


@tries(150)
@given(fleet=lines(), slow=st.lists(st.integers(0, 3), min_size=10, max_size=10))
def test_who_leaves_for_one_in_line_leaves_once_and_for_one_that_starts(fleet: Fleet, slow: list[int]) -> None:
    """I6: however long each takes to leave; in a queue that is not strict what is coming may be too little as well."""
    names, _ = with_room(fleet, plan_of(fleet))
    strictly, otherwise = at_last(fleet, slow), at_last(freely(fleet), slow)
    drained = [told.workload for told in strictly.drains]
    assert len(drained) == len(set(drained)), drained
    started = {one.name for one in strictly.workloads if one.holding}
    assert {one.name for one in otherwise.workloads if one.holding}.intersection(names) <= started


def at_last(fleet: Fleet, slow: list[int]) -> Fleet:
    """Return what becomes of a fleet; every decision keeps every law."""
    for number in range(MOST_CYCLES):
        check(case_of(fleet))
        fleet = went_on(virtual.carried_out(fleet, plan_of(fleet)), number, slow)
    return fleet
