"""Who yields to a gang of several shapes: victims proven to make its joint placement possible (rules R1 to R6, P7).

The order of victims, and who may be asked, are those of every reclaim. Few candidates: every set is weighed. Many: in
each domain the cheapest leave one after another until all groups fit, and then nobody who is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from fleet_app.engine import matching, placement, reclaim
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.matching import Sought
from fleet_app.engine.reclaim import Cost, Eviction, Victims
from fleet_app.engine.trial import Asker, Trial
from fleet_app.engine.values import NOTHING, Node, Shape


def find(ledger: Ledger, asker: Asker, nodes: Sequence[Node], is_open: Callable[[Node], bool]) -> Eviction | None:
    """Return the cheapest victims that make all groups fit together, or None when nothing would help.

    Only nodes that are open to the asker count. Nobody leaves when what is coming free anyway is enough.
    """
    assert asker.sought is not None
    able = list(filter(is_open, nodes))
    trial = Trial(ledger, asker, able)
    victims = () if trial.enough() else _victims(ledger, asker, trial)
    if victims is None and ledger.members.parents:
        victims, trial = _wholes(ledger, asker, able), Trial(ledger, asker, able)
    if victims is None:
        return None
    trial.leave(victim for victim in victims if victim.name not in trial.gone)
    return placed(ledger, asker, trial)


def placed(ledger: Ledger, asker: Asker, trial: Trial) -> Eviction | None:
    """Return the best placement once those have left who leave in the trial; the soonest where nobody is waited for."""
    assert asker.sought is not None

    def tightness(node: Node) -> tuple[int, ...]:
        room = trial.room[node.name]
        return (room != ledger.free[node.name], room.gpus)

    found = list(trial.nodes.values())
    victims = tuple(trial.gone[name] for name in sorted(trial.gone))
    chosen = None if victims else _soonest(ledger, asker.sought, found, tightness)
    chosen = chosen or matching.place(asker.sought, found, trial.has_room, tightness)
    return None if chosen is None else Eviction(nodes=chosen, victims=victims)


def _soonest(
    ledger: Ledger, sought: Sought, nodes: Sequence[Node], tightness: Callable[[Node], tuple[int, ...]]
) -> tuple[str, ...] | None:
    """Return the nodes that hold all groups first, of what is free or coming already (R6)."""
    moments = {ledger.now} | {at for node in nodes for at, _ in ledger.leavers.get(node.name, ())}
    tries = (matching.place(sought, nodes, _room_by(ledger, moment), tightness) for moment in sorted(moments))
    return next((chosen for chosen in tries if chosen is not None), None)


def _room_by(ledger: Ledger, moment: float) -> Callable[[str, Shape], bool]:
    """Return whether a shape fits on a node once those have left who leave by `moment`, in seconds."""

    def fits(name: str, shape: Shape) -> bool:
        later = sum([gone for at, gone in ledger.leavers.get(name, ()) if at > moment], NOTHING)
        return shape.fits(ledger.free[name]) or shape.fits(ledger.soon(name) - later)

    return fits


def _wholes(ledger: Ledger, asker: Asker, nodes: Sequence[Node]) -> Victims | None:
    """Return victims where the members that elastic workloads can spare are not enough (R8)."""
    with ledger.members.as_wholes(ledger.lodgers):
        victims = _victims(ledger, asker, Trial(ledger, asker, nodes))
    return (
        None if victims is None else reclaim.fewer_members(ledger, Trial(ledger, asker, nodes).enough_without, victims)
    )


def _victims(ledger: Ledger, asker: Asker, trial: Trial) -> Victims | None:
    able = list(islice(reclaim.may_be_asked(ledger, asker, trial), reclaim.EXACT_UP_TO + 1))
    if len(able) <= reclaim.EXACT_UP_TO:
        return reclaim.cheapest(ledger, able, trial.enough_without, trial.may_go)
    found = [
        (reclaim.cost(ledger, victims), victims)
        for domain in placement.domains(list(trial.nodes.values()), asker.depth).values()
        if (victims := _in_domain(ledger, asker, domain)) is not None
    ]
    if not found:
        return None
    trial.leave(min(found, key=lambda known: known[0])[1])
    reclaim.for_the_books(ledger, asker, trial)
    return reclaim.needed_of(ledger, trial) if trial.enough() else None


def _in_domain(ledger: Ledger, asker: Asker, domain: Sequence[Node]) -> Victims | None:
    """Return victims with whom all groups fit in one domain; not always the cheapest."""
    trial = Trial(ledger, asker, domain)
    able = reclaim.candidates(ledger, asker, ledger.lodging(trial.nodes))

    def price(place: int) -> Cost:
        return reclaim.cost(ledger, (able[place],))

    for place in sorted(range(len(able)), key=price):
        if trial.ample:
            break
        if trial.may_go((able[place],)):
            trial.leave((able[place],))
    return reclaim.needed_of(ledger, trial, room_only=True) if trial.ample else None
