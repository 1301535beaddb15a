"""Serve's REST API behind the gateway: what its clients ask reaches Ray, and Ray's answer reaches them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surface.bench import bench

PATH = "/api/serve/applications/"


@pytest.mark.anyio
async def test_what_serve_s_clients_ask_is_passed_on_with_ray_s_token_and_not_theirs(tmp_path: Path) -> None:
    async with bench(tmp_path, token="ours", ray_token="rays") as gateway:
        mine = {"Authorization": "Bearer ours"}
        assert (await gateway.get(PATH)).status == 401
        found = await gateway.get(PATH + "?api_type=declarative", headers=mine)
        assert await found.json() == {"applications": {}}
        assert (await gateway.put(PATH, json={"applications": []}, headers=mine)).status == 200
        assert (await gateway.delete(PATH, headers=mine)).status == 200
        assert (await gateway.get("/api/ray/version", headers=mine)).status == 200
        assert gateway.ray.serve == [
            ("GET", "api_type=declarative", ""),
            ("PUT", "", '{"applications": []}'),
            ("DELETE", "", ""),
        ]
        assert {headers["Authorization"] for headers in gateway.ray.headers} == {"Bearer rays"}


@pytest.mark.anyio
async def test_a_refusal_of_ray_s_is_told_as_it_is(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        assert (await gateway.put(PATH, data='{"refuse": 1}')).status == 400


@pytest.mark.anyio
async def test_a_ray_that_is_away_is_said(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await gateway.ray_server.close()
        assert (await gateway.get(PATH)).status == 503
