"""All who may be asked to leave a node, as one: what they have there, and the least that some of it costs (R2, R3)."""

from __future__ import annotations

import pytest

from fleet_app.engine.lodgers import Lodgers, as_one
from fleet_app.engine.values import NOTHING
from fleet_app.engine.workload import Workload
from tests.builders import backfill, shape

LARGE = backfill("large", gpus=4, cpus=8, on=["n1"], priority=5)
SMALL = backfill("small", gpus=2, cpus=1, on=["n1"], priority=6)
WIDE = backfill("wide", gpus=2, on=["n1", "n2"], priority=7)
NO_GPUS = backfill("cpu", gpus=0, cpus=2, on=["n1"], priority=6)
LOST = {"large": 400.0, "small": 100.0, "wide": 400.0, "cpu": 50.0}


def one_of(*lodgers: Workload) -> Lodgers:
    return as_one(lodgers, lambda one: LOST[one.name])


AS_ONE: dict[str, tuple[list[Workload], Lodgers]] = {
    "nobody": ([], Lodgers(NOTHING, 0, 0, 0, 0.0, 0.0, ())),
    "one alone": ([LARGE], Lodgers(shape(4, cpus=8), 4, 5, 5, 400.0, 400.0, ())),
    "one alone here of two nodes loses half of it here": ([WIDE], Lodgers(shape(2), 2, 7, 7, 200.0, 200.0, ())),
    "several, the cheapest for each GPU first": (
        [LARGE, SMALL],
        Lodgers(shape(6, cpus=9), 2, 5, 6, 100.0, 500.0, ((50.0, 2), (100.0, 4))),
    ),
    "one of two nodes among them": (
        [SMALL, WIDE],
        Lodgers(shape(4, cpus=1), 2, 6, 7, 100.0, 300.0, ((50.0, 2), (100.0, 2))),
    ),
    "who has no GPUs frees none": (
        [NO_GPUS, SMALL],
        Lodgers(shape(2, cpus=3), 0, 6, 6, 50.0, 150.0, ((50.0, 2),)),
    ),
}


@pytest.mark.parametrize(("lodgers", "want"), AS_ONE.values(), ids=AS_ONE)
def test_as_one(lodgers: list[Workload], want: Lodgers) -> None:
    assert one_of(*lodgers) == want


LEAST = {
    "somebody has to leave: what the cheapest loses": ([LARGE, SMALL], 1, (5, 100.0)),
    "all of the cheapest": ([LARGE, SMALL], 2, (5, 100.0)),
    "and a part of the next": ([LARGE, SMALL], 3, (5, 200.0)),
    "as long as the smallest can be spared": ([LARGE, SMALL], 4, (5, 300.0)),
    "where nobody can be all leave, at the highest priority": ([LARGE, SMALL], 5, (6, 500.0)),
    "of three the cheaper two and a part of the dearest": ([LARGE, SMALL, WIDE], 6, (5, 500.0)),
    "one alone leaves whatever is asked for": ([LARGE], 1, (5, 400.0)),
    "nothing of those who have none": ([NO_GPUS], 0, (6, 50.0)),
}


@pytest.mark.parametrize(("lodgers", "gpus", "want"), LEAST.values(), ids=LEAST)
def test_the_least_that_so_many_gpus_cost(lodgers: list[Workload], gpus: int, want: tuple[int, float]) -> None:
    assert one_of(*lodgers).at_least(gpus) == want
