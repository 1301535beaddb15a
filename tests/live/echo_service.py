"""A Serve application for the live tests: says where it runs, after as long as it is asked to take."""

import asyncio
import os

import ray
from ray import serve


@serve.deployment
class Echo:
    async def __call__(self, seconds: float = 0.0) -> dict[str, object]:
        await asyncio.sleep(seconds)
        here = ray.get_runtime_context()
        return {"pid": os.getpid(), "node": here.get_node_id(), "group": here.get_placement_group_id()}


app = Echo.bind()
