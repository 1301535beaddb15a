"""A booking through the arbiter on virtual time: from the request to what it did cost, with restarts in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet_app.arbiter.booked import Stage
from fleet_app.arbiter.inbox import ApproveBooking, CancelBooking, ExtendBooking, MakeBooking, Pause, Resume
from fleet_app.arbiter.notes import What
from fleet_app.engine.lifecycle import Phase
from tests.unit.arbiter.rig import LONG, POLICY, Rig, small
from tests.world import Behaviour

CALENDAR = """
topology: {gpus_per_node: 4}
calendar: {approve_above_gpu_hours: 1, move_lead: 10s, hold: 5s, keep: 30s}
accounting: {price_per_gpu_hour: 3600}
"""
"""A GPU-second costs 1; whoever displaces more than 3600 of them needs an approver."""


def lent_out(rig: Rig) -> Rig:
    """Let two training nodes be full of another team's backfill, with a gang of two nodes that waits."""
    (rig.home / "policy.yaml").write_text(POLICY + CALENDAR)
    small(rig, serving=0, training=2)
    for name in ("b1", "b2"):
        rig.world.behaviours[name] = LONG
        rig.submit(name, team="serving", gpus=4, notice="library")
    rig.run(3.0)
    rig.world.behaviours["llm"] = Behaviour(steps=20)
    rig.submit("llm", kind="gang", nodes=2, gpus=4)
    return rig


def book(rig: Rig, *, start: float = 30.0, end: float = 60.0, **spec: Any) -> None:
    """Ask for both nodes, so many seconds after the beginning."""
    size = {} if "on" in spec else {"nodes": 2}
    times = {"start_at": rig.began + start, "end_at": rig.began + end}
    rig.post(MakeBooking(spec={"name": "bench", "team": "research", **size, **times, **spec}, asked_by="ada", ref="r1"))


def stage(rig: Rig) -> Stage:
    return rig.reader().bookings()["bench"].stage


def there(rig: Rig, node: str) -> list[str]:
    return [name for name, record in rig.reader().records().items() if node in record.workload.nodes]


RESTARTS = {
    "without a restart": (),
    "with one while it waits": (10.0,),
    "with one in the middle of the drain": (25.2,),
    "with one in its time": (40.0,),
    "with one at every turn": (10.0, 25.2, 30.0, 40.0, 60.0),
}


@pytest.mark.parametrize("restarts", RESTARTS.values(), ids=RESTARTS)
def test_borrowers_leave_before_it_begins_the_gang_runs_in_it_and_its_cost_is_noted(
    rig: Rig, restarts: tuple[float, ...]
) -> None:
    lent_out(rig)
    for at in restarts:
        rig.at(at, rig.drop)
    rig.at(4.0, lambda: book(rig))
    rig.run(24.5)
    assert (stage(rig), rig.phases()) == (
        Stage.BOOKED,
        {"b1": Phase.RUNNING, "b2": Phase.RUNNING, "llm": Phase.QUEUED},
    )
    rig.run(29.9)
    drained = rig.notes(What.DRAINING)
    assert [(float(str(note["at"])) < 26.5, note["beneficiary"]) for note in drained] == [(True, "bench")] * 2
    assert rig.phases()["b1"] is Phase.QUEUED
    rig.run(34.0)
    assert (stage(rig), rig.phases()["llm"]) == (Stage.IN_FORCE, Phase.RUNNING)
    assert rig.reader().records()["llm"].workload.nodes == ("t1", "t2")
    rig.run(70.0)
    assert rig.phases()["llm"] is Phase.SUCCEEDED
    (told,) = rig.notes(What.BOOKING_ENDED)
    assert (stage(rig), told["said_price"], told["cost"]) == (Stage.ENDED, 8 * 30.0, 8 * 30.0)
    assert told["displaced"] == ["b1", "b2"]
    assert 8 * 20 / 3600 < float(str(told["displaced_gpu_hours"])) < 8 * 36 / 3600
    for what in (What.BOOKED, What.BOOKING_STARTED, What.BOOKING_ENDED):
        assert len(rig.notes(what, "bench")) == 1, what
    rig.run(95.0)
    assert rig.reader().bookings() == {}
    assert rig.notes(What.BOOKED, "bench")[0]["asked_by"] == "ada"


def test_what_cannot_be_had_by_then_is_refused_and_whoever_asked_finds_out_why(rig: Rig) -> None:
    lent_out(rig)
    rig.at(4.0, lambda: book(rig, start=5.0))
    rig.run(6.0)
    assert rig.reader().bookings() == {}
    (refused,) = rig.notes(What.REFUSED, "bench")
    assert refused["ref"] == "r1"
    error: Any = refused["error"]
    assert (error["where"], error["status"]) == ("bench", 409)
    assert "b1, b2 cannot be cleared away in time" in error["what"]


