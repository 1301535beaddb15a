"""The cells of the tables that need a thought."""

from __future__ import annotations

from typing import Any

import pytest

from fleet_app.cli import tables

WHERE = {
    "what waits says why": ({"phase": "queued", "nodes": [], "message": "needs 4"}, "needs 4"),
    "what runs says where": ({"phase": "running", "nodes": ["n1", "n2"], "message": "x"}, "n1 n2"),
    "many nodes are counted": ({"phase": "running", "nodes": list("abcdef")}, "a b c d +2"),
    "what leaves says both": ({"phase": "draining", "nodes": ["n1"], "message": "12 s left"}, "n1 (12 s left)"),
    "what has ended says how": ({"phase": "failed", "nodes": ["n1"], "message": "exit 1"}, "exit 1"),
    "what runs in a booking names it": ({"phase": "running", "nodes": ["n1"], "booking": "bench"}, "n1 in bench"),
    "nothing known is nothing": ({}, ""),
}


@pytest.mark.parametrize(("workload", "want"), WHERE.values(), ids=WHERE)
def test_where(workload: dict[str, Any], want: str) -> None:
    assert tables.where(workload) == want


SHAPES = {
    "bundles and their GPUs": ({"bundles": 4, "gpus_per_bundle": 8, "groups": []}, "4 x 8"),
    "each group": ({"groups": [{"bundles": 1, "gpus": 0}, {"bundles": 4, "gpus": 8}]}, "1x0 + 4x8"),
    "what an elastic one may have": ({"bundles": 8, "gpus_per_bundle": 4, "min_bundles": 2}, "2..8 x 4"),
    "and what it has": (
        {"bundles": 8, "gpus_per_bundle": 4, "min_bundles": 2, "nodes": ["a", "b", "c"]},
        "3 of 2..8 x 4",
    ),
}


@pytest.mark.parametrize(("workload", "want"), SHAPES.values(), ids=SHAPES)
def test_shape(workload: dict[str, Any], want: str) -> None:
    assert tables.shape(workload) == want


STEPS = {
    "no step yet": ({}, "-"),
    "a step, nothing saved": ({"step": 7}, "7"),
    "step zero is a step": ({"step": 0}, "0"),
    "a step and what is safe": ({"step": 7, "checkpoint": {"step": 5}}, "7 (saved 5)"),
    "resumed, no step yet": ({"checkpoint": {"step": 5}}, "- (saved 5)"),
}


@pytest.mark.parametrize(("workload", "want"), STEPS.values(), ids=STEPS)
def test_step(workload: dict[str, Any], want: str) -> None:
    assert tables.step(workload) == want


CARDS = {
    "whole GPUs are no cards of their own": ({}, ""),
    "what cards are cut into is counted over all of them": (
        {"cards": [{"index": 0, "layout": ["3g.40gb", "1g.10gb"]}, {"index": 1, "layout": ["1g.10gb"]}]},
        "2 x 1g.10gb, 1 x 3g.40gb",
    ),
    "who is on them, and what they become, too": (
        {
            "cards": [
                {"layout": ["shared"], "users": [{"what": "job", "part": {"profile": "", "share": 2_500}}]},
                {"layout": [], "becomes": ["3g.40gb", "3g.40gb"], "users": []},
                {"layout": ["1g.10gb"], "becomes": [], "users": []},
            ]
        },
        "1 x 1g.10gb, 1 x shared, 1 x 0.25 GPU used, 1 > 3g.40gb+3g.40gb, 1 > whole",
    ),
}


@pytest.mark.parametrize(("node", "want"), CARDS.values(), ids=CARDS)
def test_cards(node: dict[str, Any], want: str) -> None:
    assert tables.cards(node) == want


def holder(what: str, gpus: int) -> dict[str, Any]:
    return {"what": what, "gpus": gpus}


BARS = {
    "an empty node is free": ({"gpus_total": 4}, "...."),
    "holders have their letters": (
        {"gpus_total": 8, "holders": [holder("a-job", 2), holder("z-job", 3)]},
        "aabbb...",
    ),
    "foreign use shows": ({"gpus_total": 4, "gpus_foreign": 2}, "!!.."),
    "more than there is does not break the bar": ({"gpus_total": 2, "holders": [holder("a-job", 3)]}, "aaa"),
    "a node without GPUs has no bar": ({"gpus_total": 0}, ""),
    "beyond the alphabet there is one letter for all": ({"gpus_total": 1, "holders": [holder("unknown", 1)]}, "#"),
}


