"""The twin against the arbiter's own loop on a fleet in memory: random days come out the same.

The arbiter sees, journals and acts as on Ray, late by a fraction of a second here and there; the twin decides at once.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fleet_app.arbiter.journal import Journal
from fleet_app.arbiter.loop import Loop
from tests.fakes import ports
from tests.truth import apart, lived, simulated
from tests.unit.arbiter.rig import Rig, small
from tests.world import Behaviour

POLICY = """
version: 1
name: truth
organisations: {org: {teams: {research: {nominal: 12}, serving: {nominal: 8}, batch: {nominal: 0}}}}
drain: {grace: 5s, longest_grace: 60s}
headroom: {immediate: 1}
"""
CONSTANT_S = 0.5
"""How much later the arbiter may be: it learns of an end when Ray says so, and looks a few times a second."""


STEP_S = 1.0


def day(home: Path, seed: int) -> None:
    """Let a small fleet live through a day of minutes: gangs, backfill, and a service whose demand jumps."""
    chance = random.Random(seed)
    rig = Rig(home=home)
    (home / "policy.yaml").write_text(POLICY)
    small(rig, serving=2, training=3)
    wants(rig, 0.0, 2)
    for number in range(chance.randint(4, 8)):
        submitted(rig, f"b{number}", chance, kind="backfill", team="batch", gpus=chance.choice([1, 2, 4]))
    for number in range(chance.randint(1, 4)):
        nodes = chance.choice([1, 2, 3])
        submitted(rig, f"g{number}", chance, kind="gang", team="research", nodes=nodes, gpus=4)
    for _ in range(chance.randint(1, 4)):
        wants(rig, round(chance.uniform(20.0, 200.0), 1), chance.randint(0, 8))
    live(rig, 500.0)


def wants(rig: Rig, at: float, replicas: int) -> None:
    rig.at(at, lambda: rig.world.want("chat", replicas))


def live(rig: Rig, seconds: float) -> None:
    """Let the arbiter's loop run, without the rig's own checks: they are other tests'."""
    world, journal = rig.world, Journal(rig.home / "journal.db")
    loop = Loop(rig.home, ports(world), journal)
    while world.now < rig.began + seconds:
        while rig.story and rig.story[0][0] <= world.now:
            rig.story.pop(0)[1]()
        world.serve()
        wait = loop.cycle()
        world.now = min([world.now + wait, *(at for at, _ in rig.story[:1] if at > world.now)])
    journal.close()


def submitted(rig: Rig, name: str, chance: random.Random, **spec: object) -> None:
    rig.world.behaviours[name] = Behaviour(steps=chance.randint(20, 150), start_s=chance.choice([0.5, 1.0, 3.0]))
    rig.at(round(chance.uniform(1.0, 120.0), 1), lambda: rig.submit(name, **spec))


@pytest.mark.parametrize("seed", range(6))
def test_a_day_comes_out_as_it_was(tmp_path, seed):
    day(tmp_path, seed)
    was, twin = lived(tmp_path), simulated(tmp_path, STEP_S, 2 * STEP_S)
    assert twin.order == was.order
    assert twin.drained_sets == was.drained_sets
    assert twin.resumed == was.resumed
    assert apart(was, twin, 0.05, CONSTANT_S) == {}
