"""What services wanted is noted once a minute, survives the arbiter, and makes the immediate tier follow a forecast."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet_app.arbiter import wanted
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.ports import Demand
from fleet_app.engine.policy import Headroom
from tests.builders import shape
from tests.unit.arbiter.rig import POLICY, Rig, small


def book(*demands: tuple[str, int, int]) -> Book:
    """Return a book of services of 2-GPU replicas: how many each wants, and its floor."""
    made = Book()
    for name, wants, floor in demands:
        one = Demand(service=name, team="serving", shape=shape(2), wanted=wants, floor=floor, at=0.0)
        made.demands.put(name, one)
    return made


def samples(known: Book) -> tuple[float, tuple[float, ...]] | None:
    found = wanted.history(known)
    return None if found is None else (found.first_at, found.wanted_gpus)


MINUTES: dict[str, tuple[list[float], tuple[float, ...]]] = {
    "one a minute": ([0.0, 60.0, 125.0], (10.0, 10.0, 10.0)),
    "however often somebody looks": ([0.0, 1.0, 59.0], (10.0,)),
    "minutes in which nobody looked are filled": ([0.0, 300.0], (10.0,) * 6),
    "a clock that was set back changes nothing": ([300.0, 200.0], (10.0,)),
}


@pytest.mark.parametrize(("looks", "want"), MINUTES.values(), ids=MINUTES)
def test_samples(looks: list[float], want: tuple[float, ...]) -> None:
    known = book(("chat", 3, 1), ("code", 0, 2))
    for now in looks:
        wanted.sample(known, now)
    assert samples(known) == (60.0 * (looks[0] // 60), want)


def test_before_anybody_wants_anything_there_is_no_history() -> None:
    known = book(("chat", 0, 0))
    wanted.sample(known, 60.0)
    assert samples(known) is None
    assert wanted.Growth()(known, Headroom(quantile=0.5)) is None


@pytest.mark.parametrize("away_s", [0.0, 1e9])
def test_what_is_too_old_goes(away_s: float) -> None:
    known = book(("chat", 1, 0))
    for minute in (0, wanted.KEPT, wanted.KEPT + 10):
        wanted.sample(known, 60.0 * minute + (away_s if minute > wanted.KEPT else 0.0))
    found = wanted.history(known)
    assert found is not None
    assert len(found.wanted_gpus) == wanted.KEPT
    assert len(list(known.wanted)) == wanted.KEPT


FORECAST = POLICY + "headroom: {immediate: 1, quantile: 0.9, startup: 1m}\n"


def test_the_tier_follows_what_was_wanted_and_a_new_arbiter_knows_it_still(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(FORECAST)
    small(rig, serving=4)
    wants = [1, 3] * 6
    for minute, replicas in enumerate(wants):
        rig.at(60.0 * minute, lambda replicas=replicas: rig.world.want("chat", replicas))  # type: ignore[misc]
    rig.run(300.0)
    assert len(rig.reader().grants()) == wants[4] + 1, "the fixed number, while too little is known"
    rig.run(60.0 * len(wants) - 1.0)
    held = wants[-1] + 2
    assert len(rig.reader().grants()) == held
    rig.drop()
    rig.run(60.0 * len(wants) + 5.0)
    assert len(rig.reader().grants()) == held
    snapshot = rig.reader().snapshot()
    assert snapshot is not None
    assert snapshot.state.growth_gpus == 2
