"""Scenarios A: quota, borrowing, lending. Each test is a row of the table of other schedulers' faults."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet_app.arbiter.notes import What
from fleet_app.engine.decide import decide
from fleet_app.engine.errors import RequestError
from fleet_app.engine.lifecycle import TERMINAL, Event, Phase, after
from fleet_app.engine.plan import Reason
from fleet_app.policy.load import parse_policy
from fleet_app.policy.specs import spec_from_mapping
from tests import virtual
from tests.builders import backfill, gang, node, policy, service, state, team
from tests.fakes import Behaviour
from tests.scenarios.said import drains, leaves, reasons, starts
from tests.unit.arbiter.rig import Rig

BIG = node("n1", gpus=1000)
"""A node on which only quota can be short."""


def test_a1_of_two_borrowers_in_one_cycle_one_is_admitted() -> None:
    teams = policy(team("a", nominal=3), team("b", nominal=3), team("c", nominal=4))
    running = [backfill("a-old", team="a", gpus=3, on=["n1"]), backfill("b-old", team="b", gpus=4, on=["n1"])]
    asking = [backfill("a-new", team="a", gpus=2), backfill("b-new", team="b", gpus=2)]
    plan = decide(state(BIG, *running, *asking), teams, 0.0)
    assert starts(plan) == {"a-new": ("n1",)}
    assert reasons(plan) == {"b-new": Reason.QUOTA_USED}


def test_a3_a_missing_borrowing_limit_does_not_limit() -> None:
    teams = policy(team("a", nominal=4, borrowing=None), team("b", nominal=4))
    plan = decide(state(BIG, backfill("old", team="a", gpus=4, on=["n1"]), backfill("new", team="a", gpus=4)), teams, 0)
    assert starts(plan) == {"new": ("n1",)}
    assert leaves(plan) == {}


def test_a5_a_deleted_team_lends_nothing_any_more() -> None:
    running = backfill("old", team="a", gpus=8, on=["n1"])
    asking = backfill("new", team="a", gpus=4)
    both = policy(team("a", nominal=8), team("b", nominal=8))
    assert starts(decide(state(BIG, running, asking), both, 0.0)) == {"new": ("n1",)}
    plan = decide(state(BIG, running, asking), policy(team("a", nominal=8)), 0.0)
    assert starts(plan) == {}
    assert reasons(plan) == {"new": Reason.QUOTA_USED}


def test_a5_what_a_deleted_team_still_runs_is_all_lent_and_comes_back() -> None:
    orphan = backfill("orphan", team="deleted", gpus=8, on=["n1"])
    plan = decide(state(node("n1"), orphan, gang("gang", team="a")), policy(team("a", nominal=8)), 0.0)
    assert leaves(plan) == {"orphan": "gang"}


@pytest.mark.parametrize("part", [{"gpus": -4}, {"nodes": -1}, {"cpus": -1}, {"memory": "-1GiB"}, {"gpus": 0}])
def test_a7_a_negative_request_is_refused_before_it_is_anything(part: dict[str, object]) -> None:
    rules = parse_policy("{version: 1, name: fleet, organisations: {org: {teams: {a: {nominal: 8}}}}}")
    with pytest.raises(RequestError):
        spec_from_mapping({"name": "job", "kind": "gang", "team": "a", "nodes": 1, "gpus": 8, **part}, rules)


def test_a9_a_name_that_is_taken_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    rig = Rig(home=tmp_path)
    rig.world.add_node("n1")
    rig.world.behaviours["job"] = Behaviour(steps=1000)
    rig.submit("job", gpus=2)
    rig.at(5.0, lambda: rig.submit("job", gpus=4))
    rig.run(10.0)
    assert rig.phases() == {"job": Phase.RUNNING}
    assert rig.reader().records()["job"].workload.gpus == 2
    assert len(rig.notes(What.REFUSED, "job")) == 1


def test_a11_what_runs_is_charged_as_it_runs_whatever_its_spec_says_now() -> None:
    admitted = gang("gang", team="a", on=["n1", "n2"])
    edited = replace(admitted, bundles=4)
    teams = policy(team("a", nominal=16))
    plan = decide(state(*(node(f"n{i}") for i in range(1, 5)), edited, gang("next", team="a")), teams, 0.0)
    assert starts(plan) == {}
    assert reasons(plan) == {"next": Reason.QUOTA_USED}


def test_a13_what_validation_ends_holds_no_quota() -> None:
    assert after(Phase.QUEUED, Event.REFUSE) in TERMINAL
    refused = replace(gang("refused", team="a"), phase=Phase.FAILED, nodes=("n1",))
    plan = decide(state(BIG, refused, gang("next", team="a")), policy(team("a", nominal=8)), 0.0)
    assert starts(plan) == {"next": ("n1",)}


def test_a15_two_that_borrow_from_each_other_do_not_wait_for_each_other() -> None:
    teams = policy(team("a", nominal=5), team("b", nominal=5))
    fleet = virtual.fleet(
        teams,
        node("n1", gpus=10),
        backfill("a1", team="a", gpus=6, on=["n1"]),
        backfill("a2", team="a", gpus=6),
        backfill("b1", team="b", gpus=6),
    )
    assert starts(virtual.plan_of(fleet)) == {}
    assert len(starts(virtual.plan_of(virtual.completed(fleet, "a1")))) == 1


def test_a17_an_impossible_head_evicts_nobody_and_the_next_stays() -> None:
    fleet = virtual.fleet(
        policy(team("a", nominal=3), team("b", nominal=0)),
        node("n1", gpus=4),
        backfill("w1", team="b", gpus=1, on=["n1"]),
        gang("w4", team="a", gpus=4, submitted_at=1.0),
        gang("w3", team="a", gpus=3, submitted_at=2.0),
    )
    fleet = virtual.at_rest(fleet)
    assert reasons(virtual.plan_of(fleet)) == {"w4": Reason.TOO_LARGE_FOR_QUOTA, "w1": Reason.QUOTA_USED}
    assert fleet.running() == {"w3"}
    assert drains(fleet) == ["w1"]


def test_a19_a_limit_protects_nobody_only_nominal_does() -> None:
    teams = policy(team("a", nominal=8), team("b", nominal=0, borrowing=8))
    below_its_limit = backfill("guest", team="b", gpus=4, on=["n1"])
    plan = decide(state(node("n1"), below_its_limit, gang("owner", team="a")), teams, 0.0)
    assert leaves(plan) == {"guest": "owner"}


def test_a21_an_elastic_gang_is_charged_for_the_members_that_still_run() -> None:
    teams = policy(team("a", nominal=8), team("b", nominal=0))
    elastic = backfill("elastic", team="b", gpus=1, on=[f"n{number}" for number in range(1, 9)], minimum=2)
    fleet = virtual.fleet(teams, *(node(f"n{number}", gpus=1) for number in range(1, 9)), elastic)
    for asks, booked in ((4, 4), (2, 2)):
        fleet = virtual.cycle(virtual.submitted(fleet, gang(f"owner-{asks}", team="a", nodes=asks, gpus=1)))
        assert starts(virtual.plan_of(fleet)) == {}
        fleet = virtual.at_rest(fleet)
        assert fleet.workload("elastic").gpus == booked
    assert drains(fleet) == []


def test_a21_what_scales_down_is_charged_for_what_still_runs() -> None:
    teams = policy(team("serving", nominal=8), team("research", nominal=0))
    lent = [backfill(f"lent-{number}", gpus=1) for number in range(8)]
    fleet = virtual.fleet(teams, node("n1", serving=True), service("chat", wanted=8), *lent)
    for wanted, running in ((8, 0), (4, 4), (2, 6)):
        fleet = virtual.demanded(fleet, "chat", wanted)
        surplus = sum(grant.occupied for grant in fleet.service("chat").grants) - wanted
        fleet = virtual.at_rest(virtual.vacated(fleet, "chat", max(0, surplus)))
        assert len(fleet.service("chat").grants) == wanted
        assert len(fleet.running()) == running
    assert drains(fleet) == []
