"""What the demo promises, checked against the journal's events. Pure.

Each promise is kept or broken by what happened, never by how fast: times are figures beside their targets. Only a
deadline is a time that can be broken.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleet_app.cli.demo.events import Event, Story

KILL_WITHIN_S = 1.0
BACK_WITHIN_S = 5.0
"""What the drain contract says: after the deadline, with an arbiter or without one, capacity is back by then."""

ENDS = ("requeued", "withdrawn", "succeeded", "failed", "stopped")
GRANT_ENDS = ("grant-gone", "grant-taken")


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One promise: whether it was kept, and the figures that show it."""

    what: str
    kept: bool
    shown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """One drain from notice to freed GPUs; `for_` names the beneficiary, moments are seconds since the epoch."""

    job: str
    attempt: int
    for_: str
    noticed_at: float
    deadline_at: float
    gone_at: float | None
    saved_step: int | None
    killed: bool


def drains(story: Story) -> list[Drained]:
    """Return every drain in the order of the notices."""
    found = []
    for notice in story.of("draining"):
        attempt = notice.detail["attempt"]
        end = _same_attempt(story, notice.subject, attempt, *ENDS)
        saved = _same_attempt(story, notice.subject, attempt, "acknowledged")
        found.append(
            Drained(
                job=notice.subject,
                attempt=attempt,
                for_=str(notice.detail["beneficiary"]),
                noticed_at=notice.at,
                deadline_at=float(notice.detail["deadline_at"]),
                gone_at=None if end is None else end.at,
                saved_step=None if saved is None else saved.detail["step"],
                killed=_same_attempt(story, notice.subject, attempt, "killed") is not None,
            )
        )
    return found


def _same_attempt(story: Story, job: str, attempt: int, *kinds: str) -> Event | None:
    return next((event for event in story.of(*kinds, subject=job) if event.detail.get("attempt") == attempt), None)


def whole_on_one_domain(story: Story, gang: str, domains: Mapping[str, str], nodes: int) -> Promise:
    """A gang runs on all of its nodes, inside one domain; `domains` maps a node to its domain."""
    placed = story.first("placed", subject=gang)
    on = list(placed.detail["nodes"]) if placed else []
    inside = sorted({domains[node] for node in on})
    shown = f"{len(on)} of {nodes} nodes ({', '.join(on)}) on {', '.join(inside) or 'nothing'}"
    return Promise(
        what=f"{gang} is placed whole, on one spine", kept=len(on) == nodes and len(inside) == 1, shown=shown
    )


def untouched(story: Story, gang: str) -> Promise:
    """A committed gang is never drained, killed, lost or restarted."""
    touched = [event.kind for event in story.of("draining", "killed", "lost", *ENDS, subject=gang)]
    starts = story.count("started", subject=gang)
    kept = not touched and starts == 1
    return Promise(what=f"{gang} is never touched", kept=kept, shown=f"{starts} start, {len(touched)} interruptions")


def no_more_than_needed(found: Sequence[Drained], needed: int, *, name: str) -> Promise:
    """As many jobs were drained as the shapes needed, none more."""
    jobs = ", ".join(drain.job for drain in found)
    shown = f"{len(found)} drained, {needed} needed ({jobs})"
    return Promise(what=f"{name}: as many are drained as the shapes need", kept=len(found) == needed, shown=shown)


def resumed_where_saved(story: Story, found: Iterable[Drained]) -> Promise:
    """A job that acknowledged a step in a drain resumed at that step."""
    pairs = []
    for drain in found:
        if drain.saved_step is not None and not drain.killed:
            start = _same_attempt(story, drain.job, drain.attempt + 1, "started")
            pairs.append((drain.job, drain.saved_step, None if start is None else start.detail["resumed_step"]))
    kept = bool(pairs) and all(saved == resumed for _, saved, resumed in pairs)
    shown = ", ".join(f"{job} {saved}=={resumed}" for job, saved, resumed in pairs) or "nobody resumed"
    return Promise(what="acknowledged step == resumed step", kept=kept, shown=shown)


