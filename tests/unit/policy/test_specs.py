"""Submissions: how they are filled from the policy, what the engine gets, and what is refused for good."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.cards import Slice
from fleet_app.engine.errors import RequestError
from fleet_app.engine.values import Shape
from fleet_app.engine.workload import Group, Kind, Workload
from fleet_app.policy.schema import PolicyFile, Slicing
from fleet_app.policy.specs import (
    WorkloadSpec,
    load_spec,
    service_from_mapping,
    spec_from_mapping,
    spec_from_metadata,
    submission_from_mapping,
    to_workload,
)
from tests.unit.policy import texts

GANG = {"name": "llm", "kind": "gang", "team": "research", "nodes": 4, "gpus": 8}

GROUPS = {"ps": {"cpus": 16}, "actors": {"nodes": 4, "gpus": 8}}

ALONE = {"nodes": ..., "gpus": ...}
"""Takes these keys out of a case."""

SMALL = {**ALONE, "kind": "backfill", "team": "batch", "cpus": 0.5}
"""Keys of a case: a job that may ask for part of a GPU."""

GANG_OF_ONE = {"kind": "gang", "team": "research"}


def policy() -> PolicyFile:
    """Return the small policy, with cards that are cut and shared."""
    return texts.policy().model_copy(update={"slicing": Slicing()})


REFUSED = {
    "negative GPUs": ({"gpus": -8}, "gpus", "at least 1, not -8"),
    "zero GPUs": ({"gpus": 0}, "gpus", "at least 1, not 0"),
    "NaN GPUs": ({"gpus": float("nan")}, "gpus", "whole number, not nan"),
    "infinite GPUs": ({"gpus": float("inf")}, "gpus", "whole number, not inf"),
    "2^62 GPUs": ({"gpus": 2**62}, "gpus", "not 4611686018427387904"),
    "half a GPU": ({"gpus": 0.5}, "gpus", "whole number, not 0.5"),
    "GPUs as a flag": ({"gpus": True}, "gpus", "whole number, not True"),
    "GPUs as a list": ({"gpus": [8]}, "gpus", "whole number, not [8]"),
    "no nodes": ({"nodes": 0}, "nodes", "at least 1, not 0"),
    "2^62 nodes": ({"nodes": 2**62}, "nodes", "at most 100000"),
    "more GPUs than a node has": ({"gpus": 9, "nodes": 1}, "gpus", "is 9 a bundle, but a node has 8"),
    "committed work above its team's nominal": (
        {"nodes": 7},
        "team",
        "asks 56 GPUs, but team 'research' has at most 48",
    ),
    "backfill above its team's borrowing limit": (
        {"kind": "backfill", "team": "batch", "nodes": 6},
        "team",
        "at most 40 with all it may borrow",
    ),
    "an unknown team": ({"team": "reserch"}, "team", "'reserch' is unknown"),
    "an organisation": ({"team": "lab"}, "team", "is an organisation"),
    "an unknown class": ({"priority": "training-comitted"}, "priority", "is unknown"),
    "the class of services": ({"team": "serving", "priority": "serving-production"}, "priority", "for services only"),
    "a class that is not the team's": ({"team": "batch"}, "priority", "may not submit at class 'training-committed'"),
    "backfill that would not yield": (
        {"kind": "backfill", "priority": "training-committed"},
        "priority",
        "does not yield",
    ),
    "an unknown kind": ({"kind": "cron"}, "kind", "'gang' or 'backfill', not 'cron'"),
    "a service": ({"kind": "service"}, "kind", "services are not submitted"),
    "an unknown key": ({"gpu": 8}, "gpu", "'gpu' is not a known key"),
    "a level that is none": ({"within": "rack"}, "within", "'rack' is no topology level"),
    "memory without unit": ({"memory": 4}, "memory", "with its unit, not 4"),
    "negative CPUs": ({"cpus": -1}, "cpus", "from 0 to 100000, not -1"),
    "NaN CPUs": ({"cpus": float("nan")}, "cpus", "not nan"),
    "a run time without unit": ({"max_run_time": 30}, "max_run_time", "with its unit, not 30"),
    "no run time at all": ({"max_run_time": "0s"}, "max_run_time", "longer than nothing"),
    "a session that is a maybe": ({"interactive": "perhaps"}, "interactive", "perhaps"),
    "an artifact without a source": ({"artifacts": [{"name": "a", "size": "1GiB"}]}, "artifacts[0].source", "missing"),
    "a grace without unit": ({"grace": 30}, "grace", "with its unit, not 30"),
    "a grace above the policy's longest": ({"grace": "6m"}, "grace", "360 s, above the policy's longest of 300 s"),
    "a notice that is none": ({"notice": "smoke"}, "notice", "not 'smoke'"),
    "an accelerator with odd characters": ({"accelerator": "h100; rm"}, "accelerator", "not 'h100; rm'"),
    "more nodes at least than at most": ({"nodes": 2, "min_nodes": 3}, "min_nodes", "is 3, above nodes of 2"),
    "no node at least": ({"min_nodes": 0}, "min_nodes", "at least 1, not 0"),
    "an elastic gang that is told by a signal": (
        {"nodes": 2, "min_nodes": 1, "notice": "signal"},
        "notice",
        "which no member of an elastic workload would get",
    ),
    "a least number of nodes of a group": (
        {**ALONE, "groups": {"ps": {"cpus": 4}, "actors": {"nodes": 4, "gpus": 8, "min_nodes": 2}}},
        "groups.actors.min_nodes",
        "of several shapes none may leave or join alone",
    ),
    "a least number of nodes beside groups": (
        {**ALONE, "min_nodes": 2, "groups": GROUPS},
        "min_nodes",
        "of several shapes none may leave or join alone",
    ),
    "a partition of a gang": ({**SMALL, **GANG_OF_ONE, "partition": "1g.10gb"}, "partition", "gangs have whole GPUs"),
    "a share of a gang": ({**SMALL, **GANG_OF_ONE, "share": 0.25}, "share", "gangs have whole GPUs"),
    "a partition and a share": ({**SMALL, "partition": "1g.10gb", "share": 0.5}, "share", "beside partition"),
    "part of a GPU and whole ones": ({**SMALL, "gpus": 1, "share": 0.5}, "gpus", "beside part of a GPU"),
    "a partition on each of two nodes": ({**SMALL, "nodes": 2, "partition": "1g.10gb"}, "partition", "on one card"),
    "an elastic share": ({**SMALL, "min_nodes": 1, "share": 0.5}, "share", "on one card"),
    "a partition that no card has": ({**SMALL, "partition": "1g.11gb"}, "partition", "not '1g.11gb'"),
    "a partition by number": ({**SMALL, "partition": 1}, "partition", "must be text"),
    "a partition that the accelerator has not": (
        {**SMALL, "partition": "1g.18gb", "accelerator": "H100"},
        "partition",
        "H100 has no partition '1g.18gb'",
    ),
    "a partition of a card that has none": (
        {**SMALL, "partition": "1g.10gb", "accelerator": "L4"},
        "accelerator",
        "'L4' cannot be partitioned",
    ),
    "all of a card as a share": ({**SMALL, "share": 1}, "share", "between 0 and 1, not 1"),
    "a share of nothing": ({**SMALL, "share": 0.0}, "share", "between 0 and 1, not 0.0"),
    "a share that Ray cannot count": ({**SMALL, "share": "0.00001"}, "share", "not '0.00001'"),
    "a share that is none": ({**SMALL, "share": float("nan")}, "share", "not nan"),
    "one group": ({**ALONE, "groups": {"a": {"gpus": 8}}}, "groups", "at least 2 entries"),
    "nine groups": ({**ALONE, "groups": {f"g{i}": {"gpus": 1} for i in range(9)}}, "groups", "at most 8 entries"),
    "groups that are a list": ({**ALONE, "groups": [{"gpus": 8}]}, "groups", "a mapping of keys to values"),
    "a group of no nodes": (
        {**ALONE, "groups": {**GROUPS, "ps": {"nodes": 0}}},
        "groups.ps.nodes",
        "at least 1, not 0",
    ),
    "a group of less than nothing": ({**ALONE, "groups": {**GROUPS, "ps": {"gpus": -1}}}, "groups.ps.gpus", "not -1"),
    "a group that asks for nothing": ({**ALONE, "groups": {**GROUPS, "ps": {"cpus": 0}}}, "groups.ps", "for nothing"),
    "a group larger than a node": (
        {**ALONE, "groups": {**GROUPS, "ps": {"gpus": 9}}},
        "groups.ps.gpus",
        "is 9 a bundle, but a node has 8",
    ),
    "a group with a key that is none": (
        {**ALONE, "groups": {**GROUPS, "ps": {"gpu": 1}}},
        "groups.ps.gpu",
        "'gpu' is not a known key",
    ),
    "a group with an odd name": ({**ALONE, "groups": {**GROUPS, "a b": {"gpus": 1}}}, "groups.a b", "not 'a b'"),
    "groups without a GPU": ({**ALONE, "groups": {"a": {}, "b": {}}}, "groups", "no GPU at all"),
    "groups above the team's nominal": (
        {**ALONE, "groups": {**GROUPS, "actors": {"nodes": 7, "gpus": 8}}},
        "team",
        "asks 56 GPUs",
    ),
    "nodes beside groups": ({**ALONE, "nodes": 4, "groups": GROUPS}, "nodes", "is given beside groups"),
    "null where there must be something": ({"nodes": None}, "nodes", "not None"),
}

NAMES = {
    "empty": "",
    "a path": "../../etc/passwd",
    "a slash": "a/b",
    "a leading dash": "-rf",
    "a leading point": ".hidden",
    "a space": "a b",
    "a line break": "a\nb",
    "a line break at the end": "a\n",
    "a NUL": "a\0b",
    "a quote": "a'b",
    "not ASCII": "größe",
    "a right-to-left mark": "a\u202eb",
    "64 characters": "x" * 64,
    "the name of an attempt": "llm.2",
    "digits after the last point": "llm.v1.10",
    "a number": 7,
    "nothing": None,
}


@pytest.mark.parametrize(("changes", "where", "what"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_spec_is_refused_with_path_value_and_fix(changes, where, what):
    given = {key: value for key, value in {**GANG, **changes}.items() if value is not ...}
    with pytest.raises(RequestError) as refused:
        spec_from_mapping(given, policy(), fleet_gpus=80)
    assert refused.value.where.endswith(f": {where}")
    assert what in refused.value.what
    assert refused.value.fix


def test_a_gang_larger_than_the_fleet_is_refused_where_the_fleet_is_known():
    assert spec_from_mapping({**GANG, "nodes": 6}, policy(), fleet_gpus=48).total_gpus == 48
    with pytest.raises(RequestError, match="6 nodes of 8 GPUs are 48; the fleet has 47"):
        spec_from_mapping({**GANG, "nodes": 6}, policy(), fleet_gpus=47)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_hostile_name_is_refused(name):
    with pytest.raises(RequestError) as refused:
        spec_from_mapping({**GANG, "name": name}, policy())
    assert refused.value.where.endswith("name")
    assert refused.value.fix
    assert "\n" not in refused.value.sentence()


def test_what_a_gang_does_not_say_comes_from_the_policy():
    assert spec_from_mapping(GANG, policy()) == WorkloadSpec(
        name="llm",
        kind="gang",
        team="research",
        priority="training-committed",
        nodes=4,
        gpus=8,
        cpus=1,
        memory=0,
        grace="60s",
        notice="library",
    )


def test_a_job_without_fleet_metadata_is_what_the_policy_takes_it_for():
    assert spec_from_metadata("job", {}, policy()) == WorkloadSpec(
        name="job",
        kind="backfill",
        team="batch",
        priority="training-backfill",
        grace="60s",
        notice="signal",
    )


def test_artifacts_come_in_the_order_of_their_names_whatever_was_written():
    named = [
        {"name": "weights", "size": "80GiB", "source": "store"},
        {"name": "image", "size": "1GiB", "source": "reg"},
    ]
    workload = to_workload(spec_from_mapping({**GANG, "artifacts": named}, policy()), policy(), submitted_at=0.0)
    assert [(one.name, one.size_mib, one.source) for one in workload.artifacts] == [
        ("image", 1024, "reg"),
        ("weights", 81_920, "store"),
    ]


def test_metadata_is_text_and_says_the_same_as_yaml():
    texts = {
        "kind": "gang",
        "team": "research",
        "nodes": "2",
        "gpus": "8",
        "cpus": "1.5",
        "memory": "4GiB",
        "grace": "30s",
        "max_run_time": "1h30m",
        "interactive": "true",
    }
    natural = {**texts, "name": "llm", "nodes": 2, "gpus": 8, "cpus": 1.5, "interactive": True}
    assert spec_from_metadata("llm", texts, policy()) == spec_from_mapping(natural, policy())


METADATA = {
    "a count with a point": ({"gpus": "8.0"}, "gpus"),
    "a count in words": ({"gpus": "eight"}, "gpus"),
    "a negative count": ({"gpus": "-8"}, "gpus"),
    "2^62": ({"gpus": str(2**62)}, "gpus"),
    "digits without end": ({"gpus": "9" * 10_000}, "gpus"),
    "NaN": ({"gpus": "NaN"}, "gpus"),
    "an empty team": ({"team": ""}, "team"),
    "a slip of a key": ({"prioritty": "training-backfill"}, "prioritty"),
    "a key in capitals": ({"Team": "research"}, "Team"),
}


@pytest.mark.parametrize(("metadata", "where"), METADATA.values(), ids=METADATA)
def test_wrong_metadata_is_refused(metadata, where):
    with pytest.raises(RequestError) as refused:
        spec_from_metadata("job", metadata, policy())
    assert refused.value.where.endswith(where)
    assert len(refused.value.sentence()) < 400


def test_the_users_own_metadata_and_a_name_in_it_are_left_alone():
    metadata = {"owner": "mira", "job_submission_id": "other", "name": "somebody-else"}
    assert spec_from_metadata("job", metadata, policy()).name == "job"


def test_without_a_default_team_a_team_must_be_named():
    teamless = policy().model_copy(update={"defaults": policy().defaults.model_copy(update={"team": None})})
    with pytest.raises(RequestError, match="team: is missing"):
        spec_from_metadata("job", {}, teamless)


def test_the_engine_gets_the_workload_in_its_own_units():
    spec = spec_from_mapping(
        {
            **GANG,
            "cpus": 0.5,
            "memory": "4GiB",
            "within": "spine",
            "grace": "2m",
            "max_run_time": "4h",
            "interactive": True,
        },
        policy(),
    )
    assert to_workload(spec, policy(), submitted_at=12.0) == Workload(
        name="llm",
        kind=Kind.GANG,
        team="research",
        priority=50_000,
        shape=Shape(gpus=8, cpu_milli=500, memory_mib=4096),
        bundles=4,
        within="spine",
        submitted_at=12.0,
        grace_s=120.0,
        max_run_s=14_400.0,
        interactive=True,
        movable=True,
    )


SLICES = {
    "a partition": ({"partition": "1g.10gb"}, Slice(profile="1g.10gb")),
    "a partition as it is called in flavors": ({"partition": "mig-3g.40gb"}, Slice(profile="3g.40gb")),
    "a share": ({"share": 0.25}, Slice(share=2_500)),
    "a share as text": ({"share": ".3333"}, Slice(share=3_333)),
}


@pytest.mark.parametrize(("asked", "want"), SLICES.values(), ids=SLICES)
def test_a_job_may_ask_for_part_of_a_gpu(asked, want):
    given = {"name": "small", "kind": "backfill", "team": "batch", "cpus": 0.5, **asked}
    spec = spec_from_mapping(given, policy(), fleet_gpus=0)
    workload = to_workload(spec, policy(), submitted_at=0.0)
    assert (workload.slice, workload.shape, workload.gpus) == (want, Shape(cpu_milli=500), 0)
    assert spec_from_mapping(spec.model_dump(mode="json", exclude_none=True), policy()) == spec
    texts = {key: str(value) for key, value in given.items() if key != "name"}
    assert spec_from_metadata("small", texts, policy()) == spec
    service = service_from_mapping({"name": "app.small", "team": "serving", "cpus": 0.5, **asked}, policy())
    assert (service.partition or "", service.share or 0) == (want.profile, want.share)


def test_where_no_card_is_cut_or_shared_no_part_of_one_can_be_asked_for():
    whole = texts.policy()
    with pytest.raises(RequestError, match="the policy cuts and shares no cards"):
        spec_from_mapping({"name": "small", "kind": "backfill", "share": 0.5}, whole)


JOBS = {
    "no entrypoint": ({}, "entrypoint"),
    "an empty entrypoint": ({"entrypoint": "  "}, "entrypoint"),
    "a NUL in the entrypoint": ({"entrypoint": "python\0"}, "entrypoint"),
    "an endless entrypoint": ({"entrypoint": "x" * 70_000}, "entrypoint"),
    "metadata that is not text": ({"entrypoint": "x", "metadata": {"a": 1}}, "metadata.a"),
    "a runtime environment that is a list": ({"entrypoint": "x", "runtime_env": []}, "runtime_env"),
}


@pytest.mark.parametrize(("job", "where"), JOBS.values(), ids=JOBS)
def test_a_wrong_job_is_refused(job, where):
    with pytest.raises(RequestError) as refused:
        submission_from_mapping({**GANG, **job}, policy())
    assert refused.value.where.endswith(where)


def test_a_file_holds_spec_and_job_side_by_side(tmp_path):
    path = tmp_path / "gang.yaml"
    path.write_text("name: llm\nkind: gang\nteam: research\nnodes: 2\ngpus: 8\nentrypoint: python train.py\n")
    spec, job = submission_from_mapping(load_spec(path), policy())
    assert (spec.name, spec.total_gpus, job.entrypoint) == ("llm", 16, "python train.py")


SERVICES = {
    "a team that may not serve": ({"team": "research"}, "priority", "may not submit at class 'serving-production'"),
    "a floor above its most": ({"floor": 3, "max": 2}, "floor", "is 3, above max of 2"),
    "a floor above the team's nominal": ({"gpus": 8, "floor": 5}, "team", "asks 40 GPUs"),
    "zero GPUs": ({"gpus": 0}, "gpus", "at least 1"),
    "part of a GPU beside whole ones": ({"share": 0.5}, "gpus", "beside part of a GPU"),
    "more GPUs than a node has": ({"gpus": 16}, "gpus", "a node has 8"),
    "a negative floor": ({"floor": -1}, "floor", "at least 0"),
    "a flag as floor": ({"floor": True}, "floor", "whole number"),
    "a level that is none": ({"spread": "rack"}, "spread", "no topology level"),
    "apart from itself": ({"apart_from": ["app.chat"]}, "apart_from", "the service itself"),
    "none on a node": ({"per_node": 0}, "per_node", "at least 1"),
}


@pytest.mark.parametrize(("changes", "where", "what"), SERVICES.values(), ids=SERVICES)
def test_a_wrong_service_is_refused(changes, where, what):
    with pytest.raises(RequestError) as refused:
        service_from_mapping({"name": "app.chat", "team": "serving", "gpus": 4, **changes}, policy())
    assert refused.value.where.endswith(where)
    assert what in refused.value.what


def test_a_service_says_where_its_replicas_are_to_be():
    wish = {"spread": "leaf", "per_node": 2, "apart_from": ["app.embed"]}
    spec = service_from_mapping({"name": "app.chat", "team": "serving", "gpus": 4, **wish}, policy())
    assert (spec.spread, spec.per_node, spec.apart_from) == ("leaf", 2, ("app.embed",))


def test_a_service_inside_its_teams_nominal_is_accepted():
    spec = service_from_mapping({"name": "app.chat", "team": "serving", "gpus": 4, "floor": 2, "max": 8}, policy())
    assert (spec.kind, spec.gpus, spec.floor, spec.max) == ("service", 4, 2, 8)


@given(
    st.builds(
        dict,
        name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", fullmatch=True),
        nodes=st.integers(min_value=1, max_value=6),
        gpus=st.integers(min_value=1, max_value=8),
        cpus=st.integers(min_value=0, max_value=64_000).map(lambda thousandths: thousandths / 1000),
        memory=st.integers(min_value=1, max_value=10**6).map(lambda count: f"{count}MiB"),
        within=st.sampled_from([None, "spine", "leaf"]),
        grace=st.integers(min_value=1, max_value=300_000).map(lambda count: f"{count}ms"),
    )
)
def test_a_spec_sent_as_json_is_read_back_the_same(fields):
    spec = spec_from_mapping({"kind": "gang", "team": "research", **fields}, policy())
    assert spec_from_mapping(spec.model_dump(mode="json"), policy()) == spec


@given(
    st.dictionaries(
        st.sampled_from(sorted(WorkloadSpec.model_fields)),
        st.text(max_size=12)
        | st.integers()
        | st.floats()
        | st.booleans()
        | st.none()
        | st.lists(st.integers(), max_size=2),
    )
)
def test_whatever_is_submitted_is_read_or_refused_as_a_request(fields):
    try:
        spec = spec_from_mapping(fields, policy(), fleet_gpus=80)
    except RequestError:
        return
    assert (0 if spec.slice else 1) <= spec.total_gpus <= 80


GROUPED = {"name": "rl", "kind": "gang", "team": "research", "groups": GROUPS}


def test_groups_become_the_engines_in_the_order_in_which_they_were_written():
    spec = spec_from_mapping(GROUPED, policy())
    workload = to_workload(spec, policy(), 1.0)
    assert workload.groups == (
        Group(name="ps", bundles=1, shape=Shape(cpu_milli=16_000)),
        Group(name="actors", bundles=4, shape=Shape(gpus=8, cpu_milli=1000)),
    )
    assert (workload.gpus, workload.bundles, spec.total_gpus) == (32, 5, 32)
    assert workload.shape == Shape(gpus=8, cpu_milli=16_000)


def test_groups_that_are_written_out_are_read_again():
    spec = spec_from_mapping(GROUPED, policy())
    written = spec.model_dump(mode="json", exclude_none=True)
    assert written.keys().isdisjoint({"nodes", "gpus", "cpus", "memory"})
    assert spec_from_mapping(written, policy()) == spec


def test_groups_in_a_jobs_metadata_are_json():
    metadata = {"kind": "gang", "team": "research", "groups": json.dumps(GROUPS)}
    assert spec_from_metadata("rl", metadata, policy()) == spec_from_mapping(GROUPED, policy())


@pytest.mark.parametrize("text", ["ps: 1", "[" * 100_000, "{"])
def test_groups_that_are_no_json_are_refused(text):
    with pytest.raises(RequestError) as refused:
        spec_from_metadata("rl", {"kind": "gang", "team": "research", "groups": text}, policy())
    assert refused.value.where.endswith("groups")


def test_an_elastic_gang_is_the_same_in_a_jobs_metadata():
    said = {"kind": "gang", "team": "research", "nodes": "6", "min_nodes": "2", "gpus": "8"}
    spec = spec_from_metadata("rl", said, policy(), fleet_gpus=16)
    assert spec == spec_from_mapping({**GANG, "name": "rl", "nodes": 6, "min_nodes": 2, "gpus": 8}, policy())
    workload = to_workload(spec, policy(), 7.0)
    assert (workload.minimum, workload.bundles, workload.movable) == (2, 6, True)


def test_elastic_backfill_hears_its_notice_from_the_library_unless_it_says_otherwise():
    said = {"name": "rl", "kind": "backfill", "team": "research"}
    assert spec_from_mapping({**said, "nodes": 2, "min_nodes": 1}, policy()).notice == "library"
    assert spec_from_mapping(said, policy()).notice == "signal"


def test_an_elastic_gang_may_be_larger_than_the_fleet_but_not_its_minimum():
    said = {**GANG, "nodes": 6, "min_nodes": 2, "gpus": 8}
    assert spec_from_mapping(said, policy(), fleet_gpus=16).nodes == 6
    with pytest.raises(RequestError, match="2 nodes of 8 GPUs are 16; the fleet has 15"):
        spec_from_mapping(said, policy(), fleet_gpus=15)


def test_groups_larger_than_the_fleet_are_refused_where_the_fleet_is_known():
    with pytest.raises(RequestError, match="the GPUs of all groups are 32; the fleet has 31"):
        spec_from_mapping(GROUPED, policy(), fleet_gpus=31)
