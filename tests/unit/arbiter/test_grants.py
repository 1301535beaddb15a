"""Replicas that Serve started by itself while no arbiter was there, once one is back."""

from __future__ import annotations

import pytest

from fleet_app.arbiter.notes import What
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.values import Node, Shape
from tests.unit.arbiter.rig import LONG, Rig, small


def serving(rig: Rig) -> Node:
    """Return the fleet's one node as it was last decided on."""
    snapshot = rig.reader().snapshot()
    assert snapshot is not None
    (node,) = snapshot.state.nodes
    return node


def occupied(rig: Rig) -> list[tuple[str, bool, int]]:
    """Return service, occupied and GPUs of every grant."""
    return [(grant.service, grant.occupied, grant.shape.gpus) for grant in rig.reader().grants().values()]


def alone(rig: Rig, service: str = "chat") -> str:
    """Let a replica of 2 GPUs run that Serve started without an arbiter; chat wants one."""
    small(rig).world.want("chat", 1, gpus=2)
    return rig.world.start_alone(service, "s1", Shape(gpus=2))


SEEN = {
    "one of a service is the grant that the service wants": (("chat", 2), 1, [("chat", True, 2)], 0),
    "it counts for one of two": (("chat", 2), 2, [("chat", True, 2), ("chat", True, 2)], 0),
    "one that is not wanted any more is occupied until Serve stops it": (("chat", 2), 0, [], 0),
    "one of an old shape stays, and counts for none": (("chat", 1), 1, [("chat", False, 2), ("chat", True, 1)], 1),
    "one of an application that is none of the fleet's is somebody else's": (("other", 2), 1, [("chat", True, 2)], 2),
}


@pytest.mark.parametrize(("started", "wanted", "grants", "foreign"), SEEN.values(), ids=SEEN)
def test_what_serve_started_by_itself(
    started: tuple[str, int], wanted: int, grants: list[tuple[str, bool, int]], foreign: int, rig: Rig
) -> None:
    service, gpus = started
    small(rig).world.start_alone(service, "s1", Shape(gpus=gpus))
    rig.run(3.0)  # whoever it is of, it is somebody else's so far
    rig.world.want("chat", wanted, gpus=2)
    rig.run(8.0)
    assert (sorted(occupied(rig)), serving(rig).foreign.gpus) == (grants, foreign)


def test_it_is_counted_in_the_first_cycle_so_that_nobody_is_granted_its_gpus_once_more(rig: Rig) -> None:
    alone(rig)
    rig.world.now += 1.0
    rig.step()
    assert occupied(rig) == [("chat", True, 2)]
    assert [note["why"] for note in rig.notes(What.GRANTED)] == ["its group stood already"]
    rig.run(3.0)
    assert (rig.world.grants["chat"], len(rig.notes(What.GRANTED))) == ((1, ()), 1)


def test_an_owner_is_named_where_it_is_somebody_elses(rig: Rig) -> None:
    group_id = alone(rig, "other")
    rig.run(5.0)
    assert serving(rig).foreign_owners == (f"placement group {rig.world.groups[group_id].name}",)


def test_backfill_gets_what_it_leaves_and_all_when_it_has_gone(rig: Rig) -> None:
    group_id = alone(rig)
    for name in ("b1", "b2"):
        rig.world.behaviours[name] = LONG
        rig.submit(name, gpus=2, notice="library")
    rig.run(4.0)
    assert sorted(phase.value for phase in rig.phases().values()) == ["queued", "running"]
    rig.world.want("chat", 0, gpus=2)
    rig.run(10.0)
    assert rig.world.groups[group_id].gone_at is not None
    assert set(rig.phases().values()) == {Phase.RUNNING}
    assert occupied(rig) == []


def test_an_arbiter_that_starts_again_knows_it(rig: Rig) -> None:
    alone(rig)
    rig.run(3.0)
    before = rig.reader().grants()
    rig.drop()
    rig.run(6.0)
    assert rig.reader().grants() == before
    assert len(rig.notes(What.GRANTED)) == 1


def test_a_successor_gets_a_grant_of_ours(rig: Rig) -> None:
    group_id = alone(rig)
    rig.run(3.0)
    rig.world.leave(group_id)
    rig.run(6.0)
    (group,) = [group for group in rig.world.groups.values() if group.gone_at is None]
    assert group.name.startswith("fleet/g/chat/")
    assert occupied(rig) == [("chat", True, 2)]