def test_a_long_one_waits_for_its_approver_and_binds_nobody_until_then(rig: Rig) -> None:
    lent_out(rig)
    rig.at(4.0, lambda: book(rig, end=4000.0))
    rig.at(20.0, lambda: rig.post(ApproveBooking(name="bench", who="ada")))
    rig.at(31.0, lambda: rig.post(ApproveBooking(name="bench", who="grace")))
    rig.at(50.0, lambda: book(rig, name="later", start=80.0, end=4000.0))
    rig.at(52.0, lambda: rig.post(ApproveBooking(name="later", who="grace")))
    rig.run(30.9)
    assert (stage(rig), rig.phases()["b1"]) == (Stage.PROPOSED, Phase.RUNNING)
    rig.run(51.0)
    whys = [str(note["why"]) for note in rig.notes(What.REFUSED, "bench")]
    assert len(whys) == 2
    assert "ada asked for it" in whys[0]
    assert "cannot be cleared away in time" in whys[1], "its start is over, so it would start at once"
    assert rig.reader().bookings()["later"].stage is Stage.PROPOSED
    rig.run(84.0)
    assert (rig.reader().bookings()["later"].stage, rig.phases()["llm"]) == (Stage.IN_FORCE, Phase.RUNNING)


def test_one_that_is_given_up_before_its_start_sends_nobody_away(rig: Rig) -> None:
    lent_out(rig)
    rig.at(4.0, lambda: book(rig))
    rig.at(20.0, lambda: rig.post(CancelBooking(name="bench", who="ada")))
    rig.run(40.0)
    assert (stage(rig), rig.phases()["b1"], rig.phases()["b2"]) == (Stage.CANCELLED, Phase.RUNNING, Phase.RUNNING)


def test_one_that_is_extended_in_its_time_lasts_longer(rig: Rig) -> None:
    lent_out(rig)
    rig.at(4.0, lambda: book(rig))
    rig.at(45.0, lambda: rig.post(ExtendBooking(name="bench", end_at=rig.began + 80.0, asked_by="ada")))
    rig.run(75.0)
    assert stage(rig) is Stage.IN_FORCE
    rig.run(81.0)
    assert (stage(rig), rig.notes(What.BOOKING_ENDED)[0]["cost"]) == (Stage.ENDED, 8 * 50.0)


def test_in_a_maintenance_window_the_nodes_are_empty(rig: Rig) -> None:
    lent_out(rig)
    rig.at(4.0, lambda: book(rig, team=None, on=["t1"]))
    rig.run(45.0)
    assert (there(rig, "t1"), there(rig, "t2"), stage(rig)) == ([], ["b2"], Stage.IN_FORCE)
    rig.run(75.0)
    assert there(rig, "t1") == ["b1"]


def test_a_node_that_is_lost_is_replaced_or_what_is_missing_is_said(rig: Rig) -> None:
    lent_out(rig)
    rig.at(4.0, lambda: book(rig))
    rig.at(5.0, lambda: rig.world.lose_node("t2"))
    rig.run(60.5)
    told = rig.notes(What.REBOOKED, "bench")
    assert "t2 is lost" in str(told[0]["breach"])
    assert "t2 is lost" in str(rig.notes(What.BOOKING_ENDED)[0]["breach"])
    assert "t2 is lost" in rig.reader().bookings()["bench"].booking.breach


def test_while_paused_a_booking_is_taken_and_nobody_is_asked_to_leave(rig: Rig) -> None:
    lent_out(rig).at(4.0, lambda: rig.post(Pause()))
    rig.at(5.0, lambda: book(rig))
    rig.at(40.0, lambda: rig.post(Resume()))
    rig.run(39.0)
    assert (stage(rig), rig.phases()["b1"], rig.notes(What.DRAINING)) == (Stage.IN_FORCE, Phase.RUNNING, [])
    rig.run(50.0)
    assert there(rig, "t1") == there(rig, "t2") == ["llm"]


def test_while_paused_what_takes_the_place_of_a_lost_node_is_noted_all_the_same(rig: Rig) -> None:
    lent_out(rig)
    rig.at(4.0, lambda: book(rig))
    rig.at(6.0, lambda: rig.post(Pause()))
    rig.at(7.0, lambda: rig.world.lose_node("t2"))
    rig.run(50.0)
    assert "t2 is lost" in str(rig.notes(What.REBOOKED, "bench")[0]["breach"])


def test_an_arbiter_that_dies_after_any_effect_keeps_the_booking(tmp_path: Path) -> None:
    def told(number: int) -> Rig:
        home = tmp_path / str(number)
        home.mkdir()
        rig = lent_out(Rig(home=home, crash=lambda done, _: done == number))
        rig.at(4.0, lambda: book(rig))
        rig.run(62.0)
        rig.drop()
        return rig

    effects = len(told(0).effects)
    assert effects > 20
    for number in range(1, effects + 1):
        rig = told(number)
        assert (rig.crashes, stage(rig), rig.phases()["llm"]) == (1, Stage.ENDED, Phase.SUCCEEDED), number
        assert [len(rig.notes(what, "bench")) for what in (What.BOOKED, What.BOOKING_ENDED)] == [1, 1], number
        assert rig.notes(What.BOOKING_ENDED)[0]["displaced"] == ["b1", "b2"], number
        assert rig.notes(What.REFUSED) == [], number
