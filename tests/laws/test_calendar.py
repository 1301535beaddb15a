"""I8 and the laws of the calendar, on fleets where bookings, run times, graces and moves are in each other's way.

The world that is played here keeps what it is held to and no more: whoever is told to leave does so at its deadline and
not before, whoever is asked to move does so within the policy's lead, and nobody ends before its time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import event, given
from hypothesis import strategies as st

from fleet_app.engine.booking import offer
from fleet_app.engine.calendar import Booking, BookingAsk, Declined, Offer
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Drain, Move
from fleet_app.engine.policy import Calendar, Policy
from fleet_app.engine.transfers import quotas_at
from fleet_app.engine.values import NOTHING, Condition, Shape
from fleet_app.engine.workload import Workload
from tests import virtual
from tests.builders import backfill, booking_ask, gang, node, policy, team, transfer
from tests.laws.effort import tries
from tests.laws.reference import Case, case_of, check, gone_by, told_to_end
from tests.virtual import Fleet

STEP_S = 20.0
MOVE_S = 100.0
BEGAN = 1000.0
TEAMS = ("research", "vision")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A workload that is submitted `after` so many steps."""

    after: int
    workload: Workload


@st.composite
def rules(draw: st.DrawFn) -> Policy:
    calendar = Calendar(
        move_lead_s=MOVE_S,
        reclaim_lead_s=draw(st.sampled_from([0.0, 0.0, 100.0])),
        hold_s=draw(st.sampled_from([0.0, 60.0, 200.0])),
        most_domains=draw(st.sampled_from([1, 2])),
    )
    own = [team(name, nominal=draw(st.sampled_from([8, 12, 16, 16]))) for name in TEAMS]
    return policy(*own, team("idle", nominal=draw(st.sampled_from([0, 8]))), longest_grace_s=80.0, calendar=calendar)


@st.composite
def arrivals(draw: st.DrawFn, number: int) -> Arrival:
    make = draw(st.sampled_from([gang, gang, backfill, backfill]))
    one = make(
        f"w{number:02}",
        nodes=draw(st.sampled_from([1, 1, 1, 2])),
        gpus=draw(st.sampled_from([1, 2, 2, 4])),
        team=draw(st.sampled_from(TEAMS)),
        grace_s=draw(st.sampled_from([20.0, 60.0, 900.0])),
        max_run_s=draw(st.sampled_from([None, None, None, 60.0, 200.0])),
        movable=draw(st.sampled_from([True, True, False])),
    )
    return Arrival(after=draw(st.sampled_from([0, 0, 0, 1, 2, 3, 5, 8, 12, 20])), workload=one)


@st.composite
def asks(draw: st.DrawFn, number: int) -> tuple[int, BookingAsk]:
    """Return what is asked, and after how many steps."""
    after = draw(st.integers(0, 8))
    start_at = BEGAN + STEP_S * (after + draw(st.sampled_from([0, 1, 4, 6, 8, 12])))
    lender = draw(st.sampled_from(["idle", "vision"]))
    named = draw(st.sampled_from([(), (), ("n0",), ("n1",), ("n0", "n1")]))
    ask = booking_ask(
        f"booking-{number}",
        *named,
        team=draw(st.sampled_from(["research", "research", "vision", None])),
        count=draw(st.sampled_from([1, 1, 2])),
        gpus=draw(st.sampled_from([4, 4, 2, 1])),
        start_at=start_at,
        end_at=start_at + STEP_S * draw(st.sampled_from([2, 5, 15])),
        transfers=[transfer(lender, draw(st.sampled_from([2, 4])))] if draw(st.integers(0, 3)) == 0 else [],
        most_domains=2,
    )
    return after, ask


@st.composite
def stories(draw: st.DrawFn) -> tuple[Fleet, list[Arrival], list[tuple[int, BookingAsk]]]:
    places = draw(st.lists(st.sampled_from(["a/a", "a/b", "b/a"]), min_size=1, max_size=4))
    fleet = virtual.fleet(draw(rules()), *(node(f"n{n}", at=at, gpus=4) for n, at in enumerate(places)), now=BEGAN)
    return (
        fleet,
        [draw(arrivals(number)) for number in range(draw(st.integers(4, 12)))],
        [draw(asks(number)) for number in range(draw(st.integers(1, 3)))],
    )


Story = tuple[Fleet, list[Arrival], list[tuple[int, BookingAsk]]]


def played(story: Story) -> list[Fleet]:
    """Return the fleet before each decision."""
    fleet, arriving, asking = story
    seen = []
    asked_to_move: dict[str, float] = {}
    for number in range(45):
        fleet = virtual.submitted(fleet, *(one.workload for one in arriving if one.after == number))
        for after, ask in asking:
            if after == number:
                fleet = virtual.booked(fleet, ask)
        fleet = went(fleet, asked_to_move)
        seen.append(fleet)
        fleet = virtual.later(virtual.started(virtual.cycle(fleet)), STEP_S)
        fleet = everybody_saves(fleet)
    return seen


def went(fleet: Fleet, asked_to_move: dict[str, float]) -> Fleet:
    """Let those go whose deadline has come, and those that move, as late as they may."""
    for one in fleet.workloads:
        if one.moving:
            asked = asked_to_move.setdefault(f"{one.name}.{one.attempt}", fleet.now - STEP_S)
            late = fleet.now - asked >= MOVE_S
        else:
            late = one.leaving and (one.killed or one.deadline_at is None or one.deadline_at <= fleet.now)
        fleet = virtual.left(fleet, one.name) if late else fleet
    return replace(fleet, ended=(), drains=())


