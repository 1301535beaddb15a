"""One cycle: take requests in, look, decide, journal, act. Read this after engine/decide.

Level-triggered: everything follows from the journal, Ray and the board as they are now. So a cycle that never
happened, or a process that died at any point of one, costs time and nothing else. One thread runs it. Does not know
what wakes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from fleet_app.arbiter import archive, calendar, inbox, observe, pooling, recuts, wanted
from fleet_app.arbiter.act import Act
from fleet_app.arbiter.cards import Cards
from fleet_app.arbiter.facts import Facts, Ports, look
from fleet_app.arbiter.failing import forget_old
from fleet_app.arbiter.follow import followed
from fleet_app.arbiter.foreign import Foreign
from fleet_app.arbiter.grants import follow_services
from fleet_app.arbiter.inbox import Request, Unreadable
from fleet_app.arbiter.ingest import ARBITER, ingest
from fleet_app.arbiter.intend import intend
from fleet_app.arbiter.journal import Journal, Snapshot
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.pace import ask_jobs_after_s, wait_s
from fleet_app.arbiter.ports import JobView, PoolsWish
from fleet_app.arbiter.rules import Rules
from fleet_app.arbiter.surplus import surplus
from fleet_app.arbiter.tries import Tries
from fleet_app.engine.chosen import choices
from fleet_app.engine.decide import decide
from fleet_app.engine.plan import Plan
from fleet_app.engine.policy import Headroom, Policy
from fleet_app.engine.scaling import asks
from fleet_app.engine.state import FleetState

Decide = Callable[[FleetState, Policy, float], Plan]
Waiting = list[tuple[Path, Request | Unreadable]]

MOST_REQUESTS = 500
"""Requests that one cycle takes in, so that a flood of them cannot stop the fleet."""


USAGE_EVERY_S = 60.0
"""How often measurements are written, where nothing else is new."""


class Loop:
    """The arbiter of the fleet at one home.

    A new one continues where the last one was, wherever that was. One whose cycle raised anything is spent: what it
    has in memory may be half done. Make a new one.
    """

    def __init__(self, home: Path, ports: Ports, journal: Journal, decide: Decide = decide) -> None:
        """Read the journal and the policy. Raises FaultError, and RequestError when the home holds no policy."""
        self._home = home
        self._ports = ports
        self._journal = journal
        self._decide = decide
        self._rules = Rules(home)
        self._book = journal.load()
        self._snapshot = journal.snapshot() or Snapshot(at=0.0, state=FleetState(), plan=Plan())
        self._tries = Tries(ports.clock)
        self._jobs_asked_at = 0.0
        self.blind = True
        """Whether the last cycle could not see the cluster, and so did nothing."""
        self._growth = wanted.Growth()
        self._growth_in_boot = wanted.Growth()
        self._act = Act(ports, home, self._book, self._tries)
        self._foreign = Foreign(ports.cluster, self._snapshot.state, ports.clock.now())
        self._cards = Cards(self._snapshot.state)
        self._book.note(ports.clock.now(), What.ARBITER, ARBITER, state="started", policy=self._rules.file.name)

    @property
    def paused(self) -> bool:
        """Return whether nothing is admitted, drained or granted at present."""
        return self._book.paused

    @property
    def moves(self) -> int:
        """Return a number that grows as long as the loop is not stuck."""
        return self._tries.made

    @property
    def failing(self) -> tuple[str, ...]:
        """Return what fails at present and is being tried again, sorted."""
        return self._tries.last_failures

    def cycle(self) -> float:
        """Do all that can be done now, and return in how many seconds to look again.

        Raises FaultError when the journal cannot be written; nothing was done then, and the loop is spent.
        """
        requests = self._requests()
        ask = partial(self._ask_jobs, now=bool(requests))
        facts = self._tries.call(self._book, "observe", partial(look, self._ports, self._book.live(), ask))
        self.blind = facts is None
        if facts is None:
            self._commit(None)
            return self._tries.left_s("observe")
        taken = self._ingest(requests, facts)
        for record in self._book.live():
            self._book.put(*followed(record, facts, self._rules.engine.health))
        follow_services(self._book, facts)
        if facts.pools is not None:
            pooling.settle(self._book, facts)
        wanted.sample(self._book, facts.now)
        forget_old(self._book, self._rules.engine.health, facts.now)
        recuts.follow(self._book, facts)
        calendar.turn(self._book, self._rules, facts.now)
        history = self._rules.file.history
        archive.turn(self._book, history.keep_ended, history.most_ended, facts.now)
        snapshot = self._judge(facts)
        chosen = {} if self._book.paused else choices(snapshot.state, self._rules.engine, facts.now, snapshot.plan)
        intend(self._book, snapshot.plan, facts.now, chosen)
        if self._ports.cards is not None and not self._book.paused:
            recuts.ask(self._book, snapshot.state, snapshot.plan, facts.now)
        calendar.tally(self._book, facts.now)
        self._commit(snapshot)
        self._dispose(taken)
        if facts.pools is not None and facts.pools.at:  # else nobody knows yet what is published of nodes that are away
            self._ports.pools.want(self._wish(facts, snapshot))
        holds = None if self._book.paused else snapshot.plan.holds
        self._act(facts, holds)
        return wait_s(self._book, facts, holds)

    def _ask_jobs(self, *, now: bool) -> tuple[JobView, ...] | None:
        """Return Ray's jobs, if it is time to ask for them and the job server answers."""
        live, clock = self._book.live(), self._ports.clock
        wanted = now or bool(live or self._book.going())
        if not wanted or (not now and clock.now() < self._jobs_asked_at + ask_jobs_after_s(live)):
            return None
        self._jobs_asked_at = clock.now()
        return self._tries.call(self._book, "ask the job server", self._ports.jobs.observe)

    def _judge(self, facts: Facts) -> Snapshot:
        """Return what the fleet is like, and what is decided on that."""
        state = self._state(facts)
        return Snapshot(at=facts.now, state=state, plan=self._decide(state, self._rules.engine, facts.now))

    def _state(self, facts: Facts) -> FleetState:
        """Return what the fleet is like now."""
        rules = self._rules.engine
        seen = self._foreign.nodes(self._book, facts, rules)
        seen = self._cards.of(seen, self._book, facts, rules.slicing)
        priority = self._rules.file.service_priority
        away = pooling.departures(facts, surplus(self._book, facts, self._yielding))
        if facts.pools is not None:
            seen = pooling.placed(seen, facts, self._rules.file, self._snapshot.state, away)
        state = observe.fleet_state(self._book, seen, priority, self._snapshot.state, facts.now)
        state = replace(
            state,
            growth_gpus=self._growth(self._book, rules.headroom),
            departures=away,
        )
        return replace(state, usage=facts.usage) if facts.usage else state

    @property
    def _yielding(self) -> frozenset[int]:
        return frozenset(known.value for known in self._rules.engine.classes if known.yields)

    def _wish(self, facts: Facts, snapshot: Snapshot) -> PoolsWish:
        """Return what the pools should come to."""
        rules, yielding = self._rules.engine, self._yielding
        if not rules.node_pools.scales:
            return pooling.wish(self._book, facts, yielding)
        boot = Headroom(quantile=rules.node_pools.quantile, startup_s=rules.node_pools.boot_s)
        growth = self._growth_in_boot(self._book, boot)
        return pooling.wish(self._book, facts, yielding, asks(snapshot.state, rules, snapshot.plan, growth))

    def _commit(self, snapshot: Snapshot | None) -> None:
        """Write what changed, if anything did."""
        if snapshot is not None and _says_the_same(snapshot, self._snapshot):
            snapshot = None
        if snapshot is not None or self._book.changed:
            self._journal.commit(self._book, snapshot)
        self._snapshot = snapshot or self._snapshot

    # The inbox: a request is removed only once it is journaled, and taken in only if it was not journaled yet.

    def _requests(self) -> Waiting:
        taken = set(json.loads(self._book.meta.get("ingested") or "[]"))
        read = partial(inbox.waiting, self._home, len(taken) + MOST_REQUESTS)
        waiting = self._tries.call(self._book, "read the inbox", read) or ()
        self._dispose([(path, request) for path, request in waiting if path.name in taken])
        return [(path, request) for path, request in waiting if path.name not in taken]

    def _ingest(self, requests: Waiting, facts: Facts) -> Waiting:
        taken: Waiting = []
        for path, request in requests:
            done = partial(ingest, self._book, request, facts, self._rules, partial(self._state, facts))
            if self._tries.call(self._book, "take a request in", done) is None:
                break
            taken.append((path, request))
        if taken:
            self._book.meta.put("ingested", json.dumps([path.name for path, _ in taken]))
        return taken

    def _dispose(self, taken: Waiting) -> None:
        for path, request in taken:
            away = inbox.refuse if isinstance(request, Unreadable) else inbox.done
            self._tries.call(self._book, "empty the inbox", partial(away, path))


def _says_the_same(new: Snapshot, old: Snapshot) -> bool:
    """Return whether a snapshot need not be written: measurements alone are written only now and then."""
    if new.plan != old.plan or replace(new.state, usage=()) != replace(old.state, usage=()):
        return False
    return new.state.usage == old.state.usage or new.at - old.at < USAGE_EVERY_S
