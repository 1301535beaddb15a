"""Who yields: the cheapest set that is enough, in every way in which one can be cheaper (R1 to R6, D1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fleet_app.engine import notices, reclaim
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.policy import Policy
from fleet_app.engine.reclaim import EXACT_UP_TO
from fleet_app.engine.trial import Asker
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload
from tests.builders import COMMITTED, SERVING, backfill, gang, node, nodes, policy, shape, state, team

NOW = 1000.0
LENT = policy(team("a", nominal=1000), team("b", nominal=0), team("c", nominal=0), team("idle", nominal=1000))


def victims(
    fleet: Sequence[Node],
    lodgers: Sequence[Workload],
    *,
    rules: Policy = LENT,
    bundles: int = 1,
    gpus: int = 8,
    depth: int = 0,
    replica: bool = False,
) -> list[str] | None:
    """Return who has to leave for team a's gang, or for a replica of it."""
    ledger = Ledger(state(*fleet, *lodgers), rules, NOW)
    priority = SERVING if replica else COMMITTED
    seeks = Asker(
        name="x", team="a", priority=priority, shape=shape(gpus), bundles=bundles, depth=depth, anyone=replica
    )
    found = reclaim.find(ledger, seeks, fleet)
    return None if found is None else [one.name for one in found.victims]


def lent(name: str, *on: str, gpus: int = 4, saved_at: float = NOW, who: str = "b", **rest: object) -> Workload:
    """Return backfill of a team that only borrows, its work safe unless said otherwise."""
    return backfill(name, team=who, gpus=gpus, on=on, saved_at=saved_at, **rest)  # type: ignore[arg-type]  # as given


ONE = [node("n1")]
TWO = nodes(2)

CHEAPEST = {
    "nobody, when it fits": (TWO, [lent("v", "n1")], {}, []),
    "who loses the least work": (ONE, [lent("old", "n1", saved_at=0.0), lent("new", "n1")], {"gpus": 4}, ["new"]),
    "the smaller of equals": (TWO, [lent("big", "n1", gpus=8), lent("small", "n2", gpus=5)], {"gpus": 5}, ["small"]),
    "lower priority, whatever it loses": (
        ONE,
        [lent("low", "n1", saved_at=0.0, priority=5), lent("high", "n1", priority=6)],
        {"gpus": 4},
        ["low"],
    ),
    "no more than needed": (ONE, [lent("v1", "n1"), lent("v2", "n1")], {"gpus": 4}, ["v1"]),
    "one large instead of two small ones that lose more": (
        ONE,
        [lent("s1", "n1", gpus=2, saved_at=0.0), lent("s2", "n1", gpus=2, saved_at=0.0), lent("l", "n1")],
        {"gpus": 4},
        ["l"],
    ),
    "one large instead of two small ones that lose only a little more together": (
        ONE,
        [
            *(lent(name, "n1", gpus=2, saved_at=NOW - 40.0) for name in ("s1", "s2")),
            lent("l", "n1", saved_at=NOW - 39.9),
        ],
        {"gpus": 4},
        ["l"],
    ),
    "one whose team borrows more, instead of two that lose as much together": (
        TWO,
        [
            *(lent(name, "n1", gpus=2, saved_at=NOW - 40.0) for name in ("s1", "s2")),
            lent("l", "n1", saved_at=NOW - 40.0, who="c"),
            lent("elsewhere", "n2", gpus=8, who="c"),
        ],
        {"gpus": 4},
        ["l"],
    ),
    "where less is missing, though each loses more there": (
        TWO,
        [
            *(lent(f"v{j}", "n1", gpus=1, saved_at=NOW - 40.0) for j in range(4)),
            *(lent(f"w{j}", "n2", gpus=1) for j in range(8)),
        ],
        {"gpus": 6},
        ["v0", "v1"],
    ),
    "one that is in the way on both nodes, instead of two": (
        TWO,
        [lent("a1", "n1", gpus=1), lent("a2", "n2", gpus=1), lent("both", "n1", "n2", gpus=1)],
        {"gpus": 7, "bundles": 2},
        ["a1", "a2"],
    ),
    "all on the node, when all are needed": (ONE, [lent("v1", "n1"), lent("v2", "n1")], {}, ["v1", "v2"]),
    "who borrows more": (
        ONE,
        [lent("b1", "n1", gpus=2), lent("c1", "n1", gpus=2, who="c"), lent("c2", "n1", gpus=2, who="c")],
        {"gpus": 4},
        ["c1"],
    ),
    "the younger of equals": (
        ONE,
        [lent("young", "n1", started_at=900.0), lent("aged", "n1", started_at=100.0)],
        {"gpus": 4},
        ["young"],
    ),
    "then the name": (ONE, [lent("z", "n1"), lent("y", "n1")], {"gpus": 4}, ["y"]),
}


