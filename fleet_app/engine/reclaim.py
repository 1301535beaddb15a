"""Who yields: victim sets for a replica or a gang, proven to make the placement possible (rules R1 to R6).

Few candidates: every set is weighed. Many: the cheapest victims node by node, the cheapest nodes, and then nobody who
is not needed. Knows the ledger's books and the order of victims. Does not admit or grant: it answers with a placement
and with those who have to leave for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from fleet_app.engine import placement
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.members import member_of
from fleet_app.engine.rooms import NOBODY, Least, Rooms, rooms_of
from fleet_app.engine.trial import Asker, Trial
from fleet_app.engine.uplinks import uplinks
from fleet_app.engine.values import Node, Shape, total
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


def find(
    ledger: Ledger, asker: Asker, nodes: Sequence[Node], is_open: Callable[[Node], bool] = lambda _: True
) -> Eviction | None:
    """Return the cheapest victims that make all bundles fit in one domain, or None when nothing would help.

    Only nodes that are open to the asker count. Nobody leaves when what is coming free anyway is enough.
    """
    rooms = rooms_of(ledger, asker.shape, nodes)
    trial = _single(ledger, asker, rooms, is_open) if asker.bundles == 1 else None
    if trial is None:
        trial = _several(ledger, asker, rooms, [node for node in rooms.ever() if is_open(node)])
    return None if trial is None else placed(ledger, asker, trial)


def placed(ledger: Ledger, asker: Asker, trial: Trial) -> Eviction | None:
    """Return the best placement once those have left who leave in the trial; of equals where nobody is waited for."""

    def tightness(node: Node) -> tuple[int, ...]:
        return (not asker.shape.fits(ledger.free[node.name]), trial.room[node.name].gpus)

    used = uplinks(ledger, asker.bundles)
    chosen = placement.place(trial.fitting(), asker.bundles, asker.depth, tightness, used)
    victims = tuple([trial.gone[name] for name in sorted(trial.gone)])
    return None if chosen is None else Eviction(nodes=chosen, victims=victims)


def _several(ledger: Ledger, asker: Asker, rooms: Rooms, nodes: Sequence[Node]) -> Trial | None:
    """Return a trial that the cheapest victims on all of the nodes have left, if any need; None when none would do."""
    trial = Trial(ledger, asker, nodes)
    if trial.enough():
        return trial
    victims = _victims(ledger, asker, trial, rooms)
    if victims is None and ledger.members.parents:
        victims, trial = _wholes(ledger, asker, nodes, rooms), Trial(ledger, asker, nodes)
    if victims is None:
        return None
    trial.leave(victim for victim in victims if victim.name not in trial.gone)
    return trial


def _wholes(ledger: Ledger, asker: Asker, nodes: Sequence[Node], rooms: Rooms) -> Victims | None:
    """Return victims where the members that elastic workloads can spare are not enough (R8)."""
    with ledger.members.as_wholes(ledger.lodgers):
        victims = _victims(ledger, asker, Trial(ledger, asker, nodes), rooms)
    return None if victims is None else fewer_members(ledger, Trial(ledger, asker, nodes).enough_without, victims)


def fewer_members(ledger: Ledger, enough: Test, victims: Victims) -> Victims:
    """Return the victims, but of each elastic workload only members where it can spare all that have to leave."""
    for whole in victims:
        parent = ledger.members.elastic.get(whole.name)
        if parent is None:
            continue
        rest = tuple(one for one in victims if one.name != whole.name)
        members = tuple(member_of(parent, node) for node in whole.nodes)
        chosen = pruned(ledger, members, partial(_enough_beside, enough, rest))
        if len(chosen) <= ledger.members.spare(parent):
            victims = (*rest, *chosen)
    return victims


def _enough_beside(enough: Test, rest: Victims, members: Victims) -> bool:
    return enough((*rest, *members))


def cost(ledger: Ledger, victims: Sequence[Workload]) -> Cost:
    """Return what a set of victims costs; the lowest is taken (R3).

    Lowest priority first, then the fewest GPU-seconds lost, then the share furthest above nominal, then the fewest
    GPUs, the youngest, the name.
    """
    if len(victims) == 1:
        return _price(ledger, victims[0])
    chosen = sorted(victims, key=_name)
    return (
        max((victim.priority for victim in chosen), default=-1),
        sum([ledger.lost_gpu_s(victim) for victim in chosen]),
        -sum([ledger.borrowed(team) for team in sorted({victim.team for victim in chosen})]),
        sum([victim.gpus for victim in chosen]),
        -max((victim.admitted_at or 0.0 for victim in chosen), default=0.0),
        tuple([victim.name for victim in chosen]),
    )


def _price(ledger: Ledger, victim: Workload) -> Cost:
    return (
        victim.priority,
        ledger.lost_gpu_s(victim),
        -ledger.borrowed(victim.team),
        victim.gpus,
        -(victim.admitted_at or 0.0),
        (victim.name,),
    )


def _name(victim: Workload) -> str:
    return victim.name


def candidates(ledger: Ledger, asker: Asker, lodgers: Iterable[Workload]) -> list[Workload]:
    """Return who among the lodgers may be asked to leave for the asker (R1, R2, R7)."""
    return [lodger for lodger in lodgers if lodger.priority < asker.priority and _may_ask(ledger, asker, lodger)]


def _may_ask(ledger: Ledger, asker: Asker, lodger: Workload) -> bool:
    if asker.anyone or asker.passed_by(lodger):
        return True
    theirs = lodger.team == asker.team or ledger.borrowed(lodger.team) > 0
    return theirs and not ledger.undisturbed(lodger)


def most_room(ledger: Ledger, asker: Asker, node: Node) -> Shape:
    """Return the room on a node once all that may be asked to leave have left."""
    room = ledger.soon(node.name)
    able = candidates(ledger, asker, ledger.lodgers.get(node.name, ()))
    return room + total([victim.shape for victim in able]) if able else room


def cheapest(ledger: Ledger, able: Sequence[Workload], enough: Test, may_go: Test) -> Victims | None:
    """Return the cheapest set that is enough and may go; None when none is (R3, R4).

    Exact: a set that is enough is not made larger, one dearer than the best so far is not followed.
    """
    if not enough(tuple(able)):
        return None
    best: tuple[Cost, Victims] | None = None

    def search(chosen: Victims, least: tuple[int, float], rest: Sequence[Workload]) -> None:
        nonlocal best
        if (best is not None and least > _and_a_rounding(best[0])) or not may_go(chosen):
            return
        if enough(chosen):
            needed = pruned(ledger, chosen, enough) if len(chosen) > 1 else chosen
            found = (cost(ledger, needed), needed)
            best = found if best is None or found[0] < best[0] else best
            return
        for place, victim in enumerate(rest):
            more = (max(least[0], victim.priority), least[1] + ledger.lost_gpu_s(victim))
            search((*chosen, victim), more, rest[place + 1 :])

    search((), (-1, 0.0), sorted(able, key=partial(_price, ledger)))
    return None if best is None else tuple(sorted(best[1], key=_name))


def _and_a_rounding(price: Cost) -> tuple[int, float]:
    """Return priority and loss of a set, and what the order of a sum can make of it."""
    return (price[0], price[1] + 1e-9 * (1.0 + abs(price[1])))


def pruned(ledger: Ledger, victims: Iterable[Workload], enough: Test) -> Victims:
    """Drop every victim without whom it is still enough, the dearest first (R4)."""
    chosen = tuple(victims)
    for victim in sorted(chosen, key=partial(_price, ledger), reverse=True):
        rest = tuple(one for one in chosen if one.name != victim.name)
        if enough(rest):
            chosen = rest
    return chosen


def borrowers(ledger: Ledger, asker: Asker) -> Victims | None:
    """Return who has to leave when only the cohort's books are in the way (R5); None when that is not enough."""
    trial = Trial(ledger, asker, ())
    for_the_books(ledger, asker, trial)
    if not trial.books_allow():
        return None
    for victim in sorted(trial.gone.values(), key=partial(_price, ledger), reverse=True):
        trial.stay(victim)
        if not trial.books_allow():
            trial.leave((victim,))
    return tuple(trial.gone[name] for name in sorted(trial.gone))


