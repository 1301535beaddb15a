"""Queues that are taken strictly in order: whom nobody passes, and what those behind may have meanwhile (O6, O12).

Who is behind others has its room kept, and asks who is in its way to leave, while all of those have theirs kept or
coming: so a team gets back at once what its nominal covers, and not for one after another. It starts in its turn.
Knows the ledger, with all that those ahead were given or wait for. Starts nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from fleet_app.engine import capped, capping, giving, making, mixed, notices, refusal, reserving
from fleet_app.engine.eligibility import eligible_together
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import HOPELESS, ROOM_COMES, Action, Wait
from fleet_app.engine.reclaim import Eviction
from fleet_app.engine.workload import Workload


class Strict:
    """The strict queues of one decision: who waits and is passed by nobody, and who of all that wait has no room."""

    def __init__(self, ledger: Ledger) -> None:
        """Begin before anybody's turn."""
        self._ledger = ledger
        self._first: dict[str, list[Workload]] = defaultdict(list)
        self._without: dict[str, list[Workload]] = defaultdict(list)

    def ahead_of(self, workload: Workload) -> str | None:
        """Return whom a workload is behind; who asks for another accelerator may be passed (O6)."""
        return _ahead(self._first.get(workload.team, ()), workload)

    def stop_at(self, workload: Workload, wait: Wait) -> bool:
        """Let nobody pass one that waits, where its queue is strict and it could ever start; return whether so."""
        stops = workload.team in self._ledger.tree.strict and wait.reason not in HOPELESS
        if stops:
            self._first[workload.team].append(workload)
            self._note(workload, wait)
        return stops

    def behind(self, workload: Workload, ahead: str) -> Iterator[Action | Wait]:
        """Yield who leaves for one that is behind another, if it may ask now, and its wait (O12)."""
        for part in self._answer(workload, ahead):
            if isinstance(part, Wait) and part.reason not in HOPELESS:
                self._note(workload, part)
            yield part

    def _answer(self, workload: Workload, ahead: str) -> Iterator[Action | Wait]:
        ledger = self._ledger
        one = workload if workload.minimum is None else replace(workload, bundles=workload.minimum)
        refused = _refused(ledger, one)
        if refused is not None and refused.reason in HOPELESS:
            yield refused
        elif ledger.class_of(one).yields or _ahead(self._without.get(one.team, ()), one) is not None:
            yield refusal.behind(one, ahead)
        else:
            yield from _kept(ledger, one, ahead, refused)

    def _note(self, workload: Workload, wait: Wait) -> None:
        if wait.reason not in ROOM_COMES:
            self._without[workload.team].append(workload)


def _ahead(waiting: Iterable[Workload], workload: Workload) -> str | None:
    for one in waiting:
        if workload.accelerator is None or one.accelerator in {None, workload.accelerator}:
            return one.name
    return None


def _refused(ledger: Ledger, workload: Workload) -> Wait | None:
    impossible = mixed.impossible if workload.groups else refusal.impossible
    return impossible(ledger, workload) or refusal.over_quota(ledger, workload)


def _kept(ledger: Ledger, workload: Workload, ahead: str, refused: Wait | None) -> Iterator[Action | Wait]:
    """Yield who leaves for one that may ask for room now, and its wait; keep what is there and what comes.

    Where its team has booked something that is in force it goes there first, in its turn (C3).
    """
    booked = ledger.calendar is not None and ledger.calendar.blocks(workload.team)
    free = None if booked or refused is not None else _free(ledger, workload)
    if free is not None:
        giving.keep(ledger, workload, free)
        yield refusal.in_turn(workload, ahead)
        return
    found = None if booked else _eviction(ledger, workload, refused)
    if found is None or not notices.may_ask_now(ledger, found.victims):
        yield refusal.behind(workload, ahead)
        return
    why = f"{workload.name} needs {workload.gpus} GPUs inside its team's nominal, after {ahead}"
    yield from giving.coming(ledger, workload, found, why)


def _free(ledger: Ledger, workload: Workload) -> tuple[str, ...] | None:
    """Return the nodes on which it would start now, were it its turn; None where there are none."""
    fits, is_free = mixed.now if workload.groups else making.now, reserving.is_free(ledger, workload)
    chosen = fits(ledger, workload, eligible_together(ledger, workload))
    return chosen if chosen is not None and all(is_free(ledger.nodes[name]) for name in chosen) else None


def _eviction(ledger: Ledger, workload: Workload, refused: Wait | None) -> Eviction | None:
    """Return where it will have room, and who leaves for that; None where it is refused, but for a cap (V9)."""
    if refused is None:
        find = mixed.eviction if workload.groups else making.eviction
        return find(ledger, workload, eligible_together(ledger, workload))
    return capping.eviction(ledger, workload, reserving.is_free(ledger, workload)) if capped.is_cap(refused) else None
