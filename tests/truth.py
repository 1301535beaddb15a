"""One day twice: as a journal tells it, and as the twin makes it from what that journal says came from outside.

Who came when, how long each attempt took to start, to save and to leave, how much work each brought, and what services
wanted are taken from the journal. Who is admitted and drained when, and where everybody goes on, is the twin's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fleet_app.arbiter.journal import JournalReader
from fleet_app.arbiter.notes import What
from fleet_app.policy.load import load_policy
from fleet_app.twin.readers.journal import past
from fleet_app.twin.record import Admitted, Cause, Ended, Noticed, Record, Started
from fleet_app.twin.run import run
from fleet_app.twin.scenarios.history import history
from fleet_app.twin.work import Job

Attempt = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """What happened: each admission and drain with its moment, seconds since the beginning, in order.

    `resumed` is the step at which each attempt after the first went on, `ended` when each workload was done.
    """

    admitted: tuple[tuple[Attempt, float], ...]
    drained: tuple[tuple[Attempt, float], ...]
    resumed: dict[Attempt, int]
    ended: dict[str, float]

    @property
    def order(self) -> list[Attempt]:
        """Return who was admitted, in order."""
        return [attempt for attempt, _ in self.admitted]

    @property
    def drained_sets(self) -> list[set[Attempt]]:
        """Return who was asked to leave together, in order."""
        moments = dict.fromkeys(at for _, at in self.drained)
        return [{attempt for attempt, asked_at in self.drained if asked_at == at} for at in moments]

    @property
    def moments(self) -> dict[tuple[str, object], float]:
        """Return the moment of everything."""
        return {
            **{("admitted", attempt): at for attempt, at in self.admitted},
            **{("drained", attempt): at for attempt, at in self.drained},
            **{("ended", name): at for name, at in self.ended.items()},
        }


def lived(home: Path) -> Day:
    """Return the day that a fleet's journal tells of."""
    notes = [entry.note for entry in JournalReader(home / "journal.db").events(limit=100_000)]
    began = notes[0].at

    def of(*kinds: What) -> list[tuple[Attempt, float]]:
        found = [note for note in notes if note.kind in kinds]
        return [((note.subject, int(str(note.detail.get("attempt")))), note.at - began) for note in found]

    steps = {
        (note.subject, int(str(note.detail["attempt"]))): int(str(note.detail["resumed_step"] or 0))
        for note in notes
        if note.kind is What.STARTED
    }
    return Day(
        admitted=tuple(of(What.ADMITTED)),
        drained=tuple(of(What.DRAINING)),
        resumed={attempt: step for attempt, step in steps.items() if attempt[1] > 1},
        ended={name: at for (name, _), at in of(What.SUCCEEDED)},
    )


def simulated(home: Path, step_s: float, save_every_s: float | None = None) -> Day:
    """Return the same day from the twin; steps take `step_s` seconds of work, and are saved as often as is said."""
    known = past(home / "journal.db", strict=True)
    records: list[Record] = []
    scenario = history(known, "twin", load_policy(home / "policy.yaml")).scenario
    manners: dict[str, Any] = {"step_s": step_s, "save_every_s": save_every_s}
    jobs = tuple(replace(job, run_s=_work_s(job, home, step_s), **manners) for job in scenario.jobs)
    run(replace(scenario, jobs=jobs), records.append)
    return told(records, known.begins_at, step_s)


def _work_s(job: Job, home: Path, step_s: float) -> float:
    """Return how much work a job brought: what its last attempt began with, and what it did; else as it was read."""
    notes = [entry.note for entry in JournalReader(home / "journal.db").latest_events(job.workload.name)]
    ended_at = next((note.at for note in notes if note.kind is What.SUCCEEDED), None)
    begun = [note for note in notes if note.kind is What.STARTED]
    if ended_at is None or not begun:
        return job.run_s
    return int(str(begun[-1].detail["resumed_step"] or 0)) * step_s + ended_at - begun[-1].at


def told(records: Iterable[Record], began: float, step_s: float) -> Day:
    """Return the day that the records of a run tell of."""
    admitted, drained, resumed, ended = [], [], {}, {}
    for one in records:
        match one:
            case Admitted():
                admitted.append(((one.workload, one.attempt), one.at - began))
            case Noticed(cause=Cause.DRAINED):
                drained.append(((one.workload, one.attempt), one.at - began))
            case Started(attempt=attempt) if attempt > 1:
                resumed[one.workload, attempt] = int(one.resumed_s / step_s + 1e-6)
            case Ended():
                ended[one.workload] = one.at - began
    return Day(admitted=tuple(admitted), drained=tuple(drained), resumed=resumed, ended=ended)


def apart(live: Day, twin: Day, share: float, constant_s: float) -> dict[tuple[str, object], tuple[float, float]]:
    """Return what happened at moments that are further apart than a share of the time passed, and a constant."""
    return {
        what: (at, twin.moments[what])
        for what, at in live.moments.items()
        if abs(at - twin.moments[what]) > share * at + constant_s
    }