def killed_at_deadline(found: Iterable[Drained]) -> Promise:
    """What ignored its notice was killed at the deadline, neither before nor long after."""
    late = [(drain.job, (drain.gone_at or 0.0) - drain.deadline_at) for drain in found if drain.killed]
    kept = bool(late) and all(0.0 <= after_s <= KILL_WITHIN_S for _, after_s in late)
    shown = ", ".join(f"{job} gone {after_s:+.2f} s after it" for job, after_s in late) or "nobody was killed"
    return Promise(what="what ignores its notice is killed at the deadline", kept=kept, shown=shown)


def within_deadline(found: Iterable[Drained], *, name: str) -> Promise:
    """Every drained job's GPUs were back in time, whatever happened to the arbiter."""
    over = [(drain.job, (drain.gone_at or float("inf")) - drain.deadline_at) for drain in found]
    worst = max((after_s for _, after_s in over), default=float("inf"))
    shown = f"last gone {worst:+.2f} s after its deadline, of {BACK_WITHIN_S:.0f} s"
    return Promise(what=f"{name}: the deadline holds", kept=worst <= BACK_WITHIN_S, shown=shown)


def nothing_twice(story: Story, capacity: Mapping[str, int], gpus_of: Mapping[str, int], grant_gpus: int) -> Promise:
    """At no moment were more GPUs of a node promised than it has; `gpus_of` maps a workload to GPUs a bundle."""
    held: dict[str, dict[str, int]] = defaultdict(dict)
    most: dict[str, int] = defaultdict(int)
    for event in story.events:
        if event.kind == "admitted":
            for node in event.detail["nodes"]:
                held[node][event.subject] = gpus_of[event.subject]
        elif event.kind in ENDS:
            for holders in held.values():
                holders.pop(event.subject, None)
        elif event.kind == "granted":
            held[event.detail["node"]][event.detail["grant"]] = grant_gpus
        elif event.kind in GRANT_ENDS:
            held[event.detail["node"]].pop(event.detail["grant"], None)
        for node, holders in held.items():
            most[node] = max(most[node], sum(holders.values()))
    over = [node for node in sorted(most) if most[node] > capacity[node]]
    shown = f"most ever on a node: {max(most.values(), default=0)} of {max(capacity.values())} GPUs"
    return Promise(what="no GPU is promised twice", kept=bool(most) and not over, shown=shown)


def granted_after_exit_s(story: Story) -> list[float]:
    """Return, for each grant that waited for a drained job, the seconds from that job's last process to the grant."""
    taken = []
    for exit_event in story.of("requeued"):
        nodes = {node for node, _ in exit_event.detail["freed"]}
        ready = next(
            (
                grant
                for grant in story.of("grant-ready", since=exit_event.at)
                if grant.detail["node"] in nodes and grant.at - exit_event.at < BACK_WITHIN_S
            ),
            None,
        )
        if ready is not None:
            taken.append(ready.at - exit_event.at)
    return taken


def all_answered(failed: int, sent: int, again: int) -> Promise:
    """Every request was answered; `again` of them only when they were sent once more."""
    shown = f"{100.0 * (sent - failed) / max(1, sent):.2f} % of {sent}, {again} of them at the second try"
    return Promise(what="every HTTP request is answered", kept=sent > 0 and failed == 0, shown=shown)


def survived(story: Story, jobs: Iterable[str], kills: int) -> Promise:
    """The arbiter came back after each kill, and no job was lost or run twice at once."""
    starts = story.count("arbiter")
    lost = [job for job in jobs if story.first("submitted", subject=job) is None]
    twice = [job for job in jobs if not _alternates(story, job)]
    kept = starts == kills + 1 and not lost and not twice
    shown = f"{starts} starts of the arbiter, {len(lost)} jobs lost, {len(twice)} run twice"
    return Promise(what="the arbiter is killed in the middle of a drain and recovers", kept=kept, shown=shown)


def _alternates(story: Story, job: str) -> bool:
    running = False
    for event in story.of("started", *ENDS, subject=job):
        if event.kind == "started":
            if running:
                return False
            running = True
        else:
            running = False
    return True


def median(values: Sequence[float]) -> float:
    """Return the median, 0 for nothing."""
    return statistics.median(values) if values else 0.0
