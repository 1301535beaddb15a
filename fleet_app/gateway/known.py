"""What the gateway knows of workloads: what the journal says, and what still waits in the inbox.

Reads files only, so it knows the same whether or not an arbiter runs. Does not know Ray, and changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleet_app.arbiter import inbox
from fleet_app.arbiter.journal import JournalReader, Snapshot
from fleet_app.arbiter.records import Record
from fleet_app.engine.explain import sentence_of
from fleet_app.engine.lifecycle import Phase
from fleet_app.gateway.packages import packages_of
from fleet_app.worker.contract import LEASE_STALE_S

TERMINAL = frozenset({"STOPPED", "SUCCEEDED", "FAILED"})
"""Ray's statuses that a job never leaves."""

LOOK_EVERY_S = 0.1
LOOK_AGAIN_S = 3.0
"""When to look without a sign of change: a file's time is too coarse to show every one."""

SNAPSHOT_S = 1.0
"""How old a snapshot may be when the journal's files look the same: their times are coarse."""

SPOOLED = "the arbiter is not running; spooled"

_STATUS = {
    Phase.QUEUED: "PENDING",
    Phase.ADMITTED: "PENDING",
    Phase.RUNNING: "RUNNING",
    Phase.DRAINING: "RUNNING",
    Phase.STOPPING: "RUNNING",
    Phase.SUCCEEDED: "SUCCEEDED",
    Phase.FAILED: "FAILED",
    Phase.STOPPED: "STOPPED",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One workload as the Jobs API shows it; `status` is one of Ray's, moments are seconds since the epoch.

    `attempts` are the Ray jobs that may have a log, oldest first; `live` is the one that runs.
    `queued` is whether it waits to be admitted. `cancelled` is whether an end was asked for, `stopping` whether the
    arbiter has taken that in. `deleted` is whether it is only here until Ray has forgotten its jobs. `archived` is
    whether it ended so long ago that only the journal's archive has it.
    """

    name: str
    status: str
    entrypoint: str
    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    runtime_env: Mapping[str, object] = field(default_factory=dict)
    submitted_at: float | None = None
    ended_at: float | None = None
    attempts: tuple[str, ...] = ()
    live: str | None = None
    queued: bool = False
    cancelled: bool = False
    stopping: bool = False
    deleted: bool = False
    archived: bool = False

    @property
    def shown(self) -> str | None:
        """Return the Ray job whose driver is this workload's: the one that runs, or with which it ended."""
        return self.attempts[-1] if self.attempts and (self.live or self.status in TERMINAL) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A snapshot as it was read at a moment of this process's clock, and how the journal's files looked then."""

    at: float
    stamps: tuple[tuple[int, int], ...]
    snapshot: Snapshot | None


class Workloads:
    """All workloads of the fleet at one home, as they are at the moment of asking."""

    def __init__(self, home: Path) -> None:
        """Read the journal, the inbox and the arbiter's sign of life in `home`; none of them needs to exist."""
        self._home = home
        self.journal = JournalReader(home / "journal.db")
        self._inbox = inbox.Reader(home)
        self._read: _Read | None = None
        self._seen: object = None
        self.moved = asyncio.Event()
        """Set at the next change, and replaced: a mark to wait from."""

    # What is known now. The inbox is always read before the journal: what has left the one is in the other.

    def find(self, name: str) -> Known | None:
        """Return one workload, None when there is none of that name, or none any more. Raises FaultError."""
        known = self.find_any(name)
        return None if known is None or known.deleted else known

    def find_any(self, name: str) -> Known | None:
        """Return one workload, deleted and archived ones included. Raises FaultError."""
        requests = [request for request in self._requests() if _of_whom(request) == name]
        record = self.journal.record(name)
        found = self._merged({} if record is None else {name: record}, requests).get(name)
        if record is not None or (old := self.journal.archived(name)) is None:
            return found
        return replace(self._merged({name: old}, requests)[name], archived=True)

    def all(self) -> dict[str, Known]:
        """Return every workload by name that is not archived, deleted ones included. Raises FaultError."""
        requests = self._requests()
        return self._merged(self.journal.records(), requests)

    def spooled(self) -> list[inbox.Submit]:
        """Return the submissions that wait for the arbiter."""
        return [request for request in self._requests() if isinstance(request, inbox.Submit)]

    def waiting(self) -> int:
        """Return how many requests wait for the arbiter."""
        return len(self._requests())

    def packages_needed(self) -> frozenset[str]:
        """Return the packages that workloads that have not ended may still need."""
        requests = self._requests()
        live = self._merged(self.journal.live(), requests).values()
        needed = [packages_of(known.runtime_env) for known in live if known.status not in TERMINAL]
        return frozenset(package for packages in needed for package in packages)

    def silent_s(self) -> float | None:
        """Return for how long the arbiter has given no sign of life, None when it never did."""
        try:
            return max(0.0, time.time() - (self._home / "arbiter.alive").stat().st_mtime)
        except FileNotFoundError:
            return None

    def alive(self) -> bool:
        """Return whether the arbiter runs, as far as its sign of life tells."""
        silent_s = self.silent_s()
        return silent_s is not None and silent_s < LEASE_STALE_S

    def snapshot(self) -> Snapshot | None:
        """Return what the arbiter last saw and decided, at most SNAPSHOT_S after it was written."""
        now, stamps = time.monotonic(), self._stamps("journal.db", "journal.db-wal")
        if self._read is None or self._read.stamps != stamps or now - self._read.at > SNAPSHOT_S:
            self._read = _Read(at=now, stamps=stamps, snapshot=self.journal.snapshot())
        return self._read.snapshot

    def fleet_gpus(self) -> int | None:
        """Return the GPUs of all nodes that the arbiter knows, None when it has not looked yet."""
        return self.journal.gpus()

    # Waiting for a change.

    async def watch(self) -> None:
        """Look for changes until cancelled, and wake those who wait for one."""
        while True:
            seen = self._signature()
            if seen != self._seen:
                self._seen = seen
                moved, self.moved = self.moved, asyncio.Event()
                moved.set()
            await asyncio.sleep(LOOK_EVERY_S)

    async def change(self, moved: asyncio.Event, *, timeout_s: float) -> None:
        """Return when something changed since `moved` was the current mark, or after `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await moved.wait()

    async def until(self, holds: Callable[[], bool], *, timeout_s: float = math.inf) -> None:
        """Return when `holds` does, or after `timeout_s`."""
        loop = asyncio.get_running_loop()
        end_at = loop.time() + timeout_s
        while True:
            moved, left_s = self.moved, end_at - loop.time()
            if holds() or left_s <= 0:
                return
            await self.change(moved, timeout_s=min(left_s, LOOK_AGAIN_S))

    def _signature(self) -> tuple[object, ...]:
        """Return what differs after every write to the journal or the inbox."""
        return (self._stamps("journal.db", "journal.db-wal", "inbox"), self.alive())

    def _stamps(self, *files: str) -> tuple[tuple[int, int], ...]:
        return tuple(_stamp(self._home / file) for file in files)

    # Merging.

    def _requests(self) -> list[inbox.Request]:
        waiting = self._inbox.waiting()
        if not waiting:
            return []
        taken = self.journal.ingested()
        return [request for id_, request in waiting.items() if id_ not in taken]

    def _merged(self, records: Mapping[str, Record], requests: list[inbox.Request]) -> dict[str, Known]:
        alive = self.alive()
        known = {name: self._of_record(record, alive=alive) for name, record in records.items()}
        for request in requests:
            match request:
                case inbox.Submit():
                    known.setdefault(str(request.spec.get("name")), _of_submission(request, alive=alive))
                case inbox.Cancel(name=name) if name in known:
                    known[name] = _cancelled(known[name], alive=alive)
                case inbox.Forget(name=name) if name in known and known[name].status in TERMINAL:
                    known[name] = replace(known[name], deleted=True)
                case _:
                    pass
        return known

    def _of_record(self, record: Record, *, alive: bool) -> Known:
        workload = record.workload
        launched = record.job_ids if record.job_submitted else record.job_ids[:-1]
        return Known(
            name=record.name,
            status=_STATUS[workload.phase],
            entrypoint=record.job.entrypoint,
            message=self._message(record, alive=alive),
            metadata=record.job.metadata,
            runtime_env=record.job.runtime_env,
            submitted_at=workload.submitted_at,
            ended_at=record.ended_at,
            attempts=launched,
            live=record.job_id if record.job_submitted and workload.holding else None,
            queued=workload.phase is Phase.QUEUED,
            cancelled=workload.phase is Phase.STOPPING,
            stopping=workload.phase is Phase.STOPPING,
            deleted=record.forgotten,
        )

    def _message(self, record: Record, *, alive: bool) -> str:
        """Say why a workload is as it is: why it waits, or what the arbiter noted about it."""
        if record.workload.phase is not Phase.QUEUED:
            return record.message
        parts = [record.message, self._reason(record), "" if alive else "the arbiter is not running"]
        return "; ".join(part for part in parts if part) or "queued"

    def _reason(self, record: Record) -> str:
        snapshot = self.snapshot()
        if snapshot is None:
            return ""
        wait = snapshot.plan.wait_of(record.name)
        return sentence_of(wait, record.workload, now=snapshot.at) if wait else ""


def _of_whom(request: inbox.Request) -> str | None:
    """Return the workload that a request is about, None when it is about none."""
    match request:
        case inbox.Submit():
            return str(request.spec.get("name"))
        case inbox.Cancel(name=name) | inbox.Forget(name=name):
            return name
        case _:
            return None


def _of_submission(request: inbox.Submit, *, alive: bool) -> Known:
    return Known(
        name=str(request.spec.get("name")),
        status="PENDING",
        entrypoint=request.entrypoint,
        message="accepted; about to be queued" if alive else SPOOLED,
        metadata=request.metadata,
        runtime_env=request.runtime_env,
        submitted_at=request.at,
        queued=True,
    )


def _cancelled(known: Known, *, alive: bool) -> Known:
    """A stop that an arbiter has not taken in. Without one, what waits is as good as stopped: it reads this first."""
    if alive or not known.queued:
        return replace(known, cancelled=True)
    return replace(known, status="STOPPED", message="stopped while it waited", queued=False, cancelled=True)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
