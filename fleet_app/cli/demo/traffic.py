"""HTTP traffic for the demo: a real day of an inference service in minutes, with a spike laid over it.

An open loop: requests leave when the trace says so, whether or not earlier ones were answered. Knows the trace, a
URL and what came back; knows nothing of the fleet.
"""

from __future__ import annotations

import asyncio
import csv
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

ANSWER_WITHIN_S = 60.0
CHARACTERS = 8
OK = 200
TRIES = 2
"""A replica that is killed takes the requests inside it along; a client asks once more, as clients do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request: when it left (seconds since the epoch), how long it took, and whether it was answered well.

    `tries` is how often it was sent.
    """

    at: float
    latency_s: float
    ok: bool
    tries: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """Relative load over a day, 1.0 at its quietest; `at(0.0)` is midnight, `at(1.0)` the next."""

    levels: tuple[float, ...]

    def at(self, fraction: float) -> float:
        """Return the load at a fraction of the day, between the two nearest samples."""
        position = min(max(fraction, 0.0), 1.0) * (len(self.levels) - 1)
        index = min(int(position), len(self.levels) - 2)
        return self.levels[index] + (self.levels[index + 1] - self.levels[index]) * (position - index)


def read_day(path: Path) -> Day:
    """Return the day in a file with the columns `time_utc` and `requests_per_minute`."""
    with path.open(newline="", encoding="utf-8") as lines:
        rates = [float(row["requests_per_minute"]) for row in csv.DictReader(lines)]
    quietest = min(rates)
    return Day(levels=tuple(rate / quietest for rate in rates))


@dataclass
class Traffic:
    """A load on one URL whose rate the story sets; `rate` is in requests a second."""

    url: str
    prompts: Sequence[str]
    rate: float = 0.0
    requests: list[Request] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, stop: asyncio.Event) -> None:
        """Send until `stop` is set, then wait for what is still under way."""
        timeout = aiohttp.ClientTimeout(total=ANSWER_WITHIN_S)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            due = time.monotonic()
            while not stop.is_set():
                due = await self._next(due, stop)
                if not stop.is_set() and self.rate > 0:
                    task = asyncio.create_task(self._send(session))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
            await asyncio.gather(*self._tasks)

    async def _next(self, due: float, stop: asyncio.Event) -> float:
        gap_s = 1.0 / self.rate if self.rate > 0 else 0.1
        due = max(due + gap_s, time.monotonic() - gap_s)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), max(0.0, due - time.monotonic()))
        return due

    async def _send(self, session: aiohttp.ClientSession) -> None:
        at, began = time.time(), time.perf_counter()
        prompt = self.prompts[len(self.requests) % len(self.prompts)]
        tries, ok = 0, False
        while not ok and tries < TRIES:
            tries += 1
            ok = await self._answered(session, prompt)
        self.requests.append(Request(at=at, latency_s=time.perf_counter() - began, ok=ok, tries=tries))

    async def _answered(self, session: aiohttp.ClientSession, prompt: str) -> bool:
        try:
            async with session.post(self.url, json={"prompt": prompt, "tokens": CHARACTERS}) as answer:
                return answer.status == OK and bool(await answer.text())
        except (aiohttp.ClientError, TimeoutError):
            return False


def quantile_s(requests: Sequence[Request], q: float) -> float:
    """Return the latency in seconds that a share `q` of the requests stayed within; 0 without requests."""
    if not requests:
        return 0.0
    ordered = sorted(request.latency_s for request in requests)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]
