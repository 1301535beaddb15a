"""The smallest service: says where it ran, after as long as it is asked to take. To see whether serving works.

    GET /hello?seconds=0.5  ->  {"host": "...", "pid": 4711}

Needs nothing but Ray. Knows nothing of the fleet: `hello.yaml` alone makes it a service of one.
"""

from __future__ import annotations

import asyncio
import os
import socket

from ray import serve
from starlette.requests import Request

LONGEST_S = 60.0


@serve.deployment
class Hello:
    """One replica."""

    async def __call__(self, request: Request) -> dict[str, str | int]:
        """Answer one HTTP request."""
        await asyncio.sleep(min(LONGEST_S, float(request.query_params.get("seconds", "0"))))
        return {"host": socket.gethostname(), "pid": os.getpid()}


app = Hello.bind()
