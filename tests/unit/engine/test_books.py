"""Ledgers that follow one another: what is entered change by change is what entering every fact anew comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from fleet_app.engine.books import Books, Following
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Service, Workload
from tests.builders import (
    backfill,
    booking,
    gang,
    grant,
    node,
    nodes,
    policy,
    service,
    shape,
    sliced,
    state,
    team,
    transfer,
)

NOW = 1000.0
RULES = policy(team("research", nominal=8, lending=0), team("vision", nominal=8), team("serving", nominal=8))
FLEET = nodes(3)
ENTERED = (
    "nodes",
    "empty",
    "free",
    "coming",
    "leavers",
    "most_gpus",
    "lodgers",
    "replicas",
    "used",
    "used_soon",
    "firm",
    "holding",
    "limited",
    "leaving",
)
Change = tuple[Node | Workload | Service | None, Node | Workload | Service | None]
"""What was, and what became of it."""


def entered(*changes: Change) -> Books:
    """Return the books of three nodes after some changes."""
    books = Books(RULES)
    for one in FLEET:
        books.node(None, one)
    for old, new in changes:
        if isinstance(new, Node):
            assert not isinstance(old, Workload | Service)
            books.node(old, new)
        elif isinstance(new, Service):
            assert not isinstance(old, Workload | Node)
            books.service(old, new)
        else:
            assert not isinstance(old, Service | Node)
            books.holder(old, new)
    return books


def shown(value: object) -> object:
    """Return a part of a ledger without counts of nothing, and nobody in a list."""
    if isinstance(value, Mapping):
        return {key: one for key, one in value.items() if one not in (0, [])}
    return value


LENT = backfill("lent", gpus=2, on=["n1", "n2"])
FIRM = gang("firm", gpus=4, on=["n2", "n3"], team="vision")
TOLD = replace(LENT, phase=Phase.DRAINING, deadline_at=NOW + 60.0)
SAVED = replace(LENT, saved_at=9.0)
FAR = gang("far", on=["n1", "elsewhere"])
MIXED = backfill("mixed", groups={"a": (1, shape(3)), "b": (2, shape(1))}, on=["n1", "n2", "n3"])
CHAT = service("chat", gpus=2, on=["n1", "n1", "n2"])
FULL = node("n1", foreign=shape(3))

HISTORIES: dict[str, tuple[list[Change], list[Node | Workload | Service]]] = {
    "who yields may be asked to leave, who does not has its team's nominal": (
        [(None, LENT), (None, FIRM)],
        [*FLEET, LENT, FIRM],
    ),
    "who has left has nothing": ([(None, LENT), (None, FIRM), (LENT, None), (FIRM, None)], [*FLEET]),
    "who was told to leave is coming free, and not asked again": ([(None, LENT), (LENT, TOLD)], [*FLEET, TOLD]),
    "and has nothing once it has left": ([(None, LENT), (LENT, TOLD), (TOLD, None)], [*FLEET]),
    "of several shapes it has another on each node": ([(None, MIXED)], [*FLEET, MIXED]),
    "several on one node are in the order of names": (
        [(None, replace(LENT, name=name)) for name in "bca"],
        [*FLEET, *(replace(LENT, name=name) for name in "abc")],
    ),
    "one of them leaves": (
        [*[(None, replace(LENT, name=name)) for name in "bca"], (replace(LENT, name="b"), None)],
        [*FLEET, *(replace(LENT, name=name) for name in "ac")],
    ),
    "who has a limit is looked at": (
        [(None, replace(LENT, max_run_s=60.0)), (None, FIRM)],
        [*FLEET, replace(LENT, max_run_s=60.0), FIRM],
    ),
    "a team that shares nothing is charged by itself, and what it takes of others above it": (
        [(None, replace(LENT, name="b", shape=shape(6))), (None, LENT), (LENT, None)],
        [*FLEET, replace(LENT, name="b", shape=shape(6))],
    ),
    "a service has its grants": ([(None, CHAT)], [*FLEET, CHAT]),
    "one more": (
        [(None, service("chat", gpus=2, on=["n1"])), (service("chat", gpus=2, on=["n1"]), CHAT)],
        [*FLEET, CHAT],
    ),
    "one less": (
        [(None, CHAT), (CHAT, service("chat", gpus=2, on=["n1"]))],
        [*FLEET, service("chat", gpus=2, on=["n1"])],
    ),
    "as many as before, on another node": (
        [
            (None, service("chat", grants=[grant("a")])),
            (service("chat", grants=[grant("a")]), service("chat", grants=[grant("b", node="n2")])),
        ],
        [*FLEET, service("chat", grants=[grant("b", node="n2")])],
    ),
    "who has saved its work stays where it is, and is the one that has saved": (
        [(None, LENT), (LENT, SAVED)],
        [*FLEET, SAVED],
    ),
    "with a limit too": (
        [(None, replace(LENT, max_run_s=60.0)), (replace(LENT, max_run_s=60.0), replace(SAVED, max_run_s=60.0))],
        [*FLEET, replace(SAVED, max_run_s=60.0)],
    ),
    "who never yields as well": (
        [(None, FIRM), (FIRM, replace(FIRM, saved_at=9.0))],
        [*FLEET, replace(FIRM, saved_at=9.0)],
    ),
    "who was told to leave and saves is still coming free": (
        [(None, LENT), (LENT, TOLD), (TOLD, replace(TOLD, saved_at=9.0))],
        [*FLEET, replace(TOLD, saved_at=9.0)],
    ),
    "of several shapes it lodges as what it has there": (
        [(None, MIXED), (MIXED, replace(MIXED, saved_at=9.0))],
        [*FLEET, replace(MIXED, saved_at=9.0)],
    ),
    "who is on a node that is not there": ([(None, FAR)], [*FLEET, FAR]),
    "a node of which others use something has less": (
        [(None, LENT), (FLEET[0], FULL)],
        [FULL, *FLEET[1:], LENT],
    ),
    "and all of it again": ([(None, LENT), (FLEET[0], FULL), (FULL, FLEET[0])], [*FLEET, LENT]),
    "a node that comes later stands where the fabric has it": (
        [(None, node("n0")), (None, node("z0", at="s0/l1"))],
        [*FLEET, node("n0"), node("z0", at="s0/l1")],
    ),
}


@pytest.mark.parametrize(("changes", "facts"), HISTORIES.values(), ids=HISTORIES)
def test_a_ledger_that_follows_is_the_one_that_enters_everything(
    changes: list[Change], facts: list[Node | Workload | Service]
) -> None:
    want = Ledger(state(*facts), RULES, NOW)
    found = Following(entered(*changes), NOW, [], alike=True)
    for part in ENTERED:
        assert shown(getattr(found, part)) == shown(getattr(want, part)), part
    assert list(found.nodes) == list(want.nodes)


def test_a_ledger_leaves_the_books_as_they_are() -> None:
    books = entered((None, LENT))
    ledger = Following(books, NOW, [], alike=True)
    ledger.give("vision", ["n3"], shape(8), firm=True)
    ledger.release_soon(LENT)
    after = Following(books, NOW, [], alike=True)
    for part in ENTERED:
        want = getattr(Ledger(state(*FLEET, LENT), RULES, NOW), part)
        assert shown(getattr(after, part)) == shown(want), part


DOWN = replace(FLEET[0], condition=Condition.DOWN)
AWAY = backfill("away", on=["elsewhere"])

SOUND: dict[str, tuple[list[Change], bool]] = {
    "all there": ([(None, LENT)], True),
    "a node is down": ([(FLEET[0], DOWN)], False),
    "it is back": ([(FLEET[0], DOWN), (DOWN, FLEET[0])], True),
    "somebody is on a node that is not there": ([(None, AWAY)], False),
    "two were, one is still": (
        [(None, AWAY), (None, replace(AWAY, name="too")), (AWAY, None)],
        False,
    ),
    "nobody is any more": ([(None, AWAY), (AWAY, None)], True),
}


@pytest.mark.parametrize(("changes", "want"), SOUND.values(), ids=SOUND)
def test_a_fleet_is_sound_while_everybody_is_on_nodes_that_are_there(changes: list[Change], want: bool) -> None:
    assert entered(*changes).sound is want


LIMITED = replace(FIRM, max_run_s=60.0)
ENDS: dict[str, tuple[list[Change], list[str]]] = {
    "of a sound fleet those whose time is over": ([(None, LENT), (None, LIMITED)], ["firm"]),
    "not those whose time will be over": ([(None, LENT), (None, replace(LIMITED, max_run_s=60.1 + NOW))], []),
    "whenever they were entered": (
        [(None, replace(LIMITED, admitted_at=NOW)), (replace(LIMITED, admitted_at=NOW), LIMITED)],
        ["firm"],
    ),
    "and those who leave, each once, by name": (
        [
            (None, TOLD),
            (None, LIMITED),
            (None, replace(TOLD, name="also", max_run_s=60.0)),
            (None, gang("x", on=["n3"])),
        ],
        ["also", "firm", "lent"],
    ),
    "else everybody": ([(None, LENT), (None, LIMITED), (FLEET[0], DOWN)], ["firm", "lent"]),
}


@pytest.mark.parametrize(("changes", "want"), ENDS.values(), ids=ENDS)
def test_who_is_looked_at_to_end(changes: list[Change], want: list[str]) -> None:
    assert [one.name for one in Following(entered(*changes), NOW, [], alike=True).may_end()] == want


ODD: dict[str, tuple[list[Change], set[str]]] = {
    "a plain one is not": ([(None, LENT)], set()),
    "an elastic one": ([(None, replace(LENT, minimum=1))], {"lent"}),
    "a slice": ([(None, sliced("small", share=0.5, on=("n1", 0)))], {"small"}),
    "until it has left": ([(None, replace(LENT, minimum=1)), (replace(LENT, minimum=1), None)], set()),
}


@pytest.mark.parametrize(("changes", "want"), ODD.values(), ids=ODD)
def test_who_is_entered_from_all_facts_only(changes: list[Change], want: set[str]) -> None:
    assert entered(*changes).odd == want


ROOM: dict[str, tuple[Workload, bool]] = {
    "as many nodes as are free": (gang("x", nodes=2, gpus=8), True),
    "more": (gang("x", nodes=3, gpus=8), False),
    "as many GPUs as are left on each": (gang("x", nodes=3, gpus=5), True),
    "one more": (gang("x", nodes=3, gpus=6), False),
    "of several shapes what the smallest asks for": (gang("x", groups={"a": (1, shape(8)), "b": (2, shape(5))}), True),
    "also when that is too much": (gang("x", groups={"a": (1, shape(8)), "b": (2, shape(6))}), False),
    "an elastic one as many as it needs at least": (gang("x", gpus=8, minimum=2, at_most=4), True),
    "and no fewer": (gang("x", gpus=8, minimum=3, at_most=4), False),
}


@pytest.mark.parametrize(("workload", "want"), ROOM.values(), ids=ROOM)
def test_room_is_counted_in_nodes_with_so_many_gpus_free(workload: Workload, want: bool) -> None:
    books = entered((None, backfill("lent", gpus=3, on=["n1"])))
    assert books.room_for(workload) is want


def test_what_was_found_out_of_the_nodes_goes_when_one_changes_and_of_who_may_use_them_where_they_differ() -> None:
    books = entered()
    mine = books.memo(alike=True)
    mine.eligible["x"], mine.most_ever["x"] = [], [1]
    mine.could_be_placed["x"], mine.blocks["x"] = True, {}
    mine.indexes["x"] = "of one ledger"
    same, other = books.memo(alike=True), books.memo(alike=False)
    assert (same.eligible, same.most_ever, same.could_be_placed, same.blocks) == (
        {"x": []},
        {"x": [1]},
        {"x": True},
        {"x": {}},
    )
    assert (other.eligible, other.most_ever, other.could_be_placed, other.blocks) == ({}, {"x": [1]}, {}, {})
    assert same.indexes == {}
    books.node(FLEET[0], FULL)
    assert books.memo(alike=True).most_ever == {}


LENDS = booking("run", "n3", start_at=900.0, end_at=2000.0, transfers=[transfer("vision", 4)])


@pytest.mark.parametrize(("now", "want"), [(899.0, 8), (NOW, 12), (2000.0, 8)], ids=["before", "in force", "after"])
def test_while_a_booking_is_in_force_its_transfer_counts_in_what_is_used(now: float, want: int) -> None:
    """Q1: research lends nothing, so what it uses of its nominal is not charged above it."""
    used = gang("x", nodes=2, gpus=6, on=["n1", "n2"])
    tree, found = entered((None, used)).quota_at([LENDS], now)
    ledger = Ledger(state(*FLEET, used, LENDS), RULES, now)
    assert (tree.nominal("research"), found) == (want, ledger.used)
