"""Committed work goes into what its team booked first, and may ask whoever yields there to leave (C3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.artifacts import Artifact
from fleet_app.engine.calendar import Booking
from fleet_app.engine.decide import decide
from fleet_app.engine.plan import Admit, Reason
from fleet_app.engine.policy import Calendar, Pulls, Source
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Group, Workload, widest
from tests.builders import backfill, booking, gang, node, policy, shape, state, team, transfer
from tests.scenarios.said import leaves, reasons, starts

RULES = policy(team("research", nominal=16), team("vision", nominal=16), calendar=Calendar(hold_s=0.0))
NOW = 1500.0
NODES = [node("n1"), node("n2"), node("n3")]
Parts = list[Node | Workload | Booking]

LODGER = backfill("lodger", gpus=8, team="vision", on=["n2"], priority=2_000)

CASES: dict[str, tuple[Parts, dict[str, tuple[str, ...]]]] = {
    "what is booked is used first": ([booking("run", "n2"), gang("x")], {"x": ("n2",)}),
    "a part of it": ([booking("run", "n2", gpus=4), gang("x", gpus=4)], {"x": ("n2",)}),
    "no part of it is used twice": (
        [booking("run", "n2", gpus=4), gang("a", gpus=4), gang("b", gpus=8)],
        {"a": ("n2",), "b": ("n1",)},
    ),
    "what does not fit there goes elsewhere": ([booking("run", "n2", gpus=4), gang("x")], {"x": ("n1",)}),
    "one for which the booking has too few nodes uses it with others": (
        [booking("run", "n2"), gang("busy", team="gone", on=["n1"]), gang("x", nodes=2)],
        {"x": ("n2", "n3")},
    ),
    "another team goes elsewhere": ([booking("run", "n1"), gang("x", team="vision")], {"x": ("n2",)}),
    "the second of two bookings is used too": (
        [booking("a", "n1"), booking("b", "n2"), gang("x"), gang("y")],
        {"x": ("n1",), "y": ("n2",)},
    ),
    "what somebody else has booked next is left in time": (
        [booking("run", "n2"), booking("next", "n2", team="vision", start_at=2000.0, end_at=3000.0), gang("x")],
        {"x": ("n1",)},
    ),
    "and used by what will have left": (
        [
            booking("run", "n2"),
            booking("next", "n2", team="vision", start_at=2000.0, end_at=3000.0),
            gang("x", max_run_s=300.0),
        ],
        {"x": ("n2",)},
    ),
    "what is transferred to it may be used": (
        [
            booking("run", "n2", transfers=[transfer("vision", 8)]),
            gang("has", on=["n1"]),
            gang("more", on=["n3"]),
            gang("x"),
        ],
        {"x": ("n2",)},
    ),
}


@pytest.mark.parametrize(("parts", "want"), CASES.values(), ids=CASES)
def test_where_it_starts(parts: Parts, want: dict[str, tuple[str, ...]]) -> None:
    assert starts(decide(state(*NODES, *parts), RULES, NOW)) == want


def test_another_accelerator_than_it_asks_for_is_not_used() -> None:
    places = [node("n1", accelerator="h100"), node("n2", accelerator="a100")]
    plan = decide(state(*places, booking("run", "n1"), gang("x", accelerator="a100")), RULES, NOW)
    assert starts(plan) == {"x": ("n2",)}


def test_a_gang_of_several_shapes_goes_there_too_and_may_ask_whoever_yields() -> None:
    groups = {"workers": (1, 8), "servers": (1, 4)}
    one = mixed("x", groups)
    plan = decide(state(*NODES, booking("run", "n2", "n3"), LODGER, one), RULES, NOW)
    assert leaves(plan) == {"lodger": "x"}
    assert set(starts(decide(state(*NODES, booking("run", "n2", "n3"), one), RULES, NOW))["x"]) == {"n2", "n3"}


def mixed(name: str, groups: dict[str, tuple[int, int]]) -> Workload:
    parts = tuple(Group(name=each, shape=shape(gpus), bundles=count) for each, (count, gpus) in groups.items())
    bundles = sum(part.bundles for part in parts)
    return replace(gang(name, nodes=bundles), groups=parts, shape=widest(parts))


def test_whoever_yields_there_is_asked_whatever_its_team_borrows() -> None:
    plan = decide(state(*NODES, booking("run", "n2"), LODGER, gang("x")), RULES, NOW)
    assert leaves(plan) == {"lodger": "x"}
    assert starts(plan) == {}


def test_what_yields_is_placed_by_no_booking() -> None:
    plan = decide(state(*NODES, booking("run", "n3"), backfill("x", gpus=8)), RULES, NOW)
    assert starts(plan) == {"x": ("n1",)}


def test_an_admission_says_how_long_the_booking_lasts() -> None:
    plan = decide(state(*NODES, booking("run", "n2"), gang("x")), RULES, NOW)
    assert [action.why for action in plan.actions if isinstance(action, Admit)] == ["run is in force for 8 min 20 s"]


def test_before_it_begins_its_team_has_no_more_than_its_own() -> None:
    lent = booking("run", "n1", "n2", "n3", transfers=[transfer("vision", 8)])
    plan = decide(state(*NODES, lent, gang("x", nodes=3)), RULES, 500.0)
    (wait,) = plan.waits
    assert (wait.asked, wait.available, wait.blocked_by) == (24, 16, ("run",))


def test_a_lender_keeps_to_what_it_will_have_left() -> None:
    """C4: what would still be there when the transfer begins is not admitted above it; what has left by then is."""
    lent = booking("run", "n1", transfers=[transfer("vision", 12)])
    stays = gang("stays", team="vision", max_run_s=None)
    goes = gang("goes", team="vision", max_run_s=100.0)
    assert starts(decide(state(*NODES, lent, stays), RULES, 500.0)) == {}
    assert starts(decide(state(*NODES, lent, goes), RULES, 500.0)) == {"goes": ("n1",)}
    assert set(reasons(decide(state(*NODES, lent, stays), RULES, 500.0))) == {"stays"}


def test_where_its_nominal_is_lent_a_borrower_elsewhere_leaves_for_what_is_booked_and_free() -> None:
    """R5."""
    own = policy(team("research", nominal=8), team("vision", nominal=8), calendar=Calendar(hold_s=0.0))
    borrows = [backfill(f"v{number}", gpus=8, team="vision", on=[f"n{number}"], saved_at=NOW) for number in (1, 3)]
    facts = state(*NODES, booking("run", "n2"), *borrows, gang("x"))
    plan = decide(facts, own, NOW)
    assert leaves(plan) == {"v1": "x"}
    assert [(hold.node, hold.beneficiary) for hold in plan.holds] == [("n2", "x")]


def test_what_has_to_be_pulled_first_is_waited_for_there_too() -> None:
    """G1, G3."""
    limited = replace(RULES, pulls=Pulls(sources=(Source(name="registry", most_at_once=1),)))
    image = (Artifact(name="image", size_mib=1024, source="registry"),)
    facts = state(*NODES, booking("run", "n2"), gang("a", gpus=4, artifacts=image), gang("b", gpus=4, artifacts=image))
    plan = decide(facts, limited, NOW)
    assert starts(plan) == {"a": ("n2",)}
    assert reasons(plan) == {"b": Reason.PULLING}
