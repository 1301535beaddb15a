"""The nodes that were asked to cross to another class: who has to leave them first, and when they have it (B5, D7, N3).

Knows crossings and what is on their nodes. Does not know why they cross.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet_app.engine import saving
from fleet_app.engine.ends import grace_s
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Drain, Move, Relabel
from fleet_app.engine.values import Crossing, NodeClass
from fleet_app.engine.workload import Workload

BENEFICIARY = "the class boundary"


def step(ledger: Ledger, crossings: Sequence[Crossing]) -> Iterator[Drain | Move | Relabel]:
    """Yield whom to move off the nodes that cross, each once, and the class of those on which nothing is in the way."""
    asked: set[str] = set()
    for crossing in sorted(crossings, key=lambda one: one.node):
        if crossing.moved_at is not None:
            continue
        there = [one for one in ledger.holding if crossing.node in one.nodes]
        for one in there:
            if one.name not in asked and (notice := _notice(ledger, crossing, one)) is not None:
                asked.add(one.name)
                yield notice
        if not (_in_the_way(ledger, crossing, there) or _serves(ledger, crossing) or ledger.gone(crossing.node)):
            why = f"{crossing.who} asked for it, and nothing has to leave it any more"
            yield Relabel(node=crossing.node, node_class=crossing.to, why=why)


def _notice(ledger: Ledger, crossing: Crossing, one: Workload) -> Drain | Move | None:
    """Return what to tell somebody on the node, None where nothing is or it was told: what yields may stay (B5).

    But where the node is made anew in another pool nobody may (N3). Nobody is told while too many save already (D7).
    """
    why = f"{crossing.node} becomes {crossing.to}"
    if one.name in ledger.leaving:
        return None
    if not ledger.class_of(one).yields:
        moves = one.movable and not one.moving and _has_to_go(ledger, crossing, one)
        if not moves or not saving.may_begin(ledger, one.name, BENEFICIARY):
            return None
        return Move(workload=one.name, beneficiary=BENEFICIARY, why=why)
    if not crossing.machine or not saving.may_begin(ledger, one.name, BENEFICIARY):
        return None
    deadline_at = ledger.now + grace_s(ledger.policy.drain, one)
    ledger.release_soon(one)
    return Drain(workload=one.name, beneficiary=BENEFICIARY, deadline_at=deadline_at, why=why)


def _in_the_way(ledger: Ledger, crossing: Crossing, there: Sequence[Workload]) -> bool:
    return any(_has_to_go(ledger, crossing, one) for one in there)


def _has_to_go(ledger: Ledger, crossing: Crossing, one: Workload) -> bool:
    return crossing.machine != "" or (crossing.to is NodeClass.SERVING and not ledger.class_of(one).yields)


def _serves(ledger: Ledger, crossing: Crossing) -> bool:
    return crossing.to is NodeClass.TRAINING and ledger.replicas.get(crossing.node, 0) > 0
