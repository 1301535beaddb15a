"""The decision: facts in, one plan out. Read this first.

What must end ends, what is unsound is kept out, and what goes away is left; bookings are made whole and cleared for
their start; serving takes what is its own; then the queue is served, in order, on exact nodes. Everything that is not
decided here is decided nowhere: the live arbiter, the twin and `explain` call this function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleet_app.engine import (
    admission,
    departing,
    draining,
    elastic,
    health,
    honouring,
    idle,
    recutting,
    relabelling,
    serving,
    slices,
    slicing,
)
from fleet_app.engine.headroom import immediate_gpus
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.needs import needs_of
from fleet_app.engine.plan import HOPELESS, Action, Alike, Move, Part, Plan, Wait
from fleet_app.engine.policy import Policy
from fleet_app.engine.pulls import Gate
from fleet_app.engine.state import FleetState


def decide(state: FleetState, policy: Policy, now: float, watch: str | None = None) -> Plan:
    """Return what is to be done, held and waited for; the same for the same input, byte for byte (I9).

    `now` is in seconds since the epoch. `watch` names a workload whose wait is to say what each domain has.
    """
    ledger = Ledger(state, policy, now)
    return plan_of(ledger, steps(ledger, state, watch))


def steps(ledger: Ledger, state: FleetState, watch: str | None = None) -> Iterator[Part]:
    """Yield all that is decided, as it is decided: between two parts the ledger stands as the next finds it."""
    cut = slices.begin(ledger, state)
    yield from draining.step(ledger)
    if state.usage:
        yield from idle.step(ledger, state.usage)
    if state.failures or state.quarantines:
        yield from health.step(ledger, state.failures, state.quarantines)
    yield from relabelling.step(ledger, state.crossings)
    if state.departures:
        yield from departing.step(ledger, state.departures)
    yield from honouring.step(ledger)
    gate = Gate(ledger, state.services) if ledger.policy.pulls.sources else None
    placed = _placed(ledger, state, cut, gate, watch)
    yield from _then_grow(ledger, placed, gate) if ledger.members.staying else placed
    yield from recutting.step(cut) if cut else ()
    honouring.hold(ledger)


def _placed(
    ledger: Ledger, state: FleetState, cut: slices.Slices | None, gate: Gate | None, watch: str | None
) -> Iterator[Part]:
    """Yield what services get, then what the queue gets."""
    needs = needs_of(ledger, state.services, immediate_gpus(ledger.policy.headroom, state.growth_gpus))
    yield from serving.step(ledger, [need for need in needs if need.service.slice is None])
    yield from slicing.serve(cut, [need for need in needs if need.service.slice is not None]) if cut else ()
    yield from admission.step(ledger, watch, gate)
    yield from slicing.admit(cut, gate) if cut else ()


def _then_grow(ledger: Ledger, placed: Iterable[Part], gate: Gate | None) -> Iterator[Part]:
    """Yield what was placed; where nobody waits, elastic workloads grow after it (R8)."""
    waits = False
    for part in placed:
        waits = waits or (isinstance(part, Wait) and part.reason not in HOPELESS)
        yield part
    if not waits:
        yield from elastic.grow(ledger, gate)


def plan_of(ledger: Ledger, outcome: Iterable[Part]) -> Plan:
    """Return the plan that all that was decided makes; who is asked to move for two reasons is asked once."""
    actions: list[Action] = []
    waits: dict[str, Wait] = {}
    alike: list[Alike] = []
    moving: set[str] = set()
    for part in outcome:
        if isinstance(part, Wait):
            waits[part.workload] = part
        elif isinstance(part, Alike):
            alike.append(part)
        elif not isinstance(part, Move):
            actions.append(part)
        elif part.workload not in moving:
            moving.add(part.workload)
            actions.append(part)
    answers = tuple([waits[name] for name in sorted(waits)])
    return Plan(actions=tuple(actions), holds=tuple(ledger.holds), answers=answers, alike=tuple(sorted(alike)))
