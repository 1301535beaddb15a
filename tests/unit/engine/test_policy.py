"""What a policy file leaves out means the same to the engine."""

from __future__ import annotations

import pytest

from fleet_app.engine.policy import Boundary, Idle, Ordering, Policy, RightSize, Slicing, Source, Spares
from fleet_app.policy.load import parse_policy, to_engine
from tests.unit.policy.texts import POLICY

PLAIN = to_engine(parse_policy(POLICY))
WRITTEN = to_engine(parse_policy(POLICY + "slicing: {}\nboundary: {serving: serving, training: research}\n"))

LEFT_OUT = {
    "health": (PLAIN.health, Policy().health),
    "idle sessions": (PLAIN.idle, Idle()),
    "what could be smaller": (PLAIN.right_size, RightSize()),
    "ageing": (PLAIN.ordering, Ordering()),
    "spares": (PLAIN.spares, Spares()),
    "pulls": (PLAIN.pulls, Policy().pulls),
    "affinities": (PLAIN.affinities, Policy().affinities),
    "slicing": (PLAIN.slicing, None),
    "all of slicing": (WRITTEN.slicing, Slicing()),
    "a boundary": (PLAIN.boundary, None),
    "all of a boundary but its teams": (WRITTEN.boundary, Boundary(serving="serving", training="research")),
    "levels": (PLAIN.levels, Policy().levels),
}


@pytest.mark.parametrize(("read", "want"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_is_left_out_is_the_same(read: object, want: object) -> None:
    assert read == want


def test_a_source_of_unknown_speed_has_none() -> None:
    assert Source(name="registry", most_at_once=1).gbit_per_s is None
