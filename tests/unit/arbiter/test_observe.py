"""What the arbiter makes of what Ray shows: nodes and their names, what is foreign, what is free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts, fleet_nodes
from fleet_app.arbiter.groups import wanted
from fleet_app.arbiter.observe import fleet_state, nodes_seen, rooms
from fleet_app.arbiter.ports import BundleView, ClusterView, Demand, GroupView, NodeView
from fleet_app.arbiter.records import GrantRecord, Job, Record
from fleet_app.arbiter.sightings import SETTLE_S, Sightings, remembered, sighted
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Condition, NodeClass, Shape
from tests.builders import backfill, node, policy, shape, state
from tests.unit.arbiter.desk import FakeOffice


def view(
    node_id: str = "id1",
    name: str | None = "n1",
    *,
    used: int = 0,
    alive: bool = True,
    draining: bool = False,
    label: str | None = "training",
    **labels: str,
) -> NodeView:
    given: dict[str, str | None] = {"fleet/node": name, "fleet/class": label}
    known = {key: value for key, value in given.items() if value is not None}
    return NodeView(
        node_id=node_id,
        labels=known | {f"fleet/{key}": value for key, value in labels.items()},
        alive=alive,
        draining=draining,
        total=shape(8),
        available=shape(8 - used),
    )


def group(name: str = "fleet/w/job", gpus: int = 2, group_id: str = "g") -> GroupView:
    return GroupView(
        group_id=group_id, name=name, state="CREATED", bundles=(BundleView(node_id="id1", shape=shape(gpus)),)
    )


def facts(now: float, seen: NodeView, *groups: GroupView) -> Facts:
    return Facts(
        now=now,
        nodes={"n1": seen},
        names={seen.node_id: "n1"},
        groups={one.name: one for one in groups},
        ids={one.group_id: one for one in groups},
    )


def foreign(looks: list[Facts], book: Book | None = None, last: FleetState | None = None) -> int:
    known = remembered(last, looks[0].now) if last else Sightings()
    for look in looks:
        known = sighted(known, book or Book(), look)
    return known.foreign["n1"].gpus


IDLE = facts(0.0, view())
FOREIGN = {
    "an idle node has nothing foreign": ([IDLE], 0),
    "what was there from the beginning is foreign": ([facts(0.0, view(used=3))], 3),
    "what just came may be gone again": ([IDLE, facts(1.0, view(used=3))], 0),
    "what stayed is foreign": ([IDLE, facts(1.0, view(used=3)), facts(1.0 + SETTLE_S, view(used=3))], 3),
    "of what changed the part that stayed is foreign": (
        [IDLE, facts(1.0, view(used=3)), facts(1.3, view(used=5)), facts(1.0 + SETTLE_S, view(used=5))],
        3,
    ),
    "what went is free at once": ([facts(0.0, view(used=3)), facts(0.1, view(used=1))], 1),
    "a group of ours is not foreign": ([IDLE, facts(1.0, view(used=2), group()), facts(2.0, view(used=2), group())], 0),
    "what comes on top of a group of ours is": ([facts(0.0, view(used=5), group())], 3),
    "a group that Ray does not count yet makes nothing negative": ([facts(0.0, view(), group())], 0),
    "a group that Ray still counts is not foreign": (
        [facts(0.0, view(used=2), group()), facts(0.05, view(used=2)), facts(0.2, view())],
        0,
    ),
    "what is foreign stays so while Ray does not count a new group of ours": (
        [facts(0.0, view(used=3)), facts(1.0, view(used=3), group())],
        3,
    ),
    "and when it counts it": (
        [facts(0.0, view(used=3)), facts(1.0, view(used=3), group()), facts(1.1, view(used=5), group())],
        3,
    ),
    "and once the group has stood for a while": (
        [facts(0.0, view(used=3)), facts(1.0, view(used=3), group()), facts(1.0 + SETTLE_S, view(used=5), group())],
        3,
    ),
    "what went beside a new group is free at once where it was more than the group": (
        [facts(0.0, view(used=6)), facts(1.0, view(used=6), group()), facts(1.1, view(used=2), group())],
        2,
    ),
    "and all of it once the group has stood for a while": (
        [facts(0.0, view(used=6)), facts(1.0, view(used=2), group()), facts(1.0 + SETTLE_S, view(used=2), group())],
        0,
    ),
    "one of ours that makes room for another leaves what is foreign as it is": (
        [facts(0.0, view(used=5), group()), facts(1.0, view(used=5), group("fleet/w/next", 2, "h"))],
        3,
    ),
    "what comes with a new group counts once it has stayed": (
        [
            facts(0.0, view()),
            facts(1.0, view(used=5), group()),
            facts(1.0 + SETTLE_S, view(used=5), group()),
        ],
        3,
    ),
    "many looks in a short time are still a short time": (
        [IDLE, *(facts(1.0 + 0.02 * look, view(used=3)) for look in range(20))],
        0,
    ),
}


@pytest.mark.parametrize(("looks", "want"), FOREIGN.values(), ids=FOREIGN)
def test_foreign_gpus(looks: list[Facts], want: int) -> None:
    assert foreign(looks) == want


def test_what_serve_made_is_foreign_until_it_is_a_grant() -> None:
    made = replace(group("serve:SERVE_REPLICA::chat#Echo#1"), replica="SERVE_REPLICA::chat#Echo#1", service="chat.Echo")
    looks = [facts(1.0, view(used=2), made), facts(2.0, view(used=2), made)]
    grant = GrantRecord(name="a", service="chat.Echo", node="n1", shape=shape(2), made_at=0.0, group_id="g")
    said = Demand(service="chat.Echo", team="serving", shape=shape(2), wanted=1, floor=0, at=0.0)
    granted, odd = Book(grants={"a": grant}, demands={said.service: said}), Book(grants={"a": grant})
    assert [foreign(looks, book) for book in (Book(), granted, odd)] == [2, 0, 2]


def test_a_restart_neither_forgets_what_was_foreign_nor_takes_a_lag_for_it() -> None:
    last = state(node("n1", foreign=shape(2)))
    assert foreign([facts(10.0, view(used=2))], last=last) == 2
    assert foreign([facts(10.0, view(used=5))], last=last) == 2
    assert foreign([facts(10.0, view(used=1))], last=last) == 1


def test_a_grant_is_ours_unless_its_service_has_another_shape_now() -> None:
    book = Book()
    book.grants.put("1", GrantRecord(name="1", service="chat", node="n1", shape=shape(2), made_at=0.0, group_id="g"))
    looks = [facts(0.0, view(used=2), group("fleet/g/chat/1"))]
    book.demands.put("chat", Demand(service="chat", team="serving", shape=shape(2), wanted=1, floor=0, at=0.0))
    assert foreign(looks, book) == 0
    book.demands.put("chat", Demand(service="chat", team="serving", shape=shape(4), wanted=1, floor=0, at=0.0))
    assert foreign(looks, book) == 2


ROOMS = {
    "an idle node has all of its room": (view(), (), 8),
    "what is in use is not free": (view(used=3), (), 5),
    "a group that Ray does not count yet takes room": (view(), (group(),), 6),
    "a group that is gone but still counted takes room": (view(used=2), (), 6),
    "a group that Ray counts takes its room once": (view(used=2), (group(),), 6),
}


@pytest.mark.parametrize(("seen", "groups", "want"), ROOMS.values(), ids=ROOMS)
def test_room_for_a_new_group(seen: NodeView, groups: tuple[GroupView, ...], want: int) -> None:
    assert rooms(facts(0.0, seen, *groups))["id1"].gpus == want


REMOVED = {
    "nothing was removed": (7, [], [], []),
    "what was removed is about to be free": (7, ["a"], ["x"], ["x"]),
    "what was removed is not enough": (7, ["b"], [], []),
    "what was free already needs no waiting": (3, ["a"], ["x"], []),
}


@pytest.mark.parametrize(("used", "gone", "makes", "settles"), REMOVED.values(), ids=REMOVED)
def test_a_group_is_made_where_another_was_removed_just_now(
    used: int, gone: list[str], makes: list[str], settles: list[str]
) -> None:
    standing = {"a": group("fleet/w/a", used - 1, "a"), "b": group("fleet/w/b", 1, "b")}
    promised = GrantRecord(name="x", service="chat", node="n1", shape=Shape(gpus=4), made_at=0.0)
    seen = facts(0.0, view(used=used), *standing.values())
    found = wanted(Book(grants={"x": promised}), seen, None, [standing[name] for name in gone])
    assert [one.owner.name for one in found if one.owner is not None] == makes
    assert [one.owner.name for one in found if one.owner is not None and one.settles] == settles


NAMES = {
    "a node goes by its label": ([view("id1", "n1")], {"n1": "id1"}),
    "without a label by its Ray id": ([view("id1", None)], {"id1": "id1"}),
    "one that is not the fleet's is left out": ([view("id1", "n1", label=None)], {}),
    "nor one with a class that nobody knows": ([view("id1", "n1", label="kitchen")], {}),
    "a living node has the name of a dead one": ([view("id1", "n1", alive=False), view("id2", "n1")], {"n1": "id2"}),
    "of two living ones the second goes by its id": (
        [view("id2", "n1"), view("id1", "n1")],
        {"n1": "id1", "id2": "id2"},
    ),
    "of two dead ones there is one": ([view("id2", "n1", alive=False), view("id1", "n1", alive=False)], {"n1": "id1"}),
}


@pytest.mark.parametrize(("nodes", "want"), NAMES.values(), ids=NAMES)
def test_names(nodes: list[NodeView], want: Mapping[str, str]) -> None:
    found = fleet_nodes(ClusterView(nodes=tuple(nodes)))
    assert {name: node.node_id for name, node in found.items()} == want


def test_a_node_is_what_its_labels_say() -> None:
    labels = {"spine": "s2", "leaf": "l7", "driver": "550"}
    looked = facts(0.0, view(label="serving", draining=True, **labels))
    (found,) = nodes_seen(looked, policy(), {}, {})
    want = (NodeClass.SERVING, ("s2", "l7"), "550", Condition.DRAINING, shape(8))
    assert (found.node_class, found.domains, found.driver, found.condition, found.capacity) == want


def test_a_node_that_vanished_with_work_on_it_is_down_and_keeps_what_it_had() -> None:
    book = Book()
    book.put(Record(workload=backfill("a", on=("n9",)), job=Job(entrypoint="true")))
    last = state(node("n9", at="s3/l3", foreign=shape(1)), node("n8"))
    (found,) = fleet_state(book, (), 7, last, 50.0).nodes
    assert (found.name, found.condition, found.domains, found.foreign) == ("n9", Condition.DOWN, ("s3", "l3"), Shape())


def test_a_booked_node_that_vanished_is_down_and_keeps_its_place_and_what_is_booked_is_part_of_the_state() -> None:
    office = FakeOffice()
    office.make()
    last = state(node("n1", at="s3/l3"), node("n8"))
    found = fleet_state(office.book, (node("n2"),), 7, last, 50.0)
    assert [(one.name, one.condition, one.domains) for one in found.nodes] == [
        ("n2", Condition.READY, ("s1", "l1")),
        ("n1", Condition.DOWN, ("s3", "l3")),
    ]
    assert found.bookings == (office.get().booking,)


def test_what_is_only_proposed_is_no_part_of_the_state() -> None:
    office = FakeOffice(displaces=True)
    office.make()
    assert fleet_state(office.book, (), 7, FleetState(), 50.0).bookings == ()


def test_a_node_that_nobody_ever_saw_is_down_too() -> None:
    book = Book()
    book.put(Record(workload=backfill("a", on=("n9",)), job=Job(entrypoint="true")))
    (found,) = fleet_state(book, (), 7, FleetState(), 50.0).nodes
    assert (found.name, found.condition, found.capacity) == ("n9", Condition.DOWN, Shape())


def test_what_is_cached_on_a_node_is_a_fact_of_it() -> None:
    look = replace(facts(0.0, view()), cached={"n1": ("image",), "gone": ("image",)})
    assert [one.cached for one in nodes_seen(look, policy(), {}, {})] == [("image",)]


PARTITIONS = {
    "whole GPUs are for whole work": ({}, 8),
    "and so they are when the label says so": ({"partition": "whole"}, 8),
    "those that are shared are not": ({"partition": "shared"}, 0),
    "nor those of a node that is cut": ({"partition": "mig-2g.20gb"}, 0),
    "what nobody understands is for nobody": ({"partition": "odd"}, 0),
}


@pytest.mark.parametrize(("labels", "gpus"), PARTITIONS.values(), ids=PARTITIONS)
def test_whole_work_gets_no_part_of_a_card(labels: Mapping[str, str], gpus: int) -> None:
    """V1, whatever the policy says of slices."""
    (found,) = nodes_seen(facts(1.0, view(**labels)), policy(), {}, {})
    assert found.capacity.gpus == gpus
