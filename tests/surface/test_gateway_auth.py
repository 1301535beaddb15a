"""Who is let in, and which token goes where: the fleet's to the gateway, Ray's own to Ray, nobody's past it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet_app.engine.errors import RequestError
from fleet_app.gateway.auth import read_token
from tests.surface.bench import bench
from tests.surface.fake_ray import FakeJob

TOKEN = "the-fleets-token"
GOOD = {"Authorization": f"Bearer {TOKEN}"}

ANSWERS: dict[str, tuple[dict[str, str], int]] = {
    "the fleet's token": (GOOD, 200),
    "the fleet's token as a proxy passes it": ({"X-Ray-Authorization": f"Bearer {TOKEN}"}, 200),
    "the scheme in small letters": ({"Authorization": f"bearer {TOKEN}"}, 200),
    "no token": ({}, 401),
    "a cookie, which a page could send": ({"Cookie": f"ray-authentication-token={TOKEN}"}, 401),
    "another scheme": ({"Authorization": f"Basic {TOKEN}"}, 401),
    "an empty token": ({"Authorization": "Bearer "}, 401),
    "a wrong token": ({"Authorization": "Bearer wrong"}, 403),
    "a token that is no ASCII": ({"Authorization": "Bearer t\u00f6ken"}, 403),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("headers", "want"), ANSWERS.values(), ids=ANSWERS)
async def test_every_door_asks_for_the_token(tmp_path: Path, headers: dict[str, str], want: int) -> None:
    async with bench(tmp_path, token=TOKEN) as gateway:
        for path in ("/api/version", "/api/jobs/", "/api/fleet/events", "/metrics"):
            assert (await gateway.get(path, headers=headers)).status == want, path


@pytest.mark.anyio
async def test_health_is_open_and_says_nothing_of_the_fleet(tmp_path: Path) -> None:
    async with bench(tmp_path, token=TOKEN) as gateway:
        answer = await gateway.get("/healthz")
        assert (answer.status, await answer.json()) == (200, {"ok": True, "arbiter_alive": False})


@pytest.mark.anyio
async def test_without_a_token_file_everybody_is_let_in(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        assert (await gateway.get("/api/version")).status == 200


@pytest.mark.anyio
async def test_ray_gets_its_own_token_and_nothing_of_the_callers(tmp_path: Path) -> None:
    sent = {**GOOD, "X-Ray-Authorization": "Bearer x", "Cookie": "a=b"}
    async with bench(tmp_path, token=TOKEN, ray_token="rays-token") as gateway:
        gateway.ray.jobs["foreign"] = FakeJob(status="SUCCEEDED")
        for path in ("/api/version", "/api/jobs/", "/api/jobs/foreign", "/api/jobs/foreign/logs"):
            await gateway.get(path, headers=sent)
        async with gateway.client.ws_connect("/api/jobs/foreign/logs/tail", headers=sent) as socket:
            await socket.receive()
        assert len(gateway.ray.headers) >= 5
        for headers in gateway.ray.headers:
            assert headers["Authorization"] == "Bearer rays-token"
            assert not {"X-Ray-Authorization", "Cookie"} & headers.keys()


PAGES = {
    "a script of another site": {"Origin": "http://evil.example"},
    "a form of another site": {"Sec-Fetch-Mode": "navigate", "Content-Type": "text/plain"},
}


@pytest.mark.anyio
@pytest.mark.parametrize("headers", PAGES.values(), ids=PAGES)
async def test_a_web_page_cannot_make_a_browser_submit(tmp_path: Path, headers: dict[str, str]) -> None:
    async with bench(tmp_path) as gateway:
        answer = await gateway.post("/api/jobs/", headers=headers, data='{"entrypoint": "rm"}')
        assert answer.status == 405
    assert not (tmp_path / "inbox").exists()


def test_the_token_is_the_files_text_without_the_line_break(tmp_path: Path) -> None:
    assert read_token(tmp_path) is None
    (tmp_path / "token").write_text("secret\n")
    assert read_token(tmp_path) == "secret"


def test_an_empty_token_file_opens_nothing(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" \n")
    with pytest.raises(RequestError, match="empty"):
        read_token(tmp_path)
