"""A fleet's past under the policy that it has, under another, and with other nodes."""

from __future__ import annotations

import pytest

from fleet_app.engine.errors import RequestError
from fleet_app.engine.values import NodeClass
from fleet_app.policy.load import parse_policy
from fleet_app.twin.readers.journal import Past
from fleet_app.twin.readers.reading import Reading
from fleet_app.twin.scenarios.history import Supposed, history, problems
from tests.builders import backfill, gang, node, service
from tests.twins import job, traffic

PRESENT = """
version: 1
name: present
topology: {levels: [spine, leaf], gpus_per_node: 8}
organisations: {lab: {teams: {research: {nominal: 16}, serving: {nominal: 8}}}}
"""


def policy(text=PRESENT, *changes):
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_policy(text)


def past(*jobs):
    nodes = (node("t1"), node("t2"), node("s1", at="s2/l9", serving=True, gpus=4))
    return Past(
        begins_at=1000.0,
        ends_at=2000.0,
        nodes=nodes,
        jobs=jobs or (job(gang("a")), job(backfill("b"))),
        traffic=(traffic(service("chat"), (1000.0, 2.0)),),
        bookings=(),
        policies=0,
        reading=Reading(source="journal", found=()),
    )


def test_a_past_is_run_from_its_beginning_to_its_end():
    found = history(past(), "as it was", policy())
    assert (found.scenario.begins_at, found.scenario.ends_at, found.lasts_s) == (1000.0, 2000.0, 1000.0)
    assert [one.name for one in found.scenario.nodes] == ["t1", "t2", "s1"]


def test_work_has_the_value_that_its_class_has_under_the_other_policy():
    classes = """
classes:
  serving-production: {value: 900}
  training-committed: {value: 700}
  training-backfill: {value: 50, borrows: true, yields: true}
"""
    new = Supposed(policy=policy(PRESENT + classes), nodes={})
    found = history(past(), "new", policy(), new).scenario
    assert [one.workload.priority for one in found.jobs] == [700, 50]
    assert [one.service.priority for one in found.traffic] == [900]


def test_more_nodes_are_like_most_of_their_class_in_domains_of_their_own():
    new = Supposed(policy=policy(), nodes={NodeClass.TRAINING: 3})
    found = history(past(), "more", policy(), new).scenario.nodes[3:]
    assert {(one.capacity.gpus, one.node_class) for one in found} == {(8, NodeClass.TRAINING)}
    assert [one.domains[1] for one in found] == ["more-training-1-0", "more-training-1-0", "more-training-1-1"]


def test_fewer_nodes_are_without_the_last_ones():
    new = Supposed(policy=policy(), nodes={NodeClass.TRAINING: -1})
    assert [one.name for one in history(past(), "less", policy(), new).scenario.nodes] == ["t1", "s1"]


def test_no_more_nodes_are_taken_away_than_there_are():
    with pytest.raises(RequestError, match="there are 1 serving nodes"):
        history(past(), "less", policy(), Supposed(policy=policy(), nodes={NodeClass.SERVING: -2}))


TWO_CLASSES = """
classes:
  serving-production: {value: 9}
  training-own: {value: 7}
  training-backfill: {value: 5, borrows: true, yields: true}
default_class: {gang: training-own}
"""
LACKING = {
    "a team": ((("research: {nominal: 16}", "vision: {nominal: 16}"),), "no team is called 'research', whose are 2"),
    "a level": ((("[spine, leaf]", "[leaf, spine]"),), "other levels than"),
    "a class": (
        (("version: 1", f"version: 1\n{TWO_CLASSES}"),),
        "no class is called 'training-committed', which 1 of the history have",
    ),
}


@pytest.mark.parametrize(("changes", "want"), LACKING.values(), ids=LACKING)
def test_what_a_policy_has_no_place_for_is_said(changes, want):
    told = [one.what for one in problems(past(), policy(), policy(PRESENT, *changes))]
    assert [what for what in told if what.startswith(want)]


def test_a_policy_that_has_a_place_for_all_is_no_problem():
    assert list(problems(past(), policy(), policy())) == []
