"""Which pods go when a pool is to have fewer (N5)."""

from __future__ import annotations

from itertools import permutations

import pytest

from fleet_app.engine.fewer import Candidate, Loss, first_to_go

STAYS = Candidate(pod="a", loss=Loss.WHAT_STAYS)
YIELDS = Candidate(pod="b", loss=Loss.WHAT_YIELDS)
KEPT = Candidate(pod="c", loss=Loss.WHAT_IS_KEPT)
EMPTY = Candidate(pod="d", loss=Loss.NOTHING)
NEW = Candidate(pod="e", loss=Loss.NO_NODE)
CLOSED = Candidate(pod="f", loss=Loss.NOTHING, closed=True)
BUSY_CLOSED = Candidate(pod="g", loss=Loss.WHAT_STAYS, closed=True)

CASES: dict[str, tuple[list[Candidate], int, str]] = {
    "what is no node yet, then what is empty, then what is kept": ([STAYS, YIELDS, KEPT, EMPTY, NEW], 3, "edc"),
    "what yields before what stays": ([STAYS, YIELDS], 1, "b"),
    "of equals those on closed machines": ([EMPTY, CLOSED], 1, "f"),
    "a closed machine is no reason to lose more": ([EMPTY, BUSY_CLOSED, CLOSED], 2, "fd"),
    "of equals by name": ([EMPTY, Candidate(pod="dd", loss=Loss.NOTHING)], 1, "d"),
    "as many as there are": ([EMPTY], 5, "d"),
    "nobody": ([EMPTY, NEW], 0, ""),
}


@pytest.mark.parametrize(("able", "count", "want"), CASES.values(), ids=CASES)
def test_the_least_is_lost_whatever_the_order(able: list[Candidate], count: int, want: str) -> None:
    for order in permutations(able):
        assert [one.pod for one in first_to_go(order, count)] == list(want)


def test_only_a_pod_with_nothing_on_it_may_go_at_once() -> None:
    assert [one.pod for one in (STAYS, YIELDS, KEPT, EMPTY, NEW, CLOSED) if one.empty] == ["d", "e", "f"]
