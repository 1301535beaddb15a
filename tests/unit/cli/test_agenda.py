"""The calendar as a picture, and the cells of its tables that need a thought."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from fleet_app.cli import agenda

DAY = 48 * 60.0
"""A minute a cell."""


def booked(name: str, start: float, end: float, *domains: str, **more: Any) -> dict[str, Any]:
    where = {domain: [f"{domain}-n"] for domain in domains or ("l1",)}
    nodes = [node for there in where.values() for node in there]
    return {"name": name, "start_at": start * 60, "end_at": end * 60, "domains": where, "nodes": nodes, **more}


PICTURES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "a booking has its cells": ([booked("a", 1, 3)], [".aa............................................."]),
    "one that began before and ends after has all": ([booked("a", -9, 99)], ["a" * 48]),
    "what is shorter than a cell shows": (
        [booked("a", 2.1, 2.2)],
        ["..a............................................."],
    ),
    "who follows another does not overlap it": (
        [booked("a", 0, 2), booked("b", 2, 4)],
        ["aabb............................................"],
    ),
    "who follows another in a cell has it if it has most of it": (
        [booked("a", 0, 1.2), booked("b", 1.2, 3)],
        ["abb............................................."],
    ),
    "several at once are many": (
        [booked("a", 0, 3), booked("b", 1, 2)],
        ["a#a............................................."],
    ),
    "each domain has its row, in order": (
        [booked("a", 0, 1, "l2"), booked("b", 0, 2, "l1", "l2")],
        ["bb..............................................", "#b.............................................."],
    ),
}


@pytest.mark.parametrize(("found", "want"), PICTURES.values(), ids=PICTURES)
def test_picture(found: list[dict[str, Any]], want: list[str]) -> None:
    out = StringIO()
    Console(file=out, width=100).print(agenda.picture(found, 0.0, DAY))
    assert [line.split()[-1] for line in out.getvalue().splitlines()[1:]] == want


WHERE: dict[str, tuple[dict[str, Any], str]] = {
    "few nodes are named": (booked("a", 0, 1, "l1", "l2"), "l1-n l2-n"),
    "of many the domains are": (
        {"nodes": list("abcdef"), "domains": {"l1": list("abc"), "l2": list("def")}},
        "l1 l2",
    ),
    "of many in no known domain some nodes are": (
        {"nodes": list("abcdef"), "domains": {"": list("abcdef")}},
        "a b c d +2",
    ),
    "many domains are counted": (
        {"nodes": list("abcdef"), "domains": {f"l{place}": ["x"] for place in range(6)}},
        "l0 l1 l2 l3 +2",
    ),
}


@pytest.mark.parametrize(("booking", "want"), WHERE.values(), ids=WHERE)
def test_where(booking: dict[str, Any], want: str) -> None:
    assert agenda.where(booking) == want
