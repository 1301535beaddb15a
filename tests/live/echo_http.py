"""A Serve application with an HTTP front for the live tests: says which process answered."""

import asyncio
import os

from ray import serve
from starlette.requests import Request


@serve.deployment
class EchoHttp:
    async def __call__(self, request: Request) -> dict[str, int]:
        await asyncio.sleep(float(request.query_params.get("seconds", "0")))
        return {"pid": os.getpid()}


app = EchoHttp.bind()
