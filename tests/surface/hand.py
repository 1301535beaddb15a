"""An arbiter that does by hand what a test tells it: the same inbox, the same journal, no decisions."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from fleet_app.arbiter import inbox
from fleet_app.arbiter.journal import Journal, Snapshot
from fleet_app.arbiter.records import Job, Notice, Record
from fleet_app.engine.lifecycle import TERMINAL, Event, Phase, after
from fleet_app.engine.plan import Plan
from fleet_app.engine.state import FleetState
from fleet_app.policy.load import load_policy
from fleet_app.policy.specs import WorkloadSpec, to_workload


class Hand:
    """Writes the journal of one home."""

    def __init__(self, home: Path) -> None:
        """Take over the journal, and show a sign of life."""
        self.home = home
        self.journal = Journal(home / "journal.db")
        self.book = self.journal.load()
        self.live()

    def live(self) -> None:
        """Show a sign of life now."""
        (self.home / "arbiter.alive").touch()

    def die(self) -> None:
        """Let the journal go and be silent."""
        self.journal.close()
        (self.home / "arbiter.alive").unlink(missing_ok=True)

    def ingest(self) -> list[inbox.Request]:
        """Take in what waits in the inbox; return it."""
        waiting = inbox.waiting(self.home)
        requests = [request for _, request in waiting if not isinstance(request, inbox.Unreadable)]
        for request in requests:
            match request:
                case inbox.Submit():
                    self.book.put(self._record(request))
                case inbox.Cancel(name=name) if (record := self.book.records.get(name)) is not None:
                    if record.workload.phase not in TERMINAL:
                        self.step(name, Event.CANCEL)
                case inbox.Forget(name=name):
                    self.book.drop(name)
                case _:
                    pass
        self.journal.commit(self.book)
        for path, _ in waiting:
            inbox.done(path)
        return requests

    def _record(self, request: inbox.Submit) -> Record:
        spec = WorkloadSpec.model_validate(request.spec)
        job = Job(
            entrypoint=request.entrypoint,
            runtime_env=request.runtime_env,
            metadata=request.metadata,
            notice=Notice(spec.notice),
        )
        return Record(workload=to_workload(spec, load_policy(self.home / "policy.yaml"), request.at), job=job)

    def get(self, name: str) -> Record:
        """Return a workload's record."""
        record = self.book.records.get(name)
        assert record is not None
        return record

    def put(self, record: Record) -> None:
        """Journal a record."""
        self.book.put(record)
        self.journal.commit(self.book)

    def step(self, name: str, event: Event, message: str = "") -> Record:
        """Move a workload by the lifecycle's table, and journal it; return its record."""
        record = self.get(name)
        phase = after(record.workload.phase, event)
        again = phase is Phase.QUEUED
        workload = replace(record.workload, phase=phase, attempt=record.workload.attempt + (1 if again else 0))
        record = replace(
            record,
            workload=workload,
            message=message,
            job_submitted=record.job_submitted and not again,
            ended_at=time.time() if phase in TERMINAL else None,
        )
        self.put(record)
        return record

    def launch(self, name: str) -> str:
        """Say that Ray has taken the current attempt's job; return its id."""
        record = replace(self.get(name), job_submitted=True)
        self.put(record)
        return record.job_id

    def want(self, gpus: int) -> None:
        """Journal that so many GPUs are wanted for services in the first minute of all."""
        self.book.wanted.put(f"{0:012d}", gpus)
        self.journal.commit(self.book)

    def show(self, state: FleetState, plan: Plan) -> None:
        """Journal what was seen and decided."""
        self.journal.commit(self.book, Snapshot(at=time.time(), state=state, plan=plan))