def _single(ledger: Ledger, asker: Asker, rooms: Rooms, is_open: Callable[[Node], bool]) -> Trial | None:
    """Return a trial that the cheapest victims on any one node have left; None when it is not as simple, or none need.

    The nodes are taken in the order of the least that anybody there could cost, until that is dearer than the best.
    """
    best: tuple[Cost, Victims] | None = None
    for least, node in rooms.cheapest():
        if best is not None and least > _and_a_rounding(best[0]):
            break
        if len(node.domains) < asker.depth or not is_open(node):
            continue
        if least == NOBODY:
            return None
        victims = _on_node(ledger, asker, node)
        if victims is not None:
            found = (cost(ledger, victims), victims)
            best = found if best is None or found[0] < best[0] else best
    if best is None:
        return None
    theirs = rooms.listed({name for victim in best[1] for name in victim.nodes})  # one may have others as well
    trial = Trial(ledger, asker, [node for node in theirs if is_open(node)])
    if not trial.may_go(best[1]):
        return None
    trial.leave(best[1])
    return trial if trial.enough() else None


def _victims(ledger: Ledger, asker: Asker, trial: Trial, rooms: Rooms) -> Victims | None:
    able = list(islice(may_be_asked(ledger, asker, trial), EXACT_UP_TO + 1))
    if len(able) <= EXACT_UP_TO:
        return cheapest(ledger, able, trial.enough_without, trial.may_go)
    return _node_by_node(ledger, asker, trial, rooms)


