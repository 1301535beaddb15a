"""Bookings and what they cost as tables, and the calendar as a picture: domains down, time across.

Knows the control API's answers; does not know where they come from.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from fleet_app.cli.moments import clock, shown
from fleet_app.cli.show import duration, plain
from fleet_app.cli.tables import Row, empty

OPEN = frozenset({"proposed", "booked", "in-force"})
CELLS = 48
"""How many columns the picture has."""

SHOWN = 4
FREE, MANY = ".", "#"
_LETTERS = string.ascii_lowercase + string.ascii_uppercase
_STAGES = {"proposed": "yellow", "booked": "cyan", "in-force": "green"}


def bookings(found: Sequence[Row]) -> Table:
    """Return the table of bookings, in the order given."""
    made = empty("NAME", "FOR", "STAGE", "WHEN", "SHAPE", "WHERE", "SAID", "COST", "BY")
    for each in found:
        stage = str(each["stage"])
        made.add_row(
            plain(str(each["name"])),
            whom(each),
            Text(stage, style=_STAGES.get(stage, "")),
            when(each),
            size(each),
            plain(where(each)),
            money(each["price"]),
            money(each["cost"]),
            plain(", ".join(str(who) for who in (each["asked_by"], each["approved_by"]) if who)),
        )
    return made


def whom(booking: Row) -> str:
    """Return for whom nodes are booked."""
    return "maintenance" if booking["team"] is None else plain(str(booking["team"]))


def when(booking: Row) -> str:
    """Return from when to when."""
    start_at, end_at = float(booking["start_at"]), float(booking["end_at"])
    return f"{shown(start_at)} to {clock(end_at, start_at)}"


def size(booking: Row) -> str:
    """Return how much is booked, such as `4 x 8`: nodes, and GPUs of each."""
    return f"{len(booking['nodes'])} x {booking['gpus_per_node']}"


def where(booking: Row) -> str:
    """Return in which domains a booking lies, or on which nodes where those are few."""
    nodes = [str(node) for node in booking["nodes"]]
    domains = [str(domain) for domain in booking["domains"] if domain]
    if len(nodes) <= SHOWN or not domains:
        return " ".join(nodes[:SHOWN]) + (f" +{len(nodes) - SHOWN}" if len(nodes) > SHOWN else "")
    return " ".join(domains[:SHOWN]) + (f" +{len(domains) - SHOWN}" if len(domains) > SHOWN else "")


def money(amount: object) -> str:
    """Return an amount of the policy's money."""
    return "-" if amount is None else f"{float(str(amount)):,.2f}"


def notes(found: Sequence[Row]) -> Iterator[str]:
    """Yield what has to be said about bookings beside the table: what is broken, what waits for whom."""
    for each in found:
        name = plain(str(each["name"]))
        if each.get("breach"):
            yield f"{name} is not whole: {plain(str(each['breach']))}"
        if each["stage"] == "proposed":
            yield f"{name} binds nobody until somebody other than {plain(str(each['asked_by']))} approves it."
        if each.get("proposed_end_at"):
            by = plain(str(each["proposed_by"]))
            yield f"{name} is to last until {shown(float(each['proposed_end_at']))}, once approved; {by} asked for it."


# The picture.


def picture(found: Sequence[Row], start_at: float, end_at: float) -> Table:
    """Return the calendar from `start_at` to `end_at` (seconds): a row a domain, a letter a booking."""
    letters = dict(zip((str(each["name"]) for each in found), _LETTERS, strict=False))
    domains = sorted({str(domain) for each in found for domain in each["domains"]})
    left, right = shown(start_at), clock(end_at, start_at)
    made = empty("DOMAIN", f"{left}{right:>{CELLS - len(left)}}")
    for domain in domains:
        made.add_row(plain(domain or "-"), _line(domain, found, letters, (start_at, end_at)))
    return made


def legend(found: Sequence[Row]) -> str:
    """Return which letter of the picture is which booking."""
    pairs = zip((str(each["name"]) for each in found), _LETTERS, strict=False)
    return "  ".join(f"{letter}={plain(name)}" for name, letter in pairs)


def _line(domain: str, found: Sequence[Row], letters: Mapping[str, str], span: tuple[float, float]) -> str:
    step = (span[1] - span[0]) / CELLS
    there = [each for each in found if domain in each["domains"]]
    return "".join(_cell(there, letters, span[0] + cell * step, step) for cell in range(CELLS))


def _cell(there: Sequence[Row], letters: Mapping[str, str], at: float, step: float) -> str:
    """Return the letter of who has a domain then; where one follows another in a cell, of who has most of it."""
    spans = {str(each["name"]): (float(each["start_at"]), float(each["end_at"])) for each in there}
    names = [name for name, (begins, ends) in spans.items() if begins < at + step and ends > at]
    if len(names) > 1:
        names = [name for name in names if spans[name][0] <= at + step / 2 < spans[name][1]] or names[:1]
    if not names:
        return FREE
    return letters.get(names[0], MANY) if len(names) == 1 else MANY


# What a booking costs.


def displaced(offer: Row) -> Table:
    """Return the table of those who would have to go."""
    made = empty("DISPLACES", "TEAM", "HOW", "GPUS", "LOSES", "RUNS AGAIN BY")
    for each in offer["displaces"]:
        again = each.get("again_at")
        made.add_row(
            plain(str(each["workload"])),
            plain(str(each["team"])),
            str(each["how"]),
            str(each["gpus"]),
            f"{duration(float(each['lost_gpu_s']))} of GPU time",
            "not known" if again is None else shown(float(again)),
        )
    return made


def cost(offer: Row) -> Iterator[tuple[str, object]]:
    """Yield what a booking would be, and what it would cost, as names and values."""
    yield "Booking", f"{offer['name']} for {whom(offer)}: {size(offer)} GPUs on {where(offer)}"
    yield "From, to", f"{when(offer)} ({duration(float(offer['end_at']) - float(offer['start_at']))})"
    for transfer in offer["transfers"]:
        yield "Nominal from", f"{transfer['lender']}: {transfer['gpus']} GPUs, approved by {transfer['approved_by']}"
    gpus, count = sum(int(each["gpus"]) for each in offer["displaces"]), len(offer["displaces"])
    yield "Displaces", f"{count} workload{'' if count == 1 else 's'}, {gpus} GPUs" if count else "nobody"
    yield "Already there, of its own", ", ".join(map(str, offer["own"])) or None
    yield "Lent GPU-hours that go", f"{float(offer['lent_gpu_hours']):,.1f}"
    yield "Left for serving meanwhile", f"{offer['serving_left_gpus']} GPUs"
    windows = (f"{shown(float(a))} to {clock(float(b), float(a))}" for a, b in offer["off_peak"])
    yield "Off-peak, for batch work", ", ".join(windows) or None
    yield "Price", money(offer["price"])
    yield "Approver other than the asker", "needed" if offer["approver"] else "not needed"


def windows(found: Sequence[Row]) -> Table:
    """Return the table of maintenance windows, in the order of time."""
    made = empty("NAME", "STAGE", "WHEN", "NODES", "WHERE", "DISPLACES", "GPU-HOURS", "APPROVER")
    for each in found:
        made.add_row(
            plain(str(each["name"])),
            str(each.get("stage") or "-"),
            when(each),
            str(len(each["nodes"])),
            plain(where(each)),
            str(len(each["displaces"])),
            f"{float(each['lent_gpu_hours']):,.1f}",
            "needed" if each["approver"] else "-",
        )
    return made
