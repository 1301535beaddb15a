"""Ray's Jobs API as the stock client uses it, on workloads that wait, run, drain, end, and that no arbiter has seen."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from fleet_app.arbiter import inbox
from fleet_app.engine.lifecycle import Event
from fleet_app.engine.plan import Plan, Reason, Wait
from fleet_app.engine.state import FleetState
from fleet_app.gateway.known import SPOOLED
from fleet_app.gateway.submit import MAX_WAITING
from tests.builders import node
from tests.surface.bench import Bench, bench
from tests.surface.fake_ray import FakeJob
from tests.surface.hand import Hand

PACKAGE = "_ray_pkg_0123456789abcdef.zip"
GANG = {"kind": "gang", "team": "research", "gpus": "4"}


async def submit(gateway: Bench, name: str | None = "llm", **more: object) -> tuple[int, str]:
    """Post what Ray's client posts; return the status and the text of the answer."""
    body: dict[str, object] = {"entrypoint": "python train.py", "metadata": GANG}
    if name is not None:
        body["submission_id"] = name
    body |= more
    answer = await gateway.post("/api/jobs/", json=body)
    return answer.status, await answer.text()


async def details(gateway: Bench, name: str = "llm") -> Mapping[str, object]:
    answer = await gateway.get(f"/api/jobs/{name}")
    assert answer.status == 200, await answer.text()
    found: Mapping[str, object] = await answer.json()
    return found


def spooled(home: Path) -> list[inbox.Request]:
    return [request for _, request in inbox.waiting(home) if not isinstance(request, inbox.Unreadable)]


