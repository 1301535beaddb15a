"""Who yields: victim sets for a replica or a gang, proven to make the placement possible (rules R1 to R6).

Few candidates: every set is weighed. Many: the cheapest victims node by node, the cheapest nodes, and then nobody who
is not needed. Knows the ledger's books and the order of victims. Does not admit or grant: it answers with a placement
and with those who have to leave for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fleet_app.engine import placement
from fleet_app.engine.ends import grace_s
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Drain
from fleet_app.engine.trial import Asker, Trial
from fleet_app.engine.values import Node, Shape
from fleet_app.engine.workload import Workload

EXACT_UP_TO = 8
"""Candidates up to which every set is weighed; beyond it, greedy and then pruned."""

Cost = tuple[int, float, int, int, float, tuple[str, ...]]
Victims = tuple[Workload, ...]
Test = Callable[[Victims], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A placement in rank order, and who has to leave for it."""

    nodes: tuple[str, ...]
    victims: Victims


def find(ledger: Ledger, asker: Asker, nodes: Sequence[Node]) -> Eviction | None:
    """Return the cheapest victims that make all bundles fit in one domain, or None when nothing would help.

    Nobody leaves when what is coming free anyway is enough.
    """
    trial = Trial(ledger, asker, nodes)
    victims = () if trial.enough() else _victims(ledger, asker, trial, nodes)
    if victims is None:
        return None
    trial.leave(victim for victim in victims if victim.name not in trial.gone)

    def tightness(node: Node) -> tuple[int, ...]:
        return (not asker.shape.fits(ledger.free[node.name]), trial.room[node.name].gpus)

    chosen = placement.place(trial.fitting(), asker.bundles, asker.depth, tightness)
    return None if chosen is None else Eviction(nodes=chosen, victims=victims)


def notices(ledger: Ledger, victims: Iterable[Workload], beneficiary: str, why: str) -> Iterator[Drain]:
    """Yield a drain for each victim and count its room as coming (R6); the deadline is the contract's (D1)."""
    for victim in sorted(victims, key=lambda one: one.name):
        deadline_at = ledger.now + grace_s(ledger.policy.drain, victim)
        ledger.release_soon(victim)
        yield Drain(workload=victim.name, beneficiary=beneficiary, deadline_at=deadline_at, why=why)


def cost(ledger: Ledger, victims: Iterable[Workload]) -> Cost:
    """Return what a set of victims costs; the lowest is taken (R3).

    Lowest priority first, then the fewest GPU-seconds lost, then the share furthest above nominal, then the fewest
    GPUs, the youngest, the name.
    """
    chosen = sorted(victims, key=lambda victim: victim.name)
    return (
        max((victim.priority for victim in chosen), default=-1),
        sum(ledger.lost_gpu_s(victim) for victim in chosen),
        -sum(ledger.borrowed(team) for team in sorted({victim.team for victim in chosen})),
        sum(victim.gpus for victim in chosen),
        -max((victim.admitted_at or 0.0 for victim in chosen), default=0.0),
        tuple(victim.name for victim in chosen),
    )


def candidates(ledger: Ledger, asker: Asker, lodgers: Iterable[Workload]) -> list[Workload]:
    """Return who among the lodgers may be asked to leave for the asker (R1, R2)."""
    return [
        lodger
        for lodger in lodgers
        if lodger.priority < asker.priority
        and (asker.anyone or lodger.team == asker.team or asker.passed_by(lodger) or ledger.borrowed(lodger.team) > 0)
    ]


def most_room(ledger: Ledger, asker: Asker, node: Node) -> Shape:
    """Return the room on a node once all that may be asked to leave have left."""
    room = ledger.soon(node.name)
    for victim in candidates(ledger, asker, ledger.lodgers.get(node.name, ())):
        room += victim.shape
    return room


def cheapest(ledger: Ledger, able: Sequence[Workload], enough: Test, may_go: Test) -> Victims | None:
    """Return the cheapest set that is enough and may go; None when none is (R3, R4).

    Exact: a set that is enough is not made larger, one dearer than the best so far is not followed.
    """
    if not enough(tuple(able)):
        return None
    best: tuple[Cost, Victims] | None = None

    def search(chosen: Victims, rest: Sequence[Workload]) -> None:
        nonlocal best
        price = cost(ledger, chosen)
        if not may_go(chosen) or (best is not None and price[:2] > best[0][:2]):
            return
        if enough(chosen):
            needed = pruned(ledger, chosen, enough)
            best = min(filter(None, (best, (cost(ledger, needed), needed))), key=lambda known: known[0])
            return
        for place, victim in enumerate(rest):
            search((*chosen, victim), rest[place + 1 :])

    search((), sorted(able, key=lambda one: cost(ledger, (one,))))
    return None if best is None else tuple(sorted(best[1], key=lambda one: one.name))


