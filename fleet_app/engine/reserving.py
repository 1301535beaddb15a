"""What is kept for who waits: nodes, its team's nominal, and from when it can have them (rules O4, O7, O11).

A planned start rests on known ends only: maximum run times, deadlines, and whom the workload may always ask to leave.
Knows the ledger and those ends. Does not admit anybody, and asks nobody to leave.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from heapq import heapify, heappop, heappush, nsmallest

from fleet_app.engine import placement, reclaim
from fleet_app.engine.eligibility import asker, depth, eligible
from fleet_app.engine.ends import Start, gone_at
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.members import member_of
from fleet_app.engine.plan import Reason, Wait
from fleet_app.engine.rooms import rooms_of
from fleet_app.engine.trial import Asker, Trial
from fleet_app.engine.values import Block, Node, Shape
from fleet_app.engine.workload import Workload

Moment = tuple[float, str]
"""When something is so at the latest, in seconds, and who has to end for that."""


def keep(ledger: Ledger, workload: Workload, wait: Wait, *, for_room: bool) -> Wait:
    """Keep nodes and nominal for a workload that never yields and waits; return its wait with its planned start.

    One that waits not `for_room` but for nominal keeps nodes only when its start is planned: who knows when it can.
    One that waits for a booking to end keeps nothing: that is known, and far (C1).
    """
    if wait.reason is Reason.BOOKED or not may_keep(ledger):
        return wait
    start = _plan(ledger, workload) if ledger.limited else None
    if start is None and for_room:
        keep_nodes(ledger, workload, _nearest(ledger, workload))
    if _could_be_placed(ledger, workload):
        ledger.booked[workload.team].append(workload)
    return wait if start is None else replace(wait, planned_at=start.at, planned_after=start.after)


def may_keep(ledger: Ledger) -> bool:
    """Return whether one more that waits may keep anything, and count it (O11)."""
    most = ledger.policy.ordering.keepers
    if most is None or ledger.memo.keepers < most:
        ledger.memo.keepers += 1
        return True
    return False


def is_free(ledger: Ledger, workload: Workload, until: float | None = None) -> Callable[[Node], bool]:
    """Return whether a node is kept for nobody, so that a workload may make room for itself there.

    It will have left `until`: without that, if it starts when everybody who was asked to leave now has left (C1).
    """
    if ledger.calendar is None:
        return lambda node: node.name not in ledger.reserved
    soon = ledger.now + ledger.policy.drain.longest_grace_s
    end = ledger.calendar.gone_at(workload, soon) if until is None else until
    is_open = ledger.calendar.open_to(workload, yields=ledger.class_of(workload).yields, until=end)
    return lambda node: node.name not in ledger.reserved and is_open(node.name)


def soonest(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> set[str] | None:
    """Return the names of those nodes that are enough and come free first, of what is free or coming already (R6).

    Nobody swaps room that it waits for against room that comes later, however well that lies. None when all have to be
    waited for.
    """
    coming = list(filter(is_free(ledger, workload), rooms_of(ledger, workload.shape, nodes).soon()))
    ready = {node.name: ledger.ready_at(node.name, workload.shape) for node in coming}
    for moment in sorted(set(ready.values()))[:-1]:
        first = [node for node in coming if ready[node.name] <= moment]
        if placement.most(first, depth(ledger, workload)) >= workload.bundles:
            return {node.name for node in first}
    return None


def _plan(ledger: Ledger, workload: Workload) -> Start | None:
    """Keep the nodes that the workload can have first by known ends, and return its planned start; None without one."""
    seeks = asker(ledger, workload)
    trial = Trial(ledger, seeks, list(filter(is_free(ledger, workload, math.inf), eligible(ledger, workload))))
    start = planned(ledger, workload, trial)
    if start is not None:
        fitting = trial.fitting()
        blocks = placement.blocks(fitting, seeks.depth)
        keep_nodes(ledger, workload, _nearest_of(ledger, workload, blocks, fitting, trial.room.__getitem__))
    return start


def planned(ledger: Ledger, workload: Workload, trial: Trial) -> Start | None:
    """Enter and return the planned start on nodes that are kept for nobody; None without one (O7).

    From `asked_at` on everything in the way is leaving, so that it is all gone within the longest grace. What has left
    `trial` is what will have been asked by then.
    """
    known = [_nominal_comes(ledger, workload), _room_comes(ledger, trial.asker, trial)]
    found = [moment for moment in known if moment is not None]
    asked_at, after = max(found, default=(ledger.now, ""))
    if len(found) < len(known) or asked_at <= ledger.now:
        return None
    start = Start(asked_at=asked_at, at=asked_at + ledger.policy.drain.longest_grace_s, after=after)
    ledger.starts[workload.name] = start
    return start


def _nominal_comes(ledger: Ledger, workload: Workload) -> Moment | None:
    """Return when so much of the team's nominal is free of work that never yields; it counts until it is gone."""
    left = ledger.firm_left_behind(workload.team)
    if left >= workload.gpus:
        return ledger.now, ""
    for end, name, one in _going(ledger):
        if one.team == workload.team and not ledger.class_of(one).yields:
            left += one.gpus
            if left >= workload.gpus:
                return end, name
    return None


