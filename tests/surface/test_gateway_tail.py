"""A followed log: open while the job waits, across a drain and a resume, and closed only when the job has ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from fleet_app.engine.lifecycle import Event
from fleet_app.engine.plan import Plan, Reason, Wait
from fleet_app.engine.state import FleetState
from tests.surface.bench import Bench, bench, eventually
from tests.surface.fake_ray import FakeJob
from tests.surface.hand import Hand
from tests.surface.test_gateway_jobs import drained, running, submit

WITHIN_S = 20.0


class Follower:
    """A client that follows a log in the background, as `ray job logs -f` does."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.text = ""
        self.task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for message in self.socket:
            assert message.type is aiohttp.WSMsgType.TEXT
            self.text += message.data

    async def sees(self, text: str) -> None:
        """Wait until the text was received."""
        await eventually(lambda: text in self.text or self.task.done(), WITHIN_S)
        assert text in self.text

    async def ends(self) -> str:
        """Wait until the server closes; return all that was received."""
        async with asyncio.timeout(WITHIN_S):
            await self.task
        return self.text


async def follow(gateway: Bench, name: str = "llm") -> Follower:
    return Follower(await gateway.client.ws_connect(f"/api/jobs/{name}/logs/tail"))


@pytest.mark.anyio
async def test_a_waiting_job_is_followed_from_its_submission_to_its_end(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await submit(gateway)
        log = await follow(gateway)
        await log.sees("[fleet] PENDING: the arbiter is not running; spooled\n")
        hand = Hand(tmp_path)
        hand.ingest()
        hand.step("llm", Event.ADMIT)
        gateway.ray.jobs[hand.launch("llm")] = FakeJob(log="step 1\n")
        hand.step("llm", Event.START)
        await log.sees("step 1\n")
        gateway.ray.write("llm", "step 2\n")
        await log.sees("step 2\n")
        gateway.ray.end("llm", "SUCCEEDED")
        hand.step("llm", Event.SUCCEED)
        assert (await log.ends()).endswith("step 1\nstep 2\n")
        assert log.socket.close_code == aiohttp.WSCloseCode.OK


@pytest.mark.anyio
async def test_a_waiting_job_says_so_when_the_reason_changes(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await submit(gateway)
        hand = Hand(tmp_path)
        hand.ingest()
        log = await follow(gateway)
        await log.sees("queued")
        for available in (1, 2):
            wait = Wait(workload="llm", reason=Reason.QUOTA_USED, asked=4, available=available)
            hand.show(FleetState(workloads=(hand.get("llm").workload,)), Plan(answers=(wait,)))
            await log.sees(f"has {available} left of its quota")
        assert not log.task.done()


@pytest.mark.anyio
async def test_one_socket_goes_from_the_first_attempt_over_the_wait_to_the_second(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        hand = await running(gateway, tmp_path)
        log = await follow(gateway)
        await log.sees("first line\n")
        hand.step("llm", Event.DRAIN)
        gateway.ray.write("llm", "saved\n")
        gateway.ray.end("llm", "STOPPED")
        hand.step("llm", Event.REQUEUE, message="drained for chat")
        await log.sees("[fleet] PENDING: drained for chat")
        hand.step("llm", Event.ADMIT)
        gateway.ray.jobs[hand.launch("llm")] = FakeJob(log="second line\n")
        hand.step("llm", Event.START)
        await log.sees("second line\n")
        gateway.ray.end("llm.2", "SUCCEEDED")
        hand.step("llm", Event.SUCCEED)
        want = "first line\nsaved\n[fleet] PENDING: drained for chat\n[fleet] attempt llm.2 starts\nsecond line\n"
        assert await log.ends() == want


@pytest.mark.anyio
async def test_who_comes_late_gets_all_attempts_from_their_first_lines(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        hand = await running(gateway, tmp_path)
        drained(hand, gateway)
        gateway.ray.end("llm.2", "FAILED")
        hand.step("llm", Event.FAIL, message="exit code 1")
        text = await (await follow(gateway)).ends()
        assert text.startswith("first line\n[fleet] attempt llm.2 starts\nsecond line\n")
        assert text.endswith("[fleet] FAILED: exit code 1\n")


@pytest.mark.anyio
async def test_a_dashboard_that_goes_away_ends_no_tail_and_repeats_no_line(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        hand = await running(gateway, tmp_path)
        log = await follow(gateway)
        await log.sees("first line\n")
        for number in range(2):
            tails = gateway.ray.tails
            gateway.ray.cut("llm")
            await eventually(lambda tails=tails: gateway.ray.tails > tails)
            gateway.ray.write("llm", f"line {number}\n")
            await log.sees(f"line {number}\n")
        gateway.ray.end("llm", "SUCCEEDED")
        hand.step("llm", Event.SUCCEED)
        assert await log.ends() == "first line\nline 0\nline 1\n"


@pytest.mark.anyio
async def test_a_job_that_ended_while_no_arbiter_looks_keeps_its_tail_until_one_does(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        hand = await running(gateway, tmp_path)
        log = await follow(gateway)
        gateway.ray.write("llm", "done\n")
        gateway.ray.end("llm", "SUCCEEDED")
        await log.sees("done\n")
        await eventually(lambda: ("GET", "/api/jobs/llm") in gateway.ray.asked)
        assert not log.task.done()
        hand.step("llm", Event.SUCCEED)
        assert await log.ends() == "first line\ndone\n"


@pytest.mark.anyio
async def test_an_attempt_that_ray_never_closes_is_left_once_the_arbiter_knows_it_is_over(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        hand = await running(gateway, tmp_path)
        log = await follow(gateway)
        await log.sees("first line\n")
        hand.step("llm", Event.FAIL, message="its node is gone")
        assert (await log.ends()).endswith("[fleet] FAILED: its node is gone\n")


@pytest.mark.anyio
async def test_an_attempt_number_that_was_skipped_holds_nobody_up(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        hand = await running(gateway, tmp_path)
        hand.step("llm", Event.DRAIN)
        gateway.ray.end("llm", "STOPPED")
        for _ in range(2):
            hand.step("llm", Event.REQUEUE)
            hand.step("llm", Event.ADMIT)
        gateway.ray.jobs[hand.launch("llm")] = FakeJob(log="third\n", status="SUCCEEDED")
        hand.step("llm", Event.SUCCEED)
        assert await (await follow(gateway)).ends() == "first line\n[fleet] attempt llm.3 starts\nthird\n"


@pytest.mark.anyio
async def test_stopping_a_waiting_job_ends_its_tail(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await submit(gateway)
        log = await follow(gateway)
        await log.sees("PENDING")
        await gateway.post("/api/jobs/llm/stop")
        assert (await log.ends()).endswith("[fleet] STOPPED: stopped while it waited\n")


@pytest.mark.anyio
async def test_a_job_refused_after_it_was_queued_ends_its_tail(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await submit(gateway)
        hand = Hand(tmp_path)
        hand.ingest()
        log = await follow(gateway)
        await log.sees("PENDING")
        hand.step("llm", Event.REFUSE, message="team research is gone")
        assert (await log.ends()).endswith("[fleet] FAILED: team research is gone\n")


@pytest.mark.anyio
async def test_a_client_that_leaves_changes_nothing_for_the_job(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await running(gateway, tmp_path)
        log = await follow(gateway)
        await log.sees("first line\n")
        await log.socket.close()
        assert gateway.ray.jobs["llm"].status == "RUNNING"
        assert (await (await gateway.get("/api/jobs/llm")).json())["status"] == "RUNNING"


@pytest.mark.anyio
async def test_a_foreign_jobs_tail_is_rays(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        gateway.ray.jobs["foreign"] = FakeJob(log="hello\n", status="SUCCEEDED")
        assert await (await follow(gateway, "foreign")).ends() == "hello\n"


@pytest.mark.anyio
async def test_the_tail_of_nothing_is_refused(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await follow(gateway, "nobody")
