"""What is offered and what is declined, and why, in numbers (C5, C8 to C10)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.booking import offer
from fleet_app.engine.calendar import Booking, BookingAsk, Declined, Displaced, Offer
from fleet_app.engine.forecast import DAY_S, HOUR_S, History
from fleet_app.engine.policy import Calendar, Policy, Slicing
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Service, Workload
from tests.builders import (
    backfill,
    booking,
    booking_ask,
    cards,
    gang,
    node,
    nodes,
    policy,
    service,
    shape,
    sliced,
    state,
    team,
    transfer,
)

CALENDAR = Calendar(move_lead_s=500.0, price_per_gpu_hour=2.0, most_domains=2)
RULES = policy(team("research", nominal=32), team("vision", nominal=32), team("serving", nominal=16), calendar=CALENDAR)
TWO = [*nodes(2, at="s1/l1"), *nodes(2, prefix="m", at="s2/l1")]
Parts = list[Node | Workload | Service | Booking]


def asked(parts: Parts, ask: BookingAsk, *, now: float = 0.0, rules: Policy = RULES) -> Offer | Declined:
    return offer(state(*parts), rules, now, ask)


def firm(name: str = "firm", on: str = "n1", **rest: object) -> Workload:
    return gang(name, team="vision", on=[on], **rest)  # type: ignore[arg-type]  # a test's keywords


OFFERED: dict[str, tuple[Parts, BookingAsk, tuple[str, ...]]] = {
    "a node": (TWO, booking_ask(), ("n1",)),
    "two of one spine": (TWO, booking_ask(count=2), ("n1", "n2")),
    "the nodes that are named": (TWO, booking_ask("run", "n2", "n1"), ("n2", "n1")),
    "more than one spine where that is allowed": (TWO, booking_ask(count=3, most_domains=2), ("n1", "n2", "m1")),
    "rather a free node": (
        [*TWO, *(backfill(f"b{n}", gpus=8, team="vision", on=[n]) for n in ("n1", "n2"))],
        booking_ask(),
        ("m1",),
    ),
    "rather one with what yields than with what has to move": (
        [*nodes(2), backfill(gpus=8, team="vision", on=["n2"]), firm(movable=True)],
        booking_ask(),
        ("n2",),
    ),
    "a part of a node beside somebody": ([node("n1"), firm(gpus=4)], booking_ask(gpus=4), ("n1",)),
    "a node on which its own work is": ([node("n1"), gang(on=["n1"])], booking_ask(), ("n1",)),
    "rather a node that is free for it": ([*nodes(2), gang(on=["n1"])], booking_ask(), ("n2",)),
    "rather one with what yields than with its own": (
        [*nodes(2), gang(on=["n1"]), backfill(gpus=8, team="vision", on=["n2"])],
        booking_ask(),
        ("n2",),
    ),
    "rather its own than what has to move": (
        [*nodes(2), gang(on=["n1"]), firm(on="n2", movable=True)],
        booking_ask(),
        ("n1",),
    ),
    "a node whose committed work will have left": ([node("n1"), firm(max_run_s=880.0)], booking_ask(), ("n1",)),
    "between two others": (
        [node("n1"), booking("a", end_at=1000.0, start_at=500.0), booking("b", start_at=2000.0, end_at=3000.0)],
        booking_ask(),
        ("n1",),
    ),
    "maintenance on any node that is named": (
        [node("n1", serving=True, condition=Condition.CORDONED)],
        booking_ask("shut", "n1", team=None),
        ("n1",),
    ),
}


@pytest.mark.parametrize(("parts", "ask", "want"), OFFERED.values(), ids=OFFERED)
def test_offered(parts: Parts, ask: BookingAsk, want: tuple[str, ...]) -> None:
    answer = asked(parts, ask)
    assert isinstance(answer, Offer), answer
    assert answer.booking.nodes == want


DECLINED: dict[str, tuple[Parts, BookingAsk, tuple[int, int, tuple[str, ...], float | None]]] = {
    "more than one spine has": (TWO, booking_ask(count=3), (3, 2, (), None)),
    "committed work without an end": ([node("n1"), firm()], booking_ask(), (1, 0, ("firm",), None)),
    "committed work that ends too late": (
        [node("n1"), firm(max_run_s=1000.0)],
        booking_ask(),
        (1, 0, ("firm",), 1120.0),
    ),
    "committed work that has nowhere to go": ([node("n1"), firm(movable=True)], booking_ask(), (1, 0, ("firm",), None)),
    "also when its team lends, which brings no room": (
        [node("n1"), firm(movable=True)],
        booking_ask(transfers=[transfer("vision", 8)]),
        (1, 0, ("firm",), None),
    ),
    "what yields needs longer than there is": (
        [node("n1"), backfill("slow", team="vision", gpus=8, on=["n1"], grace_s=600.0)],
        booking_ask(start_at=300.0),
        (1, 0, ("slow",), 600.0),
    ),
    "another booking": ([node("n1"), booking("other", end_at=1500.0)], booking_ask(), (1, 0, ("other",), 1500.0)),
    "maintenance": ([node("n1"), booking("shut", team=None)], booking_ask(), (1, 0, ("shut",), 2000.0)),
    "a node that is kept out": ([node("n1", condition=Condition.CORDONED)], booking_ask(), (1, 0, (), None)),
    "serving's nodes": ([node("n1", serving=True)], booking_ask(), (1, 0, (), None)),
    "more than its nominal": (nodes(8), booking_ask(count=5), (40, 32, (), None)),
    "more than its nominal, with what it has booked already": (
        [*nodes(8), booking("other", "n1", "n2", "n3")],
        booking_ask(count=2),
        (40, 32, (), None),
    ),
    "a transfer that nobody approved": (
        nodes(8),
        booking_ask(count=5, transfers=[transfer("vision", 8, "")]),
        (8, 0, (), None),
    ),
    "a transfer of what its lender needs": (
        [*nodes(8), *(firm(f"v{n}", on=f"n{n}") for n in (1, 2, 3, 4))],
        booking_ask(count=5, transfers=[transfer("vision", 8)]),
        (8, 0, ("vision",), None),
    ),
    "a transfer of what services want": (
        [*nodes(8), service(wanted=12)],
        booking_ask(count=5, transfers=[transfer("serving", 8)]),
        (8, 4, ("serving",), None),
    ),
    "maintenance that takes a service below its floor": (
        [node("n1", serving=True), node("n2", serving=True), service(gpus=4, floor=3, on=["n1"])],
        booking_ask("shut", "n1", team=None),
        (3, 2, ("chat",), None),
    ),
}


@pytest.mark.parametrize(("parts", "ask", "want"), DECLINED.values(), ids=DECLINED)
def test_declined(parts: Parts, ask: BookingAsk, want: tuple[int, int, tuple[str, ...], float | None]) -> None:
    answer = asked(parts, ask)
    assert isinstance(answer, Declined), answer
    assert (answer.asked, answer.available, answer.blocked_by, answer.possible_at) == want


WRONG: dict[str, tuple[BookingAsk, str]] = {
    "it ends before it begins": (booking_ask(end_at=1000.0), "it ends before it begins"),
    "it is in the past": (booking_ask(start_at=-10.0), "it begins in the past"),
    "it wants nothing": (booking_ask(gpus=0), "it asks for no GPUs"),
    "it names a node that is not there": (booking_ask("run", "gone"), "there is no node gone"),
    "its team is unknown": (booking_ask(team="nobody"), "team nobody is not in the policy"),
    "its level is unknown": (booking_ask(within="rack"), "the policy has no level rack"),
    "its name is taken": (booking_ask("other"), "there is a booking other already"),
    "what it replaces is not there": (booking_ask(replaces="gone"), "there is no booking gone"),
}


@pytest.mark.parametrize(("ask", "want"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_an_ask(ask: BookingAsk, want: str) -> None:
    answer = asked([node("n1"), booking("other", start_at=5000.0, end_at=6000.0)], ask)
    assert isinstance(answer, Declined)
    assert answer.why == want


def test_a_job_on_a_slice_that_finds_another_card_runs_again_at_the_start() -> None:
    cut = [node(name, gpus=0, accelerator="h100", cards=cards(("shared",))) for name in ("n1", "n2")]
    answer = asked(
        [*cut, sliced("small", share=0.5, on=("n1", 0))],
        booking_ask("shut", "n1", team=None),
        rules=replace(RULES, slicing=Slicing()),
    )
    assert isinstance(answer, Offer)
    assert [(one.workload, one.how, one.again_at) for one in answer.displaced] == [("small", "drained", 1000.0)]


def test_an_offer_says_what_it_displaces_and_what_that_costs() -> None:
    lent = backfill("lent", team="vision", gpus=8, on=["m1"], started_at=0.0, saved_at=80.0)
    moves = firm("moves", on="m2", movable=True, saved_at=90.0)
    answer = asked([*TWO, lent, moves], booking_ask("run", "m1", "m2"), now=100.0)
    assert isinstance(answer, Offer)
    assert answer.displaced == (
        Displaced(workload="lent", team="vision", how="drained", gpus=8, lost_gpu_s=8 * 80.0, again_at=1000.0),
        Displaced(workload="moves", team="vision", how="moved", gpus=8, lost_gpu_s=8 * 60.0, again_at=1000.0),
    )
    assert answer.lent_gpu_s == 8 * 1000.0
    assert answer.price == answer.booking.price == pytest.approx(16 * 2.0 * 1000.0 / 3600.0)
    assert answer.approver


def test_an_offer_says_what_of_the_team_is_there_already() -> None:
    ends = gang("ends", on=["n1"], max_run_s=100.0)
    stays = [gang("stays", on=["n2"]), gang("too", on=["n3"], movable=True)]
    answer = asked([*nodes(3), *stays, ends], booking_ask(count=3))
    assert isinstance(answer, Offer)
    assert answer.own == ("stays", "too")


def test_who_finds_no_room_runs_again_when_the_booking_ends() -> None:
    lent = backfill("lent", team="vision", gpus=8, on=["n1"])
    answer = asked([node("n1"), lent], booking_ask())
    assert isinstance(answer, Offer)
    assert answer.displaced[0].again_at == 2000.0


def test_what_displaces_less_than_the_policy_allows_needs_no_other_approver() -> None:
    lent = backfill("lent", team="vision", gpus=8, on=["n1"])
    rules = replace(RULES, calendar=replace(CALENDAR, most_displaced_gpu_s=1e9))
    answers = [asked([node("n1"), lent], booking_ask(), rules=each) for each in (RULES, rules)]
    assert [isinstance(answer, Offer) and answer.approver for answer in answers] == [True, False]


def test_with_its_gpus_a_booking_has_their_share_of_the_rest_of_a_node() -> None:
    answer = asked([node("n1", cpus=64, memory_mib=1024)], booking_ask(gpus=2))
    assert isinstance(answer, Offer)
    assert answer.booking.shape == shape(2, cpus=16, memory_mib=256)


def test_committed_work_that_saves_too_seldom_is_not_moved() -> None:
    """C5: it would not reach a checkpoint within the policy's lead."""
    one = firm(movable=True, started_at=0.0, saved_at=0.0)
    parts: Parts = [*nodes(2), one]
    assert isinstance(asked(parts, booking_ask("run", "n1"), now=400.0), Offer)
    assert isinstance(asked(parts, booking_ask("run", "n1", start_at=1500.0), now=501.0), Declined)