def pruned(ledger: Ledger, victims: Iterable[Workload], enough: Test) -> Victims:
    """Drop every victim without whom it is still enough, the dearest first (R4)."""
    chosen = tuple(victims)
    for victim in sorted(chosen, key=lambda one: cost(ledger, (one,)), reverse=True):
        rest = tuple(one for one in chosen if one.name != victim.name)
        if enough(rest):
            chosen = rest
    return chosen


def _victims(ledger: Ledger, asker: Asker, trial: Trial, nodes: Sequence[Node]) -> Victims | None:
    able = _able(ledger, asker, trial)
    if len(able) <= EXACT_UP_TO:
        return cheapest(ledger, able, trial.enough_without, trial.may_go)
    return _node_by_node(ledger, asker, trial, nodes)


def _able(ledger: Ledger, asker: Asker, trial: Trial) -> list[Workload]:
    """Return who may be asked to leave: on the nodes, and for the books' sake anywhere in the cohort (R5)."""
    here = candidates(ledger, asker, ledger.lodging(trial.room))
    if trial.books_allow():
        return here
    known = {one.name for one in here}
    elsewhere = [one for one in ledger.lodging(ledger.nodes) if one.name not in known]
    return here + [one for one in elsewhere if one.priority < asker.priority and trial.may_go((one,))]


def _node_by_node(ledger: Ledger, asker: Asker, trial: Trial, nodes: Sequence[Node]) -> Victims | None:
    """Return victims for the cheapest nodes of the cheapest domain, and for the books; not always the optimum."""
    needed = {node.name: _on_node(ledger, asker, node) for node in nodes}
    reachable = [node for node in nodes if needed[node.name] is not None]
    options: list[tuple[Cost, Victims]] = []
    for kind in placement.uniform(reachable):
        for domain in placement.domains(kind, asker.depth).values():
            victims = _in_domain(ledger, asker, domain, {node.name: needed[node.name] or () for node in domain})
            if victims is not None:
                options.append((cost(ledger, victims), victims))
    if not options:
        return None
    trial.leave(min(options, key=lambda option: option[0])[1])
    _for_the_books(ledger, asker, trial)
    return _needed(ledger, trial) if trial.enough() else None


def _on_node(ledger: Ledger, asker: Asker, node: Node) -> Victims | None:
    """Return the cheapest victims that make one bundle fit on the node; None when nothing would."""
    room = ledger.soon(node.name)
    if asker.shape.fits(room):
        return ()
    able = candidates(ledger, asker, ledger.lodgers.get(node.name, ()))

    def enough(gone: Victims) -> bool:
        return asker.shape.fits(sum((victim.shape for victim in gone), room))

    if not enough(tuple(able)):
        return None
    if len(able) > EXACT_UP_TO:
        return pruned(ledger, able, enough)
    return cheapest(ledger, able, enough, lambda _: True)


def _in_domain(ledger: Ledger, asker: Asker, domain: Sequence[Node], needed: dict[str, Victims]) -> Victims | None:
    """Return victims for the cheapest nodes of one domain: the lowest priority that will do, then the least cost."""
    if len(domain) < asker.bundles:
        return None
    prices = {node.name: cost(ledger, needed[node.name]) for node in domain}
    priority = sorted(price[0] for price in prices.values())[asker.bundles - 1]
    ordered = sorted(domain, key=lambda node: (max(priority, prices[node.name][0]), prices[node.name][1:], node.name))
    trial = Trial(ledger, asker, domain)
    for node in ordered:
        more = [victim for victim in needed[node.name] if victim.name not in trial.gone]
        if not trial.ample and trial.may_go(more):
            trial.leave(more)
    return _needed(ledger, trial, room_only=True) if trial.ample else None


def _for_the_books(ledger: Ledger, asker: Asker, trial: Trial) -> None:
    """Let borrowers leave, the cheapest first, until the cohort's books allow the placement too (R5)."""
    if trial.books_allow():
        return
    for one in sorted(ledger.lodging(ledger.nodes), key=lambda one: cost(ledger, (one,))):
        if one.name not in trial.gone and one.priority < asker.priority and trial.may_go((one,)):
            trial.leave((one,))
            if trial.books_allow():
                return


def _needed(ledger: Ledger, trial: Trial, *, room_only: bool = False) -> Victims:
    """Return those in the trial without whom it is not enough, the dearest spared first (R4)."""
    for victim in sorted(trial.gone.values(), key=lambda one: cost(ledger, (one,)), reverse=True):
        trial.stay(victim)
        if not (trial.ample if room_only else trial.enough()):
            trial.leave((victim,))
    return tuple(trial.gone[name] for name in sorted(trial.gone))