def may_be_asked(ledger: Ledger, asker: Asker, trial: Trial) -> Iterator[Workload]:
    """Yield who may be asked to leave: on the nodes, and for the books' sake anywhere in the cohort (R5)."""
    met: set[str] = set()
    for name in trial.room:
        here = [one for one in ledger.lodgers.get(name, ()) if one.name not in met]
        met.update(map(_name, here))
        yield from candidates(ledger, asker, here)
    if trial.books_allow():
        return
    for one in ledger.lodging(ledger.nodes):
        if one.name not in met and _is_elsewhere(ledger, asker, trial, one):
            yield one


def _is_elsewhere(ledger: Ledger, asker: Asker, trial: Trial, one: Workload) -> bool:
    """Return whether a workload anywhere may be asked to leave for the books' sake (R5, R7)."""
    disturbed = asker.anyone or not ledger.undisturbed(one)
    return one.priority < asker.priority and disturbed and trial.may_go((one,))


def _node_by_node(ledger: Ledger, asker: Asker, trial: Trial, rooms: Rooms) -> Victims | None:
    """Return victims for the cheapest nodes of the cheapest domain, and for the books; not always the optimum.

    The domains are taken in the order of the least that they could cost, until that is dearer than the best.
    """
    best: tuple[Cost, Victims] | None = None
    for least, domain in _by_least_cost(asker, rooms, list(trial.nodes.values())):
        if best is not None and least > _and_a_rounding(best[0]):
            break
        needed = {node.name: victims for node in domain if (victims := _on_node(ledger, asker, node)) is not None}
        victims = _in_domain(ledger, asker, [node for node in domain if node.name in needed], needed)
        if victims is not None:
            found = (cost(ledger, victims), victims)
            best = found if best is None or found[0] < best[0] else best
    if best is None:
        return None
    trial.leave(best[1])
    for_the_books(ledger, asker, trial)
    return needed_of(ledger, trial) if trial.enough() else None


def _by_least_cost(asker: Asker, rooms: Rooms, nodes: Sequence[Node]) -> list[tuple[Least, list[Node]]]:
    """Return the domains that have enough nodes, with the least priority and loss that they could cost."""
    found: list[tuple[Least, list[Node]]] = []
    on_node = rooms.least()
    for kind in placement.uniform(nodes):
        for domain in placement.domains(kind, asker.depth).values():
            if len(domain) >= asker.bundles:
                each = [on_node[node.name] for node in domain]
                priority = sorted([least[0] for least in each])[asker.bundles - 1]
                lost = sum(sorted([least[1] for least in each])[: asker.bundles])
                found.append(((priority, lost), domain))
    return sorted(found, key=lambda known: known[0])


def _on_node(ledger: Ledger, asker: Asker, node: Node) -> Victims | None:
    """Return the cheapest victims that make one bundle fit on the node; None when nothing would."""
    room, shape = ledger.soon(node.name), asker.shape
    if shape.fits(room):
        return ()
    able = candidates(ledger, asker, ledger.lodgers.get(node.name, ()))
    if not able:
        return None
    theirs = total([one.shape for one in able])
    if not shape.fits_beside(room, theirs):
        return None
    to_spare = room + theirs - shape
    if not any(one.shape.fits(to_spare) for one in able):
        return tuple(sorted(able, key=_name))
    return _fewest(ledger, shape, node, room, able)


def _fewest(ledger: Ledger, shape: Shape, node: Node, room: Shape, able: Sequence[Workload]) -> Victims | None:
    """Return the cheapest of those on a node that are able to leave and more than enough.

    The answer to the same question is remembered: many ask for the same room of the same node in one decision.
    """

    def enough(gone: Victims) -> bool:
        return shape.fits_beside(room, total([victim.shape for victim in gone]))

    borrowed = [ledger.borrowed(one.team) for one in able]
    question = (node.name, shape.parts, room.parts, *map(_name, able), *borrowed)
    known = ledger.memo.cheapest_on
    if question not in known:
        exact = len(able) <= EXACT_UP_TO
        known[question] = cheapest(ledger, able, enough, lambda _: True) if exact else pruned(ledger, able, enough)
    return known[question]


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
    return needed_of(ledger, trial, room_only=True) if trial.ample else None


def for_the_books(ledger: Ledger, asker: Asker, trial: Trial) -> None:
    """Let borrowers leave, the cheapest first, until the cohort's books allow the placement too (R5)."""
    if trial.books_allow():
        return
    for one in sorted(ledger.lodging(ledger.nodes), key=partial(_price, ledger)):
        if one.name not in trial.gone and _is_elsewhere(ledger, asker, trial, one):
            trial.leave((one,))
            if trial.books_allow():
                return


def needed_of(ledger: Ledger, trial: Trial, *, room_only: bool = False) -> Victims:
    """Return those in the trial without whom it is not enough, the dearest spared first (R4)."""
    for victim in sorted(trial.gone.values(), key=partial(_price, ledger), reverse=True):
        trial.stay(victim)
        if not (trial.ample if room_only else trial.enough()):
            trial.leave((victim,))
    return tuple(trial.gone[name] for name in sorted(trial.gone))
