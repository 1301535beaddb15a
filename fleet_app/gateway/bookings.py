"""The calendar over HTTP: what is booked, what a booking would cost, and the orders to book, approve, extend, cancel.

A cost is worked out here on the arbiter's last look, for people to decide on. Whether a booking is taken is the
arbiter's word: an order is left in its inbox, and its answer is waited for. Knows paths and bodies. Decides nothing.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from fleet_app.arbiter import agenda, inbox, wanted
from fleet_app.arbiter import bookings as orders
from fleet_app.arbiter.booked import BookingRecord
from fleet_app.arbiter.notes import Entry, What
from fleet_app.arbiter.status import Row
from fleet_app.engine.booking import offer
from fleet_app.engine.calendar import BookingAsk
from fleet_app.engine.errors import ConflictError, NotFoundError, RequestError
from fleet_app.engine.policy import Policy
from fleet_app.engine.state import FleetState
from fleet_app.engine.upgrade import Roll, roll
from fleet_app.gateway.body import read_object, valid
from fleet_app.gateway.known import SPOOLED, Workloads
from fleet_app.gateway.replies import CONTROL
from fleet_app.gateway.submit import Submissions
from fleet_app.policy.bookings import Moment, Who, booking_from_mapping, to_ask
from fleet_app.policy.load import to_engine
from fleet_app.policy.units import LONGEST_S

ANSWER_S = 5.0
"""How long an order waits for what the arbiter says to it; it cycles in a second at the latest."""

DRIVER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,30}$"
"""Of a driver that names bookings: short enough for a name that has a domain in it, too."""

_REFUSALS = {404: NotFoundError, 409: ConflictError}


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Query(_Body):
    """Whether only to hear what it would cost."""

    dry_run: bool = False


class WhoBody(_Body):
    """Who approves, or gives up."""

    who: Who


class AskedBody(_Body):
    """Who asks, and who approves it if anybody does."""

    asked_by: Who
    approved_by: Annotated[str, Field(max_length=128)] = ""


class ExtendBody(AskedBody):
    """Until when a booking is to last, in seconds since the epoch."""

    end_at: Moment


class UpgradeBody(AskedBody):
    """Which driver is to roll over the domains of a level, from when, and how many seconds each takes and waits."""

    driver: Annotated[str, Field(pattern=DRIVER_PATTERN)]
    level: Annotated[str, Field(min_length=1, max_length=64)]
    start_at: Moment
    window_s: Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)] = 3600.0
    pause_s: Annotated[float, Field(ge=0, le=LONGEST_S, allow_inf_nan=False)] = 0.0


class BookingsApi:
    """Everything below CONTROL that is about bookings."""

    def __init__(self, home: Path, workloads: Workloads, submissions: Submissions) -> None:
        """Answer for the fleet at `home`."""
        self._home = home
        self._workloads = workloads
        self._submissions = submissions

    def routes(self) -> list[web.RouteDef]:
        """Return what this serves."""
        return [
            web.get(CONTROL + "bookings", self._list),
            web.post(CONTROL + "bookings", self._make),
            web.post(CONTROL + "bookings/{name}/approve", self._approve),
            web.post(CONTROL + "bookings/{name}/extend", self._extend),
            web.post(CONTROL + "bookings/{name}/cancel", self._cancel),
            web.post(CONTROL + "upgrade", self._upgrade),
        ]

    async def _list(self, _: web.Request) -> web.Response:
        price, snapshot = self._submissions.policy().accounting.price_per_gpu_hour, self._workloads.snapshot()
        nodes = () if snapshot is None else snapshot.state.nodes
        records = self._workloads.journal.bookings().values()
        return web.json_response(agenda.bookings(records, nodes, price, time.time()))

    async def _make(self, request: web.Request) -> web.Response:
        body = await read_object(request)
        who = valid(AskedBody, {key: body.pop(key) for key in tuple(body) if key in AskedBody.model_fields}, "body")
        now = time.time()
        spec = booking_from_mapping(body, self._submissions.policy(), now)
        if _dry(request):
            state = self._state()
            ask = to_ask(spec, self._submissions.policy(), state.nodes, who.asked_by, now)
            return await self._cost(state, ask, now)
        given = spec.model_dump(mode="json", exclude_none=True)
        return await self._order(
            spec.name, inbox.MakeBooking(spec=given, ref=_ref(), asked_by=who.asked_by, approved_by=who.approved_by)
        )

    async def _approve(self, request: web.Request) -> web.Response:
        asked, known = valid(WhoBody, await read_object(request), "body"), self._find(request)
        now = time.time()
        ask = orders.to_approve(known, asked.who, now)
        if _dry(request):
            return await self._cost(self._state(), ask, now)
        return await self._order(known.name, inbox.ApproveBooking(name=known.name, who=asked.who, ref=_ref()))

    async def _extend(self, request: web.Request) -> web.Response:
        asked, known = valid(ExtendBody, await read_object(request), "body"), self._find(request)
        ask = orders.extension(known, asked.end_at, asked.asked_by)
        if _dry(request):
            return await self._cost(self._state(), ask, time.time())
        order = inbox.ExtendBooking(
            name=known.name,
            end_at=asked.end_at,
            asked_by=asked.asked_by,
            approved_by=asked.approved_by,
            ref=_ref(),
        )
        return await self._order(known.name, order)

    async def _cancel(self, request: web.Request) -> web.Response:
        asked, known = valid(WhoBody, await read_object(request), "body"), self._find(request)
        return await self._order(known.name, inbox.CancelBooking(name=known.name, who=asked.who, ref=_ref()))

    async def _upgrade(self, request: web.Request) -> web.Response:
        """Offer a maintenance window for each domain, and book them one after another, as long as each is taken."""
        asked, now, state = valid(UpgradeBody, await read_object(request), "body"), time.time(), self._state()
        how = Roll(
            driver=asked.driver,
            level=asked.level,
            start_at=max(asked.start_at, now),
            window_s=asked.window_s,
            pause_s=asked.pause_s,
            asked_by=asked.asked_by,
        )
        rules = to_engine(self._submissions.policy())
        windows = await asyncio.to_thread(_windows, state, rules, now, how)
        if not _dry(request):
            await self._book_windows(windows, asked)
        return web.json_response({"windows": windows, "accepted": not _dry(request)})

    async def _book_windows(self, windows: list[Row], asked: AskedBody) -> None:
        """Order every window, and note at which stage each is then. Raises ConflictError with the first refusal."""
        before, left = self._workloads.journal.last_event(), []
        for window in windows:
            spec = {"on": window["nodes"]} | {key: window[key] for key in ("name", "start_at", "end_at")}
            order = inbox.MakeBooking(spec=spec, asked_by=asked.asked_by, approved_by=asked.approved_by, ref=_ref())
            await asyncio.to_thread(inbox.post, self._home, order)
            left.append(order)
        refused: list[RequestError] = []
        for window, order in zip(windows, left, strict=True):
            try:
                window["stage"] = (await self._answer(str(window["name"]), order.ref, before))["stage"]
            except RequestError as error:
                refused.append(error)
        if refused:
            count = f"{len(windows) - len(refused)} of {len(windows)} windows are booked"
            raise ConflictError(f"{count}; {refused[0].what}", where=refused[0].where, fix=refused[0].fix)

    def _find(self, request: web.Request) -> BookingRecord:
        name = request.match_info["name"]
        known = self._workloads.journal.bookings().get(name)
        if known is None:
            raise NotFoundError(f"there is no booking {name[:64]!r}", where="name", fix="See `fleet calendar`")
        return known

    # What it would cost.

    def _state(self) -> FleetState:
        """Return the fleet as the arbiter last saw it. Raises ConflictError when it has not looked yet."""
        snapshot = self._workloads.snapshot()
        if snapshot is None:
            raise ConflictError("the arbiter has seen no node yet", where="bookings", fix="See `fleet status`")
        return snapshot.state

    async def _cost(self, state: FleetState, ask: BookingAsk, now: float) -> web.Response:
        rules = to_engine(self._submissions.policy())

        def work() -> dict[str, object]:
            seen = replace(state, demand=wanted.history_of(list(self._workloads.journal.wanted().items())))
            return agenda.offer(orders.offered(offer(seen, rules, now, ask)), state.nodes)

        # A decision is made for it, and the journal is read: not on the loop that serves the others.
        return web.json_response({"offer": await asyncio.to_thread(work), "accepted": False})

    # What the arbiter says.

    async def _order(self, name: str, order: inbox.AboutBooking) -> web.Response:
        """Leave an order for the arbiter, and say what it says to it. Raises RequestError as the arbiter refuses it."""
        before = self._workloads.journal.last_event()
        await asyncio.to_thread(inbox.post, self._home, order)  # a disk may take its time
        return web.json_response(await self._answer(name, order.ref, before))

    async def _answer(self, name: str, ref: str, before: int) -> Row:
        """Return what the arbiter says to an order; that it was kept, when no arbiter runs. Raises RequestError."""
        if not self._workloads.alive():
            return {"name": name, "accepted": True, "stage": None, "message": SPOOLED}
        await self._workloads.until(lambda: self._heard(name, ref, before) is not None, timeout_s=ANSWER_S)
        heard = self._heard(name, ref, before)
        if heard is None:
            return {"name": name, "accepted": True, "stage": None, "message": "the arbiter has not answered yet"}
        if heard.note.kind is What.REFUSED:
            raise _refusal(heard.note.detail.get("error"))
        known = self._workloads.journal.bookings().get(name)
        stage = None if known is None else known.stage.value
        said = {"name": name, "accepted": True, "stage": stage, "message": heard.note.kind.value}
        return said | dict(heard.note.detail)

    def _heard(self, name: str, ref: str, after: int) -> Entry | None:
        found = self._workloads.journal.events(after, subject=name)
        return next((entry for entry in found if entry.note.detail.get("ref") == ref), None)


def _windows(state: FleetState, rules: Policy, now: float, how: Roll) -> list[Row]:
    """Return the offer for each window of a roll, given those before it."""
    found = []
    for ask in roll(state, rules, now, how):
        said = orders.offered(offer(state, rules, now, ask))
        found.append(agenda.offer(said, state.nodes))
        state = replace(state, bookings=(*state.bookings, said.booking))
    return found


def _dry(request: web.Request) -> bool:
    return valid(Query, dict(request.query), "query").dry_run


def _ref() -> str:
    return secrets.token_hex(8)


def _refusal(said: object) -> RequestError:
    told = said if isinstance(said, Mapping) else {}
    kind = _REFUSALS.get(told.get("status", 400), RequestError)
    return kind(str(told.get("what", "refused")), where=str(told.get("where", "")), fix=str(told.get("fix", "")))
