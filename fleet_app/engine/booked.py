"""What bookings leave to whom on their nodes, now and at each of their starts (rules C1 to C3).

Knows bookings, the room of their nodes, and who has or was given room there in this decision. Does not know quota,
other nodes, or who is asked to leave.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from fleet_app.engine.calendar import Booking
from fleet_app.engine.ends import grace_s, limit_at
from fleet_app.engine.policy import Policy, PriorityClass
from fleet_app.engine.values import NOTHING, Shape
from fleet_app.engine.workload import Workload

CLOSED = Shape(gpus=-1, cpu_milli=-1, memory_mib=-1)
"""Room into which nothing fits, not even nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seated:
    """Somebody on a node: who, since when, and when it will have left; infinity for one that need not.

    One of several shapes is entered on each of its nodes with the shape that it has there.
    """

    workload: Workload
    since: float
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Room of a node at a moment, beside what never yields: what nobody booked, and what each team has left of its own.

    `outside` are those who take of what nobody booked, in the order in which they have it.
    """

    beside: Shape
    inside: Mapping[str, Shape]
    outside: tuple[Seated, ...] = ()


class Booked:
    """The bookings that are not over, by name and by node, and who never yields on those nodes, or yields.

    `past` are those that are over. `room` is what each node has for anybody at all. `moving` are those who were asked
    to move in this decision.
    """

    def __init__(self, bookings: Iterable[Booking], policy: Policy, now: float, room: Mapping[str, Shape]) -> None:
        """Index the bookings; who is where is entered by `seat_all` and `place`."""
        self.policy = policy
        self.now = now
        self.room = room
        ordered = sorted(bookings, key=lambda one: (one.start_at, one.name))
        self.past = [booking for booking in ordered if booking.over(now)]
        self.bookings = {booking.name: booking for booking in ordered if not booking.over(now)}
        self.on: dict[str, list[Booking]] = defaultdict(list)
        self.firm: dict[str, list[Seated]] = defaultdict(list)
        self.lodgers: dict[str, list[Seated]] = defaultdict(list)
        self.moving: set[str] = set()
        self._views: dict[tuple[str, float], View] = {}
        for booking in self.bookings.values():
            self._index(booking)

    def seat_all(self, workloads: Iterable[Workload], class_of: Callable[[Workload], PriorityClass]) -> None:
        """Enter everybody who was not told to leave its nodes."""
        for workload in workloads:
            if not workload.leaving:
                stays = [seat for seat in workload.seats if seat[0] not in workload.going]
                self._seat(workload, stays, yields=class_of(workload).yields, since=None)

    def place(self, workload: Workload, nodes: Iterable[str], *, yields: bool, since: float) -> None:
        """Enter a workload that waited on the nodes that it was given, in rank order, `since` when it has them."""
        self._seat(workload, zip(nodes, workload.shapes, strict=True), yields=yields, since=since)

    def _seat(
        self, workload: Workload, seats: Iterable[tuple[str, Shape]], *, yields: bool, since: float | None
    ) -> None:
        began = workload.admitted_at if since is None else since
        known = Seated(
            workload=workload, since=self.now if began is None else began, until=self.gone_at(workload, since)
        )
        for name, shape in seats:
            seated = replace(known, workload=replace(workload, shape=shape)) if workload.groups else known
            (self.lodgers if yields else self.firm)[name].append(seated)
            for booking in self.on.get(name, ()):
                self._views.pop((name, self.moment(booking)), None)

    def unseat(self, name: str, nodes: Iterable[str]) -> None:
        """Take one that yields and was asked to leave off the nodes."""
        for node in nodes:
            self.lodgers[node] = [seated for seated in self.lodgers[node] if seated.workload.name != name]

    def rebook(self, booking: Booking) -> None:
        """Put a booking in the place of the one of its name."""
        for name in self.bookings[booking.name].nodes:
            self.on[name] = [one for one in self.on[name] if one.name != booking.name]
        self.bookings[booking.name] = booking
        self._index(booking)
        self._views.clear()

    def moment(self, booking: Booking) -> float:
        """Return the moment at which the booking needs its room: its start, or now when that is past."""
        return max(booking.start_at, self.now)

    def gone_at(self, workload: Workload, since: float | None = None) -> float:
        """Return when a workload will have left by its declared run time; infinity for one that need not (D5).

        For one that was not admitted yet `since` is when it would be.
        """
        began = self.now if since is None else since
        limit = limit_at(workload)
        if limit is None and workload.admitted_at is None and workload.max_run_s is not None:
            limit = began + workload.max_run_s
        return math.inf if limit is None else max(self.now, limit) + grace_s(self.policy.drain, workload)

    def lead_s(self, workload: Workload) -> float:
        """Return how long before a start what yields gets its notice (C2)."""
        return max(grace_s(self.policy.drain, workload), self.policy.calendar.reclaim_lead_s)

    def due(self, workload: Workload, booking: Booking) -> bool:
        """Return whether what yields has to be asked by now so that its room is free when the booking needs it (C2).

        In a booking's time idle room is lent again once it was held for its team long enough (C3).
        """
        if booking.at(self.now):
            return booking.team is None or self.now < booking.start_at + self.policy.calendar.hold_s
        return self.now >= booking.start_at - self.lead_s(workload)

    def view(self, name: str, at: float) -> View:
        """Return the room of a node at a moment that never yields leaves there."""
        key = (name, at)
        if key not in self._views:
            self._views[key] = self._look(name, at)
        return self._views[key]

    def closing(self, name: str) -> bool:
        """Return whether a maintenance window on the node is so near that no replica is to be there (C8)."""
        lead_s = self.policy.calendar.move_lead_s
        return any(one.team is None and self.now >= one.start_at - lead_s for one in self.on.get(name, ()))

    def open_to(self, workload: Workload, *, yields: bool, until: float | None = None) -> Callable[[str], bool]:
        """Return whether a node takes the workload, by what is booked there (C1 to C3, C8).

        `until` is when it would have left, if not by its run time from now on.
        """
        end = self.gone_at(workload) if until is None else until

        def is_open(name: str) -> bool:
            there = self.on.get(name)
            return not there or all(one.start_at >= end or self._admits(one, name, workload, yields) for one in there)

        return is_open

    def blocking(self, workload: Workload, names: Iterable[str], *, yields: bool) -> tuple[str, ...]:
        """Return which bookings keep the workload off the nodes."""
        end = self.gone_at(workload)
        found = {
            booking.name
            for name in names
            for booking in self.on.get(name, ())
            if booking.start_at < end and not self._admits(booking, name, workload, yields)
        }
        return tuple(sorted(found))

    def gaining(self, team: str, gpus: int) -> tuple[str, ...]:
        """Return the team's bookings that have not begun and will bring it so much nominal of others at least (C4)."""
        later = [one for one in self.bookings.values() if one.team == team and one.start_at > self.now]
        enough = [one.name for one in later if sum(transfer.gpus for transfer in one.transfers) >= gpus]
        return tuple(sorted(enough))

    def blocks(self, team: str) -> list[Booking]:
        """Return the team's bookings that are in force, the first to start first."""
        return [one for one in self.bookings.values() if one.team == team and one.at(self.now)]

    def fits_inside(self, workload: Workload, booking: Booking) -> Callable[[str], bool]:
        """Return whether a node has room for a bundle in what its team booked there."""
        at = self.moment(booking)
        return lambda name: workload.shape.fits(self.view(name, at).inside.get(workload.team, CLOSED))

    def lends(self, workload: Workload) -> int:
        """Return how much of its team's nominal will be somebody else's while the workload is still there (C4)."""
        end = self.gone_at(workload)
        return sum(
            transfer.gpus
            for booking in self.bookings.values()
            if self.now < booking.start_at < end
            for transfer in booking.transfers
            if transfer.lender == workload.team
        )

    def _index(self, booking: Booking) -> None:
        for name in booking.nodes:
            self.on[name] = sorted([*self.on[name], booking], key=lambda one: (one.start_at, one.name))

    def _look(self, name: str, at: float) -> View:
        in_force = [booking for booking in self.on.get(name, ()) if booking.at(at)]
        staying = [seated for seated in _in_order(self.firm[name]) if seated.until > at]
        if any(booking.team is None for booking in in_force):
            return View(beside=CLOSED, inside={}, outside=tuple(staying))
        inside: dict[str, Shape] = {}
        beside = self.room.get(name, NOTHING)
        for booking in in_force:
            assert booking.team is not None
            inside[booking.team] = inside.get(booking.team, NOTHING) + booking.shape
            beside -= booking.shape
        outside = []
        for seated in staying:
            team, shape = seated.workload.team, seated.workload.shape
            if team in inside and shape.fits(inside[team]):
                inside[team] -= shape
            else:
                beside -= shape
                outside.append(seated)
        return View(beside=beside, inside=inside, outside=tuple(outside))

    def _admits(self, booking: Booking, name: str, workload: Workload, yields: bool) -> bool:  # noqa: FBT001
        at = self.moment(booking)
        view = self.view(name, at)
        if not yields:
            inside = view.inside.get(workload.team, CLOSED) if booking.team == workload.team else CLOSED
            stays = [one for one in self._staying(name, booking) if self.due(one, booking)]
            return workload.shape.fits(inside) or workload.shape.fits(_less(view.beside, stays))
        if booking.team == workload.team or workload.shape.fits(_less(view.beside, self._staying(name, booking))):
            return True
        return not self.due(workload, booking)

    def _staying(self, name: str, booking: Booking) -> list[Workload]:
        """Return who yields on a node and need not have left when the booking needs it."""
        at = self.moment(booking)
        return [seated.workload for seated in self.lodgers[name] if seated.until > at]


def _less(room: Shape, workloads: Iterable[Workload]) -> Shape:
    for workload in workloads:
        room -= workload.shape
    return room


def _in_order(seated: Iterable[Seated]) -> list[Seated]:
    return sorted(seated, key=lambda one: (one.since, one.workload.name))
