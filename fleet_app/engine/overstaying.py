"""Who is still there after its booking: committed work above its team's nominal makes room for its owner (C7, D7).

Knows bookings that are over and what runs where they were. Asks only for somebody inside its nominal, and only to
move: committed work has no deadline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet_app.engine import reclaim, saving
from fleet_app.engine.eligibility import asker, unreserved
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Move
from fleet_app.engine.trial import Trial
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload


def moves(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> Iterator[Move]:
    """Yield who is asked to move so that a workload inside its nominal has room; nobody where that is not enough."""
    if ledger.calendar is None or not ledger.calendar.past:
        return
    trial = Trial(ledger, asker(ledger, workload), unreserved(ledger, workload, nodes))
    above: dict[str, int] = {}

    def rank(one: Workload) -> tuple[bool, reclaim.Cost]:
        return (not one.moving, reclaim.cost(ledger, (one,)))

    for one in sorted(_overstaying(ledger), key=rank):
        left = above.setdefault(one.team, -ledger.firm_left(one.team))
        if left > 0 and one.team != workload.team and not trial.enough():
            trial.leave((one,))
            above[one.team] = left - one.gpus
    if not trial.gone or not trial.enough():
        return
    for one in sorted(
        trial.gone.values(), key=lambda one: (not one.moving, reclaim.cost(ledger, (one,))), reverse=True
    ):
        trial.stay(one)
        if not trial.enough():
            trial.leave((one,))
    for name in sorted(trial.gone):
        one = trial.gone[name]
        if not one.moving and saving.may_begin(ledger, name, workload.name):
            ledger.calendar.moving.add(name)
            why = f"its booking is over, and {workload.name} needs {workload.gpus} GPUs inside its team's nominal"
            yield Move(workload=name, beneficiary=workload.name, why=why)


def _overstaying(ledger: Ledger) -> list[Workload]:
    """Return the committed work on nodes that its team had booked, which was not told yet to leave."""
    assert ledger.calendar is not None
    found = []
    for one in ledger.holding:
        stays = not one.leaving and one.movable and one.name not in ledger.calendar.moving
        if stays and not ledger.class_of(one).yields and _had_booked(ledger, one):
            found.append(one)
    return found


def _had_booked(ledger: Ledger, one: Workload) -> bool:
    assert ledger.calendar is not None
    began = one.admitted_at if one.admitted_at is not None else ledger.now
    return any(
        past.team == one.team and began < past.end_at and not set(past.nodes).isdisjoint(one.nodes)
        for past in ledger.calendar.past
    )
