"""Replicas first: grants for what services want, and the immediate tier of headroom (rules S1 to S9).

Knows what services need, serving's nodes and the ledger. Does not know training's queue. It decides how many replicas
may start and where; how many the traffic needs is Serve's own affair.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from fleet_app.engine import capping, caps, larger, notices, reclaim
from fleet_app.engine.apart import among, barred, crowds
from fleet_app.engine.caps import Caps
from fleet_app.engine.eligibility import accelerators, serving_nodes
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.needs import Need, Spare, spare, surplus
from fleet_app.engine.plan import Action, GiveGrant, Reason, TakeGrant, Wait
from fleet_app.engine.rooms import rooms_of
from fleet_app.engine.trial import Asker
from fleet_app.engine.values import Node, Shape
from fleet_app.engine.workload import Grant, Service

HEADROOM = "immediate headroom"

Answer = Iterator[Action | Wait]


def step(ledger: Ledger, needs: Sequence[Need]) -> Answer:
    """Yield grants given and taken back, drains for what does not fit, and a wait for each service left short.

    `needs` are those for whole GPUs, first to be served first.
    """
    for need in needs:
        yield from _take_surplus(ledger, need)
    for need in needs:
        yield from _raise(ledger, needs, need, need.floor)
    yield from _raise_in_turn(ledger, needs)
    for need in needs:
        yield from _raise(ledger, needs, need, need.target)


def _take_surplus(ledger: Ledger, need: Need) -> Iterator[TakeGrant]:
    service = need.service
    gone, beyond = surplus(need)
    if beyond:
        names = {grant.name for grant in beyond}
        need.kept = [grant for grant in need.kept if grant.name not in names]
    for grant in gone:
        yield _back(ledger, service, grant, f"{grant.node} takes no new replicas")
    for grant in beyond:
        yield _back(ledger, service, grant, f"{service.name} wants {service.wanted}")


def _back(ledger: Ledger, service: Service, grant: Grant, why: str) -> TakeGrant:
    """Take an idle grant back."""
    ledger.take_back(service.team, grant.node, service.shape)
    return TakeGrant(service=service.name, grant=grant.name, why=why)


def _raise(ledger: Ledger, needs: Sequence[Need], need: Need, target: int) -> Answer:
    """Find room for replicas one by one up to the target; stop at the first that finds none."""
    while len(need.kept) < target:
        immediate = len(need.kept) >= need.wanted
        before = len(need.kept)
        outcome = list(_one(ledger, needs, need, immediate=immediate))
        ledger.memo.short = ledger.memo.short or any(isinstance(part, Wait) for part in outcome)
        yield from (part for part in outcome if not (immediate and isinstance(part, Wait)))
        if len(need.kept) == before:
            return


def _raise_in_turn(ledger: Ledger, needs: Sequence[Need]) -> Answer:
    """Give one replica to each service in turn, so that none waits for another's last (S3)."""
    short = list(needs)
    while short:
        still = []
        for need in short:
            before = len(need.kept)
            yield from _raise(ledger, needs, need, min(before + 1, need.wanted))
            if len(need.kept) > before:
                still.append(need)
        short = still


def _one(ledger: Ledger, needs: Sequence[Need], need: Need, *, immediate: bool) -> Answer:
    """Yield what it takes to place one more replica: a grant, a wait for room that is coming, drains, or a no."""
    service = need.service
    others = [] if immediate else spare(needs, need)
    yield from _take_for_quota(ledger, need, others)
    refused = _refused(ledger, service)
    if refused is not None:
        yield refused
        return
    before, last = len(need.kept), barred(need)
    for off in larger.choices(ledger, needs, need, _left(others)):
        # Nobody's grant goes for a place that may come to nothing: there are others to try.
        may_take = off == last or ledger.available_soon(service.team) >= service.shape.gpus
        yield from _place(ledger, need, _left(others, off) if may_take else [], off)
        if len(need.kept) > before:
            return
    capped = None if ledger.caps is None else _over_cap(ledger, service, ledger.caps)
    yield capped or _wait(ledger, service, Reason.APART if last else Reason.NO_ROOM)


def _left(others: Iterable[Spare], off: frozenset[str] = frozenset()) -> list[Spare]:
    """Return what is left of some idle grants, on nodes that are not `off`: each is taken once."""
    return [(other, grant) for other, grant in others if grant.node not in off and grant in other.kept]


