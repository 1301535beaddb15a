"""What may be asked of the calendar: read, checked against the policy, and turned into what the engine is asked."""

from __future__ import annotations

from typing import Any

import pytest

from fleet_app.engine.calendar import BookingAsk, Transfer
from fleet_app.engine.errors import NotFoundError, RequestError
from fleet_app.policy.bookings import booking_from_mapping, to_ask
from tests.builders import node, shape
from tests.unit.policy.texts import policy

NOW = 1000.0
ASKED: dict[str, Any] = {"name": "bench", "team": "research", "nodes": 2, "start_at": 5000.0, "end_at": 9000.0}
NODES = (node("n3", at="s1/l2"), node("n1"), node("n2"), node("n4", at="s2/l1"))


def ask(**given: Any) -> BookingAsk:
    wanted = {key: value for key, value in (ASKED | given).items() if value is not None}
    return to_ask(booking_from_mapping(wanted, policy(), NOW), policy(), NODES, "ada", NOW)


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown key": ({"hours": 4}, "hours", "not a known key"),
    "a name that is none": ({"name": "../x"}, "name", "must be a name"),
    "no size": ({"nodes": None}, "nodes", "is not said"),
    "two sizes": ({"gpus": 16}, "nodes", "said in 2 ways: gpus, nodes"),
    "no nodes": ({"nodes": 0}, "nodes", "at least 1, not 0"),
    "no end": ({"end_at": None}, "end_at", "is missing"),
    "an end before the start": ({"end_at": 4000.0}, "end_at", "is not after start_at"),
    "an end that is over": ({"start_at": 1.0, "end_at": 999.0}, "end_at", "is over already"),
    "a start of NaN": ({"start_at": float("nan")}, "start_at", "number"),
    "an end after the end of time": ({"end_at": 1e300}, "end_at", "at most"),
    "GPUs that are no whole nodes": ({"nodes": None, "gpus": 12}, "gpus", "no number of whole nodes of 8"),
    "a level that is none": ({"within": "leave"}, "within", "'leave' is no topology level"),
    "more domains than the policy allows": (
        {"within": "leaf", "most_domains": 2},
        "most_domains",
        "above the policy's",
    ),
    "domains of no level": ({"most_domains": 2}, "most_domains", "no level to count domains of"),
    "an unknown team": ({"team": "reserch"}, "team", "'reserch' is unknown"),
    "an organisation": ({"team": "lab"}, "team", "'lab' is unknown"),
    "a transfer of nobody's": ({"transfers": [{"lender": "x", "gpus": 1, "approved_by": "y"}]}, "lender", "unknown"),
    "a transfer to itself": (
        {"transfers": [{"lender": "research", "gpus": 1, "approved_by": "y"}]},
        "transfers[0].lender",
        "is the booking's own team",
    ),
    "a lender named twice": (
        {"transfers": [{"lender": "batch", "gpus": 1, "approved_by": "y"}] * 2},
        "transfers[1].lender",
        "lends twice",
    ),
    "a transfer that nobody approved": (
        {"transfers": [{"lender": "batch", "gpus": 1, "approved_by": ""}]},
        "approved_by",
        "at least 1",
    ),
    "a transfer to nobody": (
        {"team": None, "transfers": [{"lender": "batch", "gpus": 1, "approved_by": "y"}]},
        "transfers",
        "there is no team",
    ),
}


@pytest.mark.parametrize(("given", "where", "what"), REFUSED.values(), ids=REFUSED)
def test_what_no_policy_lets_be_is_refused_with_path_value_and_fix(given, where, what):
    with pytest.raises(RequestError) as refused:
        ask(**given)
    assert where in refused.value.sentence()
    assert what in refused.value.sentence()


SIZES: dict[str, tuple[dict[str, Any], tuple[int, int, tuple[str, ...]]]] = {
    "whole nodes": ({"nodes": 3}, (8, 3, ())),
    "part of a node": ({"nodes": None, "gpus": 4}, (4, 1, ())),
    "GPUs of whole nodes": ({"nodes": None, "gpus": 24}, (8, 3, ())),
    "nodes by name, each once": ({"nodes": None, "on": ["n2", "n1", "n2"]}, (8, 2, ("n1", "n2"))),
    "all nodes of a leaf": ({"nodes": None, "domain": "s1/l1"}, (8, 2, ("n1", "n2"))),
    "all nodes of a spine": ({"nodes": None, "domain": "s1"}, (8, 3, ("n1", "n2", "n3"))),
}


@pytest.mark.parametrize(("given", "want"), SIZES.values(), ids=SIZES)
def test_how_much_is_asked_for(given, want):
    asked = ask(**given)
    assert (asked.shape, asked.count, asked.nodes) == (shape(want[0]), want[1], want[2])


NOT_THERE: dict[str, dict[str, Any]] = {
    "a node": {"nodes": None, "on": ["n9"]},
    "a leaf of another spine": {"nodes": None, "domain": "s2/l2"},
    "a leaf without its spine": {"nodes": None, "domain": "l1"},
}


@pytest.mark.parametrize("given", NOT_THERE.values(), ids=NOT_THERE)
def test_what_is_not_there_is_not_booked(given):
    with pytest.raises(NotFoundError):
        ask(**given)


def test_everything_that_is_asked_reaches_the_engine():
    transfer = {"lender": "batch", "gpus": 4, "approved_by": "grace"}
    asked = ask(within="leaf", accelerator="h100", transfers=[transfer], start_at=1.0)
    assert asked == BookingAsk(
        name="bench",
        team="research",
        shape=shape(8),
        count=2,
        start_at=NOW,
        end_at=9000.0,
        within="leaf",
        accelerator="h100",
        transfers=(Transfer(lender="batch", gpus=4, approved_by="grace"),),
        asked_by="ada",
    )


def test_a_maintenance_window_is_for_nobody():
    assert ask(team=None, nodes=None, domain="s1/l1").team is None