@pytest.mark.anyio
async def test_a_submission_needs_no_arbiter_and_is_shown_as_spooled(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        status, text = await submit(gateway)
        assert (status, json.loads(text)) == (200, {"job_id": "llm", "submission_id": "llm"})
        shown = await details(gateway)
        assert (shown["status"], shown["message"], shown["type"]) == ("PENDING", SPOOLED, "SUBMISSION")
        [request] = spooled(tmp_path)
        assert isinstance(request, inbox.Submit)
        assert request.spec["gpus"] == 4


@pytest.mark.anyio
async def test_a_submission_needs_no_ray_either(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await gateway.ray_server.close()
        assert (await submit(gateway))[0] == 200
        version = await (await gateway.get("/api/version")).json()
        assert version["version"] == "4"
        assert version["ray_version"].startswith("2.")
        listed = await (await gateway.get("/api/jobs/")).json()
        assert [job["submission_id"] for job in listed] == ["llm"]


@pytest.mark.anyio
async def test_an_id_is_invented_as_ray_invents_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        _, text = await submit(gateway, None)
        assert json.loads(text)["submission_id"].startswith("raysubmit_")


@pytest.mark.anyio
async def test_metadata_may_name_the_workload(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        _, text = await submit(gateway, None, metadata={**GANG, "name": "llm"})
        assert json.loads(text)["submission_id"] == "llm"


@pytest.mark.anyio
async def test_a_job_without_a_word_for_the_fleet_gets_the_policys_default(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        assert (await submit(gateway, metadata={"owner": "me"}))[0] == 200
        [request] = spooled(tmp_path)
        assert isinstance(request, inbox.Submit)
        assert {key: request.spec[key] for key in ("kind", "team", "gpus", "nodes")} == {
            "kind": "backfill",
            "team": "batch",
            "gpus": 1,
            "nodes": 1,
        }
        assert request.metadata == {"owner": "me"}


@pytest.mark.anyio
async def test_gpus_asked_for_the_entrypoint_become_the_shape_and_nothing_of_it_reaches_ray(tmp_path: Path) -> None:
    asks = {
        "entrypoint_num_gpus": 2,
        "entrypoint_num_cpus": 3.5,
        "entrypoint_memory": 10**9,
        "entrypoint_resources": {"TPU": 1.0},
        "entrypoint_label_selector": {"ray.io/node-id": "abc"},
    }
    async with bench(tmp_path) as gateway:
        assert (await submit(gateway, metadata={}, **asks))[0] == 200
        [request] = spooled(tmp_path)
        assert isinstance(request, inbox.Submit)
        assert request.spec["gpus"] == 2
        assert "entrypoint_num_gpus" not in request.model_dump_json()


@pytest.mark.anyio
async def test_a_part_of_a_gpu_asked_for_the_entrypoint_becomes_a_share(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        policy = tmp_path / "policy.yaml"
        policy.write_text(policy.read_text() + "slicing: {}\n")
        assert (await submit(gateway, metadata={}, entrypoint_num_gpus=0.25))[0] == 200
        [request] = spooled(tmp_path)
        assert isinstance(request, inbox.Submit)
        assert request.spec["share"] == 0.25
        assert "gpus" not in request.spec


@pytest.mark.anyio
async def test_what_hijacks_another_jobs_driver_is_stripped_from_the_metadata(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await submit(gateway, metadata={**GANG, "job_submission_id": "victim", "job_name": "victim"})
        [request] = spooled(tmp_path)
        assert isinstance(request, inbox.Submit)
        assert request.metadata == GANG


REFUSED: dict[str, tuple[dict[str, object], int, str]] = {
    "a path as an id": ({"submission_id": "../../esc"}, 400, "name"),
    "a hidden id": ({"submission_id": ".hidden"}, 400, "name"),
    "an id that is an attempt's": ({"submission_id": "llm.2"}, 400, "attempts"),
    "an unknown team": ({"metadata": {"team": "nobody"}}, 400, "team 'nobody' is unknown"),
    "an unknown class": ({"metadata": {**GANG, "priority": "urgent"}}, 400, "class 'urgent' is unknown"),
    "a gang larger than its team may ever have": ({"metadata": {**GANG, "gpus": "8", "nodes": "9"}}, 400, "72 GPUs"),
    "no GPUs": ({"metadata": {**GANG, "gpus": "0"}}, 400, "gpus"),
    "fewer than no GPUs": ({"metadata": {**GANG, "gpus": "-1"}}, 400, "gpus"),
    "2^62 GPUs": ({"metadata": {**GANG, "gpus": str(2**62)}}, 400, "gpus"),
    "half a GPU where no card is shared": ({"metadata": {}, "entrypoint_num_gpus": 0.5}, 400, "shares no cards"),
    "a GPU and a half": ({"metadata": {}, "entrypoint_num_gpus": 1.5}, 400, "whole"),
    "metadata that is no text": ({"metadata": {"gpus": 4}}, 400, "metadata"),
    "a part of a placement group": (
        {"entrypoint_resources": {"GPU_group_0_abc": 1}},
        400,
        "part of a placement group",
    ),
    "no entrypoint": ({"entrypoint": " "}, 400, "entrypoint"),
    "an entrypoint that is no text": ({"entrypoint": 7}, 400, "entrypoint"),
    "an option that Ray's client does not have": ({"entrypoint_tpus": 1}, 400, "entrypoint_tpus"),
    "a package that was never uploaded": ({"runtime_env": {"working_dir": f"gcs://{PACKAGE}"}}, 400, "is not here"),
    "environment that is no text": ({"runtime_env": {"env_vars": {"A": 1}}}, 400, "env_vars"),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("asks", "want", "says"), REFUSED.values(), ids=REFUSED)
async def test_refused_with_a_reason_and_nothing_spooled(
    tmp_path: Path, asks: dict[str, object], want: int, says: str
) -> None:
    async with bench(tmp_path) as gateway:
        status, text = await submit(gateway, **asks)
        assert status == want
        assert says in text
    assert spooled(tmp_path) == []


BODIES = {
    "NaN": '{"entrypoint": "x", "entrypoint_num_gpus": NaN}',
    "a list": "[1]",
    "nothing": "",
    "no JSON": "{",
    "a thousand levels": '{"runtime_env": ' + '{"a":' * 1000 + "1" + "}" * 1000 + "}",
    "a mebibyte too much": '{"entrypoint": "' + "x" * (1 << 20) + '"}',
    "no UTF-8": b'{"entrypoint": "\xff"}',
}


@pytest.mark.anyio
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_hostile_body_is_refused_and_nothing_is_spooled(tmp_path: Path, body: str | bytes) -> None:
    async with bench(tmp_path) as gateway:
        raw = body if isinstance(body, bytes) else body.encode()
        answer = await gateway.post("/api/jobs/", data=io.BytesIO(raw))
        assert answer.status in {400, 413}
        assert "Traceback" not in await answer.text()
    assert spooled(tmp_path) == []


@pytest.mark.anyio
async def test_an_id_that_is_taken_is_refused_in_rays_words_wherever_the_first_is(tmp_path: Path) -> None:
    want = (409, "Job with submission_id llm already exists. Please use a different submission_id.")
    async with bench(tmp_path) as gateway:
        await submit(gateway)
        assert await submit(gateway) == want
        Hand(tmp_path).ingest()
        assert await submit(gateway) == want


@pytest.mark.anyio
async def test_an_id_that_a_job_of_ray_has_is_taken_too(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        gateway.ray.jobs["llm"] = FakeJob()
        assert (await submit(gateway))[0] == 409


@pytest.mark.anyio
async def test_more_than_the_fleet_keeps_waiting_is_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_WAITING >= 1000
    monkeypatch.setattr("fleet_app.gateway.submit.MAX_WAITING", 2)
    async with bench(tmp_path) as gateway:
        answers = [await submit(gateway, name) for name in ("a", "b", "c")]
        assert [status for status, _ in answers] == [200, 200, 429]


@pytest.mark.anyio
async def test_a_job_whose_package_is_here_is_accepted(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await gateway.put(f"/api/packages/gcs/{PACKAGE}", data=b"zip")
        assert (await submit(gateway, runtime_env={"working_dir": f"gcs://{PACKAGE}"}))[0] == 200


@pytest.mark.anyio
async def test_a_waiting_job_says_why_it_waits(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await submit(gateway)
        hand = Hand(tmp_path)
        hand.ingest()
        wait = Wait(workload="llm", reason=Reason.QUOTA_USED, asked=4, available=1)
        hand.show(FleetState(nodes=(node(),), workloads=(hand.get("llm").workload,)), Plan(answers=(wait,)))
        shown = await details(gateway)
        assert shown["status"] == "PENDING"
        assert "needs 4 GPUs; team research has 1 left of its quota" in str(shown["message"])
        logs = await (await gateway.get("/api/jobs/llm/logs")).json()
        assert "needs 4 GPUs" in logs["logs"]


STATUSES = {
    "admitted": ([Event.ADMIT], "PENDING"),
    "running": ([Event.ADMIT, Event.START], "RUNNING"),
    "draining": ([Event.ADMIT, Event.START, Event.DRAIN], "RUNNING"),
    "drained and queued again": ([Event.ADMIT, Event.START, Event.DRAIN, Event.REQUEUE], "PENDING"),
    "stopping": ([Event.ADMIT, Event.START, Event.CANCEL], "RUNNING"),
    "stopped": ([Event.ADMIT, Event.START, Event.CANCEL, Event.GONE], "STOPPED"),
    "failed": ([Event.ADMIT, Event.START, Event.FAIL], "FAILED"),
    "succeeded": ([Event.ADMIT, Event.START, Event.SUCCEED], "SUCCEEDED"),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("events", "want"), STATUSES.values(), ids=STATUSES)
async def test_every_phase_is_shown_as_a_status_that_rays_client_knows(
    tmp_path: Path, events: list[Event], want: str
) -> None:
    async with bench(tmp_path) as gateway:
        await submit(gateway)
        hand = Hand(tmp_path)
        hand.ingest()
        for event in events:
            hand.step("llm", event)
        assert (await details(gateway))["status"] == want


async def running(gateway: Bench, home: Path) -> Hand:
    """Submit a job, admit it and let Ray run it."""
    await submit(gateway)
    hand = Hand(home)
    hand.ingest()
    hand.step("llm", Event.ADMIT)
    gateway.ray.jobs[hand.launch("llm")] = FakeJob(log="first line\n")
    hand.step("llm", Event.START)
    return hand


def drained(hand: Hand, gateway: Bench) -> None:
    """Drain the job, queue it again and run its second attempt."""
    hand.step("llm", Event.DRAIN)
    gateway.ray.end("llm", "STOPPED")
    hand.step("llm", Event.REQUEUE)
    hand.step("llm", Event.ADMIT)
    gateway.ray.jobs[hand.launch("llm")] = FakeJob(log="second line\n")
    hand.step("llm", Event.START)


@pytest.mark.anyio
async def test_a_running_job_shows_its_driver_but_not_the_agent_that_goes_around_the_gateway(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await running(gateway, tmp_path)
        shown = await details(gateway)
        assert shown["job_id"] == "driver-llm"
        assert shown["driver_agent_http_address"] is None


@pytest.mark.anyio
async def test_the_list_hides_attempts_and_shows_what_is_not_the_fleets(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        drained(await running(gateway, tmp_path), gateway)
        gateway.ray.jobs["foreign"] = FakeJob()
        listed = await (await gateway.get("/api/jobs/")).json()
        assert [(job["submission_id"], job["job_id"]) for job in listed if job["type"] == "SUBMISSION"] == [
            ("llm", "driver-llm.2"),
            ("foreign", "driver-foreign"),
        ]
        assert [job["job_id"] for job in listed if job["type"] == "DRIVER"] == ["01000000"]


@pytest.mark.anyio
async def test_logs_are_those_of_all_attempts(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        drained(await running(gateway, tmp_path), gateway)
        logs = await (await gateway.get("/api/jobs/llm/logs")).json()
        assert logs["logs"] == "first line\n[fleet] attempt llm.2 starts\nsecond line\n"


BY_OTHER_NAMES = {
    "an attempt's id": "llm.2",
    "the first driver's id": "driver-llm",
    "the second driver's id": "driver-llm.2",
}


@pytest.mark.anyio
@pytest.mark.parametrize("alias", BY_OTHER_NAMES.values(), ids=BY_OTHER_NAMES)
async def test_a_stop_by_any_name_of_it_goes_through_the_arbiter_and_never_straight_to_ray(
    tmp_path: Path, alias: str
) -> None:
    async with bench(tmp_path) as gateway:
        drained(await running(gateway, tmp_path), gateway)
        assert await (await gateway.post(f"/api/jobs/{alias}/stop")).json() == {"stopped": True}
        assert spooled(tmp_path) == [inbox.Cancel(name="llm")]
        assert "POST" not in {method for method, _ in gateway.ray.asked}


@pytest.mark.anyio
async def test_a_job_that_is_not_the_fleets_is_rays_to_answer_for(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        gateway.ray.jobs["foreign"] = FakeJob(log="hello\n")
        assert (await details(gateway, "foreign"))["message"] == "Ray says RUNNING"
        assert await (await gateway.get("/api/jobs/foreign/logs")).json() == {"logs": "hello\n"}
        assert await (await gateway.post("/api/jobs/foreign/stop")).json() == {"stopped": True}
        assert await (await gateway.delete("/api/jobs/foreign")).json() == {"deleted": True}
        assert gateway.ray.jobs == {}


UNKNOWN = {"a name that nobody has": "nobody", "a path": "..%2f..%2fetc", "an odd name": "a%00b"}


@pytest.mark.anyio
@pytest.mark.parametrize("name", UNKNOWN.values(), ids=UNKNOWN)
async def test_an_unknown_job_does_not_exist(tmp_path: Path, name: str) -> None:
    async with bench(tmp_path) as gateway:
        answer = await gateway.get(f"/api/jobs/{name}")
        assert answer.status == 404
        assert "does not exist" in await answer.text()


@pytest.mark.anyio
async def test_with_no_arbiter_a_waiting_job_is_stopped_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await submit(gateway)
        assert await (await gateway.post("/api/jobs/llm/stop")).json() == {"stopped": True}
        assert (await details(gateway))["status"] == "STOPPED"
        # When an arbiter comes, it reads both in order and never starts the job.
        Hand(tmp_path).ingest()
        assert (await details(gateway))["status"] == "STOPPED"


@pytest.mark.anyio
async def test_with_no_arbiter_a_job_that_was_admitted_may_still_start_and_is_not_said_to_be_stopped(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as gateway:
        await submit(gateway)
        hand = Hand(tmp_path)
        hand.ingest()
        hand.step("llm", Event.ADMIT)
        hand.die()
        assert await (await gateway.post("/api/jobs/llm/stop")).json() == {"stopped": True}
        assert (await details(gateway))["status"] == "PENDING"
        assert spooled(tmp_path) == [inbox.Cancel(name="llm")]
        # A second stop asks for nothing new.
        await gateway.post("/api/jobs/llm/stop")
        assert spooled(tmp_path) == [inbox.Cancel(name="llm")]


@pytest.mark.anyio
async def test_stopping_what_has_ended_stops_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        (await running(gateway, tmp_path)).step("llm", Event.SUCCEED)
        assert await (await gateway.post("/api/jobs/llm/stop")).json() == {"stopped": False}
        assert spooled(tmp_path) == []


@pytest.mark.anyio
async def test_only_what_has_ended_is_deleted(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        hand = await running(gateway, tmp_path)
        answer = await gateway.delete("/api/jobs/llm")
        assert answer.status == 409
        assert "it is in a non-terminal state RUNNING" in await answer.text()
        hand.step("llm", Event.SUCCEED)
        assert await (await gateway.delete("/api/jobs/llm")).json() == {"deleted": True}
        assert spooled(tmp_path) == [inbox.Forget(name="llm")]
        # Ray still has its attempt, but nobody sees it any more.
        listed = await (await gateway.get("/api/jobs/")).json()
        assert [job["type"] for job in listed] == ["DRIVER"]
        assert (await gateway.get("/api/jobs/llm")).status == 404


@pytest.mark.anyio
async def test_the_name_of_a_deleted_job_is_free_once_the_arbiter_has_forgotten_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        hand = await running(gateway, tmp_path)
        hand.step("llm", Event.SUCCEED)
        await gateway.delete("/api/jobs/llm")
        del gateway.ray.jobs["llm"]
        assert (await submit(gateway))[0] == 409
        hand.ingest()
        assert (await submit(gateway))[0] == 200


@pytest.mark.anyio
async def test_a_broken_policy_file_is_our_fault_and_refuses_nothing_silently(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        (tmp_path / "policy.yaml").write_text("version: 7\n")
        status, text = await submit(gateway)
        assert status == 500
        assert "policy.yaml" in text
    assert spooled(tmp_path) == []