def test_batch_is_shown_the_hours_in_which_serving_wants_least() -> None:
    wanted = tuple(12.0 if 8 <= hour % 24 < 20 else 2.0 for hour in range(72))
    history = History(first_at=0.0, every_s=HOUR_S, wanted_gpus=wanted)
    start_at = 3 * DAY_S
    lent = backfill("lent", team="vision", gpus=8, on=["n1"])
    facts: FleetState = replace(state(node("n1"), lent), demand=history)
    answer = offer(facts, RULES, start_at - HOUR_S, booking_ask(start_at=start_at, end_at=start_at + DAY_S))
    assert isinstance(answer, Offer)
    (morning, evening) = answer.off_peak
    assert morning[0] == start_at
    assert evening[1] == start_at + DAY_S
    assert morning[1] < start_at + 12 * HOUR_S < evening[0]


def test_serving_keeps_what_it_wanted_at_its_peak() -> None:
    history = History(first_at=0.0, every_s=HOUR_S, wanted_gpus=(4.0, 14.0, 4.0))
    ask = booking_ask(count=5, start_at=DAY_S, end_at=2 * DAY_S, transfers=[transfer("serving", 8)])
    facts = replace(state(*nodes(8), service(wanted=4)), demand=history)
    answer = offer(facts, RULES, 3 * HOUR_S, ask)
    assert isinstance(answer, Declined)
    assert (answer.asked, answer.available, answer.blocked_by) == (8, 2, ("serving",))


@pytest.mark.parametrize("below", ["", "/l1"], ids=["the domains lie no deeper", "they do"])
def test_who_is_in_the_way_is_said_of_the_domain_that_lacks_least(below: str) -> None:
    there = [*nodes(2, at=f"s1{below}"), *nodes(2, prefix="m", at=f"s2{below}")]
    answer = asked([*there, *(firm(f"f-{on}", on) for on in ("n1", "m1", "m2"))], booking_ask(count=2))
    assert isinstance(answer, Declined)
    assert answer.blocked_by == ("f-n1",)
