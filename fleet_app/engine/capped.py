"""Who may have no more whole GPUs of an accelerator (rule V9).

Knows the caps and where a workload may run. Does not know who could leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleet_app.engine import caps, placement
from fleet_app.engine.eligibility import accelerators, cap_allows, cap_left, depth, may_use_headroom, sought, uncapped
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.matching import Tally
from fleet_app.engine.plan import Reason, Wait
from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.engine.workload import Workload


def refusal(ledger: Ledger, workload: Workload) -> Wait | None:
    """Return the refusal of what its caps alone keep from every accelerator that could hold it; `level` names one."""
    assert ledger.caps is not None
    nodes = uncapped(ledger, _of_any_kind(workload))
    kinds = accelerators(ledger, nodes)
    allowed = [one for one in kinds if cap_allows(ledger, workload, one)]
    if len(allowed) == len(kinds) or any(_holds(ledger, workload, one, nodes) for one in allowed):
        return None
    found = waits_for(ledger, workload)
    if found:
        left = cap_left(ledger, workload, found[0]) or 0
        return _wait(workload, Reason.QUOTA_USED, found[0], left)
    most = _most_ever(ledger, workload)
    if not most or any(gpus is None or gpus >= workload.gpus for gpus in most.values()):
        return None
    best = max(most, key=lambda one: (most[one] or 0, one))
    return _wait(workload, Reason.TOO_LARGE_FOR_QUOTA, best, most[best] or 0)


def waits_for(ledger: Ledger, workload: Workload) -> list[str]:
    """Return the accelerators on which only a cap keeps the workload from waiting for room, most left of it first."""
    assert ledger.caps is not None
    nodes = uncapped(ledger, _of_any_kind(workload))
    left = {one: cap_left(ledger, workload, one) for one in accelerators(ledger, nodes)}
    most = {one: ledger.caps.most(workload.team, one) for one in left}
    found = [
        (-gpus, one)
        for one, gpus in left.items()
        if gpus is not None and gpus < workload.gpus <= (most[one] or 0) and _holds(ledger, workload, one, nodes)
    ]
    return [one for _, one in sorted(found, key=lambda known: (known[0], known[1]))]


def is_cap(wait: Wait) -> bool:
    """Return whether a wait is for a cap."""
    return wait.reason is Reason.QUOTA_USED and wait.level is not None


def _most_ever(ledger: Ledger, workload: Workload) -> dict[str, int | None]:
    """Return the most GPUs that it could have of each accelerator that would hold it if all nodes were sound (O3)."""
    assert ledger.caps is not None
    headroom = may_use_headroom(ledger, workload)
    nodes = [node for node in ledger.nodes.values() if headroom or node.node_class is NodeClass.TRAINING]
    sizes = {node.name: node.capacity for node in nodes}
    able = (one for one in sorted({node.accelerator for node in nodes}) if _fits(ledger, workload, one, nodes, sizes))
    return {one: ledger.caps.most(workload.team, one) for one in able}


def _holds(ledger: Ledger, workload: Workload, accelerator: str, nodes: list[Node]) -> bool:
    """Return whether nodes of one accelerator would hold a workload if all work of the fleet had ended."""
    levels, asked = depth(ledger, workload), (workload.shape.parts, workload.groups, workload.bundles)
    question = (*asked, levels, accelerator, workload.accelerator, id(nodes))
    known = ledger.memo.could_be_placed.get(question)
    if known is None:
        known = _fits(ledger, workload, accelerator, nodes, ledger.empty)
        ledger.memo.could_be_placed[question] = known
    return known


def _fits(
    ledger: Ledger, workload: Workload, accelerator: str, nodes: Iterable[Node], rooms: Mapping[str, Shape]
) -> bool:
    if workload.accelerator not in {None, accelerator}:
        return False
    if workload.groups:
        wants = replace(sought(ledger, workload), accelerator=accelerator)
        able = {node.name: node for node in nodes}
        return Tally(wants, able, lambda name, shape: shape.fits(rooms[name])).ample > 0
    here = [node for node in nodes if node.accelerator == accelerator and workload.shape.fits(rooms[node.name])]
    return placement.most(here, depth(ledger, workload)) >= workload.bundles


def _of_any_kind(workload: Workload) -> Workload:
    return replace(workload, accelerator=None) if workload.groups else workload


def _wait(workload: Workload, reason: Reason, accelerator: str, available: int) -> Wait:
    return Wait(
        workload=workload.name,
        reason=reason,
        asked=workload.gpus,
        available=max(0, available),
        level=caps.flavor(accelerator),
    )
