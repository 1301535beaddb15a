"""The calendar over HTTP: what is booked and what it would cost is shown, and the arbiter's answer is heard."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleet_app.arbiter import calendar, inbox
from fleet_app.arbiter import ingest as arbiter
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.rules import Rules
from fleet_app.engine.plan import Plan, Rebook
from fleet_app.engine.state import FleetState
from tests.builders import backfill, node
from tests.surface.bench import Bench, bench
from tests.surface.hand import Hand

pytestmark = pytest.mark.anyio

HOUR = 3600.0
NODES = (
    node("n1", at="s1/l1", driver="550"),
    node("n2", at="s1/l1", driver="550"),
    node("n3", at="s1/l2", driver="535"),
    node("n4", at="s1/l2", driver="535"),
)
LENT = backfill("b1", on=("n1",), gpus=2, team="batch")


@dataclass
class Desk:
    """A gateway, and an arbiter that takes requests about bookings in as the real one does."""

    here: Bench
    hand: Hand
    state: FleetState
    now: float

    def body(self, name: str = "bench", **more: Any) -> dict[str, Any]:
        """Return what asks for a node for two hours, in an hour."""
        times = {"start_at": self.now + HOUR, "end_at": self.now + 3 * HOUR}
        body = {"name": name, "team": "research", "nodes": 1, **times, "asked_by": "ada", **more}
        return {key: value for key, value in body.items() if value is not None}

    async def post(self, path: str, body: dict[str, Any], status: int = 200) -> Any:
        """Send an order and return the answer, while the arbiter cycles."""
        asking = asyncio.create_task(self.here.post(f"/api/fleet/{path}", json=body))
        while not asking.done():
            self.cycle()
            await asyncio.sleep(0.01)
        answer = await asking
        assert answer.status == status, await answer.text()
        return await answer.json()

    async def list(self) -> list[dict[str, Any]]:
        """Return what is booked."""
        return await (await self.here.get("/api/fleet/bookings")).json()  # type: ignore[no-any-return]

    def cycle(self) -> None:
        """Take in what waits."""
        rules = Rules(self.hand.home)
        for path, request in inbox.waiting(self.hand.home):
            arbiter.ingest(self.hand.book, request, Facts(now=time.time()), rules, lambda: self.state)
            self.hand.journal.commit(self.hand.book)
            inbox.done(path)
        self.hand.live()


@asynccontextmanager
async def desk(home: Path, *workloads: Any) -> AsyncIterator[Desk]:
    async with bench(home) as here:
        hand = Hand(home)
        state = FleetState(nodes=NODES, workloads=workloads)
        hand.show(state, Plan())
        at = Desk(here=here, hand=hand, state=state, now=time.time())
        yield at
        at.hand.die()


async def test_a_booking_is_priced_taken_shown_extended_and_given_up(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        priced = await at.post("bookings?dry_run=true", at.body())
        assert (priced["accepted"], priced["offer"]["approver"], priced["offer"]["displaces"]) == (False, False, [])
        assert await at.list() == []
        taken = await at.post("bookings", at.body())
        assert (taken["stage"], taken["asked_by"], len(taken["nodes"])) == ("booked", "ada", 1)
        (row,) = await at.list()
        assert (row["name"], row["team"], row["nodes"], row["cost"]) == ("bench", "research", taken["nodes"], 0.0)
        later = {"end_at": at.now + 4 * HOUR, "asked_by": "ada"}
        at.state = FleetState(nodes=NODES, bookings=tuple(record.booking for record in at.hand.book.bookings))
        at.hand.show(at.state, Plan())
        assert (await at.post("bookings/bench/extend?dry_run=true", later))["offer"]["end_at"] == later["end_at"]
        assert (await at.post("bookings/bench/extend", later))["message"] == "extended"
        assert (await at.list())[0]["end_at"] == later["end_at"]
        assert (await at.post("bookings/bench/cancel", {"who": "ada"}))["stage"] == "cancelled"


async def test_what_displaces_waits_for_an_approver_other_than_the_asker(tmp_path: Path) -> None:
    async with desk(tmp_path, LENT) as at:
        taken = await at.post("bookings", at.body(on=["n1"], nodes=None))
        assert (taken["stage"], taken["displaces"]) == ("proposed", ["b1"])
        assert (await at.post("bookings/bench/approve?dry_run=true", {"who": "grace"}))["offer"]["approver"] is True
        refused = await at.post("bookings/bench/approve", {"who": "ada"}, status=409)
        assert refused["error"]["what"] == "ada asked for it"
        taken = await at.post("bookings/bench/approve", {"who": "grace"})
        assert (taken["stage"], taken["approved_by"]) == ("booked", "grace")
        status = await (await at.here.get("/api/fleet/status")).json()
        assert {stage: count for stage, count in status["bookings"].items() if count} == {"booked": 1}


async def test_what_the_arbiter_refuses_at_that_moment_is_the_caller_s_error_with_what_where_and_fix(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as at:
        at.state = FleetState()  # the last look that was journaled had nodes
        priced = await at.post("bookings?dry_run=true", at.body())
        assert len(priced["offer"]["nodes"]) == 1
        refused = await at.post("bookings", at.body(), status=409)
        assert set(refused["error"]) == {"what", "where", "fix"}
        assert refused["error"]["where"] == "bench"
        assert "1 are asked" in refused["error"]["what"]
        assert await at.list() == []


async def test_without_an_arbiter_an_order_is_kept_and_nothing_is_promised(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.hand.die()
        answer = await at.here.post("/api/fleet/bookings", json=at.body())
        assert await answer.json() == {
            "name": "bench",
            "accepted": True,
            "stage": None,
            "message": "the arbiter is not running; spooled",
        }
        (request,) = [request for _, request in inbox.waiting(tmp_path)]
        assert isinstance(request, inbox.MakeBooking)
        at.hand = Hand(tmp_path)


REFUSED: dict[str, tuple[str, dict[str, Any], int]] = {
    "a booking without an asker": ("bookings", {"asked_by": None}, 400),
    "an unknown key": ("bookings", {"hours": 3}, 400),
    "an unknown team": ("bookings", {"team": "nobody"}, 400),
    "a node that is not there": ("bookings?dry_run=true", {"nodes": None, "on": ["n9"]}, 404),
    "more than there is": ("bookings?dry_run=true", {"nodes": 9}, 409),
}


@pytest.mark.parametrize(("path", "more", "want"), REFUSED.values(), ids=REFUSED)
async def test_refused_at_once_and_nothing_is_left_for_the_arbiter(
    tmp_path: Path, path: str, more: dict[str, Any], want: int
) -> None:
    async with desk(tmp_path) as at:
        answer = await at.here.post(f"/api/fleet/{path}", json=at.body(**more))
        assert answer.status == want, await answer.text()
        assert set((await answer.json())["error"]) == {"what", "where", "fix"}
        assert inbox.waiting(tmp_path) == ()


async def test_what_is_not_booked_is_not_approved_extended_or_given_up(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.post("bookings/nobody/approve", {"who": "grace"}, status=404)
        await at.post("bookings/nobody/cancel", {"who": "grace"}, status=404)
        await at.post("bookings/nobody/extend", {"end_at": 1e10, "asked_by": "ada"}, status=404)


async def test_before_the_arbiter_has_looked_nothing_can_be_priced(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        body = {"name": "x", "team": "research", "nodes": 1, "start_at": 4e9, "end_at": 5e9, "asked_by": "ada"}
        assert (await here.post("/api/fleet/bookings?dry_run=true", json=body)).status == 409
        assert await (await here.get("/api/fleet/bookings")).json() == []


async def test_a_driver_rolls_over_the_domains_that_have_another(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        body = {"driver": "550", "level": "leaf", "start_at": at.now + HOUR, "window_s": HOUR, "asked_by": "ada"}
        planned = await at.post("upgrade?dry_run=true", body)
        assert [(one["name"], one["nodes"]) for one in planned["windows"]] == [("driver-550-s1-l2", ["n3", "n4"])]
        assert await at.list() == []
        booked = await at.post("upgrade", body)
        assert [one["stage"] for one in booked["windows"]] == ["booked"]
        (row,) = await at.list()
        assert (row["team"], row["nodes"], row["stage"]) == (None, ["n3", "n4"], "booked")
        await at.post("upgrade", body | {"level": "rack"}, status=400)


async def test_an_upgrade_that_is_refused_on_its_way_says_how_far_it_got(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.state = FleetState(nodes=NODES[:3])  # n4 went since the last look
        body = {"driver": "560", "level": "leaf", "start_at": at.now + HOUR, "window_s": HOUR, "asked_by": "ada"}
        refused = await at.post("upgrade", body, status=409)
        assert refused["error"]["what"].startswith("1 of 2 windows are booked; there is no node 'n4'")
        assert [row["name"] for row in await at.list()] == ["driver-560-s1-l1"]


async def test_a_booking_is_explained(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.post("bookings", at.body())
        told = await (await at.here.get("/api/fleet/explain/bench")).json()
        assert told["sentence"].startswith("is booked for team research: 1 node of 8 GPUs in ")
        assert (await at.here.get("/api/fleet/explain/nobody")).status == 404


async def test_bookings_are_counted_by_stage_and_those_that_are_not_whole_alone(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.post("bookings", at.body())
        calendar.rebook(at.hand.book, Rebook(booking="bench", nodes=("n1",), breach="n1 is lost", why="w"), at.now)
        at.hand.journal.commit(at.hand.book)
        text = await (await at.here.get("/metrics")).text()
        assert '\nfleet_bookings{stage="booked"} 1.0' in text
        assert "\nfleet_bookings_broken 1.0" in text


async def test_a_node_says_for_whom_it_is_booked(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.post("bookings", at.body(on=["n2"], nodes=None))
        booked = tuple(record.booking for record in at.hand.book.bookings)
        at.hand.show(FleetState(nodes=NODES, bookings=booked), Plan())
        rows = await (await at.here.get("/api/fleet/nodes")).json()
        said = {row["name"]: [(one["name"], one["team"], one["gpus"]) for one in row["bookings"]] for row in rows}
        assert said == {"n1": [], "n2": [("bench", "research", 8)], "n3": [], "n4": []}
