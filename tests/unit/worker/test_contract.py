"""What one side of the fleet writes, the other reads; what breaks the contract is refused, not misread."""

from __future__ import annotations

import pytest

from fleet_app.worker import contract
from fleet_app.worker.environment import JobEnvironment, RankGroup

FENCE = contract.Fence(group_id="ab12", node_id="cd34", gpus=4, cpu_milli=1500, memory_mib=2048)
ENTRIES: list[contract.Entry] = [
    contract.Lease(at=1.5, pid=7),
    contract.Demand(service="a.B", team="t", gpus=1, cpu_milli=2, memory_mib=3, wanted=4, floor=1, at=1.5),
    contract.Demand(
        service="a.B",
        team="t",
        gpus=1,
        cpu_milli=2,
        memory_mib=3,
        spread="leaf",
        per_node=2,
        apart_from=("a.C", "b.D"),
        wanted=4,
        floor=1,
        at=1.5,
    ),
    contract.Grants(granted=2, fences=(FENCE, FENCE), at=1.5),
    contract.Grants(granted=0, fences=(), at=1.5),
    contract.Adoption(replica="a#B#x", service="a.B", at=1.5),
    contract.Notice(deadline_at=1.5, why="yields to a.B"),
    contract.Notice(deadline_at=None, why="moves"),
    contract.Ack(uri="file:///c", step=3, at=1.5),
    contract.Beat(step=3, at=1.5),
    contract.Members(members=()),
    contract.Members(
        members=(contract.Member(node="n1", group_id="ab"), contract.Member(node="n2", group_id="cd", leaving=True))
    ),
    contract.Gone(at=1.5),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_an_entry_is_read_as_it_was_written(entry: contract.Entry) -> None:
    assert contract.decode(type(entry), contract.encode(entry)) == entry


def test_a_newer_writer_may_say_more() -> None:
    assert contract.decode(contract.Beat, b'{"step": 3, "at": 1.5, "loss": 0.1}') == contract.Beat(step=3, at=1.5)


def test_an_older_writer_may_say_less_where_there_is_a_default() -> None:
    said = b'{"group_id": "ab", "node_id": "cd", "gpus": 1, "cpu_milli": 0, "memory_mib": 0}'
    read = contract.decode(contract.Grants, b'{"granted": 1, "at": 1.5, "fences": [' + said + b"]}")
    assert [(fence.partition, fence.share) for fence in read.fences] == [("", 0)]


BROKEN = {
    "no JSON": b"step 3",
    "no text": b"\xff",
    "no object": b"[3]",
    "a field is missing": b'{"step": 3}',
    "a field is null": b'{"step": null, "at": 1.5}',
    "a number without bounds": b'{"step": 1e999, "at": 1.5}',
    "a moment that is none": b'{"step": 3, "at": NaN}',
}


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN)
def test_what_is_no_beat_is_refused(raw: bytes) -> None:
    with pytest.raises(contract.BadEntryError, match="not a Beat"):
        contract.decode(contract.Beat, raw)


def test_a_number_is_no_text() -> None:
    with pytest.raises(contract.BadEntryError):
        contract.decode(contract.Ack, b'{"uri": 7, "step": 3, "at": 1.5}')


def environment(**changes: object) -> JobEnvironment:
    values: dict[str, object] = {
        "attempt": "llm.2",
        "workload": "llm",
        "group_id": "ab12",
        "bundles": 2,
        "gpus_per_bundle": 8,
        "cpu_milli_per_bundle": 1500,
        "nodes": ("n1", "n2"),
        "checkpoint_dir": "/c/llm",
        "grace_s": 30.5,
        **changes,
    }
    return JobEnvironment(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "told",
    [
        environment(),
        environment(resume_uri="file:///c/7", resume_step=7),
        environment(resume_uri="u", resume_step=0),
        environment(min_nodes=2),
        environment(groups=(RankGroup(name="ps", ranks=2, gpus=0, cpu_milli=500),)),
        environment(flavor="h100-mig-1g.10gb", partition="mig-1g.10gb", card=3, slot=17),
        environment(flavor="l4-shared", share=0.25, card=0),
    ],
    ids=[
        "at its first start",
        "when it resumes",
        "when it resumes at step 0",
        "when it is elastic",
        "with groups",
        "on a partition",
        "on a share",
    ],
)
def test_a_job_reads_what_the_arbiter_told_it(told: JobEnvironment) -> None:
    assert JobEnvironment.from_env({"PATH": "/bin", **told.to_env()}) == told


def test_a_rank_may_see_gpus_only_where_its_partition_is_none_to_ray() -> None:
    assert environment(partition="mig-1g.10gb", flavor="f").to_env().get("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO") is None
    assert environment().to_env()["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] == "1"


@pytest.mark.parametrize("grace_s", [0.0, 0.5, 10.0, 30.5, 120.0])
def test_ray_kills_after_the_deadline_and_before_capacity_has_to_be_back(grace_s: float) -> None:
    wait_s = environment(grace_s=grace_s).to_env()["RAY_JOB_STOP_WAIT_TIME_S"]
    assert grace_s + 1 < int(wait_s) <= grace_s + 5


def test_a_process_outside_the_fleet_was_told_nothing() -> None:
    assert JobEnvironment.from_env({"PATH": "/bin"}) is None


@pytest.mark.parametrize("broken", ["FLEET_NODES", "FLEET_BUNDLES", "FLEET_GROUPS"])
def test_half_an_environment_is_refused(broken: str) -> None:
    with pytest.raises(contract.BadEntryError):
        JobEnvironment.from_env({**environment().to_env(), broken: "x"})


NAMES = {
    "a service of an app": (contract.service_name("chat", "Model"), "chat.Model"),
    "slashes would be read as levels of a key": (contract.service_name("chat/v1", "Model"), "chat.v1.Model"),
    "the group of an attempt": (contract.workload_group("llm.2"), "fleet/w/llm.2"),
    "the group of a grant": (contract.grant_group("chat.Model", "1a2b3c4d"), "fleet/g/chat.Model/1a2b3c4d"),
    "the group of a hold": (contract.hold_group("n1", "chat.Model"), "fleet/h/n1/chat.Model"),
}


@pytest.mark.parametrize(("name", "want"), NAMES.values(), ids=NAMES)
def test_names(name: str, want: str) -> None:
    assert name == want


@pytest.mark.parametrize(("name", "want"), [("fleet/w/llm", True), ("SERVE_REPLICA::a#B", False), ("fleetish", False)])
def test_whose_group_it_is(name: str, want: bool) -> None:
    assert contract.is_fleet_group(name) is want
