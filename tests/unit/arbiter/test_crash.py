"""The arbiter is killed after every single thing that it does, and again and again: nothing that matters changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fleet_app.arbiter.inbox import Cancel, Drain
from fleet_app.arbiter.notes import What
from fleet_app.engine.lifecycle import Phase
from tests.unit.arbiter.rig import Rig
from tests.world import Behaviour

PARTS = 8
END_S = 120.0


def told(home: Path, crash: Callable[[int, str], bool] = lambda number, name: False) -> Rig:
    """Tell the whole story: admissions, a spike, drains of all kinds, a lost node, cancels; and return its end."""
    home.mkdir(parents=True)
    rig = Rig(home=home, crash=crash)
    world = rig.world
    world.add_node("s1", serving=True)
    world.add_node("t1")
    world.add_node("t2")
    world.behaviours |= {
        "gang": Behaviour(steps=16),
        "polite": Behaviour(steps=9),
        "deaf": Behaviour(steps=14, yields_in_s=None),
        "late": Behaviour(steps=5, yields_in_s=0.3, said_in_s=0.1),
        "broken": Behaviour(steps=9, fails_at=3),
        "unwanted": Behaviour(steps=99),
        "hasty": Behaviour(steps=99, start_s=3.0),
    }
    rig.submit("gang", kind="gang", nodes=2, gpus=3)
    rig.submit("polite", gpus=2, notice="library")
    rig.submit("deaf", gpus=2, grace="3s")
    rig.at(1.0, lambda: rig.submit("broken", gpus=1))
    rig.at(1.0, lambda: rig.submit("unwanted", gpus=1))
    rig.at(1.5, lambda: rig.submit("never", gpus=4))
    rig.at(3.0, lambda: world.want("chat", 2, gpus=2))
    rig.at(4.0, lambda: rig.post(Cancel(name="never")))
    rig.at(6.0, lambda: rig.submit("hasty", gpus=1))
    rig.at(6.5, lambda: rig.post(Cancel(name="hasty")))  # Ray is still starting it
    rig.at(8.0, lambda: rig.post(Cancel(name="unwanted")))
    rig.at(9.0, lambda: world.lose_node("t2"))
    rig.at(11.0, lambda: world.add_node("t2"))
    rig.at(13.0, lambda: world.want("chat", 0, gpus=2))
    rig.at(16.0, lambda: rig.post(Drain(name="gang")))
    rig.at(20.0, lambda: rig.submit("late", gpus=4, notice="library"))
    rig.run(END_S, until=rig.quiet)
    return rig


def ending(rig: Rig) -> dict[str, tuple[Phase, int | None]]:
    """Return of each workload how it ended, and what it saved."""
    records = rig.reader().records().values()
    return {r.name: (r.workload.phase, r.checkpoint.step if r.checkpoint else None) for r in records}


WANT = {
    "gang": Phase.SUCCEEDED,
    "polite": Phase.SUCCEEDED,
    "deaf": Phase.SUCCEEDED,
    "late": Phase.SUCCEEDED,
    "broken": Phase.FAILED,
    "unwanted": Phase.STOPPED,
    "never": Phase.STOPPED,
    "hasty": Phase.STOPPED,
}


def steps_done(rig: Rig) -> dict[str, int]:
    """Return how far each workload that succeeded got, whichever attempts it took."""
    jobs = rig.world.jobs.values()
    return {
        name: max(job.step(rig.world.now) for job in jobs if job.request.environment["FLEET_WORKLOAD"] == name)
        for name, phase in WANT.items()
        if phase is Phase.SUCCEEDED
    }


def verify(rig: Rig) -> None:
    """Check the end of the story, however it was disturbed; that it held all along the rig checks itself."""
    assert rig.phases() == WANT
    assert steps_done(rig) == {"gang": 16, "polite": 9, "deaf": 14, "late": 5}
    standing = [group.name for group in rig.world.groups.values() if group.gone_at is None]
    assert standing == []
    assert rig.notes(What.REFUSED) == [], "no request is taken in twice"
    assert rig.world.notices == {}
    assert rig.world.adopted == {}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    return told(tmp_path_factory.mktemp("undisturbed") / "home")


def test_the_story_ends_well_when_nothing_crashes(undisturbed: Rig) -> None:
    verify(undisturbed)
    assert undisturbed.world.count("replica") == 2
    assert undisturbed.world.count("kill", "deaf") == 1


@pytest.mark.parametrize("part", range(PARTS))
def test_a_crash_after_any_single_effect_changes_nothing_that_matters(
    part: int, undisturbed: Rig, tmp_path: Path
) -> None:
    for number in range(1 + part, len(undisturbed.effects) + 1, PARTS):
        try:
            rig = told(tmp_path / str(number), crash=lambda done, _, number=number: done == number)
            assert rig.crashes == 1
            verify(rig)
        except AssertionError as error:
            error.add_note(f"crashed after effect {number}: {undisturbed.effects[number - 1]}")
            raise


@pytest.mark.parametrize("every", [2, 3, 5, 7, 11, 13])
def test_an_arbiter_that_dies_again_and_again_still_gets_there(every: int, tmp_path: Path) -> None:
    rig = told(tmp_path / "home", crash=lambda done, _: done % every == 0)
    assert rig.crashes > 5
    verify(rig)
