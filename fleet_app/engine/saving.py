"""How many save at once: what is asked for by plan waits while too many others leave (rule D7).

A checkpoint is written by everybody who leaves, into the same storage. Knows who leaves, and who was asked to move.
Does not know who is in whose way, nor how long anybody may wait.
"""

from __future__ import annotations

from fleet_app.engine.ledger import Ledger


def may_begin(ledger: Ledger, name: str, beneficiary: str, *, urgent: bool = False) -> bool:
    """Return whether one more may be asked to leave or to move by plan; note whom nobody asks yet, and for whom."""
    most = ledger.policy.drain.most_at_once
    if most is None:
        return True
    if urgent or under_way(ledger) < most:
        ledger.memo.saving.add(name)
        return True
    ledger.memo.put_off[name] = beneficiary
    return False


def under_way(ledger: Ledger) -> int:
    """Return how many leave or move now, those included who were asked to in this decision."""
    moving = {one.name for one in ledger.holding if one.moving}
    return len(ledger.leaving | moving | ledger.memo.saving)
