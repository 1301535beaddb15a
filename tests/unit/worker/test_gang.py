"""A process knows what the arbiter told it, and says so when it was told nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fleet_app.worker.contract import BadEntryError
from fleet_app.worker.environment import JobEnvironment, RankGroup
from fleet_app.worker.gang import Membership, NotAFleetJobError, ResumePoint, with_niceness


def environment(**changes: object) -> dict[str, str]:
    values: dict[str, object] = {
        "attempt": "llm.2",
        "workload": "llm",
        "group_id": "ab" * 18,
        "bundles": 4,
        "gpus_per_bundle": 8,
        "cpu_milli_per_bundle": 1500,
        "nodes": ("n1", "n2", "n3", "n4"),
        "checkpoint_dir": "/data/checkpoints/llm",
        "grace_s": 30.0,
        **changes,
    }
    return JobEnvironment(**values).to_env()  # type: ignore[arg-type]


RESUMES = {
    "the first attempt begins anew": ({}, None),
    "a later one goes on": ({"resume_uri": "/d/step-7", "resume_step": 7}, ResumePoint(uri="/d/step-7", step=7)),
    "also from step 0": ({"resume_uri": "/d/step-0", "resume_step": 0}, ResumePoint(uri="/d/step-0", step=0)),
}


@pytest.mark.parametrize(("changes", "want"), RESUMES.values(), ids=RESUMES)
def test_resume_point(changes: dict[str, object], want: ResumePoint | None) -> None:
    assert Membership.from_environment(environment(**changes)).resume_point() == want


BUNDLES = {
    "GPUs and CPUs": ({}, {"GPU": 8, "CPU": 1.5}),
    "no CPU": ({"cpu_milli_per_bundle": 0}, {"GPU": 8}),
    "no GPU": ({"gpus_per_bundle": 0, "cpu_milli_per_bundle": 2000}, {"CPU": 2.0}),
    "a partition": (
        {"gpus_per_bundle": 0, "flavor": "h100-mig-1g.10gb", "partition": "mig-1g.10gb"},
        {"CPU": 1.5, "mig-1g.10gb": 1.0},
    ),
    "a share of a GPU": ({"gpus_per_bundle": 0, "flavor": "l4-shared", "share": 0.25}, {"CPU": 1.5, "GPU": 0.25}),
}


@pytest.mark.parametrize(("changes", "want"), BUNDLES.values(), ids=BUNDLES)
def test_bundle(changes: dict[str, object], want: dict[str, float]) -> None:
    assert Membership.from_environment(environment(**changes)).bundle == want


GROUPS = (
    RankGroup(name="ps", ranks=1, gpus=0, cpu_milli=16_000),
    RankGroup(name="actors", ranks=3, gpus=8, cpu_milli=0),
)


def test_each_rank_knows_its_group_and_what_its_bundle_has() -> None:
    member = Membership.from_environment(environment(groups=GROUPS))
    assert [member.group_of(rank) for rank in range(4)] == ["ps", "actors", "actors", "actors"]
    assert (member.ranks_of("ps"), member.ranks_of("actors")) == (range(1), range(1, 4))
    assert (member.bundle_of(0), member.bundle_of(3)) == ({"CPU": 16.0}, {"GPU": 8})
    with pytest.raises(KeyError):
        member.ranks_of("critics")


def test_in_a_gang_of_one_shape_no_rank_has_a_group() -> None:
    member = Membership.from_environment(environment())
    assert (member.group_of(0), member.bundle_of(3)) == (None, {"GPU": 8, "CPU": 1.5})


def test_a_group_without_a_class_starts_nothing() -> None:
    member = Membership.from_environment(environment(groups=GROUPS))
    with pytest.raises(KeyError):
        member.start_ranks({"ps": object()})


def test_every_attempt_has_its_own_place_for_checkpoints() -> None:
    assert Membership.from_environment(environment()).checkpoint_dir == Path("/data/checkpoints/llm/llm.2")


def test_a_process_that_the_fleet_did_not_start_is_told_what_to_do() -> None:
    with pytest.raises(NotAFleetJobError, match="fleet submit"):
        Membership.from_environment({})


def test_an_environment_that_was_tampered_with_is_refused() -> None:
    with pytest.raises(BadEntryError):
        Membership.from_environment({**environment(), "FLEET_BUNDLES": "many"})


NICENESS = str(os.getpriority(os.PRIO_PROCESS, 0))
RUNTIME_ENVS = {
    "nothing said": ({}, {"env_vars": {"RAY_worker_niceness": NICENESS}}),
    "other things said": (
        {"pip": ["x"], "env_vars": {"A": "b"}},
        {"pip": ["x"], "env_vars": {"A": "b", "RAY_worker_niceness": NICENESS}},
    ),
    "niceness said": (
        {"env_vars": {"RAY_worker_niceness": "3"}},
        {"env_vars": {"RAY_worker_niceness": "3"}},
    ),
}


@pytest.mark.parametrize(("asked", "want"), RUNTIME_ENVS.values(), ids=RUNTIME_ENVS)
def test_ranks_are_as_nice_as_their_driver(asked: dict[str, object], want: dict[str, object]) -> None:
    assert with_niceness(asked) == want