def _place(ledger: Ledger, need: Need, others: Sequence[Spare], off: frozenset[str]) -> Answer:
    """Yield what it takes to place one more replica on a node that is not `off`; nothing when that cannot be done."""
    service, immediate = need.service, len(need.kept) >= need.wanted
    now = among(rooms_of(ledger, service.shape, serving_nodes(ledger, service)).now(), off)
    if now and ledger.available(service.team) >= service.shape.gpus:
        node = _best(ledger, need, now)
        ledger.give(service.team, (node,), service.shape, firm=True)
        ledger.replicas[node] += 1
        why = f"{HEADROOM} for {service.name}" if immediate else f"{service.name} wants {service.wanted}"
        need.kept.append(Grant(name="", node=node))
        yield GiveGrant(service=service.name, node=node, shape=service.shape, why=why)
    else:
        yield from _make_room(ledger, need, others, off, HEADROOM if immediate else service.name)


def _make_room(ledger: Ledger, need: Need, others: Sequence[Spare], off: frozenset[str], whose: str) -> Answer:
    """Wait for room that is coming, else take others' idle grants, else drain, else both on one node (S6)."""
    service = need.service
    asker = Asker(name=service.name, team=service.team, priority=service.priority, shape=service.shape, anyone=True)
    rooms = rooms_of(ledger, service.shape, serving_nodes(ledger, service))
    if not among(rooms.soon(), off):
        yield from _take_for_room(ledger, need, others, lambda node: ledger.soon(node.name))
    if not any(service.shape.fits(reclaim.most_room(ledger, asker, node)) for node in among(rooms.ever(), off)):
        yield from _take_for_room(ledger, need, others, lambda node: reclaim.most_room(ledger, asker, node))
    coming = among(rooms.soon(), off)
    if coming and ledger.available_soon(service.team) >= service.shape.gpus:
        node = _best(ledger, need, coming)
    else:
        found = reclaim.find(ledger, asker, serving_nodes(ledger, service), lambda node: node.name not in off)
        if found is None and ledger.caps is not None:
            yield from _take_for_cap(ledger, need, _left(others), off)
            found = capping.for_replica(ledger, asker, lambda node: node.name not in off)
        if found is None:
            return
        node = found.nodes[0]
        why = f"{whose} needs {service.shape.gpus} GPUs on {node}"
        yield from notices.asked(ledger, found.victims, service.name, why)
    ledger.claim(service.name, service.team, (node,), service.shape)
    need.kept.append(Grant(name="", node=node))
    yield _wait(ledger, service, Reason.DRAIN_UNDER_WAY)


def _take_for_quota(ledger: Ledger, need: Need, others: Sequence[Spare]) -> Iterator[TakeGrant]:
    """Take idle grants of services of the same team, when its nominal is used up and they are enough."""
    team = need.service.team
    taken: list[Spare] = []
    short = need.service.shape.gpus - ledger.firm_left(team)
    for other, grant in others:
        if short > 0 and other.service.team == team:
            taken.append((other, grant))
            short -= other.service.shape.gpus
    if short <= 0:
        yield from _taken(ledger, need, taken)


def _take_for_room(
    ledger: Ledger, need: Need, others: Sequence[Spare], room: Callable[[Node], Shape]
) -> Iterator[TakeGrant]:
    """Take idle grants on one node, the fewest that are enough there."""
    shape = need.service.shape
    there: dict[str, list[Spare]] = defaultdict(list)
    for other, grant in others:
        there[grant.node].append((other, grant))
    able = {node.name: node for node in serving_nodes(ledger, need.service) if node.name in there}
    options = [_fewest(shape, room(able[name]), there[name]) for name in sorted(able)]
    enough = [chosen for chosen in options if chosen]
    if enough:
        fewest = min(enough, key=len)
        yield from _taken(ledger, need, fewest)


def _take_for_cap(ledger: Ledger, need: Need, others: Sequence[Spare], off: frozenset[str]) -> Iterator[TakeGrant]:
    """Take idle grants, the fewest that are enough, where a cap keeps a replica from an accelerator (S3, V9).

    With them gone nobody has to leave: neither for the cap nor for room.
    """
    service, limits = need.service, ledger.caps
    assert limits is not None
    if ledger.available_soon(service.team) < service.shape.gpus:
        return
    for accelerator in accelerators(ledger, serving_nodes(ledger)):
        nodes = [node.name for node in among(serving_nodes(ledger), off) if node.accelerator == accelerator]
        there = [(other, grant) for other, grant in others if grant.node in nodes]
        short = limits.short(service.team, accelerator, service.shape.gpus)
        chosen = _least(there, partial(_is_enough, ledger, service.shape, nodes, short)) if short else []
        if chosen:
            yield from _taken(ledger, need, chosen)
            return


