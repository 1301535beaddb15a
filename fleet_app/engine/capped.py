"""Who may have no more whole GPUs of an accelerator, and who leaves for committed work that may not yet (rule V9).

Knows the caps, the ledger and where a workload may run. Does not know room on nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fleet_app.engine import caps, reclaim
from fleet_app.engine.eligibility import uncapped
from fleet_app.engine.flavors import whole_of
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.plan import Action, Reason, Wait
from fleet_app.engine.workload import Workload

Answer = Iterator[Action | Wait]


def refusal(ledger: Ledger, workload: Workload) -> Wait | None:
    """Return the refusal of what would be too many GPUs of every accelerator that it may have; `level` names one."""
    if ledger.caps is None or not workload.gpus:
        return None
    nodes = uncapped(ledger, workload)
    able = sorted({node.accelerator for node in nodes if workload.shape.gpus <= node.capacity.gpus})
    if not able or any(ledger.caps.allows(workload.team, one, workload.gpus) for one in able):
        return None
    left = {one: ledger.caps.left(workload.team, one) or 0 for one in able}
    most = {one: ledger.caps.most(workload.team, one) or 0 for one in able}
    ever = [one for one in able if most[one] >= workload.gpus]
    best = max(ever or able, key=lambda one: (left[one] if ever else most[one], one))
    return Wait(
        workload=workload.name,
        reason=Reason.QUOTA_USED if ever else Reason.TOO_LARGE_FOR_QUOTA,
        asked=workload.gpus,
        available=max(0, left[best] if ever else most[best]),
        level=caps.flavor(best),
    )


def is_cap(wait: Wait) -> bool:
    """Return whether a wait is for a cap."""
    return wait.reason is Reason.QUOTA_USED and wait.level is not None


def wait_for(ledger: Ledger, workload: Workload, refused: Wait) -> Answer:
    """Keep what comes free under the caps for a workload that never yields, and ask who yields there to leave."""
    assert ledger.caps is not None
    accelerator = whole_of(refused.level or "")
    short = ledger.caps.short(workload.team, accelerator, workload.gpus)
    ledger.caps.take(workload.team, accelerator, workload.gpus)
    here = [one for one in ledger.holding if _counts(ledger, one, accelerator)]
    leaving = [one for one in here if one.name in ledger.leaving]
    victims = _victims(ledger, workload, _without(ledger, short, leaving), here)
    if victims is None or not reclaim.may_ask_now(ledger, victims):
        yield refused
        return
    why = f"{workload.name} needs {workload.gpus} GPUs of its {refused.level}"
    yield from reclaim.asked_for_gang(ledger, victims, workload.name, why)
    going = tuple(one.name for one in victims or tuple(leaving))
    asked = replace(refused, reason=Reason.DRAIN_UNDER_WAY, asked=workload.bundles, available=0, level=workload.within)
    yield replace(asked, blocked_by=going)


def _victims(
    ledger: Ledger, workload: Workload, short: dict[str, int], here: Sequence[Workload]
) -> tuple[Workload, ...] | None:
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
