"""The command line before the real gateway: both ends mean the same by the control API, and by Ray's packages."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from ray._private.runtime_env.packaging import get_uri_for_directory
from typer.testing import CliRunner, Result

from fleet_app.arbiter import inbox
from fleet_app.cli.main import app
from tests.surface.bench import POLICY, Bench, bench, eventually
from tests.surface.fake_ray import FakeJob
from tests.surface.hand import Hand

pytestmark = pytest.mark.anyio

GANG = ("--kind", "gang", "--team", "research", "--gpus", "8")


def url(here: Bench) -> str:
    return str(here.client.make_url("")).rstrip("/")


async def fleet(here: Bench, *arguments: str, run: tuple[str, ...] = ()) -> Result:
    options = [*arguments, "--gateway", url(here), *(["--", *run] if run else [])]
    clean = {"FLEET_HOME": None, "FLEET_GATEWAY": None, "FLEET_TOKEN": None, "TERM": "dumb"}
    return await asyncio.to_thread(CliRunner().invoke, app, options, env=clean)


async def answered(here: Bench, *arguments: str, run: tuple[str, ...] = ()) -> Any:
    result = await fleet(here, *arguments, "--json", run=run)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def test_a_submission_is_queued_shown_and_cancelled(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        hand = Hand(tmp_path)
        await answered(here, "submit", "--name", "llm", *GANG, "--grace", "20s", run=("python", "t.py", "a b"))
        hand.ingest()
        (shown,) = await answered(here, "queue")
        assert {key: shown[key] for key in ("name", "kind", "team", "phase", "bundles", "gpus_per_bundle")} == {
            "name": "llm",
            "kind": "gang",
            "team": "research",
            "phase": "queued",
            "bundles": 1,
            "gpus_per_bundle": 8,
        }
        assert hand.get("llm").job.entrypoint == "python t.py 'a b'"
        assert hand.get("llm").workload.grace_s == 20
        assert (await fleet(here, "queue")).exit_code == 0
        await answered(here, "cancel", "llm")
        assert [type(request) for request in hand.ingest()] == [inbox.Cancel]
        assert await answered(here, "queue") == []
        hand.die()


async def test_what_the_policy_refuses_is_the_caller_s_mistake(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        result = await fleet(here, "submit", "--name", "llm", "--team", "nobody", run=("true",))
        assert result.exit_code == 2
        assert "nobody" in result.stderr


async def test_a_name_is_taken_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        assert (await fleet(here, "submit", "--name", "llm", *GANG, run=("true",))).exit_code == 0
        again = await fleet(here, "submit", "--name", "llm", *GANG, run=("true",))
        assert (again.exit_code, "already exists" in again.stderr) == (2, True)


async def test_every_look_is_understood(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        hand = Hand(tmp_path)
        for look in ("status", "nodes", "services", "events", "queue"):
            result = await fleet(here, look)
            assert result.exit_code == 0, result.output
        assert (await fleet(here, "explain", "nobody")).exit_code == 2
        hand.die()


async def test_a_pause_a_resume_and_a_policy_reach_the_arbiter(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(POLICY.read_text() + "\n")
    changed = tmp_path / "changed.yaml"
    changed.write_text(POLICY.read_text().replace("name: small", "name: large"))
    async with bench(tmp_path) as here:
        hand = Hand(tmp_path)
        await answered(here, "pause")
        await answered(here, "resume")
        assert await answered(here, "policy", "diff", str(other)) == {"changes": [], "accepted": False}
        assert (await answered(here, "policy", "apply", str(changed), "--who", "ada"))["accepted"]
        paused, resumed, policy = hand.ingest()
        assert (type(paused), type(resumed)) == (inbox.Pause, inbox.Resume)
        assert isinstance(policy, inbox.SetPolicy)
        assert (policy.who, policy.text) == ("ada", changed.read_text())
        assert (await fleet(here, "policy", "show")).stdout.strip() == POLICY.read_text().strip()
        hand.die()


async def test_a_working_directory_becomes_the_package_that_ray_s_own_client_makes(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('hello')\n")
    async with bench(tmp_path) as here:
        hand = Hand(tmp_path)
        submit = ("submit", *GANG, "--working-dir", str(code), "-e", "A=b")
        await answered(here, *submit, "--name", "one", run=("python", "train.py"))
        await answered(here, *submit, "--name", "two", run=("python", "train.py"))
        hand.ingest()
        uri = get_uri_for_directory(str(code), include_gitignore=True)
        for name in ("one", "two"):
            assert hand.get(name).job.runtime_env == {"working_dir": uri, "env_vars": {"A": "b"}}
        assert (await here.get(f"/api/packages/gcs/{uri.removeprefix('gcs://')}")).status == 200
        hand.die()


async def test_a_working_directory_that_is_not_there_is_the_caller_s_mistake(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        result = await fleet(here, "submit", *GANG, "--working-dir", "/nonexistent", run=("true",))
        assert (result.exit_code, result.stdout) == (2, "")
        assert "/nonexistent" in result.stderr


async def test_a_log_is_followed_to_the_end_of_its_job(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.ray.jobs["other"] = FakeJob(log="one\n")
        following = asyncio.create_task(fleet(here, "logs", "--follow", "other"))
        await eventually(lambda: here.ray.tails, 60)
        here.ray.write("other", "two\n")
        here.ray.end("other", "SUCCEEDED")
        result = await following
        assert (result.exit_code, result.stdout) == (0, "one\ntwo\n")


async def test_the_log_of_nothing_is_the_caller_s_mistake(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        for more in ((), ("--follow",)):
            assert (await fleet(here, "logs", "nobody", *more)).exit_code == 2