def _going(ledger: Ledger) -> Iterator[tuple[float, str, Workload]]:
    """Yield who is gone by a known end, the first first; only as far as it is asked for, there are many."""
    drain, now = ledger.policy.drain, ledger.now
    apart = ledger.holding if ledger.leaving or ledger.members.elastic else ()
    known = ((one, gone_at(drain, one, now)) for one in apart if one.leaving or one.minimum is not None)
    going = [(end, one.name, one) for one, end in known if end is not None]
    heapify(going)
    for limit, name, one in ledger.limited:
        while going and going[0][0] < limit:
            yield heappop(going)
        end = None if one.leaving or one.minimum is not None else gone_at(drain, one, now)
        if end is not None:
            heappush(going, (end, name, one))
    while going:
        yield heappop(going)


def _room_comes(ledger: Ledger, seeks: Asker, trial: Trial) -> Moment | None:
    """Return when all bundles fit beside those who neither leave by then nor can be asked; the rest leave `trial`."""
    trial.leave(one for one in ledger.lodging(trial.nodes) if _always_yields(ledger, seeks, one))
    moment: Moment = ledger.now, ""
    for limit, name, one in ledger.limited:
        if trial.ample or limit == math.inf:
            break
        if name not in ledger.leaving and not trial.nodes.keys().isdisjoint(one.nodes) and not _is_gone(trial, one):
            trial.leave((one,))
            moment = max(ledger.now, limit), name
    return moment if trial.ample else None


def _is_gone(trial: Trial, one: Workload) -> bool:
    """Return whether a workload left, or of an elastic one every member that is in the way."""
    members = () if one.minimum is None else one.nodes
    return one.name in trial.gone or any(member_of(one, node).name in trial.gone for node in members)


def _always_yields(ledger: Ledger, seeks: Asker, lodger: Workload) -> bool:
    """Return whether the workload may ask the lodger to leave whatever its team borrows by then (R1, R2, R7)."""
    theirs = lodger.team == seeks.team and not ledger.undisturbed(lodger)
    return lodger.priority < seeks.priority and (theirs or seeks.passed_by(lodger))


def _nearest(ledger: Ledger, workload: Workload) -> list[Node]:
    """Return the nodes on which the workload is nearest to fitting, with everybody gone who may be asked (O4)."""
    seeks, nodes, free = asker(ledger, workload), eligible(ledger, workload), is_free(ledger, workload, math.inf)

    @cache
    def room(name: str) -> Shape:
        return reclaim.most_room(ledger, seeks, ledger.nodes[name])

    ever = rooms_of(ledger, workload.shape, nodes).ever()
    fitting = [node for node in filter(free, ever) if workload.shape.fits(room(node.name))]
    blocks = _blocks_of(ledger, workload, nodes)
    if ledger.calendar is not None:
        blocks = {block: list(filter(free, there)) for block, there in blocks.items()}
    return _nearest_of(ledger, workload, blocks, fitting, room)


