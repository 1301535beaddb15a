"""The nodes that were asked to cross to another class: who has to leave them first, and when they have it (B5, D7).

Knows crossings and what is on their nodes. Does not know why they cross.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet_app.engine import saving
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Move, Relabel
from fleet_app.engine.values import Crossing, NodeClass
from fleet_app.engine.workload import Workload

BENEFICIARY = "the class boundary"


def step(ledger: Ledger, crossings: Sequence[Crossing]) -> Iterator[Move | Relabel]:
    """Yield whom to move off the nodes that cross, each once, and the class of those on which nothing is in the way."""
    asked: set[str] = set()
    for crossing in sorted(crossings, key=lambda one: one.node):
        if crossing.moved_at is not None:
            continue
        committed = _committed_on(ledger, crossing.node) if crossing.to is NodeClass.SERVING else []
        for one in committed:
            if not one.movable or one.moving or one.leaving or one.name in asked:
                continue
            if saving.may_begin(ledger, one.name, BENEFICIARY):
                asked.add(one.name)
                yield Move(workload=one.name, beneficiary=BENEFICIARY, why=f"{crossing.node} becomes {crossing.to}")
        if not (committed or _serves(ledger, crossing) or ledger.gone(crossing.node)):
            why = f"{crossing.who} asked for it, and nothing has to leave it any more"
            yield Relabel(node=crossing.node, node_class=crossing.to, why=why)


def _committed_on(ledger: Ledger, node: str) -> list[Workload]:
    there = (one for one in ledger.holding if node in one.nodes)
    return [one for one in there if not ledger.class_of(one).yields]


def _serves(ledger: Ledger, crossing: Crossing) -> bool:
    return crossing.to is NodeClass.TRAINING and ledger.replicas.get(crossing.node, 0) > 0