@pytest.mark.parametrize(("fleet", "lodgers", "asked", "want"), CHEAPEST.values(), ids=CHEAPEST)
def test_the_cheapest(fleet: list[Node], lodgers: list[Workload], asked: dict[str, int], want: list[str]) -> None:
    assert victims(fleet, lodgers, **asked) == want  # type: ignore[arg-type]  # keywords of the ask


def test_nobody_is_asked_for_the_sake_of_what_his_team_borrows() -> None:
    free = replace(LENT, drain=replace(LENT.drain, restart_cost_s=0.0))
    enough, more = lent("enough", "n1"), lent("more", "n1", gpus=2, who="c")
    elsewhere = lent("elsewhere", "n2", gpus=8, who="c")
    assert victims([node("n1")], [enough, more, elsewhere], rules=free, gpus=6) == ["enough"]


def test_who_is_not_needed_once_another_leaves_is_spared_also_among_many() -> None:
    both = lent("both", "n1", "n2", gpus=1, saved_at=500.0)
    beside = [lent("cheap", "n1", gpus=1), gang("firm", on=["n2"], gpus=1)]
    dear = [lent(f"v{j}", "n3", gpus=1, saved_at=0.0) for j in range(8)]
    assert victims(nodes(3), [both, *beside, *dear], gpus=7, bundles=2) == ["both"]


B_OWNS = policy(team("a", nominal=64), team("b", nominal=8))

ASKED = {
    "what never yields stays": (ONE, [gang("g", team="b", on=["n1"])], LENT, {}, None),
    "equal or higher priority stays": (ONE, [lent("v", "n1", gpus=8, priority=COMMITTED)], LENT, {}, None),
    "a team inside its nominal is left alone": (ONE, [lent("v", "n1", gpus=8)], B_OWNS, {}, None),
    "but not by a replica on serving's nodes": (ONE, [lent("v", "n1", gpus=8)], B_OWNS, {"replica": True}, ["v"]),
    "one's own backfill yields": (ONE, [lent("v", "n1", gpus=8, who="a")], B_OWNS, {}, ["v"]),
    "nothing is drained that would not help": (ONE, [lent("v", "n1"), gang("g", on=["n1"], gpus=4)], LENT, {}, None),
    "a domain that cannot hold all is left alone": (
        [node("n1", at="s1/l1"), node("n2", at="s2/l1")],
        [lent("v", "n1", gpus=8)],
        LENT,
        {"bundles": 2, "depth": 1},
        None,
    ),
}


@pytest.mark.parametrize(("fleet", "lodgers", "rules", "asked", "want"), ASKED.values(), ids=ASKED)
def test_who_may_be_asked(
    fleet: list[Node], lodgers: list[Workload], rules: Policy, asked: dict[str, int], want: list[str] | None
) -> None:
    assert victims(fleet, lodgers, rules=rules, **asked) == want  # type: ignore[arg-type]  # keywords of the ask


MIN_RUN = replace(LENT, drain=replace(LENT.drain, min_run_s=100.0))
AGAIN = {
    "what runs for the first time": ({"attempt": 1, "started_at": NOW - 1}, {}, ["v"]),
    "what was drained before and just runs again": ({"attempt": 2, "started_at": NOW - 99}, {}, None),
    "what was drained before and has not begun": ({"attempt": 2, "started_at": None}, {}, None),
    "what was drained before and ran long enough": ({"attempt": 2, "started_at": NOW - 100}, {}, ["v"]),
    "or longer": ({"attempt": 2, "started_at": NOW - 101}, {}, ["v"]),
    "however often": ({"attempt": 3, "started_at": NOW - 99}, {}, None),
    "by a replica": ({"attempt": 2, "started_at": NOW - 1}, {"replica": True}, ["v"]),
}