def _nearest_of(
    ledger: Ledger,
    workload: Workload,
    blocks: dict[Block, list[Node]],
    fitting: Sequence[Node],
    room: Callable[[str], Shape],
) -> list[Node]:
    """Return one node a bundle that is kept for nobody, all in one of the blocks, those that fit first.

    Of equally near ones those with the least idle now, which others could use meanwhile. What is kept for somebody
    stays so in this decision, and is taken out of the blocks.
    """
    levels, bundles = depth(ledger, workload), workload.bundles
    fit_in = Counter(node.block(levels) for node in fitting)
    for block in sorted(blocks, key=lambda one: (-fit_in.get(one, 0), one)):
        nodes = blocks[block] = [node for node in blocks[block] if node.name not in ledger.reserved]
        if len(nodes) >= bundles:
            break
    else:
        return []

    def nearness(node: Node) -> tuple[int, int, tuple[str, ...], str]:
        return (-room(node.name).gpus, ledger.free[node.name].gpus, node.domains, node.name)

    fits = {node.name for node in fitting}
    found = nsmallest(bundles, (node for node in nodes if node.name in fits), key=nearness)
    rest = [node for node in nodes if node.name not in fits] if len(found) < bundles else []
    return [*found, *_roomiest(ledger, rest, bundles - len(found), nearness)]


def _roomiest(
    ledger: Ledger, nodes: Sequence[Node], count: int, nearness: Callable[[Node], tuple[int, int, tuple[str, ...], str]]
) -> list[Node]:
    """Return the nearest nodes; not all are looked at: with everybody gone, asked or not, some could be no nearer."""
    most = ledger.most_gpus
    found: list[tuple[tuple[int, int, tuple[str, ...], str], Node]] = []
    for node in sorted(nodes, key=lambda node: -most[node.name]):
        if len(found) == count and -most[node.name] > found[-1][0][0]:
            break
        insort(found, (nearness(node), node), key=lambda one: one[0])
        del found[count:]
    return [node for _, node in found]


def _blocks_of(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> dict[Block, list[Node]]:
    """Return the blocks of those nodes that would hold a bundle if all work of the fleet there had ended."""
    levels = depth(ledger, workload)
    question = (workload.shape, levels, id(nodes))
    known = ledger.memo.blocks.get(question)
    if known is None:
        able = [node for node in nodes if workload.shape.fits(ledger.empty[node.name])]
        known = ledger.memo.blocks[question] = placement.blocks(able, levels)
    return known


def keep_nodes(ledger: Ledger, workload: Workload, nodes: Sequence[Node], *, gpus: bool = True) -> None:
    """Keep nodes for a workload from later work, and what its caps leave of their accelerator, once (O4, V9).

    `gpus` is whether it asks for any there.
    """
    for node in nodes:
        ledger.reserved[node.name] = workload
    if ledger.caps is not None and nodes and gpus:
        ledger.caps.keep(workload, nodes[0].accelerator)


def _could_be_placed(ledger: Ledger, workload: Workload) -> bool:
    """Return whether the workload would fit if all work of the fleet had ended."""
    nodes, levels, bundles = eligible(ledger, workload), depth(ledger, workload), workload.bundles
    question = (workload.shape, levels, bundles, id(nodes))
    known = ledger.memo.could_be_placed.get(question)
    if known is None:
        able = (node for node in nodes if workload.shape.fits(ledger.empty[node.name]))
        known = ledger.memo.could_be_placed[question] = placement.has_block(able, bundles, levels)
    return known
