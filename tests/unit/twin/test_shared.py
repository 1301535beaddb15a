"""A day of the shared fleet on real shapes, and of the same without lending: what is lent comes back in time (S1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet_app.twin.report.figures import Figures
from fleet_app.twin.scenarios.load import load
from fleet_app.twin.simulate import simulate

CLUSTERS = Path(__file__).resolve().parents[3] / "clusters"
DAY_S = 86_400.0


def day(policy: Path | None = None) -> Figures:
    return simulate(load(CLUSTERS / "scenarios" / "shared.yaml", policy=policy, until=DAY_S)).figures


@pytest.fixture(scope="module")
def shared() -> Figures:
    return day()


@pytest.fixture(scope="module")
def split() -> Figures:
    return day(CLUSTERS / "split-2048.yaml")


def lent_gpu_h(figures: Figures) -> float:
    return sum(one.lent_gpu_h for one in figures.classes)


def test_what_serving_leaves_is_lent(shared, split):
    assert lent_gpu_h(shared) > 1_000.0
    assert lent_gpu_h(split) == 0.0


def test_no_replica_waits_longer_for_a_place_than_the_contract_allows(shared, split):
    assert [one.overdue_gpu_min for figures in (shared, split) for one in figures.services] == [0.0] * 4
    assert [one.short_gpu_min for one in split.services] == [0.0, 0.0]


def test_all_comes_back_within_the_contract_and_replicas_answer_within_five_minutes(shared):
    assert shared.given_back.count > 0
    assert shared.given_back.longest_s <= 125.0
    assert shared.ready_after_drain.longest_s <= 300.0


def test_preemption_costs_less_than_3_percent_of_what_is_lent(shared):
    assert 0.0 < shared.tax_share < 0.03


def test_gangs_wait_no_longer_than_on_nodes_that_nobody_shares(shared, split):
    def gangs(figures: Figures) -> list[float]:
        return [one.waited.longest_s for one in figures.waits if one.size != "1"]

    assert gangs(shared) == pytest.approx(gangs(split), abs=125.0)
