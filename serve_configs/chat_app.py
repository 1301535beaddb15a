"""A Serve application that serves the small language model of `jobs/charlm.py`, with batching and streaming.

    POST /generate  {"prompt": "The harbour ", "tokens": 16, "stream": false}
    -> {"text": "...", "step": 400}, or, with "stream": true, the text as it is written

A token is a character. Requests that arrive together are written together, one character of each at a time. Knows
nothing of the fleet: that the fleet decides how many replicas run is said in `chat.yaml` alone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from jobs import charlm

BATCH_ROWS = 8
BATCH_WAIT_S = 0.005
BATCHES_AT_ONCE = 8
"""How many batches a replica writes in turn, a character of each, so that nobody waits for the end of another's."""

CHECKPOINTS_ENV = "CHAT_CHECKPOINTS"


class Options(BaseModel):
    """The arguments of the application, as `chat.yaml` gives them.

    `checkpoints` is a folder: a replica loads the newest checkpoint below it when it starts, and the untrained
    model when there is none; the environment variable CHAT_CHECKPOINTS counts when it is empty. `character_time_s`
    is how long the accelerator of a larger model would take for one character of a whole batch: the replica sleeps
    that long, so the load can be that of a real service without the GPUs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoints: str = ""
    character_time_s: float = Field(default=0.0, ge=0, le=10)


class Ask(BaseModel):
    """One request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: str = Field(max_length=200)
    tokens: int = Field(default=16, ge=1, le=256)
    stream: bool = False


@serve.deployment
class Chat:
    """One replica: the model, and the queue of requests that are written together."""

    def __init__(self, options: Options) -> None:
        """Load the model and compile it, so that the first request is as fast as the others."""
        folder = options.checkpoints or os.environ.get(CHECKPOINTS_ENV, "")
        found = charlm.newest(Path(folder)) if folder else None
        state = charlm.load(found) if found else charlm.fresh()
        self._step = state.step
        self._writer = charlm.Writer(state.params, BATCH_ROWS)
        self._character_time_s = options.character_time_s
        list(self._writer.write(["warm up"], 1))

    async def __call__(self, request: Request) -> Response:
        """Answer one HTTP request."""
        if request.method != "POST":
            return _refusal(405, f"{request.method} is not allowed here", "POST a JSON object")
        try:
            ask = Ask.model_validate_json(await request.body())
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "body"
            return _refusal(422, f"{where}: {first['msg']}", 'such as {"prompt": "The harbour ", "tokens": 16}')
        characters = self._write(ask)
        if ask.stream:
            return StreamingResponse(characters, media_type="text/plain")
        return JSONResponse({"text": "".join([each async for each in characters]), "step": self._step})

    @serve.batch(max_batch_size=BATCH_ROWS, batch_wait_timeout_s=BATCH_WAIT_S, max_concurrent_batches=BATCHES_AT_ONCE)
    async def _write(self, asks: list[Ask]) -> AsyncIterator[list[str | type[StopIteration]]]:
        """Yield the next character of each request in the batch; Serve gives each caller its own."""
        most = max(ask.tokens for ask in asks)
        for done, characters in enumerate(self._writer.write([ask.prompt for ask in asks], most)):
            await asyncio.sleep(self._character_time_s)
            yield [each if done < ask.tokens else StopIteration for ask, each in zip(asks, characters, strict=True)]


def _refusal(status: int, what: str, fix: str) -> Response:
    return JSONResponse({"error": {"what": what, "where": "POST /generate", "fix": fix}}, status_code=status)


def build(arguments: dict[str, object]) -> serve.Application:
    """Return the application; Serve calls this with the `args` of the configuration, as they stand there."""
    return Chat.bind(Options.model_validate(arguments))
