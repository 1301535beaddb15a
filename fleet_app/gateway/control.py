"""The fleet's control API: what is, why it is so, and the few things that a person may ask for.

Knows paths and bodies. Does not decide: an order is checked, then left in the arbiter's inbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from fleet_app.arbiter import agenda, inbox, pools_file, status
from fleet_app.arbiter.journal import Snapshot
from fleet_app.arbiter.records import Job, Notice, Record
from fleet_app.engine.errors import ConflictError, NotFoundError, RequestError
from fleet_app.engine.policy import Policy
from fleet_app.engine.values import Node, NodeClass
from fleet_app.gateway.body import read_object, read_text, valid
from fleet_app.gateway.known import TERMINAL, Known, Workloads
from fleet_app.gateway.replies import CONTROL
from fleet_app.gateway.submit import Submissions
from fleet_app.policy.diff import diff_policies
from fleet_app.policy.load import parse_policy, to_engine
from fleet_app.policy.schema import PolicyFile
from fleet_app.policy.specs import spec_from_mapping, to_workload

MOST_EVENTS = 10_000

# The keys of an explanation whose wait has no numbers, as for what has ended.
_NO_NUMBERS: dict[str, object] = {
    "ahead": [],
    "turns": [],
    "reason": None,
    "asked": None,
    "available": None,
    "level": None,
    "group": None,
    "rooms": [],
    "blocked_by": [],
    "planned_at": None,
    "planned_after": None,
    "estimate": None,
}


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EventsQuery(_Query):
    """Which events: those after a number, at most so many, of one subject if it is given."""

    after: Annotated[int, Field(ge=0, le=2**62)] = 0
    limit: Annotated[int, Field(ge=1, le=MOST_EVENTS)] = 1000
    subject: Annotated[str, Field(max_length=256)] | None = None


class ListQuery(_Query):
    """Which workloads: all that are at hand, those that have not ended, or the one of a name, wherever it is."""

    ended: bool = True
    name: Annotated[str, Field(max_length=256)] | None = None


class FragmentsQuery(_Query):
    """Whether moves are wanted too, and for how many nodes at most."""

    plan: bool = False
    nodes: Annotated[int, Field(ge=1, le=2**31)] | None = None


class DrainBody(_Query):
    """How long a drain may take, in seconds; left out, it is the workload's own grace."""

    grace_s: Annotated[float, Field(strict=True, ge=0, le=7 * 86_400, allow_inf_nan=False)] | None = None


class QuarantineBody(_Query):
    """Why a node is to be kept out, for how many seconds (left out: the policy's), and who asks."""

    reason: Annotated[str, Field(min_length=1, max_length=1024)]
    for_s: Annotated[float, Field(strict=True, gt=0, le=365 * 86_400, allow_inf_nan=False)] | None = None
    who: Annotated[str, Field(min_length=1, max_length=128)] = "unnamed"


class ReleaseBody(_Query):
    """Who lets a node in again."""

    who: Annotated[str, Field(min_length=1, max_length=128)] = "unnamed"


class BoundaryBody(_Query):
    """Which nodes are to cross, to which class, and who asks."""

    nodes: Annotated[tuple[str, ...], Field(min_length=1, max_length=10_000)]
    to: NodeClass
    who: Annotated[str, Field(min_length=1, max_length=128)] = "unnamed"


class StayBody(_Query):
    """Which nodes are not to cross after all, and who asks."""

    nodes: Annotated[tuple[str, ...], Field(min_length=1, max_length=10_000)]
    who: Annotated[str, Field(min_length=1, max_length=128)] = "unnamed"


class PolicyQuery(_Query):
    """Who asks for a policy, and whether only to hear what it would change."""

    who: Annotated[str, Field(min_length=1, max_length=128)] = "unnamed"
    dry_run: bool = False


