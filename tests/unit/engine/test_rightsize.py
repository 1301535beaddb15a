"""What could be smaller (W2): by how much, and what is left as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.decide import decide
from fleet_app.engine.policy import RightSize
from fleet_app.engine.rightsize import recommend
from fleet_app.engine.telemetry import Usage
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, gang, node, policy, service, shape, state, used

RULES = replace(policy(), right_size=RightSize(after_s=1000.0, below_percent=40, target_percent=70))
REPLICAS = service("x", wanted=10, on=["n1"] * 10)
JOB = backfill("x", gpus=8, on=["n1"])

CASES: dict[str, tuple[Workload | Service, Usage, tuple[int, str] | None]] = {
    "replicas by what was active": (REPLICAS, used(percent=20), (3, "replicas")),
    "a part of a replica is a replica": (REPLICAS, used(percent=22), (4, "replicas")),
    "never below the floor": (replace(REPLICAS, floor=6), used(percent=20), (6, "replicas")),
    "never none": (REPLICAS, used(percent=0), (1, "replicas")),
    "a model in memory is in every replica's": (REPLICAS, used(percent=20, memory=90), (3, "replicas")),
    "not that much below": (REPLICAS, used(percent=40), None),
    "not for long enough": (REPLICAS, used(percent=20, since=1.0), None),
    "a service at its floor": (replace(REPLICAS, floor=10), used(percent=20), None),
    "or below it": (replace(REPLICAS, floor=12), used(percent=20), None),
    "the GPUs of a job": (JOB, used(percent=10), (2, "GPUs")),
    "its memory counts": (JOB, used(percent=10, memory=35), (4, "GPUs")),
    "too much memory": (JOB, used(percent=10, memory=60), None),
    "whole bundles of a gang": (gang("x", on=["n1", "n2", "n3", "n4"]), used(percent=20), (2, "bundles")),
    "nothing of groups": (
        gang("x", on=["n1", "n2"], groups={"a": (1, shape(8)), "b": (1, shape(4))}),
        used(percent=10),
        None,
    ),
    "the members that an elastic gang has": (
        gang("x", on=["n1", "n2"], minimum=1, at_most=9),
        used(percent=20),
        (1, "bundles"),
    ),
    "a session is for its user to end": (replace(JOB, interactive=True), used(percent=10), None),
    "only what runs": (replace(JOB, started_at=500.0), used(percent=10), None),
}


@pytest.mark.parametrize(("one", "usage", "want"), CASES.values(), ids=CASES)
def test_what_would_do(one: Workload | Service, usage: Usage, want: tuple[int, str] | None) -> None:
    found = recommend(state(node("n1"), one, usage), RULES, 1000.0)
    assert [(told.enough, told.unit) for told in found] == ([] if want is None else [want])


def test_a_recommendation_is_a_sentence_the_largest_first_and_nothing_is_done() -> None:
    facts = state(node("n1", gpus=32), service("a", wanted=4, on=["n1"] * 4), JOB, used("a", 20), used("x", 10))
    found = recommend(facts, RULES, 1000.0)
    assert [(one.subject, one.saved_gpus) for one in found] == [("x", 6), ("a", 2)]
    assert found[1].sentence == "used at most 20 % of its 4 replicas in 16 min 40 s: 2 would do, and free 2 GPUs"
    assert decide(facts, RULES, 1000.0).actions == ()


def test_what_was_measured_of_something_that_is_gone_recommends_nothing() -> None:
    found = recommend(state(node("n1"), JOB, used("gone", 1), used("x", 10)), RULES, 1000.0)
    assert [one.subject for one in found] == ["x"]
