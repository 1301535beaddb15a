"""A simulation that is kept in a file: stopped at any time, it comes to the same in the end."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from fleet_app.engine.errors import RequestError
from fleet_app.twin.scenarios.load import Loaded, load
from fleet_app.twin.simulate import Due, Keeping, Simulated, StoppedError, simulate
from tests.surface.test_cli_simulate import SMALL

DAYS_S = 3 * 86_400.0


@pytest.fixture
def small(tmp_path: Path) -> Loaded:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return load(path, until=DAYS_S)


def stopped_often(loaded: Loaded, path: Path, every: int) -> tuple[Simulated, int]:
    """Return a simulation that was stopped each time after so many looks, and written at others, and how often."""
    for times in count():
        looks = iter(range(1, 10**6))
        due = lambda looks=looks: Due.STOP if next(looks) == every else Due.WRITE  # noqa: E731
        try:
            return simulate(loaded, keeping=Keeping(path=path, due=due)), times
        except StoppedError:
            assert path.exists()
    raise AssertionError


@pytest.mark.parametrize("every", [1, 2])
def test_a_run_that_is_stopped_again_and_again_comes_to_the_same(small, tmp_path, every):
    want = simulate(small)
    found, times = stopped_often(small, tmp_path / "kept", every)
    assert times >= 2
    assert (found.figures, found.events) == (want.figures, want.events)
    assert not (tmp_path / "kept").exists()


def test_another_scenario_does_not_go_on_from_the_file(small, tmp_path):
    with pytest.raises(StoppedError):
        simulate(small, keeping=Keeping(path=tmp_path / "kept", due=lambda: Due.STOP))
    other = load(tmp_path / "small.yaml", until=DAYS_S, seed=7)
    with pytest.raises(RequestError, match="is of another scenario"):
        simulate(other, keeping=Keeping(path=tmp_path / "kept", due=lambda: Due.NOTHING))