def _is_enough(
    ledger: Ledger, shape: Shape, nodes: Sequence[str], short: Mapping[str, int], gone: Sequence[Spare]
) -> bool:
    """Return whether without some grants caps lack nothing, and one of the nodes has room."""
    assert ledger.caps is not None
    back = Counter[str]()
    room: dict[str, list[Spare]] = defaultdict(list)
    for other, grant in gone:
        room[grant.node].append((other, grant))
        back.update(dict.fromkeys(ledger.caps.above(other.service.team), other.service.shape.gpus))
    lacks = any(back[entry] < missing for entry, missing in short.items())
    return not lacks and any(shape.fits(_with(ledger.soon(name), room.get(name, ()))) for name in nodes)


def _fewest(shape: Shape, room: Shape, spares: Sequence[Spare]) -> list[Spare]:
    """Return grants of which none can be spared, with which the shape fits; nothing when all are not enough."""
    return _least(spares, lambda chosen: shape.fits(_with(room, chosen)))


def _least(spares: Sequence[Spare], enough: Callable[[Sequence[Spare]], bool]) -> list[Spare]:
    """Return grants of which none can be spared; nothing when all are not enough."""
    chosen = list(spares)
    for one in spares:
        rest = [other for other in chosen if other is not one]
        if enough(rest):
            chosen = rest
    return chosen if enough(chosen) else []


def _with(room: Shape, spares: Iterable[Spare]) -> Shape:
    for other, _ in spares:
        room += other.service.shape
    return room


def _taken(ledger: Ledger, need: Need, taken: Iterable[Spare]) -> Iterator[TakeGrant]:
    for other, grant in taken:
        other.kept.remove(grant)
        other.immediate = max(0, other.immediate - 1)
        yield _back(ledger, other.service, grant, f"{need.service.name} needs the room")


def _best(ledger: Ledger, need: Need, nodes: Sequence[Node]) -> str:
    """Return the fullest node, in the fullest domain; with `spread`, the one with the fewest of its own (S2, S8)."""
    crowd = crowds(need, ledger.nodes, nodes)
    own = Counter(grant.node for grant in need.kept) if need.service.spread else {}
    gpus = {node.name: ledger.soon(node.name).gpus if ledger.coming else ledger.free[node.name].gpus for node in nodes}
    in_domain: dict[tuple[str, ...], int] = defaultdict(int)
    for node in nodes:
        in_domain[node.domains] += gpus[node.name]

    def fullest(node: Node) -> tuple[int, int, tuple[str, ...], str]:
        return (gpus[node.name], in_domain[node.domains], node.domains, node.name)

    if not crowd and not own:
        fewest = min(gpus.values())
        return min([node for node in nodes if gpus[node.name] == fewest], key=fullest).name
    return min(nodes, key=lambda node: (crowd.get(node.name, 0), own.get(node.name, 0), fullest(node))).name


def _refused(ledger: Ledger, service: Service) -> Wait | None:
    if service.team not in ledger.tree.entries:
        return _wait(ledger, service, Reason.UNKNOWN_TEAM)
    if ledger.firm_left(service.team) < service.shape.gpus:
        return _wait(ledger, service, Reason.QUOTA_USED)
    return None


def _over_cap(ledger: Ledger, service: Service, limits: Caps) -> Wait | None:
    """Return the refusal of one whose team may have no more GPUs of any accelerator that serving has (V9)."""
    nodes = serving_nodes(ledger)
    if not nodes or serving_nodes(ledger, service):
        return None
    left = {node.accelerator: limits.left(service.team, node.accelerator) or 0 for node in nodes}
    best = max(left, key=lambda kind: (left[kind], kind))
    return Wait(
        workload=service.name,
        reason=Reason.QUOTA_USED,
        asked=service.shape.gpus,
        available=max(0, left[best]),
        level=caps.flavor(best),
    )


def _wait(ledger: Ledger, service: Service, reason: Reason) -> Wait:
    if reason in {Reason.QUOTA_USED, Reason.UNKNOWN_TEAM}:
        left = max(0, ledger.firm_left(service.team))
        return Wait(workload=service.name, reason=reason, asked=service.shape.gpus, available=left)
    if reason is Reason.APART:
        return Wait(workload=service.name, reason=reason, asked=1, available=0)
    free = len(rooms_of(ledger, service.shape, serving_nodes(ledger, service)).now())
    return Wait(workload=service.name, reason=reason, asked=1, available=free)
