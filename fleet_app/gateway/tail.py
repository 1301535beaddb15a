"""Follows a workload's log over its whole life: why it waits, attempt 1, why it waits again, attempt 2, until it ends.

Ray's client takes a closed socket for the end of the job, so a tail only ends when the workload has. Knows
workloads and Ray's tails. Does not know sockets: it is given a `send`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from fleet_app.gateway.dashboard import Dashboard, DashboardError
from fleet_app.gateway.known import TERMINAL, Known, Workloads

RETRY_S = 0.5
LINGER_S = 5.0
"""How long Ray may take to close the tail of an attempt that the arbiter knows to be over."""

SAY_EVERY_S = 3.0
"""How often a waiting client is told, at most, that the reason changed."""

_SILENT = frozenset({"RUNNING", "SUCCEEDED"})
"""Statuses in which the job's own log says enough."""

Send = Callable[[str], Awaitable[None]]


def note(text: str) -> str:
    """Return a line of the fleet's own in a job's log."""
    return f"[fleet] {text}\n"


class Tail:
    """One client that follows one workload."""

    def __init__(self, name: str, workloads: Workloads, dashboard: Dashboard, send: Send) -> None:
        """Follow the workload `name`; texts go to `send`, whose exceptions end the tail."""
        self._name = name
        self._workloads = workloads
        self._dashboard = dashboard
        self._send = send
        self._over: set[str] = set()
        self._said = ""
        self._say_again_at = 0.0

    async def run(self) -> None:
        """Return when the workload has ended, or was deleted, and all of its log was sent."""
        while True:
            moved = self._workloads.moved
            known = self._workloads.find(self._name)
            if known is None:
                return
            attempt = next((each for each in known.attempts if each not in self._over), None)
            if attempt is not None:
                await self._follow(attempt)
                self._over.add(attempt)
                continue
            await self._say(known)
            if known.status in TERMINAL:
                return
            await self._workloads.change(moved, timeout_s=SAY_EVERY_S)

    async def _say(self, known: Known) -> None:
        """Send why it waits, or ended, when that is news; a reason that keeps changing only now and then."""
        now = asyncio.get_running_loop().time()
        due = known.status in TERMINAL or now >= self._say_again_at
        if known.status not in _SILENT and known.message and known.message != self._said and due:
            self._said, self._say_again_at = known.message, now + SAY_EVERY_S
            await self._send(note(f"{known.status}: {known.message}"))

    async def _follow(self, attempt: str) -> None:
        """Forward one attempt's log to its end, over as many connections as that takes."""
        await _either(self._relay(attempt), self._left(attempt))

    async def _relay(self, attempt: str) -> None:
        """Return when Ray has closed the tail of an attempt that is over, or does not know it."""
        title = note(f"attempt {attempt} starts") if attempt != self._name else ""
        relay = _Relay(attempt, title, self._dashboard, self._send)
        while True:
            closed = await relay.run()
            if await self._ended(attempt, closed=closed):
                return
            await asyncio.sleep(RETRY_S)

    async def _left(self, attempt: str) -> None:
        """Return some time after the attempt is over, in case Ray never closes its tail (a node that is gone)."""
        await self._workloads.until(lambda: not self._live(attempt))
        await asyncio.sleep(LINGER_S)

    def _live(self, attempt: str) -> bool:
        known = self._workloads.find(self._name)
        return known is not None and known.live == attempt

    async def _ended(self, attempt: str, *, closed: bool) -> bool:
        """Say whether there is no more to come: a tail is also closed by a dashboard that goes down."""
        live = self._live(attempt)
        if closed and not live:
            return True
        with contextlib.suppress(DashboardError):
            job = await self._dashboard.job(attempt)
            return not live if job is None else closed and job.get("status") in TERMINAL
        return False


class _Relay:
    """Ray's tail of one attempt, picked up where it broke off: Ray always starts again from the first line."""

    def __init__(self, attempt: str, title: str, dashboard: Dashboard, send: Send) -> None:
        self._attempt = attempt
        self._title = title
        self._dashboard = dashboard
        self._send = send
        self._sent = 0

    async def run(self) -> bool:
        """Return True when Ray closed the tail, False when it cannot be reached."""
        seen = 0
        with contextlib.suppress(DashboardError):
            async with contextlib.aclosing(self._dashboard.tail(self._attempt)) as texts:
                async for text in texts:
                    fresh = text[max(0, self._sent - seen) :]
                    seen += len(text)
                    if fresh:
                        await self._send(self._title + fresh)
                        self._title = ""
                        self._sent = seen
            return True
        return False


async def _either(work: Awaitable[None], end: Awaitable[None]) -> None:
    """Wait for either, and cancel the other; an exception of either is raised."""
    tasks = {asyncio.ensure_future(work), asyncio.ensure_future(end)}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