@pytest.mark.parametrize(("node", "want"), BARS.values(), ids=BARS)
def test_bar(node: dict[str, Any], want: str) -> None:
    assert tables.bar(node, {"a-job": "a", "z-job": "b"}).plain == want


def test_who_holds_a_node_is_said_once_each() -> None:
    node = {"holders": [holder("a-job", 2), holder("a-job", 1)], "gpus_foreign": 1, "foreign_owners": ["task train"]}
    assert tables.holders(node, {"a-job": "a"}) == "a=a-job 3  !=task train 1"


def test_a_detail_leaves_out_what_says_nothing() -> None:
    assert (
        tables.detail({"detail": {"nodes": ["n1", "n2"], "why": "", "grace_s": None, "step": 0, "took_s": 1.5}})
        == "nodes=n1,n2 step=0 took_s=1.5"
    )


def booked(start_at: float, end_at: float, team: str | None = "research") -> dict[str, Any]:
    return {"name": "bench", "team": team, "start_at": start_at, "end_at": end_at}


BOOKED = {
    "a node that nobody booked says nothing": ({"bookings": []}, ""),
    "one that is booked now says for how much longer": (
        {"bookings": [booked(50.0, 3700.0)]},
        "research (bench), 1h00m more",
    ),
    "one that will be says from when, and for how long": (
        {"bookings": [booked(7300.0, 14500.0, team=None)]},
        "maintenance (bench) in 2h00m, for 2h00m",
    ),
    "what is over is left out": (
        {"bookings": [booked(50.0, 99.0), booked(200.0, 300.0)]},
        "research (bench) in 1m40s, for 1m40s",
    ),
}


@pytest.mark.parametrize(("node", "want"), BOOKED.values(), ids=BOOKED)
def test_booked_for(node: dict[str, Any], want: str) -> None:
    assert tables.booked_for(node, 100.0) == want


KEPT_OUT = {
    "a sound node says nothing": ({"quarantine": None}, ""),
    "one that is kept out says for how long, by whom and why": (
        {"quarantine": {"reason": "fan noise", "owner": "ada", "until": 7300.0}},
        "2h00m more, by ada: fan noise",
    ),
}


@pytest.mark.parametrize(("node", "want"), KEPT_OUT.values(), ids=KEPT_OUT)
def test_quarantine(node: dict[str, Any], want: str) -> None:
    assert tables.quarantine(node, 100.0) == want


def test_pods_and_machines_are_shown_where_there_are_such():
    rows = [
        {
            "name": "n1",
            "class": "training",
            "domains": {"leaf": "l1"},
            "condition": "ready",
            "machine": "m1",
            "pod": "p1",
        },
        {"name": "n2", "class": "training", "domains": {"leaf": "l1"}, "condition": "down"},
    ]
    found = tables.nodes(rows, 0.0)
    shown = {str(column.header): list(column.cells) for column in found.columns}
    assert (shown["MACHINE"], shown["POD"]) == (["m1", "-"], ["p1", "-"])
    assert "POD" not in {column.header for column in tables.nodes(rows[1:], 0.0).columns}


CAME_UP = {
    "not yet": ({"moved_at": None}, "not yet"),
    "at once, without pools": ({"moved_at": 5.0, "machine": ""}, "yes"),
    "a pool's is made anew first": ({"moved_at": 5.0, "machine": "m1", "settled_at": None}, "is made anew"),
    "and has come up": ({"moved_at": 5.0, "machine": "m1", "settled_at": 9.0}, "yes"),
}


@pytest.mark.parametrize(("crossing", "want"), CAME_UP.values(), ids=CAME_UP)
def test_whether_a_node_has_its_other_class(crossing, want):
    about = {"node": "n1", "was": "training", "to": "serving", "gpus": 8, "asked_at": 0.0, "who": "ada"}
    assert want in [cell for column in tables.crossings([about | crossing]).columns for cell in column.cells]