@pytest.mark.parametrize(("has", "asked", "want"), AGAIN.values(), ids=AGAIN)
def test_who_was_drained_before_may_run_for_a_while(
    has: dict[str, object], asked: dict[str, int], want: list[str] | None
) -> None:
    """R7."""
    lodger = replace(lent("v", "n1", gpus=8), **has)  # type: ignore[arg-type]  # fields of a workload
    assert victims(ONE, [lodger], rules=MIN_RUN, **asked) == want  # type: ignore[arg-type]  # keywords of the ask


BOTH_FULL = [lent(f"v{i}{j}", f"n{i}", gpus=1) for i in (1, 2) for j in range(8)]


@pytest.mark.parametrize(("started_at", "want"), [(500.1, ["v"]), (500.0, None)], ids=["passed it", "was there first"])
def test_what_started_while_a_gang_waited_leaves_for_it_also_inside_its_nominal(
    started_at: float, want: list[str] | None
) -> None:
    lodger = lent("v", "n1", gpus=8, started_at=started_at)
    ledger = Ledger(state(node("n1"), lodger), B_OWNS, NOW)
    seeks = Asker(name="x", team="a", priority=COMMITTED, shape=shape(8), since=500.0)
    found = reclaim.find(ledger, seeks, [ledger.nodes["n1"]])
    assert (None if found is None else [one.name for one in found.victims]) == want


def many(count: int, *, saved_at: float = NOW) -> list[Workload]:
    """Return so many nodes' worth of 1-GPU backfill, eight a node."""
    return [lent(f"v{i:02}{j}", f"n{i}", gpus=1, saved_at=saved_at) for i in range(1, count + 1) for j in range(8)]


def test_many_candidates_are_chosen_node_by_node() -> None:
    assert len(BOTH_FULL) > EXACT_UP_TO
    cheap = [lent(f"c{j}", "n3", gpus=1) for j in range(8)]
    dear = many(2, saved_at=500.0)
    assert victims(nodes(3), [*dear, *cheap]) == [f"c{j}" for j in range(8)]
    assert len(victims(nodes(3), [*dear, *cheap], bundles=2) or ()) == 16
    assert victims(nodes(3), [*dear, *cheap], bundles=4) is None


def test_more_than_eight_on_a_node_are_pruned_not_searched() -> None:
    crowd = [lent(f"v{j:02}", "n1", gpus=1, saved_at=NOW - j) for j in range(16)]
    assert victims([node("n1", gpus=16)], crowd, gpus=3) == ["v00", "v01", "v02"]


def test_the_lowest_priority_that_will_do_then_the_least_cost() -> None:
    low = [lent(f"low{j}", "n1", gpus=1, priority=5) for j in range(8)]
    high = [lent(f"high{i}{j}", f"n{i}", gpus=1, priority=6, saved_at=NOW - i) for i in (2, 3) for j in range(8)]
    assert victims(nodes(3), [*low, *high]) == sorted(one.name for one in low)
    found = victims(nodes(3), [*low, *high], bundles=2)
    assert found == sorted([one.name for one in low] + [f"high2{j}" for j in range(8)])


def test_the_lowest_priority_that_will_do_whatever_it_loses() -> None:
    low = [lent(f"low{i}{j}", f"n{i}", gpus=1, priority=5, saved_at=0.0) for i in (1, 3) for j in range(8)]
    high = [lent(f"high{j}", "n2", gpus=1, priority=6) for j in range(8)]
    assert victims(nodes(3), [*low, *high], bundles=2) == sorted(one.name for one in low)


# Each node loses what is said, in GPU-seconds, for 4 GPUs; for the first and the last one could hope for 240 and 244.
LEAVES = {
    "300 a node": ((3, 3, 2), NOW),
    "244 a node": ((2, 2, 2, 2), NOW - 1.0),
    "305 a node": ((3, 3, 2), NOW - 1.0),
}


