"""What never yields and only a cap keeps from its nodes: who leaves for it, what is kept for it (rules V9, R3, R4).

Knows the caps, the ledger and where somebody may run. Nobody is asked where there would be no room afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fleet_app.engine import capped, giving, mixed_reclaim, notices, reclaim, refusal, reserving
from fleet_app.engine.eligibility import accelerators, ahead_under_caps, asker, serving_nodes, sought, uncapped
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Action, Wait
from fleet_app.engine.reclaim import EXACT_UP_TO, Eviction, Victims
from fleet_app.engine.trial import Asker, Trial
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload


def wait_for(ledger: Ledger, workload: Workload, refused: Wait) -> Iterator[Action | Wait]:
    """Yield who leaves so that a workload finds room and its caps let it, and its wait; keep for it what they leave."""
    found = eviction(ledger, workload, reserving.is_free(ledger, workload))
    if found is not None and notices.may_ask_now(ledger, found.victims):
        yield from giving.coming(ledger, workload, found, f"{workload.name} needs {workload.gpus} GPUs under its caps")
        return
    if reserving.may_keep(ledger):
        assert ledger.caps is not None
        ledger.caps.keep(workload, capped.waits_for(ledger, workload)[0])
        ledger.booked[workload.team].append(workload)
    yield refused if found is None else refusal.too_many(ledger, workload, found.victims)


def eviction(ledger: Ledger, workload: Workload, is_open: Callable[[Node], bool]) -> Eviction | None:
    """Return where a workload would have room, and who leaves for that and for its caps; None where that is nowhere.

    `is_open` is whether a node is kept for nobody else.
    """
    nodes = uncapped(ledger, replace(workload, accelerator=None) if workload.groups else workload)
    for accelerator in capped.waits_for(ledger, workload):
        seeks = asker(ledger, workload)
        able = [node for node in nodes if is_open(node) and (workload.groups or node.accelerator == accelerator)]
        if workload.groups:
            seeks = replace(seeks, sought=replace(sought(ledger, workload), accelerator=accelerator))
        case = _Case(ledger, seeks, accelerator, able, ahead_under_caps(ledger, workload, accelerator))
        found = case.eviction()
        if found is not None:
            return found
    return None


def for_replica(ledger: Ledger, seeks: Asker, is_open: Callable[[Node], bool]) -> Eviction | None:
    """Return where a replica would have room, and who leaves for that and for its caps; None where that is nowhere."""
    nodes = serving_nodes(ledger)
    for accelerator in accelerators(ledger, nodes):
        able = [node for node in nodes if node.accelerator == accelerator and is_open(node)]
        found = _Case(ledger, seeks, accelerator, able, ()).eviction()
        if found is not None:
            return found
    return None


@dataclass(frozen=True, slots=True)
class _Case:
    """One that waits, an accelerator, nodes that are open to it, and for whom what comes free of that is kept first."""

    ledger: Ledger
    seeks: Asker
    accelerator: str
    nodes: Sequence[Node]
    ahead: Sequence[Workload]

    def eviction(self) -> Eviction | None:
        """Return the placement and those who leave; None where all who may be asked would be too few."""
        ledger, seeks = self.ledger, self.seeks
        victims = self._victims()
        if victims is None and ledger.members.parents:
            with ledger.members.as_wholes(ledger.lodgers):
                victims = self._victims()
            enough = partial(self._enough, Trial(ledger, seeks, self.nodes), self._short())
            victims = None if victims is None else reclaim.fewer_members(ledger, enough, victims)
        if victims is None:
            return None
        trial = Trial(ledger, seeks, self.nodes)
        trial.leave(victims)
        return (
            reclaim.placed(ledger, seeks, trial) if seeks.sought is None else mixed_reclaim.placed(ledger, seeks, trial)
        )

    def _enough(self, trial: Trial, short: dict[str, int], gone: Victims) -> bool:
        """Return whether there is room, and the caps lack nothing, once some have left."""
        return not self._without(short, gone) and trial.enough_without(gone)

    def _short(self) -> dict[str, int]:
        assert self.ledger.caps is not None
        return self.ledger.caps.short(self.seeks.team, self.accelerator, self.seeks.gpus, self.ahead)

    def _victims(self) -> Victims | None:
        """Return the cheapest who leave: every set is weighed where they are few, else nobody who can be spared."""
        short, below = self._short(), self._below()
        if self._without(short, below):
            return None  # before any room is looked at: most often it is only the number
        trial = Trial(self.ledger, self.seeks, self.nodes)
        enough = partial(self._enough, trial, short)
        if enough(()):
            return ()
        names = {one.name for one in below}
        others = [one for one in reclaim.may_be_asked(self.ledger, self.seeks, trial) if one.name not in names]
        if len(below) + len(others) > EXACT_UP_TO:
            return self._some(below, enough)

        def may_go(victims: Victims) -> bool:
            spared = self.ledger.members.can_be_spared(victims)
            return spared and trial.may_go([one for one in victims if one.name not in names])

        return reclaim.cheapest(self.ledger, [*below, *others], enough, may_go)

    def _some(self, below: Sequence[Workload], enough: Callable[[Victims], bool]) -> Victims | None:
        """Return those who leave for room, and the cheapest for the caps, but nobody who can be spared.

        Where nobody could be asked for room alone, all who may be asked for the caps leave: that may make it.
        """
        can_be_spared = self.ledger.members.can_be_spared
        find = reclaim.find if self.seeks.sought is None else mixed_reclaim.find
        found = find(self.ledger, self.seeks, self.nodes, lambda _: True)
        chosen = list(below if found is None else found.victims)
        short = self._without(self._short(), chosen)
        for one in sorted(below, key=lambda one: reclaim.cost(self.ledger, (one,))):
            helps = self._without(short, (one,)) != short and all(one.name != other.name for other in chosen)
            if helps and can_be_spared([*chosen, one]):
                chosen.append(one)
                short = self._without(short, (one,))
        if not can_be_spared(chosen) or not enough(tuple(chosen)):
            return None
        return reclaim.pruned(self.ledger, chosen, enough)

    def _below(self) -> list[Workload]:
        """Return who yields to the one that waits and has GPUs of the accelerator under an entry that is short."""
        ledger, caps, short = self.ledger, self.ledger.caps, self._short()
        assert caps is not None
        here = [name for name, node in ledger.nodes.items() if node.accelerator.lower() == self.accelerator.lower()]
        return [
            one
            for one in ledger.lodging(here)
            if one.priority < self.seeks.priority
            and (self.seeks.anyone or not ledger.undisturbed(one))
            and caps.gpus(one, self.accelerator)
            and not short.keys().isdisjoint(caps.above(one.team))
        ]

    def _without(self, short: dict[str, int], gone: Sequence[Workload]) -> dict[str, int]:
        """Return what caps still lack once some have left."""
        caps, left = self.ledger.caps, dict(short)
        assert caps is not None
        for one in gone:
            for entry in caps.above(one.team):
                if entry in left:
                    left[entry] -= caps.gpus(one, self.accelerator)
        return {entry: missing for entry, missing in left.items() if missing > 0}
