"""P13: work that starts takes the node on which it makes the fewest free GPUs useless, of those that would do."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.decide import decide
from fleet_app.engine.plan import Admit
from fleet_app.engine.policy import Packing
from fleet_app.engine.values import Shape
from tests.builders import backfill, gang, node, policy, shape, state
from tests.laws.effort import tries

ROOMS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40)), min_size=1, max_size=8)


def useless(room: Shape, per_gpu: int) -> int:
    return sum((number + 1) * per_gpu > room.cpu_milli for number in range(room.gpus))


@given(ROOMS, st.integers(0, 8), st.integers(0, 20), st.sampled_from([1_000, 4_000, 6_500]), st.booleans())
@tries(200)
def test_no_other_node_would_have_kept_more_gpus_of_use(rooms, gpus, cpus, per_gpu, first_fit):
    fleet = [
        node(f"n{number}", at="s/l", gpus=8, cpus=40, foreign=shape(8 - free, cpus=40 - left))
        for number, (free, left) in enumerate(rooms)
    ]
    asked = shape(gpus, cpus=cpus)
    one = backfill("b", gpus=gpus, cpus=cpus) if gpus < 8 else gang("b", gpus=gpus, cpus=cpus)
    rules = replace(policy(), packing=Packing(first_fit=first_fit, cpu_milli_per_gpu=per_gpu))
    made = {}
    for at in fleet:
        room = at.capacity - at.foreign
        if asked.fits(room):
            made[at.name] = useless(room - asked, per_gpu) - useless(room, per_gpu)
    plan = decide(state(*fleet, one), rules, 0.0)
    found = {action.workload: action.nodes for action in plan.actions if isinstance(action, Admit)}
    assert bool(found) == bool(made)
    if made:
        assert made[found["b"][0]] == min(made.values())