@pytest.mark.parametrize(
    ("two", "want"),
    [
        (("300 a node", "244 a node"), "244 a node"),
        (("300 a node", "305 a node"), "300 a node"),
        (("244 a node", "305 a node"), "244 a node"),
    ],
    ids=["less than hoped for", "more than hoped for", "as hoped for"],
)
def test_of_two_domains_the_cheaper_as_it_turns_out(two: tuple[str, str], want: str) -> None:
    fleet = [node(f"{leaf}{i}", at=f"s1/{leaf}") for leaf in two for i in (1, 2)]
    lodgers = [
        lent(f"{leaf}{i}{j}", f"{leaf}{i}", gpus=gpus, saved_at=LEAVES[leaf][1])
        for leaf in two
        for i in (1, 2)
        for j, gpus in enumerate(LEAVES[leaf][0])
    ]
    assert len(lodgers) > EXACT_UP_TO
    assert {one[: len(want)] for one in victims(fleet, lodgers, gpus=4, bundles=2, depth=2) or ()} == {want}


def test_of_several_domains_the_cheapest() -> None:
    fleet = [node("n1", at="s1/l1"), node("n2", at="s2/l1")]
    assert victims(fleet, [*many(1, saved_at=0.0), *(lent(f"w{j}", "n2", gpus=1) for j in range(8))], depth=1) == [
        f"w{j}" for j in range(8)
    ]


def test_many_of_a_team_leave_only_down_to_its_nominal() -> None:
    rules = policy(team("a", nominal=64), team("b", nominal=8))
    assert len(victims(nodes(2), many(2), rules=rules, gpus=8) or ()) == 8
    assert victims(nodes(2), many(2), rules=rules, gpus=8, bundles=2) is None


FULL_BOOKS = policy(team("a", nominal=8), team("b", nominal=8))


