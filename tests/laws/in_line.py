"""What must hold of queues that are taken strictly in order (O6, O12), worked out from the facts; see `reference`."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.ordering import class_of
from fleet_app.engine.plan import HOPELESS, ROOM_COMES, Admit, Drain, Reason, Shrink
from fleet_app.engine.workload import Workload


def nobody_passes_in_a_strict_queue(case: Any) -> None:
    """O6: who starts has nobody before it that waits, and could ever start."""
    for action in case.actions(Admit):
        one = case.workloads[action.workload]
        assert not [other for other in before(case, one) if waits(case, other)], action


def who_asks_in_a_strict_queue_is_behind_those_who_have_asked(case: Any) -> None:
    """O12: who leaves does so for one before whom nobody waits without room that is kept, or is coming."""
    for action in case.actions(Drain, Shrink):
        one = case.workloads.get(action.beneficiary)
        if one is not None and one.phase is Phase.QUEUED:
            assert not [other for other in before(case, one) if waits(case, other) and not has_room(case, other)], (
                action
            )


def who_is_behind_others_is_told_so(case: Any) -> None:
    """O6, O12: it names one before it that waits; whose turn it will be has all of its room, free and held."""
    held: Counter[str] = Counter()
    for hold in case.plan.holds:
        held[hold.beneficiary] += hold.shape.gpus
    for wait in case.plan.waits:
        one = case.workloads.get(wait.workload)
        if one is None or one.slice is not None or wait.reason not in {Reason.BEHIND, Reason.ITS_TURN}:
            continue
        assert [other.name for other in before(case, one) if waits(case, other)][:1] == list(wait.blocked_by), wait
        if wait.reason is Reason.ITS_TURN:
            assert not class_of(case.policy, one).yields
            assert held[one.name] == wait.asked == wait.available, (wait, held)


IN_LINE_LAWS = (
    nobody_passes_in_a_strict_queue,
    who_asks_in_a_strict_queue_is_behind_those_who_have_asked,
    who_is_behind_others_is_told_so,
)


def waits(case: Any, one: Workload) -> bool:
    """Return whether one waits that could ever start: what could not is in nobody's way (O3)."""
    wait = case.wait(one.name)
    return wait is not None and wait.reason not in HOPELESS


def has_room(case: Any, one: Workload) -> bool:
    """Return whether what one waits for is kept for it, or coming."""
    wait = case.wait(one.name)
    return wait is not None and wait.reason in ROOM_COMES


def before(case: Any, one: Workload) -> list[Workload]:
    """Return those of the same strict queue that it may not pass, in order: who asks for another accelerator it may."""
    if not any(quota.strict for quota in case.policy.quotas if quota.name == one.team):
        return []
    line = [other for other in in_order(case) if other.team == one.team and other.slice is None]
    ahead = line[: [other.name for other in line].index(one.name)]
    return [other for other in ahead if one.accelerator is None or other.accelerator in {None, one.accelerator}]


def in_order(case: Any) -> list[Workload]:
    """Return who waits, in the order of O1, O8 and O10."""
    waiting = [one for one in case.state.workloads if one.phase is Phase.QUEUED]
    first = sorted(waiting, key=lambda one: (not one.requeued, one.submitted_at, one.name))
    return sorted(first, key=lambda one: aged(case, one), reverse=True)


def aged(case: Any, workload: Workload) -> tuple[float, ...]:
    """Return the priority that a workload counts as, climbed class by class, what it waited beyond that, and O10."""
    period_s, value = case.policy.ordering.ageing_s, workload.priority
    steps = 0 if period_s is None else int((case.now - workload.submitted_at) // period_s)
    own = class_of(case.policy, workload)
    alike = [one.value for one in case.policy.classes if (one.borrows, one.yields) == (own.borrows, own.yields)]
    highest = max(one.value for one in case.policy.classes)
    while steps > 0 and any(value < one < highest for one in alike):
        value, steps = min(one for one in alike if one > value), steps - 1
    declared = math.inf if workload.max_run_s is None else workload.max_run_s
    return value, max(0, steps), -declared if case.policy.ordering.shortest_first else 0
