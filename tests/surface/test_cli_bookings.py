"""`fleet book`, `calendar` and `upgrade` from outside: cost first, then the order, and what came of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import icalendar
import pytest
from typer.testing import CliRunner, Result

from fleet_app.cli.main import app
from fleet_app.cli.moments import moment
from fleet_app.engine.errors import RequestError
from tests.builders import backfill
from tests.surface.control_answers import BASE
from tests.surface.control_stand_in import Control, refused, served
from tests.surface.test_cli import fleet, lines
from tests.surface.test_gateway_bookings import desk

AT = 1_800_000_000.0  # 2027-01-15T08:00Z
HOUR = 3600.0
DISPLACED = {
    "workload": "batch-1",
    "team": "batch",
    "how": "drained",
    "gpus": 2,
    "lost_gpu_s": 240.0,
    "again_at": AT + 4 * HOUR,
}


def booking(name: str = "bench", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "team": "research",
        "nodes": ["n01", "n06"],
        "domains": {"s1/l1": ["n01", "n06"]},
        "gpus_per_node": 8,
        "start_at": AT,
        "end_at": AT + 4 * HOUR,
        "within": "spine",
        "most_domains": 1,
        "accelerator": None,
        "transfers": [],
        "stage": "booked",
        "asked_by": "ada",
        "approved_by": "grace",
        "made_at": AT - HOUR,
        "price": 160.0,
        "cost": 0.0,
        "breach": "",
        "displaces": [DISPLACED],
        "own": ["llm"],
        "away": [],
        "proposed_end_at": None,
        "proposed_by": None,
        "ended_at": None,
        **more,
    }


FANS = booking(
    "fans",
    team=None,
    nodes=["n02", "n03"],
    domains={"s1/l2": ["n02"], "s2/l1": ["n03"]},
    start_at=AT + 2 * HOUR,
    end_at=AT + 8 * HOUR,
    stage="proposed",
    approved_by="",
)
BOOKINGS = [
    booking(breach="n06 is lost"),
    FANS,
    booking("old", stage="ended", end_at=AT - HOUR, start_at=AT - 2 * HOUR),
]
OFFER = {
    **booking(transfers=[{"lender": "batch", "gpus": 4, "approved_by": "grace"}]),
    "lent_gpu_hours": 8.0,
    "serving_left_gpus": 20,
    "off_peak": [[AT + 2 * HOUR, AT + 3 * HOUR]],
    "approver": True,
}
ANSWERS: dict[str, Any] = {
    f"GET {BASE}bookings": BOOKINGS,
    f"POST {BASE}bookings": {"offer": OFFER, "accepted": False},
}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this machine's zone be UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


# Moments.

MOMENTS = {
    "with a zone": ("2027-01-15T09:00+01:00", AT),
    "with the zone of all": ("2027-01-15T08:00Z", AT),
    "in this machine's": ("2027-01-15T08:00", AT),
    "with a space": ("2027-01-15 08:00", AT),
    "a day": ("2027-01-15", AT - 8 * HOUR),
    "now": ("now", 50.0),
    "so much later": ("+1h30m", 50.0 + 5400),
}


@pytest.mark.parametrize(("text", "want"), MOMENTS.values(), ids=MOMENTS)
def test_moment(text: str, want: float) -> None:
    assert moment(text, "--from", 50.0) == want


def test_a_time_without_a_zone_is_in_this_machine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    assert moment("2027-01-15T09:00", "--from", 0.0) == AT
    assert moment("2027-07-15T09:00", "--from", 0.0) - moment("2027-07-15T09:00Z", "--from", 0.0) == -2 * HOUR


@pytest.mark.parametrize("text", ["", "noon", "+3", "+", "2027-13-01", "99999-01-01", "3d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="is no time"):
        moment(text, "--from", 0.0)


# Looking.


def test_the_calendar_is_a_table_and_a_picture_of_domains_and_time() -> None:
    with served(dict(ANSWERS)) as control:
        result = fleet(
            *("calendar", "--from", "2027-01-15T08:00Z", "--to", "2027-01-15T16:00Z", "--gateway", control.url)
        )
    assert result.exit_code == 0, result.output
    assert lines(result.stdout) == [
        "NAME   FOR          STAGE     WHEN                       SHAPE  WHERE    SAID    COST  BY",
        "bench  research     booked    2027-01-15 08:00 to 12:00  2 x 8  n01 n06  160.00  0.00  ada, grace",
        "fans   maintenance  proposed  2027-01-15 10:00 to 16:00  2 x 8  n02 n03  160.00  0.00  ada",
        "",
        "DOMAIN  2027-01-15 08:00                           16:00",
        "s1/l1   aaaaaaaaaaaaaaaaaaaaaaaa........................",
        "s1/l2   ............bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
        "s2/l1   ............bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
        "a=bench  b=fans",
    ]
    said = " ".join(result.stderr.split())
    assert "bench is not whole: n06 is lost" in said
    assert "fans binds nobody until somebody other than ada approves it." in said


WINDOWS: dict[str, tuple[list[str], list[str]]] = {
    "what has not ended": ([], ["bench", "fans"]),
    "everything": (["--all"], ["bench", "fans", "old"]),
    "what begins before a time": (["--to", "2027-01-15T09:00Z"], ["bench"]),
    "what ends after a time": (["--from", "2027-01-15T13:00Z"], ["fans"]),
}


@pytest.mark.parametrize(("options", "want"), WINDOWS.values(), ids=WINDOWS)
def test_what_the_calendar_has(options: list[str], want: list[str]) -> None:
    before = [] if "--from" in options else ["--from", "2027-01-15T08:00Z"]
    with served(dict(ANSWERS)) as control:
        result = fleet("calendar", *before, *options, "--json", "--gateway", control.url)
    assert [each["name"] for each in json.loads(result.stdout)] == want


def test_other_calendars_can_read_it() -> None:
    with served(dict(ANSWERS)) as control:
        result = fleet("calendar", "--from", "2027-01-15", "--ics", "--gateway", control.url)
    found = icalendar.Calendar.from_ical(result.stdout_bytes)
    events = list(found.walk("VEVENT"))
    assert [(str(event["summary"]), str(event["status"])) for event in events] == [
        ("bench: 2 x 8 GPUs for research", "CONFIRMED"),
        ("fans: 2 x 8 GPUs for maintenance", "TENTATIVE"),
    ]
    assert [event.decoded("dtstart").timestamp() for event in events] == [AT, AT + 2 * HOUR]
    assert [event.decoded("dtend").timestamp() for event in events] == [AT + 4 * HOUR, AT + 8 * HOUR]
    assert len({str(event["uid"]) for event in events}) == 2
    assert b"\r\n" in result.stdout_bytes


def test_nothing_booked_is_said_so() -> None:
    with served({f"GET {BASE}bookings": []}) as control:
        result = fleet("calendar", "--gateway", control.url)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Nothing is booked" in result.stderr


# Booking.

BENCH = ("book", "bench", "--team", "research", "--nodes", "2", "--from", "2027-01-15T08:00Z", "--to", "+4h")


def booked(control: Control, *arguments: str, answer: str = "") -> Result:
    clean = {"FLEET_HOME": None, "FLEET_GATEWAY": None, "FLEET_TOKEN": None, "COLUMNS": "104", "TERM": "dumb"}
    return CliRunner().invoke(app, [*arguments, "--gateway", control.url], env=clean, input=answer)


def test_what_it_costs_is_shown_and_nothing_is_booked_in_a_dry_run() -> None:
    with served(dict(ANSWERS)) as control:
        result = booked(control, *BENCH, "--by", "ada", "--dry-run")
        assert [asked.query for asked in control.asked] == [{"dry_run": "true"}]
    assert result.exit_code == 0, result.output
    assert lines(result.stdout) == [
        "DISPLACES  TEAM   HOW      GPUS  LOSES              RUNS AGAIN BY",
        "batch-1    batch  drained  2     4m00s of GPU time  2027-01-15 12:00",
        "",
        "Booking                        bench for research: 2 x 8 GPUs on n01 n06",
        "From, to                       2027-01-15 08:00 to 12:00 (4h00m)",
        "Nominal from                   batch: 4 GPUs, approved by grace",
        "Displaces                      1 workload, 2 GPUs",
        "Already there, of its own      llm",
        "Lent GPU-hours that go         8.0",
        "Left for serving meanwhile     20 GPUs",
        "Off-peak, for batch work       2027-01-15 10:00 to 11:00",
        "Price                          160.00",
        "Approver other than the asker  needed",
    ]


def test_an_order_says_all_that_was_asked_for() -> None:
    more = ("--within", "spine", "--most-domains", "2", "--accelerator", "h100", "--transfer", "batch=4:grace")
    with served(dict(ANSWERS)) as control:
        booked(control, *BENCH, *more, "--by", "ada", "--approved-by", "grace", "--dry-run")
        assert json.loads(control.asked[0].body) == {
            "name": "bench",
            "team": "research",
            "nodes": 2,
            "within": "spine",
            "most_domains": 2,
            "accelerator": "h100",
            "start_at": AT,
            "end_at": AT + 4 * HOUR,
            "transfers": [{"lender": "batch", "gpus": 4, "approved_by": "grace"}],
            "asked_by": "ada",
            "approved_by": "grace",
        }


CONFIRMED = {
    "yes": ("y\n", [], 0, 2),
    "no": ("n\n", [], 2, 1),
    "nobody there": ("", [], 2, 1),
    "told not to ask": ("", ["--yes"], 0, 2),
}


@pytest.mark.parametrize(("answer", "options", "code", "orders"), CONFIRMED.values(), ids=CONFIRMED)
def test_nothing_is_booked_that_was_not_confirmed(answer: str, options: list[str], code: int, orders: int) -> None:
    taken = {"name": "bench", "accepted": True, "stage": "booked", "message": "booked", "offer": OFFER}
    with served({f"POST {BASE}bookings": taken}) as control:
        result = booked(control, *BENCH, *options, answer=answer)
        assert (result.exit_code, len(control.asked)) == (code, orders), result.output
    assert ("bench is booked" in result.stderr) == (code == 0)


SAID: dict[str, tuple[dict[str, Any], str]] = {
    "booked": ({"stage": "booked", "message": "booked"}, "bench is booked. See it with `fleet calendar`."),
    "proposed": ({"stage": "proposed", "message": "proposed"}, "bench is proposed, and binds nobody yet"),
    "an extension is proposed": ({"stage": "in-force", "message": "proposed"}, "binds nobody yet"),
    "no arbiter": ({"stage": None, "message": "the arbiter is not running; spooled"}, "bench: the arbiter is not"),
}


@pytest.mark.parametrize(("answer", "says"), SAID.values(), ids=SAID)
def test_what_came_of_it_is_said(answer: dict[str, Any], says: str) -> None:
    with served({f"POST {BASE}bookings": {"name": "bench", "offer": OFFER, **answer}}) as control:
        result = booked(control, *BENCH, "--yes")
    assert says in " ".join(result.stderr.split())


def test_a_refusal_says_what_where_and_what_to_do() -> None:
    told = refused("cannot be booked: one spine has 1 nodes", "bench", "It could start at 2027-01-16T00:00:00Z", 409)
    with served({f"POST {BASE}bookings": told}) as control:
        result = booked(control, *BENCH, "--yes")
        assert len(control.asked) == 1
    assert (result.exit_code, result.stdout) == (2, "")
    assert lines(result.stderr) == [
        "error: bench: cannot be booked: one spine has 1 nodes",
        "It could start at 2027-01-16T00:00:00Z",
    ]


CHANGES: dict[str, tuple[list[str], str, dict[str, Any]]] = {
    "extend so much longer": (
        ["--extend", "+2h", "--by", "ada"],
        "extend",
        {"end_at": AT + 6 * HOUR, "asked_by": "ada", "approved_by": ""},
    ),
    "extend until": (
        ["--extend", "2027-01-15T20:00Z", "--by", "ada", "--approved-by", "grace"],
        "extend",
        {"end_at": AT + 12 * HOUR, "asked_by": "ada", "approved_by": "grace"},
    ),
    "approve": (["--approve", "--by", "grace"], "approve", {"who": "grace"}),
    "give up": (["--cancel", "--by", "ada"], "cancel", {"who": "ada"}),
}


@pytest.mark.parametrize(("options", "path", "want"), CHANGES.values(), ids=CHANGES)
def test_what_is_done_with_a_booking(options: list[str], path: str, want: dict[str, Any]) -> None:
    answer = {"name": "bench", "stage": "booked", "message": "booked", "offer": OFFER}
    with served({**ANSWERS, f"POST {BASE}bookings/bench/{path}": answer}) as control:
        result = booked(control, "book", "bench", *options, "--yes")
        assert result.exit_code == 0, result.output
        assert json.loads(control.asked[-1].body) == want
        assert control.asked[-1].query == {}


WRONG = {
    "for a team and for maintenance": (
        ["--team", "x", "--maintenance", "--nodes", "1", "--to", "+1h"],
        "for a team, or",
    ),
    "for nobody": (["--nodes", "1", "--to", "+1h"], "for a team, or for maintenance"),
    "without an end": (["--team", "x", "--nodes", "1"], "until when?"),
    "two changes": (["--cancel", "--approve"], "are two things"),
    "a change and a size": (["--cancel", "--nodes", "2"], "is for a booking that there is"),
    "a time that is none": (["--team", "x", "--nodes", "1", "--to", "noon"], "'noon' is no time"),
    "a transfer that is none": (["--team", "x", "--nodes", "1", "--to", "+1h", "--transfer", "a:b"], "is no transfer"),
    "a dry run of giving up": (["--cancel", "--dry-run"], "giving up costs nothing"),
}


@pytest.mark.parametrize(("options", "says"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_meant_is_refused_before_anything_is_asked(options: list[str], says: str) -> None:
    with served({}) as control:
        result = booked(control, "book", "bench", *options)
        assert control.asked == []
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


# Upgrades.


def test_an_upgrade_is_shown_first_and_booked_only_when_told_to() -> None:
    window = {**OFFER, "name": "driver-550-s1-l1", "team": None, "displaces": [], "stage": None}
    with served({f"POST {BASE}upgrade": {"windows": [window], "accepted": False}}) as control:
        result = booked(control, "upgrade", "--driver", "550", "--start", "2027-01-15T08:00Z", "--window", "2h")
        booked(control, "upgrade", "--driver", "550", "--by", "ada", "--apply")
        assert [asked.query for asked in control.asked] == [{"dry_run": "true"}, {}]
        body = json.loads(control.asked[0].body)
        assert (body["driver"], body["level"], body["start_at"], body["window_s"]) == ("550", "leaf", AT, 7200.0)
    assert lines(result.stdout) == [
        "NAME              STAGE  WHEN                       NODES  WHERE    DISPLACES  GPU-HOURS  APPROVER",
        "driver-550-s1-l1  -      2027-01-15 08:00 to 12:00  2      n01 n06  0          8.0        needed",
    ]
    assert "--apply books them" in result.stderr


# Both ends.


@pytest.mark.anyio
async def test_the_command_and_the_gateway_mean_the_same(tmp_path: Path) -> None:
    async with desk(tmp_path, backfill("b1", on=("n1",), gpus=2, team="batch")) as at:

        async def run(*arguments: str) -> Result:
            asking = asyncio.create_task(
                asyncio.to_thread(fleet, *arguments, "--gateway", str(at.here.client.make_url("")))
            )
            while not asking.done():
                at.cycle()
                await asyncio.sleep(0.01)
            result = await asking
            assert result.exit_code == 0, result.output
            return result

        made = ("book", "bench", "--team", "research", "--node", "n1", "--from", "+1h", "--to", "+2h")
        shown = (await run(*made, "--by", "ada", "--yes")).output
        assert "bench for research: 1 x 8 GPUs on n1" in shown
        assert "is proposed" in shown
        await run("book", "bench", "--approve", "--by", "grace", "--yes")
        (row,) = json.loads((await run("calendar", "--json")).stdout)
        assert (row["stage"], row["approved_by"], row["nodes"]) == ("booked", "grace", ["n1"])
        assert "bench" in (await run("calendar")).stdout
        assert "BEGIN:VEVENT" in (await run("calendar", "--ics")).stdout
        assert "1 booked" in (await run("status")).stdout
        planned = json.loads((await run("upgrade", "--driver", "550", "--start", "+1d", "--json")).stdout)
        assert [one["nodes"] for one in planned["windows"]] == [["n3", "n4"]]
        await run("book", "bench", "--cancel", "--by", "ada", "--yes")
        assert json.loads((await run("calendar", "--json")).stdout) == []