@pytest.mark.parametrize("count", [1, 2], ids=["few", "many"])
def test_borrowers_elsewhere_leave_when_only_the_books_are_in_the_way(count: int) -> None:
    elsewhere = [lent(f"v{j:02}", "n9", gpus=8 // (4 * count), saved_at=NOW - j) for j in range(8 * count)]
    ledger = Ledger(state(node("n1"), node("n9", gpus=16), *elsewhere), FULL_BOOKS, NOW)
    seeks = Asker(name="x", team="a", priority=COMMITTED, shape=shape(4))
    found = reclaim.find(ledger, seeks, [ledger.nodes["n1"]])
    assert found is not None
    assert found.nodes == ("n1",)
    assert sum(one.gpus for one in found.victims) == 4


def test_when_even_all_borrowers_are_not_enough_for_the_books_nobody_leaves() -> None:
    rules = policy(team("a", nominal=8), team("b", nominal=0))
    firm = gang("firm", team="b", on=["n9"], gpus=8)
    lodgers = [lent(f"v{j}", "n9", gpus=1) for j in range(9)]
    ledger = Ledger(state(node("n1"), node("n9", gpus=32), firm, *lodgers), rules, NOW)
    seeks = Asker(name="x", team="a", priority=COMMITTED, shape=shape(4))
    assert reclaim.find(ledger, seeks, [ledger.nodes["n1"]]) is None


def test_notices_end_at_the_deadline_of_the_contract() -> None:
    leavers = [lent("z", "n1", grace_s=30.0), lent("a", "n1", grace_s=9999.0)]
    ledger = Ledger(state(node("n1"), *leavers), policy(longest_grace_s=600.0), NOW)
    found = list(notices.asked(ledger, leavers, "x", "because"))
    assert [(one.workload, one.beneficiary, one.deadline_at) for one in found] == [
        ("a", "x", NOW + 600.0),
        ("z", "x", NOW + 30.0),
    ]
    assert ledger.soon("n1").gpus == 8


def test_most_room_is_what_is_left_when_all_that_may_have_left() -> None:
    ledger = Ledger(state(node("n1"), lent("v", "n1", gpus=3), gang("g", on=["n1"], gpus=2)), LENT, NOW)
    seeks = Asker(name="x", team="a", priority=COMMITTED, shape=shape(1))
    assert reclaim.most_room(ledger, seeks, ledger.nodes["n1"]).gpus == 6


def test_the_nodes_of_a_victim_that_the_asker_may_not_use_are_left_alone() -> None:
    other, able = node("a-serving", serving=True), node("t1", gpus=2)
    ledger = Ledger(state(other, able, backfill("wide", team="b", gpus=2, on=["a-serving", "t1"])), LENT, NOW)
    seeks = Asker(name="x", team="a", priority=COMMITTED, shape=shape(2))
    found = reclaim.find(ledger, seeks, [able])
    assert found is not None
    assert ([one.name for one in found.victims], found.nodes) == (["wide"], ("t1",))


BORROW = {
    "the cheapest one after another, and then nobody who can be spared": (
        [lent("small", "n9", gpus=1), lent("large", "n9", gpus=4, saved_at=0.0)],
        5,
        ["large"],
    ),
    "all who are needed": ([lent("one", "n9", gpus=1), lent("two", "n9", gpus=3)], 4, ["one", "two"]),
    "nobody where the books allow it": ([lent("one", "n9", gpus=4)], 8, []),
    "nobody where all of them are not enough": (
        [gang("firm", team="b", on=["n9"]), lent("one", "n9", gpus=2)],
        4,
        None,
    ),
}


@pytest.mark.parametrize(("lodgers", "nominal", "want"), BORROW.values(), ids=BORROW)
def test_who_leaves_for_the_books_alone(lodgers: list[Workload], nominal: int, want: list[str] | None) -> None:
    """R5."""
    rules = policy(team("a", nominal=nominal), team("b", nominal=0))
    ledger = Ledger(state(node("n1"), node("n9", gpus=32), *lodgers), rules, NOW)
    found = reclaim.borrowers(ledger, Asker(name="x", team="a", priority=COMMITTED, shape=shape(4)))
    assert (None if found is None else [one.name for one in found]) == want


def test_who_would_leave_a_node_is_asked_anew_once_somebody_borrows_more() -> None:
    """R3: the answer to the same question is remembered."""
    ledger = Ledger(state(node("n1"), lent("b1", "n1"), lent("c1", "n1", who="c")), LENT, NOW)
    seeks = Asker(name="x", team="a", priority=COMMITTED, shape=shape(4))

    def who() -> list[str]:
        found = reclaim.find(ledger, seeks, list(ledger.nodes.values()))
        return [] if found is None else [one.name for one in found.victims]

    before, again = who(), who()
    ledger.charge("c", 1, firm=False)
    assert (before, again, who()) == (["b1"], ["b1"], ["c1"])


INSIDE = policy(team("a", nominal=1000), team("b", nominal=0), team("c", nominal=1000))


def test_a_node_that_those_who_may_be_asked_do_not_clear_is_no_help() -> None:
    """R2: of the second node the half of `c` stays, and the third has nobody who may be asked."""
    there = [node("n1", gpus=16), *nodes(2, first=2)]
    half = [lent("b2", "n2"), lent("c2", "n2", who="c")]
    lodgers = [*(lent(f"v{j:02}", "n1", gpus=1) for j in range(16)), *half, lent("c3", "n3", gpus=8, who="c")]
    assert victims(there, lodgers, rules=INSIDE, bundles=2) is None
    assert len(victims(there, lodgers, rules=INSIDE) or ()) == 8


def test_a_domain_in_which_nobody_could_cost_less_is_left_alone() -> None:
    fleet = [node(f"{leaf}{i}", at=f"s1/{leaf}") for leaf in "abc" for i in (1, 2)]
    loses = {"a": 0.0, "b": NOW, "c": 500.0}
    lodgers = [lent(f"{one.name}{j}", one.name, gpus=1, saved_at=loses[one.name[0]]) for one in fleet for j in range(8)]
    assert {one[0] for one in victims(fleet, lodgers, bundles=2, depth=2) or ()} == {"b"}
