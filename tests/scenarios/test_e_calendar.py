"""Group E: what is booked is there when it begins, and nobody is in its way, or held up by it, without need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from fleet_app.engine.calendar import Declined, Offer
from fleet_app.engine.forecast import History
from fleet_app.engine.plan import Drain, Reason
from fleet_app.engine.policy import Calendar
from fleet_app.engine.values import Node
from tests import virtual
from tests.builders import backfill, booking, booking_ask, gang, node, nodes, policy, service, team, transfer
from tests.scenarios.said import leaves, reasons, starts, wait
from tests.virtual import at_rest, booked, cycle, later, left, plan_of, started, submitted

HOUR = 3600.0
NOON = 12 * HOUR


def test_e1_a_window_is_free_when_it_begins_and_borrowers_are_asked_half_an_hour_before() -> None:
    rules = policy(team("research"), team("vision", nominal=64), calendar=Calendar(reclaim_lead_s=1800.0))
    lent = [backfill(f"b{n}", team="vision", gpus=8, on=[f"n{n}"]) for n in range(1, 17)]
    fleet = virtual.fleet(rules, *nodes(16), *lent, now=NOON)
    fleet = booked(fleet, booking_ask("evening", count=8, start_at=18 * HOUR, end_at=22 * HOUR))
    (evening,) = fleet.bookings

    fleet = replace(fleet, now=17.5 * HOUR - 1)
    assert plan_of(fleet).actions == ()
    fleet = replace(fleet, now=17.5 * HOUR)
    asked = leaves(plan_of(fleet))
    assert set(asked.values()) == {"evening"}
    assert {one.nodes[0] for one in fleet.workloads if one.name in asked} == set(evening.nodes)
    fleet = replace(left(cycle(fleet)), now=18 * HOUR)
    free = {one.name for one in fleet.nodes} - {name for one in fleet.workloads for name in one.nodes}
    assert free == set(evening.nodes)
    assert len(free) * 8 == 64
    fleet = submitted(cycle(fleet), gang("owner", nodes=8))
    assert set(starts(plan_of(fleet))["owner"]) == set(evening.nodes)


def test_e3_two_short_jobs_are_not_put_on_one_booked_node_because_each_alone_would_be_gone() -> None:
    one = booking("run", "n1", gpus=4)
    short = [gang(f"g{n}", gpus=4, max_run_s=300.0, grace_s=60.0, team="vision") for n in range(3)]
    fleet = virtual.fleet(policy(team("research"), team("vision")), node("n1"), one, *short, now=500.0)
    plan = plan_of(fleet)
    assert starts(plan) == {"g0": ("n1",), "g1": ("n1",)}
    assert reasons(plan) == {"g2": Reason.NO_ROOM}


def test_e5_who_waits_for_a_booking_to_end_is_not_passed_for_ever() -> None:
    rules = policy(team("research"), team("vision"))
    runs = booking("run", "n1", "n2", start_at=0.0, end_at=1000.0)
    fleet = virtual.fleet(rules, node("n1"), node("n2"), runs, gang("large", nodes=2, team="vision"), now=10.0)
    assert reasons(plan_of(fleet)) == {"large": Reason.BOOKED}
    fleet = submitted(later(fleet, 1.0), *(gang(f"small{n}", team="vision", priority=900) for n in range(5)))
    fleet = replace(cycle(fleet), now=1000.0)
    assert starts(plan_of(fleet)) == {"large": ("n1", "n2")}


def test_e7_of_a_partly_booked_node_each_gets_its_own_part_and_no_more() -> None:
    runs = booking("run", "n1", gpus=4, start_at=0.0)
    rules = policy(team("research"), team("vision"))
    fleet = virtual.fleet(rules, node("n1"), runs, now=10.0)
    outsider, owner = gang("outsider", gpus=5, team="vision"), gang("owner", gpus=8)
    plan = plan_of(submitted(fleet, outsider, owner))
    assert reasons(plan) == {"outsider": Reason.BOOKED, "owner": Reason.BOOKED}
    assert wait(plan, "outsider").blocked_by == ("run",)
    fits = submitted(fleet, gang("outsider", gpus=4, team="vision"), gang("owner", gpus=4))
    assert starts(plan_of(fits)) == {"outsider": ("n1",), "owner": ("n1",)}


def test_e9_the_owner_of_a_booking_is_no_victim_of_an_outsider() -> None:
    rules = policy(team("research"), team("vision"))
    owner = backfill("owner", gpus=4, on=["n1"])
    runs = booking("run", "n1", start_at=0.0)
    fleet = virtual.fleet(rules, node("n1"), runs, owner, now=10.0)
    fleet = submitted(fleet, gang("outsider", gpus=8, team="vision", priority=90_000))
    assert leaves(plan_of(fleet)) == {}
    assert reasons(plan_of(fleet)) == {"outsider": Reason.BOOKED}


def test_what_would_be_gone_in_time_is_let_in_and_never_asked() -> None:
    fleet = virtual.fleet(policy(team("research"), team("vision")), node("n1"), booking(), now=0.0)
    fleet = submitted(
        fleet, gang("long", team="vision", max_run_s=900.0), gang("short", team="vision", max_run_s=880.0)
    )
    assert reasons(plan_of(fleet)) == {"long": Reason.BOOKED}
    fleet = started(cycle(fleet))
    assert [one.name for one in fleet.workloads if one.nodes] == ["short"]
    assert leaves(plan_of(replace(fleet, now=879.0))) == {}


def test_what_yields_is_asked_so_that_its_grace_ends_at_the_start() -> None:
    fleet = virtual.fleet(policy(team("research"), team("vision")), node("n1"), booking(), now=0.0)
    fleet = started(cycle(submitted(fleet, backfill("lent", gpus=8, team="vision"))))
    assert [one.name for one in fleet.workloads if one.nodes] == ["lent"]
    assert plan_of(replace(fleet, now=879.0)).actions == ()
    (told,) = plan_of(replace(fleet, now=880.0)).actions
    assert isinstance(told, Drain)
    assert told.deadline_at == 1000.0
    back = left(cycle(replace(fleet, now=880.0)))
    assert reasons(plan_of(back)) == {"lent": Reason.BOOKED}
    held = replace(back, now=1100.0)
    assert reasons(plan_of(held)) == {"lent": Reason.BOOKED}
    assert starts(plan_of(replace(held, now=1900.0))) == {"lent": ("n1",)}


def test_idle_booked_room_that_is_lent_comes_back_for_its_team() -> None:
    fleet = virtual.fleet(policy(team("research"), team("vision")), node("n1"), booking(), now=1950.0)
    fleet = started(cycle(submitted(fleet, backfill("lent", gpus=8, team="vision"))))
    fleet = submitted(fleet, gang("owner"))
    assert leaves(plan_of(fleet)) == {"lent": "owner"}
    fleet = at_rest(fleet)
    assert [one.name for one in fleet.workloads if one.nodes] == ["owner"]


def test_an_extension_stays_where_it_is() -> None:
    fleet = virtual.fleet(policy(), *nodes(4), now=0.0)
    fleet = booked(fleet, booking_ask("run", "n3", "n4"))
    longer = booking_ask("run", count=2, end_at=5000.0, replaces="run")
    fleet = booked(replace(fleet, now=1500.0), longer)
    (one,) = fleet.bookings
    assert (one.nodes, one.end_at) == (("n3", "n4"), 5000.0)


def test_a_cancelled_booking_is_in_nobodys_way() -> None:
    fleet = virtual.fleet(policy(team("research"), team("vision")), node("n1"), booking(), now=950.0)
    fleet = submitted(fleet, gang("outsider", team="vision"))
    assert reasons(plan_of(fleet)) == {"outsider": Reason.BOOKED}
    assert starts(plan_of(virtual.unbooked(fleet, "run"))) == {"outsider": ("n1",)}


def test_an_offer_is_no_booking_until_it_is_taken() -> None:
    fleet = virtual.fleet(policy(), node("n1"), now=0.0)
    answer = virtual.offer(fleet.state, fleet.policy, 0.0, booking_ask())
    assert isinstance(answer, Offer)
    assert answer.booking.nodes == ("n1",)
    assert fleet.bookings == ()


DAY = 24 * HOUR
ASKED_AT = 30 * DAY
BEGINS = 31 * DAY
ENDS = BEGINS + 21 * DAY


def two_spines() -> virtual.Fleet:
    """Return 2,048 GPUs on two spines: one for training, which has 848 of its own, and one for serving, with 1,200."""
    rules = policy(
        team("training", nominal=848),
        team("analytics", nominal=0),
        team("serving", nominal=1200),
        calendar=Calendar(price_per_gpu_hour=2.5),
    )
    left = nodes(128, prefix="t", at="s1/l1")
    right = nodes(128, prefix="s", at="s2/l1", serving=True)
    runs = [gang(f"pretrain-{n}", nodes=8, team="training", on=on, max_run_s=HOUR) for n, on in enumerate(eights(left))]
    lent = [
        backfill(f"batch-{n:02}", team="analytics", gpus=8, on=[one.name], started_at=ASKED_AT, grace_s=300.0)
        for n, one in enumerate(left[64:])
    ]
    chat = service(wanted=96, floor=64, gpus=8, on=[one.name for one in right[:96]])
    runs = [replace(one, admitted_at=ASKED_AT, started_at=ASKED_AT) for one in runs]
    return virtual.fleet(rules, *left, *right, *runs, *lent, chat, now=ASKED_AT)


def eights(left: Sequence[Node]) -> list[list[str]]:
    return [[one.name for one in left[first : first + 8]] for first in range(0, 64, 8)]


def hourly() -> History:
    """Return two weeks of demand: by day what 96 replicas take, by night a third of it."""
    wanted = tuple(768.0 if 8 <= hour % 24 < 20 else 256.0 for hour in range(14 * 24))
    return History(first_at=ASKED_AT - 14 * DAY, every_s=HOUR, wanted_gpus=wanted)


def test_half_a_fleet_is_booked_for_three_weeks() -> None:
    fleet = two_spines()
    facts = replace(fleet.state, demand=hourly())
    ask = booking_ask("frontier", team="training", count=128, start_at=BEGINS, end_at=ENDS)

    missing = virtual.offer(facts, fleet.policy, ASKED_AT, ask)
    assert isinstance(missing, Declined)
    assert missing.why == (
        "team training has 848 GPUs of nominal then, 1024 would be booked: 176 more have to be transferred by a lender"
    )
    unsigned = replace(ask, transfers=(transfer("serving", 176, approved_by=""),))
    assert isinstance(virtual.offer(facts, fleet.policy, ASKED_AT, unsigned), Declined)

    signed = replace(ask, transfers=(transfer("serving", 176, approved_by="grace"),))
    answer = virtual.offer(facts, fleet.policy, ASKED_AT, signed)
    assert isinstance(answer, Offer)
    assert {fleet_node.domains[0] for fleet_node in fleet.nodes if fleet_node.name in answer.booking.nodes} == {"s1"}
    assert len(answer.booking.nodes) * answer.booking.shape.gpus == 1024
    assert {(one.how, one.team, one.gpus) for one in answer.displaced} == {("drained", "analytics", 8)}
    again = Counter(one.again_at for one in answer.displaced)
    assert again == {BEGINS: 32, ENDS: 32}  # half of the batch work fits into what serving leaves idle meanwhile
    assert answer.off_peak == ((BEGINS, BEGINS + 8 * HOUR), (BEGINS + 20 * HOUR, BEGINS + 24 * HOUR))
    assert answer.serving_left_gpus == 1200 - 176
    assert answer.lent_gpu_s == 64 * 8 * (ENDS - BEGINS)
    assert answer.price == 1024 * 21 * 24 * 2.5
    assert answer.approver


def test_half_a_fleet_is_there_when_it_was_booked_for() -> None:
    fleet = two_spines()
    ask = booking_ask("frontier", team="training", count=128, start_at=BEGINS, end_at=ENDS)
    fleet = booked(fleet, replace(ask, transfers=(transfer("serving", 176),)))
    for name in [one.name for one in fleet.workloads if one.name.startswith("pretrain")]:
        fleet = virtual.completed(fleet, name)
    fleet = replace(fleet, now=BEGINS - 300.0)
    assert len(leaves(plan_of(fleet))) == 64
    fleet = replace(left(cycle(fleet)), now=BEGINS)
    plan = plan_of(submitted(fleet, gang("frontier-1", team="training", nodes=128)))
    assert len(starts(plan)["frontier-1"]) == 128
    assert len(starts(plan)) == 1 + 32
