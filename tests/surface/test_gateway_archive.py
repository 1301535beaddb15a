"""Workloads that the arbiter has archived, as a user meets them: known by name, listed nowhere, no longer to be had."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet_app.arbiter import inbox
from fleet_app.arbiter.records import Job, Record
from fleet_app.engine.errors import ConflictError
from fleet_app.engine.lifecycle import Phase
from tests.builders import gang
from tests.surface.bench import Bench, bench
from tests.surface.hand import Hand

SPEC = {"name": "old", "kind": "backfill", "team": "research", "entrypoint": "true"}


def archived(home: Path) -> Hand:
    """Journal one workload that waits, one that has just ended, and `old`, which ended in 1970 and is archived."""
    hand = Hand(home)
    hand.put(Record(workload=gang("waits"), job=Job(entrypoint="true")))
    for name in ("old", "new"):
        over = replace(gang(name), phase=Phase.SUCCEEDED)
        hand.put(Record(workload=over, job=Job(entrypoint="true"), ended_at=86_400.0, message="done"))
    hand.book.archive("old")
    hand.journal.commit(hand.book)
    return hand


async def get(gateway: Bench, path: str) -> Any:
    answer = await gateway.get(path)
    assert answer.status == 200, await answer.text()
    return await answer.json()


LISTS: dict[str, tuple[str, list[str]]] = {
    "all that are at hand": ("workloads", ["waits", "new"]),
    "those that have not ended": ("workloads?ended=false", ["waits"]),
    "one that has not ended, by its name": ("workloads?name=waits", ["waits"]),
    "an archived one, by its name": ("workloads?name=old", ["old"]),
    "nobody": ("workloads?name=nobody", []),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("path", "want"), LISTS.values(), ids=LISTS)
async def test_which_workloads_are_listed(tmp_path: Path, path: str, want: list[str]) -> None:
    async with bench(tmp_path) as gateway:
        archived(tmp_path)
        assert [row["name"] for row in await get(gateway, f"/api/fleet/{path}")] == want


@pytest.mark.anyio
async def test_who_has_not_been_taken_in_yet_is_listed_by_its_name_too(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await gateway.post("/api/fleet/submit", json={**SPEC, "name": "spooled"})
        (row,) = await get(gateway, "/api/fleet/workloads?name=spooled")
        assert (row["name"], row["message"]) == ("spooled", "spooled")
        assert await get(gateway, "/api/fleet/workloads?name=other") == []


@pytest.mark.anyio
async def test_it_is_not_counted(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        archived(tmp_path)
        counts = (await get(gateway, "/api/fleet/status"))["counts"]
        assert {phase: count for phase, count in counts.items() if count} == {"queued": 1, "succeeded": 1}
        assert '\nfleet_workloads{phase="succeeded"} 1.0' in await (await gateway.get("/metrics")).text()


@pytest.mark.anyio
async def test_it_is_explained_from_the_archive(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        archived(tmp_path)
        sentences = [(await get(gateway, f"/api/fleet/explain/{name}"))["sentence"] for name in ("new", "old")]
        ended = "it ended at 1970-01-02T00:00:00Z and is archived"
        assert sentences == ["is succeeded: done", f"is succeeded: done; {ended}"]


@pytest.mark.anyio
async def test_its_status_is_known_and_of_its_log_it_is_said_where_it_went(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        archived(tmp_path)
        assert (await get(gateway, "/api/jobs/old"))["status"] == "SUCCEEDED"
        assert "its log is gone" in (await get(gateway, "/api/jobs/old/logs"))["logs"]
        assert "its log is gone" not in (await get(gateway, "/api/jobs/new/logs"))["logs"]


@pytest.mark.anyio
async def test_its_name_is_taken_until_it_is_deleted(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        archived(tmp_path)
        answer = await gateway.post("/api/fleet/submit", json=SPEC)
        assert (answer.status, "already exists" in await answer.text()) == (ConflictError.http_status, True)
        assert await (await gateway.delete("/api/jobs/old")).json() == {"deleted": True}
        assert [request for _, request in inbox.waiting(tmp_path)] == [inbox.Forget(name="old")]
        assert (await gateway.get("/api/jobs/old")).status == 404


@pytest.mark.anyio
async def test_nobody_can_cancel_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        archived(tmp_path)
        answer = await gateway.post("/api/fleet/cancel/old")
        assert (answer.status, "it is SUCCEEDED already" in await answer.text()) == (ConflictError.http_status, True)