def everybody_saves(fleet: Fleet) -> Fleet:
    for one in fleet.workloads:
        fleet = virtual.saved(fleet, one.name) if one.phase is Phase.RUNNING else fleet
    return fleet


@tries(100)
@given(story=stories())
def test_every_decision_of_a_fleet_with_bookings_keeps_every_law(story: Story) -> None:
    for fleet in played(story):
        check(case_of(fleet))


@tries(100)
@given(story=stories())
def test_a_booking_that_was_taken_has_its_room_at_its_start(story: Story) -> None:
    """I8: no node is lost here, and everybody leaves when told, so nothing is missing and nothing is breached."""
    for fleet in played(story):
        room = {one.name: one.capacity for one in fleet.nodes}
        own: dict[tuple[str, str | None], Shape] = {}
        for one in fleet.workloads:
            for name in one.nodes:
                room[name] -= one.shape
                own[name, one.team] = own.get((name, one.team), NOTHING) + one.shape
        for booking in fleet.bookings:
            assert booking.breach == ""
            if booking.start_at == fleet.now:
                event(f"begins, for {'maintenance' if booking.team is None else 'a team'}")
                for name in booking.nodes:
                    mine = own.get((name, booking.team), NOTHING).gpus if booking.team is not None else 0
                    whole = next(one.capacity for one in fleet.nodes if one.name == name).gpus
                    needs = booking.shape.gpus if booking.team is not None else whole
                    others = [one for one in fleet.bookings if one.at(fleet.now) and name in one.nodes]
                    booked = sum(one.shape.gpus for one in others if one.team == booking.team)
                    assert room[name].gpus + mine >= max(needs, booked), (booking, name)


@tries(80)
@given(story=stories())
def test_nobody_leaves_for_a_booking_who_could_stay(story: Story) -> None:
    """C2, C5: beside each who is asked alone, and all that is booked, there is no room for those who stay."""
    for fleet in played(story):
        case = case_of(fleet)
        asked = [one for one in case.actions(Drain, Move) if one.beneficiary in case.bookings]
        gone = {one.workload for one in case.actions(Drain, Move)}
        stay = [one for one in fleet.workloads if one.holding and not told_to_end(one) and one.name not in gone]
        for action in asked:
            booking, one = case.bookings[action.beneficiary], fleet.workload(action.workload)
            at = max(fleet.now, booking.start_at)
            kept = [*(other for other in stay if not gone_by(case, other, at)), one]
            event(f"{type(action).__name__} for a booking")
            assert any(too_full(case, name, booking, at, kept) for name in {*booking.nodes} & {*one.nodes}), action


def too_full(case: Case, name: str, booking: Booking, at: float, kept: list[Workload]) -> bool:
    """Return whether a node cannot hold what is booked there beside these, but for those of the bookings' teams."""
    in_force = [one for one in case.bookings.values() if name in one.nodes and one.start_at <= at < one.end_at]
    if booking.team is None:
        return True
    use: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for one in in_force:
        own[str(one.team)] += one.shape.gpus
    for one in kept:
        if name in one.nodes and not (case.yields(one) and one.team == booking.team):
            use[one.team] += one.shape.gpus
    most = sum(own.values()) + sum(use.values())
    return most > case.nodes[name].capacity.gpus


@tries(80)
@given(story=stories())
def test_the_nominal_in_force_adds_up(story: Story) -> None:
    """C4: whatever is transferred, the cohort has what it had."""
    for fleet in played(story):
        stated = sum(quota.nominal_gpus for quota in fleet.policy.quotas)
        in_force = quotas_at(fleet.policy, fleet.bookings, fleet.now)
        assert sum(quota.nominal_gpus for quota in in_force) == stated


@tries(80)
@given(story=stories(), which=st.integers(0, 3), after=st.integers(0, 20))
def test_a_lost_node_is_replaced_or_said(story: Story, which: int, after: int) -> None:
    """C6: whatever is lost, a booking lies on sound nodes of one domain, or says what it lacks."""
    fleet, arriving, asking = story
    seen = played((fleet, arriving, asking))[after]
    lost = replace(seen.nodes[which % len(seen.nodes)], condition=Condition.DOWN)
    seen = virtual.with_node(seen, lost)
    check(case_of(seen))
    after_it = virtual.cycle(seen)
    for booking in after_it.bookings:
        if booking.team is not None and not booking.over(seen.now):
            event(f"replaced: {lost.name not in booking.nodes and booking not in seen.bookings}")
            assert lost.name not in booking.nodes or booking.breach


@tries(80)
@given(story=stories())
def test_what_is_declined_is_possible_from_when_it_was_said_to_be(story: Story) -> None:
    """C9: the same ask for the moment that the refusal names is offered, as things are now."""
    fleet, arriving, asking = story
    seen = played((fleet, arriving, asking))[6]
    for number, (_, ask) in enumerate(asking):
        again = replace(ask, name=f"late-{number}", start_at=seen.now, end_at=seen.now + 300.0)
        answer = offer(seen.state, seen.policy, seen.now, again)
        if isinstance(answer, Declined) and answer.possible_at is not None:
            event("declined, possible later")
            later = replace(again, start_at=answer.possible_at, end_at=answer.possible_at + 300.0)
            then = offer(seen.state, seen.policy, seen.now, later)
            assert isinstance(then, Offer), then
