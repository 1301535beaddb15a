"""Decisions that follow one another: ledgers equal to those that enter every fact, and the same plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.books import Books, Following
from fleet_app.engine.deciding import Deciding
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from tests.laws.effort import tries
from tests.strategies import contested, crowded, fleets
from tests.virtual import Fleet, plan_of

FOUND_OUT = {"waiting", "memo", "_known", "members", "_sound", "calendar"}
"""What is in no order, or only found out later."""


def plain(fleet: Fleet) -> Fleet:
    """Return the fleet without what is entered from all facts only."""
    keep = [one for one in fleet.workloads if one.minimum is None and one.slice is None]
    ordering = replace(fleet.policy.ordering, ageing_s=None)
    quotas = tuple(replace(quota, flavors=()) for quota in fleet.policy.quotas)
    rules = replace(fleet.policy, ordering=ordering, quotas=quotas, slicing=None)
    nodes = tuple(replace(node, cards=()) for node in fleet.nodes)
    services = tuple(one for one in fleet.services if one.slice is None)
    known = replace(fleet, policy=rules, nodes=nodes, workloads=tuple(keep), services=services)
    return replace(known, crossings=(), departures=(), usage=())


def some() -> st.SearchStrategy[Fleet]:
    """Return fleets after some history, crowded and contested ones among them."""
    return st.one_of(fleets(), contested(), crowded().map(lambda crowd: crowd[0])).map(plain)


def books(fleet: Fleet) -> Books:
    """Return the books of a fleet, entered change by change, with what was and is no more."""
    found = Books(fleet.policy)
    for node in reversed(fleet.nodes):
        found.node(None, node)
        found.node(node, replace(node, capacity=node.capacity + node.capacity))
        found.node(replace(node, capacity=node.capacity + node.capacity), node)
    for one in reversed(fleet.workloads):
        if one.phase is not Phase.QUEUED:
            running = replace(one, phase=Phase.RUNNING, killed=False)
            found.holder(None, running)
            found.holder(running, one)
            found.holder(one, None)
            found.holder(None, one)
    for service in fleet.services:
        empty = replace(service, grants=())
        found.service(None, empty)
        found.service(empty, service)
        found.service(service, empty)
        found.service(empty, service)
    return found


def shown(value: object) -> object:
    """Return a part of a ledger without what is not there: counts of nothing, and nobody in a list."""
    if isinstance(value, Mapping):
        return {key: one for key, one in value.items() if one not in (0, [])}
    return value


@given(some())
@tries(120)
def test_a_ledger_that_follows_is_the_one_that_enters_everything(fleet):
    state = fleet.state
    want = Ledger(replace(state, quarantines=()), fleet.policy, fleet.now)
    found = Following(books(fleet), fleet.now, want.waiting, bookings=state.bookings, alike=False)
    assert vars(found).keys() - {"_sound"} == vars(want).keys()
    for part in sorted(vars(want).keys() - FOUND_OUT):
        assert shown(getattr(found, part)) == shown(getattr(want, part)), part
    assert (found.calendar is None) is (want.calendar is None)
    if want.calendar is not None and found.calendar is not None:
        for part in ("bookings", "past", "on", "firm", "lodgers", "room"):
            assert shown(getattr(found.calendar, part)) == shown(getattr(want.calendar, part)), part
    assert list(found.nodes) == list(want.nodes)


@given(some())
@tries(120)
def test_a_plan_is_the_same_whoever_is_handed_over(fleet):
    deciding = Deciding(fleet.policy)
    for node in fleet.nodes:
        deciding.node(None, node)
    for one in fleet.workloads:
        deciding.workload(None, one)
    for service in fleet.services:
        deciding.service(None, service)
    facts = replace(fleet.state, nodes=(), workloads=())
    assert not deciding.whole(facts)
    found, want = deciding.plan(facts, fleet.now), plan_of(fleet)
    assert (found.actions, found.holds) == (want.actions, want.holds)
    known = {wait.workload: wait for wait in want.waits}
    assert {wait.workload: wait for wait in found.waits}.items() <= known.items()