class ControlApi:
    """Everything below CONTROL."""

    def __init__(self, home: Path, workloads: Workloads, submissions: Submissions) -> None:
        """Answer for the fleet at `home`."""
        self._home = home
        self._workloads = workloads
        self._submissions = submissions

    def routes(self) -> list[web.RouteDef]:
        """Return what this serves."""
        return [
            web.get(CONTROL + "status", self._status),
            web.get(CONTROL + "workloads", self._list),
            web.get(CONTROL + "nodes", self._nodes),
            web.get(CONTROL + "services", self._services),
            web.get(CONTROL + "fragments", self._fragments),
            web.get(CONTROL + "boundary", self._boundary),
            web.post(CONTROL + "boundary", self._move_boundary),
            web.post(CONTROL + "boundary/cancel", self._stay_boundary),
            web.get(CONTROL + "recommendations", self._recommendations),
            web.get(CONTROL + "explain/{name}", self._explain),
            web.get(CONTROL + "events", self._events),
            web.get(CONTROL + "policy", self._policy),
            web.post(CONTROL + "policy", self._set_policy),
            web.post(CONTROL + "submit", self._submit),
            web.post(CONTROL + "drain/{name}", self._drain),
            web.post(CONTROL + "move/{name}", self._move),
            web.post(CONTROL + "cancel/{name}", self._cancel),
            web.post(CONTROL + "quarantine/{name}", self._quarantine),
            web.post(CONTROL + "release/{name}", self._release),
            web.post(CONTROL + "pause", self._pause),
            web.post(CONTROL + "resume", self._resume),
        ]

    async def _status(self, _: web.Request) -> web.Response:
        silent_s, snapshot = self._workloads.silent_s(), self._workloads.snapshot()
        return web.json_response(
            {
                "arbiter": {"alive": self._workloads.alive(), "lease_age_s": silent_s},
                "paused": self._workloads.journal.paused(),
                "counts": status.counts(self._workloads.journal.phases(), len(self._workloads.spooled())),
                "bookings": agenda.counts(self._workloads.journal.bookings().values()),
                "inbox": self._workloads.waiting(),
                "pools": pools_file.read(self._home, time.time()),
                "observed_at": None if snapshot is None else snapshot.at,
                "immediate": status.held_free(snapshot, to_engine(self._submissions.policy())),
                "policy_hash": hashlib.sha256(self._policy_text().encode()).hexdigest()[:16],
            }
        )

    async def _list(self, request: web.Request) -> web.Response:
        asked = valid(ListQuery, dict(request.query), "query")
        rules, snapshot = to_engine(self._submissions.policy()), self._workloads.snapshot()
        # Some ten thousand that have ended take a second: not on the loop that serves the others.
        records = await asyncio.to_thread(self._records, asked)
        return web.json_response(status.workloads(records, snapshot, rules))

    async def _nodes(self, _: web.Request) -> web.Response:
        rules, journal = to_engine(self._submissions.policy()), self._workloads.journal
        records, grants = journal.live().values(), journal.grants().values()
        return web.json_response(status.nodes(self._workloads.snapshot(), records, grants, rules))

    async def _services(self, _: web.Request) -> web.Response:
        journal = self._workloads.journal
        rows = status.services(journal.demands().values(), journal.grants().values(), self._workloads.snapshot())
        return web.json_response(rows)

    async def _fragments(self, request: web.Request) -> web.Response:
        asked = valid(FragmentsQuery, dict(request.query), "query")
        snapshot, rules = self._workloads.snapshot(), to_engine(self._submissions.policy())
        # Seconds on a fleet of thousands of nodes: not on the loop that serves the others.
        found = await asyncio.to_thread(status.fragments, snapshot, rules, plan=asked.plan, most_nodes=asked.nodes)
        return web.json_response(found)

    async def _boundary(self, _: web.Request) -> web.Response:
        return web.json_response(await asyncio.to_thread(self._recommended))

    async def _move_boundary(self, request: web.Request) -> web.Response:
        asked = valid(BoundaryBody, await read_object(request), "body")
        found = await asyncio.to_thread(self._recommended)
        steps = [] if found["plan"] is None else found["plan"]["steps"]
        if not set(asked.nodes) <= {step["node"] for step in steps if step["to"] == asked.to}:
            raise ConflictError(
                "these nodes are not recommended any more", where="nodes", fix="Look again with `fleet boundary`"
            )
        inbox.post(self._home, inbox.MoveBoundary(nodes=asked.nodes, to=asked.to, who=asked.who))
        return _accepted("boundary")

    async def _stay_boundary(self, request: web.Request) -> web.Response:
        asked = valid(StayBody, await read_object(request), "body")
        snapshot = self._workloads.snapshot()
        crossings = () if snapshot is None else snapshot.state.crossings
        cross = {one.node for one in crossings if one.moved_at is None}
        unknown = [name for name in asked.nodes if name not in cross]
        if unknown:
            raise NotFoundError("no node of that name crosses", where=unknown[0], fix="See `fleet boundary`")
        inbox.post(self._home, inbox.StayBoundary(nodes=asked.nodes, who=asked.who))
        return _accepted("boundary")

    def _recommended(self) -> dict[str, Any]:
        rules, rows = to_engine(self._submissions.policy()), self._workloads.journal.wanted()
        return status.boundary(self._workloads.snapshot(), rules, list(rows.items()))

    async def _recommendations(self, _: web.Request) -> web.Response:
        policy = self._submissions.policy()
        price = policy.accounting.price_per_gpu_hour
        return web.json_response(status.recommendations(self._workloads.snapshot(), to_engine(policy), price))

    async def _explain(self, request: web.Request) -> web.Response:
        snapshot, name = self._workloads.snapshot(), request.match_info["name"]
        rules = to_engine(self._submissions.policy())
        if snapshot is not None:
            with contextlib.suppress(NotFoundError):  # it has ended, or nobody has looked at it yet
                # A whole decision is made for it: not on the loop that serves the others.
                return web.json_response(await asyncio.to_thread(self._explained, snapshot, rules, name))
        booking = self._workloads.journal.bookings().get(name)
        if booking is not None and self._workloads.find(name) is None:
            sentence = f"is {agenda.sentence(booking, time.time())}"
            return web.json_response({"name": name, "sentence": sentence, "past": [], **_NO_NUMBERS})
        known = self._find(request)
        before = [] if snapshot is None else status.past(self._workloads.journal.latest_events(name), snapshot.at)
        return web.json_response({"name": known.name, "sentence": _plainly(known), "past": before, **_NO_NUMBERS})

    def _explained(self, snapshot: Snapshot, rules: Policy, name: str) -> status.Row:
        return status.explain(snapshot, rules, name, self._workloads.journal.latest_events(name))

    def _records(self, asked: ListQuery) -> list[Record]:
        """Return the journal's workloads, and as queued those that nobody has taken in yet."""
        spooled, journal = self._workloads.spooled(), self._workloads.journal
        if asked.name is not None:
            one = journal.record(asked.name) or journal.archived(asked.name)
            records = {} if one is None else {asked.name: one}
            spooled = [request for request in spooled if request.spec.get("name") == asked.name]
        else:
            records = journal.records() if asked.ended else journal.live()
        for request in spooled:
            with contextlib.suppress(RequestError):  # the policy changed since: the arbiter will refuse it
                records.setdefault(str(request.spec.get("name")), _spooled(request, self._submissions.policy()))
        return list(records.values())

    def _policy_text(self) -> str:
        return (self._home / "policy.yaml").read_text(encoding="utf-8")

    async def _events(self, request: web.Request) -> web.Response:
        asked = valid(EventsQuery, dict(request.query), "query")
        entries = self._workloads.journal.events(asked.after, asked.limit, asked.subject)
        return web.json_response(
            [
                {
                    "seq": entry.seq,
                    "at": entry.note.at,
                    "kind": entry.note.kind.value,
                    "subject": entry.note.subject,
                    "detail": entry.note.detail,
                }
                for entry in entries
            ]
        )

    async def _policy(self, _: web.Request) -> web.Response:
        return web.Response(text=self._policy_text(), content_type="application/yaml")

    async def _set_policy(self, request: web.Request) -> web.Response:
        asked = valid(PolicyQuery, dict(request.query), "query")
        text = await read_text(request)
        changes = diff_policies(self._submissions.policy(), parse_policy(text))
        if changes and not asked.dry_run:
            inbox.post(self._home, inbox.SetPolicy(text=text, who=asked.who))
        rows = [{"path": change.path, "old": change.old, "new": change.new} for change in changes]
        return web.json_response({"changes": rows, "accepted": bool(changes) and not asked.dry_run})

    async def _submit(self, request: web.Request) -> web.Response:
        return _accepted(await self._submissions.from_mapping(await read_object(request)))

    async def _drain(self, request: web.Request) -> web.Response:
        asked = valid(DrainBody, await read_object(request), "body")
        known = self._running(request, "drained")
        inbox.post(self._home, inbox.Drain(name=known.name, grace_s=asked.grace_s))
        return _accepted(known.name)

    async def _move(self, request: web.Request) -> web.Response:
        known = self._running(request, "moved")
        record = self._workloads.journal.record(known.name)
        if record is not None and record.job.notice is not Notice.LIBRARY:
            raise ConflictError(
                "it is told to leave by a signal, so it cannot be asked to move",
                where=known.name,
                fix="Drain it, or submit it with `--notice library`",
            )
        inbox.post(self._home, inbox.Move(name=known.name))
        return _accepted(known.name)

    def _running(self, request: web.Request, what: str) -> Known:
        known = self._find(request)
        if known.status != "RUNNING" or known.stopping:
            raise ConflictError(
                f"it is {known.status}, and only what runs can be {what}",
                where=known.name,
                fix="See `fleet queue`; `fleet cancel` ends a workload that waits",
            )
        return known

    async def _cancel(self, request: web.Request) -> web.Response:
        known = self._find(request)
        if known.status in TERMINAL:
            raise ConflictError(f"it is {known.status} already", where=known.name, fix="Nothing is left to be done")
        if not known.cancelled:
            inbox.post(self._home, inbox.Cancel(name=known.name))
        return _accepted(known.name)

    async def _quarantine(self, request: web.Request) -> web.Response:
        asked = valid(QuarantineBody, await read_object(request), "body")
        node = self._node(request)
        inbox.post(self._home, inbox.Quarantine(node=node.name, reason=asked.reason, for_s=asked.for_s, who=asked.who))
        return _accepted(node.name)

    async def _release(self, request: web.Request) -> web.Response:
        asked = valid(ReleaseBody, await read_object(request), "body")
        node, snapshot = self._node(request), self._workloads.snapshot()
        told = snapshot.state.quarantines if snapshot is not None else ()
        if not any(one.node == node.name and one.released_at is None for one in told):
            raise ConflictError("it is not quarantined", where=node.name, fix="See `fleet nodes`")
        inbox.post(self._home, inbox.Release(node=node.name, who=asked.who))
        return _accepted(node.name)

    def _node(self, request: web.Request) -> Node:
        name, snapshot = request.match_info["name"], self._workloads.snapshot()
        seen = () if snapshot is None else snapshot.state.nodes
        known = next((node for node in seen if node.name == name), None)
        if known is None:
            raise NotFoundError(f"there is no node {name[:64]!r}", where="name", fix="See `fleet nodes`")
        return known

    async def _pause(self, _: web.Request) -> web.Response:
        inbox.post(self._home, inbox.Pause())
        return _accepted("arbiter")

    async def _resume(self, _: web.Request) -> web.Response:
        inbox.post(self._home, inbox.Resume())
        return _accepted("arbiter")

    def _find(self, request: web.Request) -> Known:
        name = request.match_info["name"]
        known = self._workloads.find(name)
        if known is None:
            raise NotFoundError(f"there is no workload {name[:64]!r}", where="name", fix="See `fleet queue`")
        return known


def _plainly(known: Known) -> str:
    said = f"is {known.status.lower()}: {known.message}" if known.message else f"is {known.status.lower()}"
    if not known.archived or known.ended_at is None:
        return said
    return f"{said}; it ended at {datetime.fromtimestamp(known.ended_at, UTC):%Y-%m-%dT%H:%M:%SZ} and is archived"


def _spooled(request: inbox.Submit, rules: PolicyFile) -> Record:
    spec = spec_from_mapping(request.spec, rules)
    job = Job(entrypoint=request.entrypoint, runtime_env=request.runtime_env, metadata=request.metadata)
    return Record(workload=to_workload(spec, rules, request.at), job=job, message="spooled")


def _accepted(name: str) -> web.Response:
    """Say that a request is on disk: the arbiter will see it."""
    return web.json_response({"name": name, "accepted": True})
