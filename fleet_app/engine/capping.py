"""Committed work that only a cap keeps from its nodes: who leaves for it, and what is kept for it (rule V9).

Knows the caps, the ledger and where a workload may run. Nobody is asked where there would be no room afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from fleet_app.engine import giving, mixed_reclaim, notices, reclaim
from fleet_app.engine.eligibility import asker, uncapped
from fleet_app.engine.flavors import whole_of
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Action, Wait
from fleet_app.engine.reclaim import Eviction
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload

Victims = tuple[Workload, ...]


def wait_for(
    ledger: Ledger, workload: Workload, refused: Wait, is_open: Callable[[Node], bool]
) -> Iterator[Action | Wait]:
    """Yield who leaves so that a workload finds room and its caps let it, and its wait; keep for it what they leave.

    `is_open` is whether a node is kept for nobody else.
    """
    assert ledger.caps is not None
    accelerator = whole_of(refused.level or "")
    found = _eviction(ledger, workload, accelerator, is_open)
    if found is None or not notices.may_ask_now(ledger, found.victims):
        ledger.caps.take(workload.team, accelerator, workload.gpus)
        yield refused
        return
    why = f"{workload.name} needs {workload.gpus} GPUs of its {refused.level}"
    yield from giving.coming(ledger, workload, found, why)


def _eviction(ledger: Ledger, workload: Workload, accelerator: str, is_open: Callable[[Node], bool]) -> Eviction | None:
    """Return where it would have room, and who leaves for that and for the caps; None where all would be too few."""
    assert ledger.caps is not None
    found = _room(ledger, workload, accelerator, is_open)
    if found is None:
        return None
    here = [one for one in ledger.holding if _counts(ledger, one, accelerator)]
    leaving = [one for one in here if one.name in ledger.leaving]
    short = ledger.caps.short(workload.team, accelerator, workload.gpus)
    names = {one.name for one in found.victims}
    others = [one for one in here if one.name not in names]
    more = _victims(ledger, workload, _without(ledger, short, [*leaving, *found.victims]), others)
    return None if more is None else Eviction(nodes=found.nodes, victims=(*found.victims, *more))


def _room(ledger: Ledger, workload: Workload, accelerator: str, is_open: Callable[[Node], bool]) -> Eviction | None:
    """Return where it has room, and who leaves there; what asks for no GPUs may be on any accelerator (P7)."""
    if not workload.groups:
        able = [node for node in uncapped(ledger, workload) if node.accelerator.lower() == accelerator]
        return reclaim.find(ledger, asker(ledger, workload), able, is_open)
    nodes = uncapped(ledger, replace(workload, accelerator=None))
    spelled = next(node.accelerator for node in nodes if node.accelerator.lower() == accelerator)
    return mixed_reclaim.find(ledger, asker(ledger, replace(workload, accelerator=spelled)), nodes, is_open)


def _victims(ledger: Ledger, workload: Workload, short: dict[str, int], here: Sequence[Workload]) -> Victims | None:
    """Return the cheapest that yield and free what is short, none of whom can be spared; None when all are too few."""
    able = [one for one in here if _may_ask(ledger, workload, one)]
    chosen: list[Workload] = []
    for one in sorted(able, key=lambda one: _price(ledger, one)):
        left = _without(ledger, short, chosen)
        if left and _without(ledger, left, [one]) != left:
            chosen.append(one)
    for one in reversed(chosen):
        rest = [other for other in chosen if other.name != one.name]
        chosen = chosen if _without(ledger, short, rest) else rest
    return None if _without(ledger, short, chosen) else tuple(chosen)


def _may_ask(ledger: Ledger, workload: Workload, one: Workload) -> bool:
    yields = ledger.class_of(one).yields and one.priority < workload.priority
    return yields and one.name not in ledger.leaving and one.minimum is None and not ledger.undisturbed(one)


def _without(ledger: Ledger, short: dict[str, int], gone: Sequence[Workload]) -> dict[str, int]:
    """Return what caps still lack once some have left."""
    assert ledger.caps is not None
    left = dict(short)
    for one in gone:
        for entry in ledger.caps.above(one.team):
            if entry in left:
                left[entry] -= one.gpus
    return {entry: missing for entry, missing in left.items() if missing > 0}


def _counts(ledger: Ledger, one: Workload, accelerator: str) -> bool:
    node = ledger.nodes.get(one.nodes[0]) if one.nodes and one.gpus else None
    return node is not None and node.accelerator.lower() == accelerator


def _price(ledger: Ledger, one: Workload) -> tuple[int, float, int, float, str]:
    """Return what it costs that somebody leaves (R3)."""
    return (one.priority, ledger.lost_gpu_s(one), one.gpus, -(one.admitted_at or 0.0), one.name)
