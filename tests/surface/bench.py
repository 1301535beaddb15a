"""A gateway as the tests see it: served over a real socket, before a fake Ray, on a fleet home of its own."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from fleet_app.gateway.server import Settings, build
from tests.surface.fake_ray import FakeRay

POLICY = Path(__file__).parents[2] / "clusters" / "small.yaml"


@dataclass
class Bench:
    """A client of the gateway, the Ray behind it, and the home below it."""

    client: TestClient[web.Request, web.Application]
    ray: FakeRay
    ray_server: TestServer
    home: Path

    async def get(self, path: str, **options: object) -> ClientResponse:
        """Send GET."""
        return await self.client.get(path, **options)

    async def put(self, path: str, **options: object) -> ClientResponse:
        """Send PUT."""
        return await self.client.put(path, **options)

    async def post(self, path: str, **options: object) -> ClientResponse:
        """Send POST."""
        return await self.client.post(path, **options)

    async def delete(self, path: str, **options: object) -> ClientResponse:
        """Send DELETE."""
        return await self.client.delete(path, **options)


async def eventually(holds: Callable[[], bool], within_s: float = 10.0) -> None:
    """Wait until something holds; raise TimeoutError when it does not in time."""
    async with asyncio.timeout(within_s):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)  # it comes true in another process, or at the other end of a socket


@contextlib.asynccontextmanager
async def bench(home: Path, *, token: str | None = None, ray_token: str | None = None) -> AsyncIterator[Bench]:
    """Serve a gateway for `home`, which gets the policy of a small fleet."""
    shutil.copy(POLICY, home / "policy.yaml")
    ray = FakeRay()
    ray_server = TestServer(ray.app())
    await ray_server.start_server()
    try:
        settings = Settings(home=home, dashboard_url=str(ray_server.make_url("")), token=token, ray_token=ray_token)
        async with TestClient(TestServer(build(settings))) as client:
            yield Bench(client=client, ray=ray, ray_server=ray_server, home=home)
    finally:
        await ray_server.close()
