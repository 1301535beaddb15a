"""The calendar as the control API shows it: bookings and offers as plain dicts of JSON values. Pure.

Knows the journal's bookings and where nodes are. Does not know what may be booked, nor HTTP.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from fleet_app.arbiter.booked import BookingRecord, Stage
from fleet_app.arbiter.status import Row
from fleet_app.engine.calendar import Booking, Offer, Transfer
from fleet_app.engine.ends import spoken
from fleet_app.engine.values import Node


def counts(records: Iterable[BookingRecord]) -> dict[str, int]:
    """Return how many bookings are at each stage, every stage named."""
    found = Counter(record.stage for record in records)
    return {stage.value: found[stage] for stage in Stage}


def bookings(
    records: Iterable[BookingRecord], nodes: Iterable[Node], price_per_gpu_hour: float, now: float
) -> list[Row]:
    """Return a row for each booking that is remembered, the one that begins first in front; `now` in seconds.

    `cost` is what it did cost, or has cost so far.
    """
    places = {node.name: "/".join(node.domains) for node in nodes}
    ordered = sorted(records, key=lambda record: (record.booking.start_at, record.name))
    return [_record(record, places, price_per_gpu_hour, now) for record in ordered]


def _record(record: BookingRecord, places: Mapping[str, str], price_per_gpu_hour: float, now: float) -> Row:
    so_far = round(record.did_cost(price_per_gpu_hour, now), 6)
    change, ended_at = record.change, record.ended_at
    return _booking(record.booking, places) | {
        "stage": record.stage.value,
        "asked_by": record.ask.asked_by,
        "approved_by": record.booking.approved_by,
        "made_at": record.booking.made_at,
        "price": record.said.price,
        "cost": so_far if record.cost is None else record.cost,
        "breach": record.booking.breach,
        "displaces": [asdict(each) for each in record.said.displaced],
        "said_displaced_gpu_hours": round(record.said_displaced_gpu_s / 3600, 3),
        "displaced_gpu_hours": round(record.displaced_gpu_s(now if ended_at is None else ended_at) / 3600, 3),
        "away": [asdict(each) for each in record.away],
        "proposed_end_at": None if change is None else change.end_at,
        "proposed_by": None if change is None else change.asked_by,
        "ended_at": ended_at,
    }


def sentence(record: BookingRecord, now: float) -> str:
    """Return how a booking is, what it waits for, and what it costs; `now` in seconds since the epoch."""
    booking = record.booking
    whom = "maintenance" if booking.team is None else f"team {booking.team}"
    count = len(booking.nodes)
    what = f"{record.stage} for {whom}: {count} node{'' if count == 1 else 's'} of {booking.shape.gpus} GPUs"
    if record.ended_at is not None:
        return f"{what}; it was said to cost {record.said.price:.2f} and did cost {record.cost or 0.0:.2f}"
    left = spoken((booking.end_at if booking.at(now) else booking.start_at) - now)
    lasts = spoken(booking.end_at - booking.start_at)
    when = f"for {left} more" if booking.at(now) else f"in {left}, for {lasts}"
    parts = [f"{what} {when}"]
    if record.stage is Stage.PROPOSED or record.change is not None:
        asker = (record.change or record.ask).asked_by
        hours = record.said_displaced_gpu_s / 3600
        parts.append(f"it displaces {hours:.1f} GPU-hours and waits for an approver other than {asker}")
    if booking.breach:
        parts.append(f"it is not whole: {booking.breach}")
    return "; ".join(parts)


def offer(found: Offer, nodes: Iterable[Node]) -> Row:
    """Return a row of an offer: what it would be, what it displaces, and what it would cost."""
    places = {node.name: "/".join(node.domains) for node in nodes}
    return _booking(found.booking, places) | {
        "displaces": [asdict(each) for each in found.displaced],
        "own": list(found.own),
        "lent_gpu_hours": round(found.lent_gpu_s / 3600, 3),
        "serving_left_gpus": found.serving_left_gpus,
        "off_peak": [list(each) for each in found.off_peak],
        "price": found.price,
        "approver": found.approver,
    }


def _booking(booking: Booking, places: Mapping[str, str]) -> Row:
    domains: defaultdict[str, list[str]] = defaultdict(list)
    for name in booking.nodes:
        domains[places.get(name, "")].append(name)
    return {
        "name": booking.name,
        "team": booking.team,
        "nodes": list(booking.nodes),
        "domains": dict(sorted(domains.items())),
        "gpus_per_node": booking.shape.gpus,
        "start_at": booking.start_at,
        "end_at": booking.end_at,
        "within": booking.within,
        "most_domains": booking.most_domains,
        "accelerator": booking.accelerator,
        "transfers": [_transfer(each) for each in booking.transfers],
    }


def _transfer(transfer: Transfer) -> Row:
    return {"lender": transfer.lender, "gpus": transfer.gpus, "approved_by": transfer.approved_by}
