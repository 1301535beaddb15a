"""Who leaves a card, or a flavor's quota, for a replica or for committed work (rules V6, R1 to R5).

Knows the slices and who on them yields. Asks nobody itself, and does not know the order of those who ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fleet_app.engine import reclaim
from fleet_app.engine.deck import Place
from fleet_app.engine.dues import Due
from fleet_app.engine.flavors import PARTS, flavor, parts
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.slices import Ask, Slices, due_of
from fleet_app.engine.trial import Asker
from fleet_app.engine.values import Shape
from fleet_app.engine.workload import Workload

Victims = tuple[Workload, ...]
Price = tuple[int, float, int, float, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacated:
    """A card, and who has to leave, there or elsewhere, for an ask to fit on it."""

    place: Place
    victims: Victims


def find(slices: Slices, ask: Ask) -> Vacated | None:
    """Return the card on which room for the ask costs least, and whom it costs; None when nobody would help."""
    best: tuple[Price, Vacated] | None = None
    for place in slices.holding(ask):
        here = _on_card(slices, ask, place)
        victims = None if here is None else _with_the_books(slices, ask, place, here)
        if victims:
            found = (_price(slices, victims), Vacated(place=place, victims=victims))
            best = found if best is None or found[0] < best[0] else best
    return None if best is None else best[1]


def for_own(slices: Slices, first: Workload) -> Victims:
    """Return the cheapest jobs on slices that give their team's nominal back to its committed work that waits for it.

    Only where that is enough: slices are charged in whole GPUs, so of some all have to leave (V6).
    """
    short = first.gpus - slices.ledger.firm_left(first.team)
    if short <= 0:
        return ()
    staying: list[Workload] = []
    going = 0
    for job in slices.ledger.holding:
        if job.slice is not None and job.team == first.team and _charged_here(slices, job):
            if job.name in slices.ledger.leaving:
                going += _parts(slices, job)
            elif slices.ledger.class_of(job).yields and job.priority < first.priority:
                staying.append(job)

    def enough(gone: Victims) -> bool:
        less = going + sum(_parts(slices, one) for one in gone)
        return slices.dues.gpus_without(first.team, less) >= short

    return () if enough(()) or not enough(tuple(staying)) else _fewest(slices, staying, enough)


def _on_card(slices: Slices, ask: Ask, place: Place) -> Victims | None:
    """Return the cheapest of those on a card with whom gone the ask fits there; None when nothing would do."""
    deck, going = slices.deck, slices.deck.leaving(place)
    able = [one for one in deck.lodgers(place) if one.priority < ask.priority]

    def enough(gone: Victims) -> bool:
        room = sum([one.shape for one in gone], slices.ledger.soon(place.node))
        without = {*going, *(one.name for one in gone)}
        return deck.fits(place, ask.slice, without) and ask.shape.fits(room)

    return _fewest(slices, able, enough) if enough(tuple(able)) else None


def _with_the_books(slices: Slices, ask: Ask, place: Place, here: Victims) -> Victims | None:
    """Return who leaves a card and, when the books are in the way then, who borrows elsewhere too (R5)."""
    accelerator = slices.accelerator(place)
    if not slices.dues.has_own(ask.due, accelerator):
        return _with_the_ledger(slices, ask, accelerator, here)
    gone = [_due(slices.ledger, one) for one in here if _flavor(slices, one) == flavor(accelerator, ask.slice)]
    if slices.dues.own_left(ask.due, accelerator) < slices.dues.asked(ask.due, accelerator):
        return None
    names = {one.name for one in here}
    able = [
        one
        for one in _yielding(slices, ask)
        if one.name not in names and _flavor(slices, one) == flavor(accelerator, ask.slice)
    ]
    dues = [_due(slices.ledger, one) for one in able]
    chosen = slices.dues.for_the_books(ask.due, accelerator, gone, dues)
    return None if chosen is None else (*here, *(able[place] for place in chosen))


def _with_the_ledger(slices: Slices, ask: Ask, accelerator: str, here: Victims) -> Victims | None:
    gpus = slices.dues.asked(ask.due, accelerator)
    ledger = slices.ledger
    if ledger.firm_left_behind(ask.due.team) < gpus:
        return None
    if gpus == 0 or ledger.available_soon(ask.due.team) >= gpus:
        return here
    asker = Asker(name=ask.name, team=ask.due.team, priority=ask.priority, shape=Shape(gpus=gpus), anyone=True)
    borrowers = reclaim.borrowers(ledger, asker)
    return None if borrowers is None else (*here, *borrowers)


def _yielding(slices: Slices, ask: Ask) -> list[Workload]:
    """Return every job on a slice that may be asked to leave for the ask, the cheapest first."""
    places = sorted(slices.deck.cards)
    found = [one for place in places for one in slices.deck.lodgers(place) if one.priority < ask.priority]
    return sorted(found, key=lambda one: _price(slices, (one,)))


def _fewest(slices: Slices, able: Sequence[Workload], enough: Callable[[Victims], bool]) -> Victims:
    """Return the cheapest first until they are enough, and then without each that can be spared, the dearest first."""
    chosen: Victims = ()
    for one in sorted(able, key=lambda one: _price(slices, (one,))):
        if not enough(chosen):
            chosen = (*chosen, one)
    for one in reversed(chosen):
        rest = tuple(other for other in chosen if other.name != one.name)
        chosen = rest if enough(rest) else chosen
    return chosen


def _price(slices: Slices, victims: Victims) -> Price:
    """Return what a set of victims costs (R3): priority, work lost, how much of a GPU, the youngest, the names."""
    return (
        max((one.priority for one in victims), default=-1),
        sum(_lost_s(slices.ledger, one) * _parts(slices, one) for one in sorted(victims, key=lambda one: one.name)),
        sum(_parts(slices, one) for one in victims),
        -max((one.admitted_at or 0.0 for one in victims), default=0.0),
        tuple(sorted(one.name for one in victims)),
    )


def _lost_s(ledger: Ledger, victim: Workload) -> float:
    since = victim.saved_at if victim.saved_at is not None else victim.started_at
    unsaved = 0.0 if since is None else max(0.0, ledger.now - since)
    return unsaved + ledger.policy.drain.restart_cost_s


def _parts(slices: Slices, one: Workload) -> int:
    node = slices.ledger.nodes.get(one.nodes[0]) if one.nodes else None
    if one.slice is None:
        return one.gpus * PARTS
    return parts("" if node is None else node.accelerator, one.slice)


def _flavor(slices: Slices, one: Workload) -> str:
    node = slices.ledger.nodes.get(one.nodes[0])
    return "" if node is None or one.slice is None else flavor(node.accelerator, one.slice)


def _charged_here(slices: Slices, job: Workload) -> bool:
    """Return whether a job's slice is charged to its team's plain nominal."""
    node = slices.ledger.nodes.get(job.nodes[0])
    assert job.slice is not None
    return not slices.dues.has_own(_due(slices.ledger, job), "unknown" if node is None else node.accelerator)


def _due(ledger: Ledger, job: Workload) -> Due:
    assert job.slice is not None
    return due_of(ledger, job, job.slice)
