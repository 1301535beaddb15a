"""B4 to B6: a node that crosses is closed, then of the other class, and its GPUs count for that class's nominal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.boundary import crossed_within_a_week
from fleet_app.engine.crossings import as_seen, called_off, shifted
from fleet_app.engine.forecast import WEEK_S
from fleet_app.engine.policy import Boundary, Quota
from fleet_app.engine.values import Condition, Crossing, NodeClass
from tests.builders import crossing, node, policy, team

SEEN = {
    "nothing crosses": (node(), None, (NodeClass.TRAINING, Condition.READY)),
    "while it crosses it takes nothing new": (node(), crossing(), (NodeClass.TRAINING, Condition.CORDONED)),
    "a pool's node is closed until it was made anew": (
        node(),
        crossing(moved_at=1.0, machine="m1"),
        (NodeClass.SERVING, Condition.CORDONED),
    ),
    "and open then": (
        node(),
        crossing(moved_at=1.0, machine="m1", settled_at=2.0),
        (NodeClass.SERVING, Condition.READY),
    ),
    "then it is of the other class": (node(), crossing(moved_at=1.0), (NodeClass.SERVING, Condition.READY)),
    "whatever its label says by then": (
        node(serving=True),
        crossing(moved_at=1.0),
        (NodeClass.SERVING, Condition.READY),
    ),
    "one that is down stays down": (
        node(condition=Condition.DOWN),
        crossing(),
        (NodeClass.TRAINING, Condition.DOWN),
    ),
    "on its way back it is what it was": (
        node(),
        replace(crossing(to=NodeClass.TRAINING), home=NodeClass.TRAINING),
        (NodeClass.SERVING, Condition.CORDONED),
    ),
}


@pytest.mark.parametrize(("there", "crosses", "want"), SEEN.values(), ids=SEEN)
def test_how_a_node_is_seen(there: object, crosses: Crossing | None, want: object) -> None:
    found = as_seen(there, crosses)  # type: ignore[arg-type]  # a node
    assert (found.node_class, found.condition) == want


OFF = {
    "a first crossing leaves nothing": (crossing("a"), None),
    "a way back leaves that it had crossed, longer ago than a week": (
        replace(crossing("a", to=NodeClass.TRAINING, at=2 * WEEK_S), home=NodeClass.TRAINING),
        crossing("a", at=WEEK_S, moved_at=WEEK_S),
    ),
    "also where nodes have pools": (
        replace(crossing("a", to=NodeClass.TRAINING, at=2 * WEEK_S), home=NodeClass.TRAINING, machine="m", pool="p"),
        crossing("a", at=WEEK_S, moved_at=WEEK_S),
    ),
}


@pytest.mark.parametrize(("begun", "want"), OFF.values(), ids=OFF)
def test_what_is_left_of_a_crossing_that_is_called_off(begun: Crossing, want: Crossing | None) -> None:
    """B6: and a way back that was called off is not counted in the week."""
    assert called_off(begun) == want
    assert crossed_within_a_week([want] if want else [], 2 * WEEK_S) == []


TREE = (
    Quota(name="products", parent="org", nominal_gpus=64),
    team("serving", nominal=64, parent="products"),
    team("research", nominal=40),
)
RULES = replace(policy(*TREE), boundary=Boundary(serving="serving", training="research"))
RULES = replace(RULES, quotas=(Quota(name="org", nominal_gpus=104), *TREE))
BACK = replace(crossing("a", to=NodeClass.TRAINING), home=NodeClass.TRAINING)

NOMINAL = {
    "nothing has crossed": ([crossing()], (104, 64, 64, 40)),
    "a node takes its GPUs along, and all above its team know": ([crossing(moved_at=1.0)], (104, 72, 72, 32)),
    "two take theirs": ([crossing("a", moved_at=1.0), crossing("b", moved_at=1.0)], (104, 80, 80, 24)),
    "the other way too": ([crossing(to=NodeClass.TRAINING, moved_at=1.0)], (104, 56, 56, 48)),
    "one each way is nothing": (
        [crossing("a", moved_at=1.0), crossing("b", to=NodeClass.TRAINING, moved_at=1.0)],
        (104, 64, 64, 40),
    ),
    "on its way back it has them still": ([BACK], (104, 72, 72, 32)),
    "back again it has not": ([replace(BACK, moved_at=2.0)], (104, 64, 64, 40)),
    "what is not there is not given": ([crossing(str(i), moved_at=1.0) for i in range(6)], (104, 104, 104, 0)),
}


@pytest.mark.parametrize(("crosses", "want"), NOMINAL.values(), ids=NOMINAL)
def test_nominal_goes_along(crosses: list[Crossing], want: tuple[int, ...]) -> None:
    assert tuple(quota.nominal_gpus for quota in shifted(RULES, crosses).quotas) == want


def test_without_a_boundary_in_the_policy_nominal_stays() -> None:
    rules = replace(RULES, boundary=None)
    assert shifted(rules, [crossing(moved_at=1.0)]) is rules


def test_teams_that_are_gone_take_nothing() -> None:
    rules = replace(RULES, boundary=Boundary(serving="serving", training="nobody"))
    assert shifted(rules, [crossing(moved_at=1.0)]) is rules
