"""Scenario files: each of ours loads, what is wrong in one is said, jobs and nodes are as it says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fleet_app.engine.calendar import Transfer
from fleet_app.engine.errors import RequestError
from fleet_app.engine.values import NodeClass
from fleet_app.twin.scenarios.load import load

CLUSTERS = Path(__file__).resolve().parents[4] / "clusters"
OURS = sorted((CLUSTERS / "scenarios").glob("*.yaml"))
DAY = 86_400.0

SMALL = """
version: 1
name: small
policy: {policy}
fleet: {{serving: 2, training: 4, per_domain: [4, 2]}}
lasts: 2d
{rest}
"""


def written(folder: Path, rest: str = "") -> Path:
    path = folder / "small.yaml"
    path.write_text(SMALL.format(policy=CLUSTERS / "fleet-2048.yaml", rest=rest))
    return path


def stream(**changes: str) -> str:
    said = {
        "name": "work",
        "team": "batch",
        "kind": "backfill",
        "priority": "training-backfill",
        "shapes": "[{nodes: 1}, {nodes: 2}]",
        "arrives": "{source: random, a_day: 24, runs: {median: 1h, sigma: 0.5}}",
        **changes,
    }
    return "work:\n  - {" + ", ".join(f"{key}: {value}" for key, value in said.items()) + "}"


def booked(team: str = "pretraining", lender: str = "post-training") -> str:
    transfers = f"[{{lender: {lender}, gpus: 8, approved_by: grace}}]"
    return f"bookings: [{{name: run, team: {team}, nodes: 1, asked: 1h, since: 2h, until: 3h, transfers: {transfers}}}]"


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_ours_load_and_fill_their_fleet(path):
    loaded = load(path)
    assert sum(node.capacity.gpus for node in loaded.scenario.nodes) == 2048
    assert next(iter(loaded.scenario.jobs)).workload.submitted_at >= 0.0


def test_nodes_lie_in_their_domains_serving_first(tmp_path):
    nodes = load(written(tmp_path)).scenario.nodes
    assert [node.node_class for node in nodes] == [NodeClass.SERVING] * 2 + [NodeClass.TRAINING] * 4
    assert [node.domains for node in nodes] == [("d0-0", f"d1-{n // 2}") for n in range(4)] + [("d0-1", "d1-2")] * 2


def test_a_booking_has_its_approved_transfers(tmp_path):
    (asked,) = load(written(tmp_path, booked())).scenario.bookings
    assert asked.ask.transfers == (Transfer(lender="post-training", gpus=8, approved_by="grace"),)


def test_a_stream_may_declare_how_long_its_attempts_run(tmp_path):
    declared = load(written(tmp_path, stream(max_run="3h"))).scenario.jobs
    assert {one.workload.max_run_s for one in declared} == {10_800.0}


WRONG = {
    "a team that the policy does not know": (stream(team="bach"), "no team is called 'bach'"),
    "a class that the policy does not know": (stream(priority="high"), "no class is called 'high'"),
    "a key that is not known": ("speed: 3", "'speed' is not a known key"),
    "a name that is there twice": (stream() + "\n  " + stream().split("\n  ")[1], "'work' is there twice"),
    "a class to commit at that the policy does not know": ("commits: training-comitted", "no class is called"),
    "a class to commit at that yields": ("commits: training-backfill", "which yields, so that nothing is committed"),
    "no duration": ("span: 60", "must be a duration with its unit"),
    "a booking of a team that the policy does not know": (booked(team="bach"), "no team is called 'bach'"),
    "a transfer from a team that the policy does not know": (booked(lender="bach"), "no team is called 'bach'"),
    "a change to a policy that it may not have": ("changes: {headroom.imediate: 3}", "'imediate' is not a known key"),
}


@pytest.mark.parametrize(("rest", "want"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said(tmp_path, rest, want):
    with pytest.raises(RequestError) as caught:
        load(written(tmp_path, rest))
    assert want in str(caught.value)


def test_teams_may_commit_what_fits_inside_their_nominal(tmp_path):
    assert load(written(tmp_path, "commits: training-committed")).scenario.commits_at == 50_000
    assert load(written(tmp_path)).scenario.commits_at is None


def test_domains_have_to_be_given_for_each_level(tmp_path):
    path = written(tmp_path)
    path.write_text(path.read_text().replace("[4, 2]", "[4]"))
    with pytest.raises(RequestError, match="has 1 numbers for 2 topology levels"):
        load(path)


def test_who_asks_changes_the_policy_after_the_file_did(tmp_path):
    path = written(tmp_path, "changes: {headroom.immediate: 32, drain.grace: 60s}")
    assert load(path).policy.headroom.immediate == 32
    changed = load(path, changes={"headroom.immediate": 48}).policy
    assert (changed.headroom.immediate, changed.drain.grace) == (48, 60.0)


def test_another_policy_is_taken_as_it_is(tmp_path):
    path = written(tmp_path, "changes: {headroom.immediate: 32}")
    assert load(path, policy=CLUSTERS / "fleet-2048.yaml").policy.headroom.immediate == 64


def test_jobs_come_at_random_and_a_longer_run_begins_with_the_same(tmp_path):
    path = written(tmp_path, stream())
    short, long = (list(load(path, until=days * DAY).scenario.jobs) for days in (1, 5))
    assert long[: len(short)] == short
    assert 80 <= len(long) <= 160
    assert set(Counter(job.workload.bundles for job in long)) == {1, 2}


def test_jobs_can_be_gone_through_again_and_other_luck_is_other(tmp_path):
    path = written(tmp_path, stream())
    jobs = load(path).scenario.jobs
    assert list(jobs) == list(jobs)
    assert list(jobs) != list(load(path, seed=7).scenario.jobs)


def test_another_stream_changes_nothing_of_the_first(tmp_path):
    alone = list(load(written(tmp_path, stream())).scenario.jobs)
    both = written(tmp_path, stream() + "\n  " + stream(name="more").split("\n  ")[1])
    assert [job for job in load(both).scenario.jobs if job.workload.name.startswith("work")] == alone


def test_a_share_of_jobs_clings(tmp_path):
    path = written(tmp_path, stream(manners="{clings: 0.5}"))
    clings = [job.clings for job in load(path, until=10 * DAY).scenario.jobs]
    assert 0.3 < sum(clings) / len(clings) < 0.7


TRACE = "time_utc,requests\n2024-05-12T00:07:12Z,1208\nyesterday,12\n2024-05-12T00:14:24Z,1456\n"
PHILLY = "timestamp,duration,num_gpus,cluster\n2017-10-01 00:00:00,60,1,7f04ca\n2017-10-01 00:01:00,60,none,7f04ca\n"


def from_history(**changes: str) -> str:
    said = {"source": "philly", "file": "jobs.csv", **changes}
    arrives = "{" + ", ".join(f"{key}: {value}" for key, value in said.items()) + "}"
    return "work:\n  - {name: work, team: batch, kind: backfill, priority: training-backfill, arrives: " + arrives + "}"


def asks(over_time: str, **changes: str) -> str:
    more = "".join(f", {key}: {value}" for key, value in changes.items())
    return f"demand:\n  - {{name: chat, team: chat, gpus_over_time: {over_time}{more}}}"


def with_files(folder: Path, rest: str) -> Path:
    (folder / "trace.csv").write_text(TRACE)
    (folder / "jobs.csv").write_text(PHILLY)
    return written(folder, rest)


def test_malformed_lines_are_skipped_counted_and_shown(tmp_path):
    path = with_files(tmp_path, from_history() + "\n" + asks("{source: trace, file: trace.csv, peak: 10}"))
    assert load(path).read == (
        f"{tmp_path}/jobs.csv: 1 read",
        f"{tmp_path}/jobs.csv: 1 malformed and skipped",
        f"{tmp_path}/jobs.csv:3: num_gpus is none, not a whole number",
        f"{tmp_path}/trace.csv: 2 read",
        f"{tmp_path}/trace.csv: 1 malformed and skipped",
        f"{tmp_path}/trace.csv:3: is no moment and value: Invalid isoformat string: 'yesterday'",
    )


@pytest.mark.parametrize(
    ("rest", "where"),
    [(from_history(), "jobs.csv:3"), (asks("{source: trace, file: trace.csv, peak: 10}"), "trace.csv:3")],
    ids=["a job", "a value"],
)
def test_malformed_lines_are_refused_where_the_scenario_says_so(tmp_path, rest, where):
    with pytest.raises(RequestError) as caught:
        load(with_files(tmp_path, rest + "\nmalformed: refuse"))
    assert caught.value.where == f"{tmp_path}/{where}"


HISTORIES_WRONG = {
    "shapes beside a history": (
        from_history().replace("arrives", "shapes: [{nodes: 1}], arrives"),
        "stands beside a history",
    ),
    "neither shapes nor a history": (stream(shapes="[]"), "has no shapes"),
    "a team of ours that is none": (from_history(teams="{7f04ca: bach}"), "no team is called 'bach'"),
    "a team of theirs that is none": (from_history(teams="{7f04cb: batch}"), "has no teams called 7f04cb"),
    "a queue of theirs that is none": (from_history(only="{queues: [short]}"), "has no queues called short"),
    "a file that is not there": (from_history(file="no.csv"), "cannot be read"),
    "a file of another format": (from_history(file="trace.csv"), "says nothing that is of use: "),
    "a format that nobody knows": (from_history(source="lsf"), "lsf"),
    "the most less than the least": (from_history(only="{gpus: {least: 8, most: 4}}"), "must have `most` no less"),
    "a moment without a zone": (
        asks("{source: azure, file: trace.csv, peak: 10, begins: 2024-05-13}"),
        "must be a moment with its zone",
    ),
}


@pytest.mark.parametrize(("rest", "want"), HISTORIES_WRONG.values(), ids=HISTORIES_WRONG)
def test_what_is_wrong_with_a_history_is_said(tmp_path, rest, want):
    with pytest.raises(RequestError) as caught:
        load(with_files(tmp_path, rest))
    assert want in str(caught.value)
    assert caught.value.fix or "problems" in str(caught.value)


def test_two_streams_of_one_history_read_it_once(tmp_path):
    gangs = from_history(only="{gpus: {least: 8}}").replace("name: work", "name: gangs")
    path = with_files(tmp_path, from_history() + "\n" + gangs.split("\n")[1])
    assert len(load(path).read) == 3


def test_a_service_s_requests_begin_when_they_are_told_to(tmp_path):
    rows = "time_utc,requests_per_minute\n2024-05-12T00:00:00Z,10\n2024-05-12T12:00:00Z,40\n2024-05-13T00:00:00Z,20\n"
    (tmp_path / "requests.csv").write_text(rows)
    over_time = "{source: azure, file: requests.csv, peak: 100, begins: 2024-05-12T12:00:00Z}"
    (found,) = load(written(tmp_path, asks(over_time, busy="0.5"))).scenario.traffic
    assert found.rates == ((0.0, 200.0), (43_200.0, 100.0), (86_400.0, 50.0), (129_600.0, 200.0))


def test_a_trace_is_demand(tmp_path):
    trace = CLUSTERS / "traces" / "azure_llm_2024_conv_week.csv"
    over_time = f"{{source: trace, file: {trace}, peak: 100}}"
    path = written(tmp_path, f"demand:\n  - {{name: chat, team: chat, gpus_over_time: {over_time}}}")
    rates = load(path).scenario.traffic[0].rates
    assert 300 < len(rates) < 500
    assert rates[0][0] == 0.0


def test_how_work_saves_and_replicas_stop_is_as_it_is_written(tmp_path):
    day = "{source: day, peak: 8, trough: 2, low: []}"
    demand = f"demand:\n  - {{name: chat, team: chat, gpus_over_time: {day}, stops: 9s}}"
    scenario = load(written(tmp_path, stream(manners="{saves: 5s, step: 2s}") + "\n" + demand)).scenario
    job = next(iter(scenario.jobs))
    assert (job.saves_s, job.step_s, scenario.traffic[0].stops_s) == (5.0, 2.0, 9.0)


def test_what_hours_are_used_for_is_as_it_is_written(tmp_path):
    day = "{source: day, peak: 8, trough: 2, low: []}"
    known = "sm_active: 0.5, tflop_a_request: 40"
    demand = f"demand:\n  - {{name: chat, team: chat, gpus_over_time: {day}, {known}}}"
    path = written(tmp_path, stream(manners="{sm_active: 0.8, model_tflops: 400}") + "\n" + demand)
    path.write_text(path.read_text().replace("per_domain: [4, 2]", "per_domain: [4, 2], machine: {peak_tflops: 989}"))
    loaded = load(path)
    job, chat = next(iter(loaded.scenario.jobs)), loaded.scenario.traffic[0]
    assert (job.sm_active, job.tflops, loaded.peak_tflops) == (0.8, 400.0, 989.0)
    assert (chat.sm_active, chat.tflop_a_request) == (0.5, 40.0)
