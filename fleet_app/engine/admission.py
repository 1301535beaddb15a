"""Who starts: queued gangs and backfill, in order, on exact nodes or not at all (rules O1 to O6, P1 to P6).

Knows the queue and the ledger. Does not know services.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from fleet_app.engine import placement, reclaim, refusal
from fleet_app.engine.eligibility import asker, depth, eligible, is_open, unreserved
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Action, Admit, DomainRoom, Reason, Wait
from fleet_app.engine.rooms import rooms_of
from fleet_app.engine.turns import in_turn
from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.engine.workload import Workload

Answer = Iterator[Action | Wait]

HOPELESS = {Reason.UNKNOWN_TEAM, Reason.TOO_LARGE_FOR_FLEET, Reason.TOO_LARGE_FOR_QUOTA, Reason.CONTRACT_BROKEN}
"""What no wait ends: it is in nobody's way (O3)."""


def step(ledger: Ledger, watch: str | None = None) -> Answer:
    """Yield an admission or a wait for every queued workload, and the drains that make room.

    The room that is left only shrinks, so what was refused once is refused to all that ask for the same. Where a
    team's queue is strict, nobody passes the first of it that waits (O6).
    `watch` names the workload whose wait is to say what each domain has.
    """
    refused: dict[object, Wait] = {}
    first: dict[str, str] = {}
    for workload in in_turn(ledger):
        if workload.team in first:
            yield refusal.behind(workload, first[workload.team])
            continue
        key = _question(workload)
        known = refused.get(key)
        if known is not None and workload.name != watch:
            yield _for(workload, known)
            continue
        for part in _consider(ledger, workload, watched=workload.name == watch):
            if isinstance(part, Wait):
                if part.reason is not Reason.DRAIN_UNDER_WAY:
                    refused[key] = part
                if part.reason not in HOPELESS and ledger.tree.strict(workload.team):
                    first[workload.team] = workload.name
            yield part


def _question(workload: Workload) -> object:
    return (
        workload.team,
        workload.priority,
        workload.kind,
        workload.shape,
        workload.bundles,
        workload.within,
        workload.accelerator,
        workload.broken_drains,
    )


def _consider(ledger: Ledger, workload: Workload, *, watched: bool) -> Answer:
    refused = refusal.impossible(ledger, workload) or refusal.over_quota(ledger, workload)
    if refused is not None:
        if refused.reason is Reason.QUOTA_USED:
            _book(ledger, workload)
        yield refused
        return
    nodes = eligible(ledger, workload)
    rooms = refusal.rooms(ledger, workload, nodes) if watched else ()
    chosen = _now(ledger, workload, nodes)
    if chosen is not None:
        firm = not ledger.class_of(workload).yields
        ledger.give(workload.team, chosen, workload.shape, firm=firm)
        yield Admit(workload=workload.name, nodes=chosen, why=_where(ledger, chosen))
    elif ledger.class_of(workload).yields:
        yield refusal.no_room(ledger, workload, nodes, rooms)
    else:
        yield from _make_room(ledger, workload, nodes, rooms)


def _now(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> tuple[str, ...] | None:
    if ledger.available(workload.team) < workload.gpus:
        return None
    fitting = unreserved(ledger, workload, rooms_of(ledger, workload.shape, nodes).now())

    def tightness(node: Node) -> tuple[int, ...]:
        return (node.node_class is NodeClass.TRAINING, ledger.free[node.name].gpus)

    return placement.place(fitting, workload.bundles, depth(ledger, workload), tightness)


def _make_room(ledger: Ledger, workload: Workload, nodes: Sequence[Node], rooms: tuple[DomainRoom, ...]) -> Answer:
    """Wait for room that is coming; else ask victims to leave; else reserve, so that smaller ones do not pass (O4)."""
    found = reclaim.find(ledger, asker(ledger, workload), nodes, is_open(ledger, workload))
    if found is None:
        yield refusal.no_room(ledger, workload, nodes, rooms)
        _reserve(ledger, workload, unreserved(ledger, workload, nodes))
        _book(ledger, workload)
        return
    why = f"{workload.name} needs {workload.bundles} x {workload.shape.gpus} GPUs inside its team's nominal"
    ready = sum(workload.shape.fits(ledger.free[name]) for name in found.nodes)
    yield from reclaim.notices(ledger, found.victims, workload.name, why)
    ledger.claim(workload.name, workload.team, found.nodes, workload.shape)
    yield Wait(
        workload=workload.name,
        reason=Reason.DRAIN_UNDER_WAY,
        asked=workload.bundles,
        available=ready,
        level=workload.within,
        rooms=rooms,
        blocked_by=tuple(victim.name for victim in found.victims),
    )


def _reserve(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> None:
    """Keep later work that would not leave off the nodes on which the workload is nearest to fitting (O4).

    Of equally near ones those with the least idle now, which others could use meanwhile.
    """
    seeks, levels = asker(ledger, workload), depth(ledger, workload)
    ever = {node.name for node in rooms_of(ledger, workload.shape, eligible(ledger, workload)).ever()}

    @cache
    def room(name: str) -> Shape:
        return reclaim.most_room(ledger, seeks, ledger.nodes[name])

    def fits(node: Node) -> bool:
        return node.name in ever and workload.shape.fits(room(node.name))

    options = [
        (-sum(map(fits, domain)), key, kind[0].accelerator, kind[0].driver, domain)
        for kind in placement.uniform(_able(ledger, workload, nodes))
        for key, domain in placement.domains(kind, levels).items()
        if len(domain) >= workload.bundles
    ]
    if not options:
        return

    def nearness(node: Node) -> tuple[bool, int, int, tuple[str, ...], str]:
        return (not fits(node), -room(node.name).gpus, ledger.free[node.name].gpus, node.domains, node.name)

    chosen = min(options, key=lambda option: option[:4])[4]
    for node in sorted(chosen, key=nearness)[: workload.bundles]:
        ledger.reserved[node.name] = workload


def _book(ledger: Ledger, workload: Workload) -> None:
    """Keep what comes free of the team's nominal for the workload, if it could then be placed (O4)."""
    if ledger.class_of(workload).yields:
        return
    nodes = eligible(ledger, workload)
    levels = depth(ledger, workload)
    question = (workload.shape, levels, id(nodes))
    if question not in ledger.most_ever:
        ledger.most_ever[question] = placement.most(_able(ledger, workload, nodes), levels)
    if ledger.most_ever[question] >= workload.bundles:
        ledger.booked[workload.team].append(workload)


def _able(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes on which a bundle would fit if all work of the fleet there had ended."""
    return [node for node in nodes if workload.shape.fits(ledger.empty[node.name])]


def _where(ledger: Ledger, chosen: Sequence[str]) -> str:
    """Return the smallest domain that holds all of the nodes, as a reason."""
    paths = [ledger.nodes[name].domains for name in chosen]
    shared = 0
    while all(len(path) > shared for path in paths) and len({path[shared] for path in paths}) == 1:
        shared += 1
    domain = "/".join(paths[0][:shared]) or "the fleet"
    return f"{len(chosen)} nodes fit in {domain}" if len(chosen) > 1 else f"{chosen[0]} fits"


def _for(workload: Workload, known: Wait) -> Wait:
    return replace(known, workload=workload.name, rooms=())
