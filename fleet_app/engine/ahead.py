"""Who is considered before a workload, and why: the turns as they were taken, each with its reason (rules O1 to O8).

Runs the decision and watches it: what it finds is what was decided, not what an order would suggest. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet_app.engine import quota
from fleet_app.engine.decide import plan_of, steps
from fleet_app.engine.ends import spoken
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.ordering import queue, ranking, steps_waited
from fleet_app.engine.plan import Admit, AdmitSlice, Alike, Part, Plan, Reason, Wait
from fleet_app.engine.policy import Policy
from fleet_app.engine.quota import QuotaTree
from fleet_app.engine.state import FleetState
from fleet_app.engine.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A workload whose turn came first: why it did, and what that means for who comes after it."""

    workload: str
    why: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """What became of a workload in its turn, and what every entry used (in GPUs) when it was chosen."""

    workload: Workload
    part: Admit | AdmitSlice | Wait
    used: Mapping[str, int]


def watched(state: FleetState, policy: Policy, now: float, name: str) -> tuple[Plan, tuple[Ahead, ...]]:
    """Return the decision, and who came before the queued workload of that name, first to be considered first."""
    ledger = Ledger(state, policy, now)
    queued = {one.name: one for one in state.workloads if one.phase is Phase.QUEUED}
    outcome: list[Part] = []
    turns: list[_Turn] = []
    used = dict(ledger.used_soon)
    for part in steps(ledger, state, name):
        outcome.append(part)
        if isinstance(part, Alike) and name in queued:
            turns += _alike(ledger, turns[-1], [queued[one] for one in part.names], queued[name])
        elif isinstance(part, Admit | AdmitSlice | Wait) and part.workload in queued:
            turns.append(_Turn(workload=queued[part.workload], part=part, used=used))
        if isinstance(part, Admit | Wait) or not turns:
            used = dict(ledger.used_soon)
    return plan_of(ledger, outcome), _before(ledger, turns, name) if name in queued else ()


def _alike(ledger: Ledger, turn: _Turn, alike: Sequence[Workload], one: Workload) -> Iterator[_Turn]:
    """Yield the turns of those that were refused with another, if they were in line before `one`."""
    assert isinstance(turn.part, Wait)
    line = queue([*alike, one], ranking(ledger.policy, ledger.now))
    for other in line[: line.index(one)]:
        yield _Turn(workload=other, part=turn.part.of(other.name), used=turn.used)


def _before(ledger: Ledger, turns: Sequence[_Turn], name: str) -> tuple[Ahead, ...]:
    place = next(number for number, turn in enumerate(turns) if turn.workload.name == name)
    one = turns[place].workload
    kept: dict[str, int] = {}
    for holder in ledger.reserved.values():
        kept[holder.name] = kept.get(holder.name, 0) + 1
    found, first = [], one
    rivals = [turn for turn in turns[:place] if (turn.workload.slice is None) == (one.slice is None)]
    for turn in reversed(rivals):
        first = turn.workload if turn.workload.team == one.team else first
        why = _why(ledger, turn, one, first)
        found.append(Ahead(workload=turn.workload.name, why=why, outcome=_outcome(turn, one, kept)))
    return tuple(reversed(found))


def _why(ledger: Ledger, turn: _Turn, one: Workload, first: Workload) -> str:
    """Return why a turn came before that of `one`; `first` is the first of its team that waited then."""
    other = turn.workload
    rank = ranking(ledger.policy, ledger.now)
    if rank(other)[:2] == rank(one)[:2] and rank(other) != rank(one):
        return f"declared a shorter run time, {spoken(other.max_run_s or 0.0)}"
    if rank(other) != rank(one):
        steps = steps_waited(ledger.policy, other, ledger.now)
        waited = f"waited {spoken(ledger.now - other.submitted_at)}, which counts as {steps} steps up"
        return waited if other.priority <= one.priority else "higher priority"
    if other.requeued != one.requeued:
        return "was torn down through no wish of its own"
    borrow = ledger.class_of(other).borrows and ledger.class_of(one).borrows
    if borrow and other.team != one.team and (by_share := _by_share(ledger.tree, turn, first)):
        return by_share
    return "earlier" if other.submitted_at < one.submitted_at else "as early, and first by name"


def _by_share(tree: QuotaTree, turn: _Turn, first: Workload) -> str:
    """Return how the shares of both differ where their teams' paths part; empty when they do not (O5)."""
    theirs = quota.shares_with(tree, turn.used, turn.workload.team, turn.workload.gpus)
    ours = quota.shares_with(tree, turn.used, first.team, first.gpus)
    for mine, other in zip(reversed(ours), reversed(theirs), strict=False):
        if mine != other and theirs[other] < ours[mine]:
            less = f"{_borrows(tree, other, theirs[other])}, {_borrows(tree, mine, ours[mine])}"
            whose = "its team" if other == turn.workload.team else f"its organisation {other}"
            return f"{whose} borrows less for its weight ({less})"
        if mine != other and theirs[other] > ours[mine]:
            return ""
    return ""


def _borrows(tree: QuotaTree, name: str, share: int) -> str:
    weight = tree.entries[name].weight if name in tree.entries else 1
    return f"{name} would have {share * weight // tree.weights} GPUs at weight {weight}"


def _outcome(turn: _Turn, one: Workload, kept: Mapping[str, int]) -> str:
    other, part = turn.workload, turn.part
    if isinstance(part, AdmitSlice):
        return f"starts now with {other.slice.text if other.slice else ''}"
    if isinstance(part, Admit):
        return f"starts now with {sum(shape.gpus for _, shape in replace(other, nodes=part.nodes).seats)} GPUs"
    nodes = kept.get(other.name, 0)
    if part.reason is Reason.DRAIN_UNDER_WAY:
        return f"waits for {other.gpus} GPUs that are coming free for it"
    if nodes:
        return f"waits, and {nodes} {'node is' if nodes == 1 else 'nodes are'} kept for it"
    if part.reason in {Reason.BEHIND, Reason.ITS_TURN} and other.team == one.team:
        has = f", with {part.asked} GPUs kept for it" if part.reason is Reason.ITS_TURN else ""
        return f"waits in the same strict queue{has}"
    return f"waits: {part.reason}"
