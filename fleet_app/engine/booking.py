"""Whether a booking can be honoured, and what it would cost: an offer, or the obstacle in numbers (rules C9, C10).

Decides nothing and books nothing. Knows the facts, the policy and the moment. What becomes of who is displaced is what
the decision itself says of the fleet as it would be at the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fleet_app.engine.blocks import DRAINED, ENDS, MOVED, Survey, Window
from fleet_app.engine.calendar import Booking, BookingAsk, Declined, Displaced, Offer
from fleet_app.engine.decide import decide
from fleet_app.engine.ends import gone_at
from fleet_app.engine.entitled import above_caps, short_of_floors, short_of_nominal
from fleet_app.engine.forecast import DAY_S, HOUR_S, forecast
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import ROOM_COMES, Admit, AdmitSlice, Reason, Wait
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.transfers import nominal_at
from fleet_app.engine.values import NodeClass, Shape
from fleet_app.engine.workload import Workload

MOST_MOMENTS = 64
"""How many moments are tried for when a declined booking would be possible."""

QUOTA_REASONS = {Reason.QUOTA_USED, Reason.TOO_LARGE_FOR_QUOTA}


def offer(state: FleetState, policy: Policy, now: float, ask: BookingAsk) -> Offer | Declined:
    """Return the booking that is offered for what is asked, and what it displaces; or why there can be none."""
    wrong = _wrong(state, policy, now, ask)
    if wrong is not None:
        return wrong
    others = tuple(one for one in state.bookings if one.name not in {ask.replaces, ask.name} and not one.over(now))
    ledger = Ledger(replace(state, bookings=others), policy, now)
    answer, moments = _answer(ledger, state, others, ask)
    if isinstance(answer, Offer) or not moments:
        return answer
    return replace(answer, possible_at=_possible_at(ledger, state, others, ask, moments))


def _possible_at(
    ledger: Ledger, state: FleetState, others: tuple[Booking, ...], ask: BookingAsk, moments: Iterable[float]
) -> float | None:
    """Return from when on as much for as long would be offered, as things are now; None when that is not known (C9)."""
    lasts_s = ask.end_at - max(ledger.now, ask.start_at)
    for at in sorted(moments)[:MOST_MOMENTS]:
        answer, _ = _answer(ledger, state, others, replace(ask, start_at=at, end_at=at + lasts_s))
        if isinstance(answer, Offer):
            return at
    return None


def _answer(
    ledger: Ledger, state: FleetState, others: tuple[Booking, ...], ask: BookingAsk
) -> tuple[Offer | Declined, set[float]]:
    """Return what is offered, or why nothing is; and the moments at which that could change."""
    moments: set[float] = set()
    short = short_of_nominal(ledger, state, others, ask)
    if short is not None:
        return short, moments
    fixed: frozenset[str] = frozenset()
    while True:
        start_at = max(ledger.now, ask.start_at)
        window = Window(start_at=start_at, end_at=ask.end_at, bookings=others, fixed=fixed)
        survey = _survey(ledger, state, ask, window)
        moments.update(survey.moments())
        nodes = survey.chosen()
        if nodes is None:
            return _no_block(survey), moments
        booking = _booking(survey, nodes, ledger.now)
        below = short_of_floors(ledger, state, others, booking) or above_caps(ledger, others, booking)
        if below is not None:
            return below, {one.end_at for one in others if one.end_at > start_at}
        again = _again(state, ledger.policy, others, booking, survey)
        stuck = _stuck(booking, survey, again)
        if not stuck:
            return _offered(ledger, state, survey, booking, again), moments
        fixed |= stuck


def _wrong(state: FleetState, policy: Policy, now: float, ask: BookingAsk) -> Declined | None:
    """Return what is wrong with what is asked, whatever the fleet is like."""
    names = {node.name for node in state.nodes}
    booked = {one.name: one for one in state.bookings}
    unknown = [name for name in ask.nodes if name not in names]
    replaced = booked.get(ask.replaces or "")
    in_force = replaced is not None and replaced.at(now)
    reasons = (
        (ask.end_at <= max(now, ask.start_at), "it ends before it begins"),
        (ask.start_at < now and not in_force, "it begins in the past"),
        (ask.count < 1 or (bool(ask.nodes) and len(set(ask.nodes)) != ask.count), f"{ask.count} is not how many nodes"),
        (ask.team is not None and ask.shape.gpus < 1, "it asks for no GPUs"),
        (bool(unknown), f"there is no node {', '.join(sorted(unknown))}"),
        (
            ask.team is not None and all(quota.name != ask.team for quota in policy.quotas),
            f"team {ask.team} is not in the policy",
        ),
        (ask.within is not None and ask.within not in policy.levels, f"the policy has no level {ask.within}"),
        (ask.name in booked and ask.name != ask.replaces, f"there is a booking {ask.name} already"),
        (ask.replaces is not None and replaced is None, f"there is no booking {ask.replaces}"),
    )
    found = next((why for is_wrong, why in reasons if is_wrong), None)
    return None if found is None else Declined(booking=ask.name, why=found, asked=ask.count)


def _survey(ledger: Ledger, state: FleetState, ask: BookingAsk, window: Window) -> Survey:
    """Return what there is; what takes the place of a booking stays on its nodes where it can."""
    replaced = next((one for one in state.bookings if one.name == ask.replaces), None)
    if replaced is not None and not ask.nodes and len(replaced.nodes) == ask.count:
        same = Survey(ledger, replace(ask, nodes=replaced.nodes, most_domains=replaced.most_domains), window)
        if same.chosen() is not None:
            return same
    return Survey(ledger, ask, window)


def _no_block(survey: Survey) -> Declined:
    """Return how many nodes there are, and who is in the way (C9)."""
    ask = survey.ask
    best, blocked_by = survey.nearest()
    where = f"one {ask.within or next(iter(survey.ledger.policy.levels), 'fleet')}" if ask.team else "the fleet"
    who = f": {', '.join(blocked_by)} cannot be cleared away in time" if blocked_by else ""
    why = f"{where} has {best} nodes that can be cleared by then, {ask.count} are asked{who}"
    return Declined(booking=ask.name, why=why, asked=ask.count, available=best, blocked_by=blocked_by)


def _booking(survey: Survey, nodes: Sequence[str], now: float) -> Booking:
    ask, ledger = survey.ask, survey.ledger
    shapes = [survey.shape_on(ledger.nodes[name]) for name in nodes]
    shape = Shape(
        gpus=ask.shape.gpus,
        cpu_milli=min(one.cpu_milli for one in shapes),
        memory_mib=min(one.memory_mib for one in shapes),
    )
    hours = (ask.end_at - survey.window.start_at) / HOUR_S
    within = ask.within or next(iter(ledger.policy.levels), None)
    return Booking(
        name=ask.name,
        team=ask.team,
        shape=shape,
        nodes=tuple(nodes),
        start_at=ask.start_at,
        end_at=ask.end_at,
        within=within if ask.team is not None else None,
        most_domains=survey.ask.most_domains,
        accelerator=ask.accelerator,
        transfers=ask.transfers,
        asked_by=ask.asked_by,
        made_at=now,
        price=len(nodes) * shape.gpus * hours * ledger.policy.calendar.price_per_gpu_hour if ask.team else 0.0,
    )


def _leaving(survey: Survey, nodes: Iterable[str]) -> dict[str, tuple[Workload, str]]:
    """Return who leaves the nodes, and how."""
    return {
        one.name: (one, how)
        for name in nodes
        for how in (ENDS, DRAINED, MOVED)
        for one in survey.sites[name].leaving[how]
    }


def _again(
    state: FleetState, policy: Policy, others: Sequence[Booking], booking: Booking, survey: Survey
) -> dict[str, tuple[float | None, Reason | None]]:
    """Return when each that is displaced runs again at the latest, and why it waits: what is decided at the start."""
    displaced = {name for name, (_, how) in _leaving(survey, booking.nodes).items() if how != ENDS}
    if not displaced:
        return {}
    at = survey.window.start_at
    then = replace(
        state,
        workloads=tuple(_at(state.workloads, policy, survey.ledger.now, at, displaced)),
        bookings=(*others, booking),
        failures=(),
        crossings=(),  # what they change is in the ledger's nodes and policy already
    )
    plan = decide(then, policy, at)
    starts = {action.workload for action in plan.actions if isinstance(action, Admit | AdmitSlice)}
    waits = {wait.workload: wait for wait in plan.waits}
    return {
        name: (at, None) if name in starts else _later(waits[name], at + policy.drain.longest_grace_s, booking)
        for name in sorted(displaced)
    }


def _later(wait: Wait, soon: float, booking: Booking) -> tuple[float | None, Reason]:
    if wait.reason in ROOM_COMES:
        return soon, wait.reason
    return wait.planned_at or booking.end_at, wait.reason


def _at(
    workloads: Iterable[Workload], policy: Policy, now: float, at: float, displaced: set[str]
) -> Iterator[Workload]:
    """Yield the workloads as they would be at a moment: those that have left by then wait, or are no more."""
    for one in workloads:
        if one.name in displaced:
            yield replace(one.without_nodes(Phase.QUEUED), requeued=True)
        elif not one.holding:
            yield one
        else:
            gone = gone_at(policy.drain, one, now)
            if gone is None or gone > at:
                yield one


def _stuck(booking: Booking, survey: Survey, again: dict[str, tuple[float | None, Reason | None]]) -> frozenset[str]:
    """Return the committed work that would have nowhere to go, but for what its own team lends (C5)."""
    lenders = {transfer.lender for transfer in booking.transfers}
    return frozenset(
        name
        for name, (one, how) in _leaving(survey, booking.nodes).items()
        if how == MOVED
        and again[name][1] not in {None, *ROOM_COMES}
        and not (one.team in lenders and again[name][1] in QUOTA_REASONS)
    )


def _offered(
    ledger: Ledger,
    state: FleetState,
    survey: Survey,
    booking: Booking,
    again: dict[str, tuple[float | None, Reason | None]],
) -> Offer:
    displaced = []
    lent_gpu_s = 0.0
    for name, (one, how) in sorted(_leaving(survey, booking.nodes).items()):
        restart = one.gpus * ledger.policy.drain.restart_cost_s
        lost = {ENDS: 0.0, DRAINED: ledger.lost_gpu_s(one), MOVED: restart}[how]
        at = again[name][0] if name in again else None
        displaced.append(Displaced(workload=name, team=one.team, how=how, gpus=one.gpus, lost_gpu_s=lost, again_at=at))
        lent_gpu_s += one.gpus * (booking.end_at - survey.window.start_at) if how == DRAINED else 0.0
    left = _serving_left(ledger, state, booking)
    costs = sum(one.lost_gpu_s for one in displaced) + lent_gpu_s
    moved_on = any(one.how == DRAINED for one in displaced)
    return Offer(
        booking=booking,
        displaced=tuple(displaced),
        own=tuple(sorted({one.name for name in booking.nodes for one in survey.sites[name].own})),
        lent_gpu_s=lent_gpu_s,
        serving_left_gpus=left,
        off_peak=_off_peak(state, booking, max(ledger.now, booking.start_at)) if moved_on else (),
        price=booking.price,
        approver=costs > ledger.policy.calendar.most_displaced_gpu_s,
    )


def _serving_left(ledger: Ledger, state: FleetState, booking: Booking) -> int:
    """Return the GPUs that serving has while the booking lasts: on its nodes, and inside its teams' nominal."""
    bookings = (*state.bookings, booking)
    shut = {
        name
        for one in bookings
        if one.team is None and one.start_at < booking.end_at and booking.start_at < one.end_at
        for name in one.nodes
    }
    there = sum(
        ledger.empty[node.name].gpus
        for node in ledger.placeable()
        if node.node_class is NodeClass.SERVING and node.name not in shut
    )
    teams = sorted({service.team for service in state.services})
    at = max(ledger.now, booking.start_at)
    nominal = sum(nominal_at(ledger.policy, bookings, team, at) for team in teams)
    return min(there, nominal) if teams else there


def _off_peak(state: FleetState, booking: Booking, start_at: float) -> tuple[tuple[float, float], ...]:
    """Return the hours of the first day in which services are forecast to want less than that day's mean."""
    history = state.demand
    if history is None or start_at <= history.last_at:
        return ()
    end_at = min(booking.end_at, start_at + DAY_S)
    hours = [start_at + HOUR_S * number for number in range(int((end_at - start_at) // HOUR_S))]
    wanted = [forecast(history, at, (0.5,))[0] for at in hours]
    found: list[tuple[float, float]] = []
    for at, gpus in zip(hours, wanted, strict=True):
        if gpus >= sum(wanted) / len(wanted):
            continue
        if found and found[-1][1] == at:
            found[-1] = (found[-1][0], at + HOUR_S)
        else:
            found.append((at, at + HOUR_S))
    return tuple(found)
