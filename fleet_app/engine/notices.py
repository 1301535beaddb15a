"""How those who have to leave are asked to: their notices, and how many there may be in a cycle (R6, R8, R9).

Knows the ledger and whom to ask. Does not choose them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fleet_app.engine.ends import grace_s
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Drain, Shrink
from fleet_app.engine.workload import Workload


def may_ask_now(ledger: Ledger, victims: Sequence[Workload]) -> bool:
    """Return whether so many more may be asked to leave for a gang in this cycle; the first set always may (R9)."""
    most = ledger.policy.drain.most_per_cycle
    return most is None or not victims or not ledger.memo.asked or ledger.memo.asked + len(victims) <= most


def asked_for_gang(ledger: Ledger, victims: Sequence[Workload], beneficiary: str, why: str) -> Iterator[Drain | Shrink]:
    """Yield a drain for each victim of a gang, and count them for this cycle (R9)."""
    ledger.memo.asked += len(victims)
    yield from asked(ledger, victims, beneficiary, why)


def asked(ledger: Ledger, victims: Iterable[Workload], beneficiary: str, why: str) -> Iterator[Drain | Shrink]:
    """Yield a drain for each victim and count its room as coming (R6); the deadline is the contract's (D1).

    The members of one workload that leave are told so together (R8).
    """
    leaving: dict[str, Shrink] = {}
    for victim in sorted(victims, key=lambda one: one.name):
        deadline_at = ledger.now + grace_s(ledger.policy.drain, victim)
        parent = ledger.members.parents.get(victim.name)
        ledger.release_soon(victim)
        if parent is None:
            yield Drain(workload=victim.name, beneficiary=beneficiary, deadline_at=deadline_at, why=why)
            continue
        before = leaving[parent.name].nodes if parent.name in leaving else ()
        leaving[parent.name] = Shrink(
            workload=parent.name,
            nodes=(*before, *victim.nodes),
            beneficiary=beneficiary,
            deadline_at=deadline_at,
            why=why,
        )
    yield from leaving.values()
