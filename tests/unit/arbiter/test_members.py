"""Elastic workloads on a small cluster in memory: members leave and join one by one, and nobody is lost (R8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fleet_app.arbiter import members, status
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.inbox import Drain
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.ports import Death, Seat
from fleet_app.arbiter.records import Job, Member, Record
from fleet_app.cli.tables import shape
from fleet_app.engine.errors import FaultError
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Grow, Shrink
from fleet_app.engine.workload import Kind, Workload
from tests.builders import policy, workload
from tests.fakes import FakeBoard
from tests.unit.arbiter.rig import Rig
from tests.world import Behaviour

LONG = Behaviour(steps=1000)
DEAF = Behaviour(steps=1000, member_yields_in_s=None)


def elastic(rig: Rig, how: Behaviour = LONG, *, most: int = 3, least: int = 1, grace: str = "4s") -> Rig:
    """Let an elastic backfill job run on three nodes of serving's, which want none yet."""
    for number in range(3):
        rig.world.add_node(f"s{number + 1}", serving=True)
    rig.world.behaviours["rl"] = how
    rig.submit("rl", nodes=most, min_nodes=least, gpus=4, grace=grace)
    rig.run(3.0)
    return rig


def record(rig: Rig) -> Record:
    found = rig.reader().record("rl")
    assert found is not None
    return found


def nodes(rig: Rig) -> tuple[str, ...]:
    return record(rig).workload.nodes


def standing(rig: Rig) -> list[str]:
    return sorted(group.name for group in rig.world.groups.values() if group.gone_at is None)


def use_unseen(rig: Rig, name: str) -> None:
    """Let somebody use a node whole, which Ray does not show."""
    node = rig.world.node(name)
    node.foreign, node.foreign_at = node.total, rig.world.now + 3600.0


# Starting.


def test_each_member_has_a_group_and_the_job_knows_them(rig: Rig) -> None:
    elastic(rig)
    assert standing(rig) == ["fleet/w/rl/s1", "fleet/w/rl/s2", "fleet/w/rl/s3"]
    told = rig.world.jobs["rl"].request.environment
    assert (json.loads(told["FLEET_NODES"]), told["FLEET_BUNDLES"], told["FLEET_MIN_NODES"]) == (
        ["s1", "s2", "s3"],
        "3",
        "1",
    )
    ids = {group.name: group.group_id for group in rig.world.groups.values()}
    assert [(seat.node, seat.group_id, seat.leaving) for seat in rig.world.members["rl"]] == [
        (node, ids[f"fleet/w/rl/{node}"], False) for node in ("s1", "s2", "s3")
    ]
    assert told["FLEET_GROUP_ID"] == ids["fleet/w/rl/s1"]


def test_one_that_finds_less_starts_with_less_and_says_so(rig: Rig) -> None:
    elastic(rig, most=8, least=2)
    (row,) = status.workloads([record(rig)], None, policy())
    assert (shape(row), row["leaving_nodes"]) == ("3 of 2..8 x 4", [])


def test_a_job_starts_only_when_all_its_groups_stand_and_else_they_all_go_back(rig: Rig) -> None:
    for number in range(2):
        rig.world.add_node(f"s{number + 1}", serving=True)
    rig.world.behaviours["rl"] = LONG
    rig.submit("rl", nodes=2, min_nodes=2, gpus=4)
    use_unseen(rig, "s2")
    rig.run(9.0)
    assert standing(rig) == ["fleet/w/rl/s1"]
    rig.run(30.0)
    assert rig.world.jobs == {}
    assert rig.notes(What.WITHDRAWN, "rl")
    assert rig.world.count("remove", "fleet/w/rl/s1") == len(rig.notes(What.WITHDRAWN, "rl"))


def test_a_job_does_not_start_before_it_can_find_its_members(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    publish, away = FakeBoard.publish_members, [True]

    def sometimes(self: FakeBoard, attempt: str, seats: tuple[Seat, ...]) -> None:
        if away:
            raise FaultError("the board is away", where=attempt)
        publish(self, attempt, seats)

    monkeypatch.setattr(FakeBoard, "publish_members", sometimes)
    elastic(rig)
    assert (len(standing(rig)), rig.world.jobs) == (3, {})
    away.clear()
    rig.run(12.0)
    assert rig.phases() == {"rl": Phase.RUNNING}


# Shrinking.


def test_a_member_that_leaves_in_time_is_let_go_and_the_others_go_on(rig: Rig) -> None:
    elastic(rig).world.want("chat", 1, gpus=4)
    rig.run(6.0)
    (gone,) = {"s1", "s2", "s3"} - set(nodes(rig))
    assert rig.phases() == {"rl": Phase.RUNNING}
    assert f"fleet/w/rl/{gone}" not in standing(rig)
    assert len(standing(rig)) == 3, "its room is a grant's now"
    (asked,) = rig.notes(What.SHRINKING, "rl")
    (left,) = rig.notes(What.SHRUNK, "rl")
    assert (asked["nodes"], asked["beneficiary"], left["nodes"], left["killed"]) == ([gone], "chat", [gone], [])
    assert left["at"] < asked["at"] + 1.0, "long before its deadline"  # type: ignore[operator]  # both are moments
    assert rig.world.count("notify") == 1
    assert rig.world.jobs["rl"].notice_at is None, "nobody else was asked"
    assert [seat.node for seat in rig.world.members["rl"]] == list(nodes(rig))
    assert rig.world.notices == {}
    assert record(rig).workload.broken_drains == 0
    assert record(rig).workload.gpus == 8


def test_a_member_that_ignores_its_notice_is_ended_at_its_deadline_and_that_counts(rig: Rig) -> None:
    elastic(rig, DEAF).world.want("chat", 1, gpus=4)
    rig.run(5.0)
    (leaving,) = record(rig).workload.going
    assert len(nodes(rig)) == 3, "it is charged until it is gone"
    (row,) = status.workloads([record(rig)], None, policy())
    assert row["leaving_nodes"] == [leaving]
    assert [seat.node for seat in rig.world.members["rl"] if seat.leaving] == [leaving]
    rig.run(9.0)
    assert (len(nodes(rig)), record(rig).workload.broken_drains) == (2, 1)
    (asked,) = rig.notes(What.SHRINKING, "rl")
    (left,) = rig.notes(What.SHRUNK, "rl")
    assert left["killed"] == asked["nodes"] == [leaving]
    assert 0 <= left["at"] - asked["deadline_at"] + rig.began < 1.0  # type: ignore[operator]  # both are moments
    assert rig.phases() == {"rl": Phase.RUNNING}


def test_what_outlives_a_members_group_is_ended_before_its_node_counts_as_free(rig: Rig) -> None:
    elastic(rig, Behaviour(steps=1000, member_yields_in_s=None, members_cling=True)).world.want("chat", 1, gpus=4)
    rig.run(9.0)
    assert rig.world.count("end") == 1
    (ended_at,) = (at for at, what, _ in rig.world.log if what == "end")
    (left,) = rig.notes(What.SHRUNK, "rl")
    assert ended_at - rig.began <= left["at"]  # type: ignore[operator]  # both are moments
    assert rig.phases() == {"rl": Phase.RUNNING}


def test_a_member_that_the_job_never_used_breaks_no_contract(rig: Rig) -> None:
    elastic(rig, DEAF)
    for job in rig.world.jobs.values():
        job.members_ended |= {seat.group_id for seat in rig.world.members["rl"]}
    rig.world.want("chat", 1, gpus=4)
    rig.run(9.0)
    assert (len(nodes(rig)), record(rig).workload.broken_drains) == (2, 0)


def test_members_that_leave_before_the_job_is_there_are_gone_at_once(rig: Rig) -> None:
    for number in range(3):
        rig.world.add_node(f"s{number + 1}", serving=True)
    use_unseen(rig, "s3")
    rig.world.behaviours["rl"] = LONG
    rig.submit("rl", nodes=3, min_nodes=1, gpus=4)
    rig.at(1.0, lambda: rig.world.want("chat", 1, gpus=4))
    rig.run(3.0)
    (asked,) = rig.notes(What.SHRINKING, "rl")
    (left,) = rig.notes(What.SHRUNK, "rl")
    assert left["at"] < asked["at"] + 1.5  # type: ignore[operator]  # both are moments
    assert len(nodes(rig)) == 2
    assert "rl" not in rig.world.jobs


def test_a_job_does_not_start_with_members_that_leave(rig: Rig) -> None:
    rig.crash = lambda _, name: name == "create_group" and rig.effects.count("create_group") == 3
    for number in range(3):
        rig.world.add_node(f"t{number + 1}")
    rig.world.behaviours |= {"rl": LONG, "llm": LONG}
    rig.submit("rl", nodes=3, min_nodes=1, gpus=4)
    rig.step()
    assert rig.crashes == 1, "all groups stand, and nothing is started"
    rig.submit("llm", kind="gang", nodes=1, gpus=4)
    rig.run(6.0)
    assert rig.phases() == {"rl": Phase.RUNNING, "llm": Phase.RUNNING}
    assert json.loads(rig.world.jobs["rl"].request.environment["FLEET_NODES"]) == list(nodes(rig))
    assert len(nodes(rig)) == 2


def test_it_never_has_fewer_than_its_minimum(rig: Rig) -> None:
    elastic(rig, least=2).world.want("chat", 2, gpus=4)
    rig.run(20.0)
    assert record(rig).workload.phase is not Phase.RUNNING, "it could not be spared two, so it had to leave whole"
    assert len(rig.notes(What.DRAINING, "rl")) + len(rig.notes(What.SHRINKING, "rl")) >= 1


def test_a_drain_of_the_whole_while_a_member_leaves_ends_it_all(rig: Rig) -> None:
    elastic(rig, DEAF)
    rig.at(3.0, lambda: rig.world.want("chat", 1, gpus=4))
    rig.at(4.0, lambda: rig.post(Drain(name="rl")))
    rig.run(12.0)
    assert rig.notes(What.REQUEUED, "rl")
    again = record(rig).workload
    assert (again.attempt, again.going, again.going_by) == (2, (), None)
    assert [note for note in rig.notes(What.SHRUNK, "rl") if note["attempt"] == 2] == [], (
        "it begins with nobody leaving"
    )
    assert rig.world.count("replica", "chat") == 1
    assert not [name for name in standing(rig) if name.startswith("fleet/w/rl/")], "those of the first attempt are gone"
    rig.run(20.0)
    assert rig.phases() == {"rl": Phase.RUNNING}
    assert len(standing(rig)) == 3


def test_members_that_are_asked_one_after_the_other_each_keep_their_own_deadline(rig: Rig) -> None:
    elastic(rig, DEAF)
    rig.at(3.0, lambda: rig.world.want("chat", 1, gpus=4))
    rig.at(5.0, lambda: rig.world.want("chat", 2, gpus=4))
    rig.run(6.0)
    assert len(record(rig).workload.going) == 2
    rig.run(14.0)
    first, second = rig.notes(What.SHRUNK, "rl")
    assert 1.5 < second["at"] - first["at"] < 2.5  # type: ignore[operator]  # both are moments
    assert len(nodes(rig)) == 1


# Growing.


def test_it_grows_when_room_comes_free_and_the_job_is_told(rig: Rig) -> None:
    elastic(rig, most=4)
    rig.world.add_node("s4", serving=True)
    rig.run(6.0)
    assert nodes(rig) == ("s1", "s2", "s3", "s4")
    assert [seat.node for seat in rig.world.members["rl"]] == ["s1", "s2", "s3", "s4"]
    assert [note["nodes"] for note in rig.notes(What.GROWN, "rl")] == [["s4"]]
    assert record(rig).workload.gpus == 16


def test_room_that_does_not_come_free_is_given_up(rig: Rig) -> None:
    elastic(rig, most=4)
    rig.world.add_node("s4", serving=True)
    use_unseen(rig, "s4")
    rig.run(10.0)
    assert (len(nodes(rig)), rig.notes(What.GROWN, "rl")) == (4, [])
    assert [seat.node for seat in rig.world.members["rl"]] == ["s1", "s2", "s3"]
    rig.run(16.0)
    (given_up, *_) = rig.notes(What.SHRUNK, "rl")
    assert (given_up["nodes"], given_up["why"]) == (["s4"], "their room did not come free in time")
    assert rig.phases() == {"rl": Phase.RUNNING}


def test_a_node_that_was_left_can_be_joined_again_as_another_member(rig: Rig) -> None:
    elastic(rig).world.want("chat", 1, gpus=4)
    before = {seat.node: seat.group_id for seat in rig.world.members["rl"]}
    rig.at(7.0, lambda: rig.world.want("chat", 0, gpus=4))
    rig.run(25.0)
    after = {seat.node: seat.group_id for seat in rig.world.members["rl"]}
    assert after.keys() == before.keys()
    assert len(before.items() - after.items()) == 1
    assert not record(rig).workload.going
    assert rig.world.jobs["rl"].members_noticed == {}, "no notice is left over for it"


# What is decided on, and does not fit any more.


def shrinks(*on: str, workload: str = "rl") -> Shrink:
    return Shrink(workload=workload, nodes=on, beneficiary="chat", deadline_at=50.0, why="chat needs them")


def grows(*on: str) -> Grow:
    return Grow(workload="rl", nodes=on, why="nobody waits")


RUNNING = workload(
    "rl", Kind.BACKFILL, nodes=3, gpus=4, on=["a", "b", "c"], phase=None, team="t", priority=1, minimum=2
)
LEAVING = replace(RUNNING, going=("c",), going_by=60.0)
STALE = {
    "who it never knew": (RUNNING, shrinks("a", workload="other")),
    "more than can be spared": (RUNNING, shrinks("a", "b")),
    "one more than can be spared with those that leave": (LEAVING, shrinks("a")),
    "who leaves already": (LEAVING, shrinks("c")),
    "who is not there": (RUNNING, shrinks("d")),
    "members of one that leaves whole": (replace(RUNNING, phase=Phase.DRAINING, deadline_at=9.0), shrinks("a")),
    "members of one that was killed": (replace(RUNNING, killed=True), shrinks("a")),
    "members of one that is not elastic": (replace(RUNNING, minimum=None), shrinks("a")),
    "more than it would like": (RUNNING, grows("d")),
    "where it is already": (replace(RUNNING, bundles=5), grows("c")),
    "while members leave": (replace(LEAVING, bundles=5), grows("d")),
    "before it runs": (replace(RUNNING, bundles=5, phase=Phase.ADMITTED), grows("d")),
}


@pytest.mark.parametrize(("known", "action"), STALE.values(), ids=STALE)
def test_what_does_not_fit_the_book_changes_nothing(known: Workload, action: Shrink | Grow) -> None:
    before = Record(workload=known, job=Job(entrypoint="x"))
    book = Book(records={"rl": before})
    members.resize(book, action, 7.0)
    assert (book.records.get("rl"), book.notes) == (before, [])


def test_a_later_notice_leaves_the_earlier_one_as_it_was() -> None:
    running = replace(RUNNING, minimum=1)
    book = Book(records={"rl": Record(workload=running, job=Job(entrypoint="x"))})
    members.resize(book, replace(shrinks("a"), deadline_at=60.0), 7.0)
    members.resize(book, shrinks("b"), 8.0)
    now = book.records.get("rl")
    assert now is not None
    assert (now.workload.going, now.workload.going_by) == (("a", "b"), 60.0), "they are gone by the later of the two"
    assert [now.member_on(node).leaves_by for node in "abc"] == [60.0, 50.0, None]


# What is not there yet.

PLACED = tuple(Member(node=node, group_id=f"group {node}") for node in "abc")


def test_a_group_that_is_gone_before_the_job_is_there_is_made_again() -> None:
    known = replace(RUNNING, phase=Phase.ADMITTED)
    before = Record(workload=known, job=Job(entrypoint="x"), members=PLACED, group_id="group a")
    after, told = members.placed(before, Facts(now=7.0))
    assert (after.group_id, told) == (None, ())
    assert members.missing(after, Facts(now=7.0)) == ("a", "b", "c")


def test_no_group_is_made_for_a_member_that_leaves() -> None:
    record = Record(workload=LEAVING, job=Job(entrypoint="x"), members=PLACED[:1], job_submitted=True)
    assert members.missing(record, Facts(now=7.0, jobs_seen=False)) == ("b",)


# What nobody asked for.


def test_the_loss_of_a_members_node_ends_the_whole(rig: Rig) -> None:
    elastic(rig).world.lose_node("s2")
    rig.run(30.0)
    assert rig.notes(What.LOST, "rl")
    assert (rig.phases(), record(rig).workload.attempt) == ({"rl": Phase.RUNNING}, 2)
    assert nodes(rig) == ("s1", "s3")


def test_a_group_that_somebody_removed_ends_the_whole(rig: Rig) -> None:
    elastic(rig)
    next(group for group in rig.world.groups.values() if group.name.endswith("/s3")).gone_at = rig.world.now
    rig.run(30.0)
    (lost,) = rig.notes(What.LOST, "rl")
    assert lost["why"] == "the placement group of its member on s3 is gone"
    assert record(rig).workload.attempt == 2


def test_a_rank_that_dies_ends_the_whole(rig: Rig) -> None:
    rig.world.deaths["rl"] = Death(node_id="node0002", why="Rank (pid 7): SIGKILL")
    for number in range(3):
        rig.world.add_node(f"s{number + 1}")
    rig.world.behaviours["rl"] = Behaviour(steps=9, fails_at=4)
    rig.submit("rl", kind="gang", nodes=3, min_nodes=1, gpus=4)
    rig.run(9.0)
    assert [note["why"] for note in rig.notes(What.REQUEUED, "rl")] == ["a rank died on s2: Rank (pid 7): SIGKILL"]


def test_the_loss_of_the_drivers_node_ends_the_whole_though_its_member_has_left(rig: Rig) -> None:
    for number in range(3):
        rig.world.add_node(f"t{number + 1}")
    rig.world.behaviours |= {"rl": LONG, "llm": LONG}
    rig.submit("rl", nodes=3, min_nodes=1, gpus=4)
    rig.at(3.0, lambda: rig.submit("llm", kind="gang", nodes=2, gpus=4))
    rig.run(9.0)
    assert nodes(rig) == ("t3",), "the driver's node is left too"
    rig.world.lose_node("t1")
    rig.world.jobs["rl"].how = Behaviour(steps=1000, fails_at=7)
    rig.run(14.0)
    assert [note["why"] for note in rig.notes(What.LOST, "rl")] == ["the node that its driver was on is gone"]
    assert rig.notes(What.REQUEUED, "rl")


# The arbiter dies at any point of it.


def told(home: Path, crash: Callable[[int, str], bool] = lambda number, name: False) -> Rig:
    """Tell a story of growth, of members that leave politely and late, and of an end."""
    home.mkdir(parents=True)
    rig = Rig(home=home, crash=crash)
    world = rig.world
    for number in range(3):
        world.add_node(f"s{number + 1}", serving=True)
    world.behaviours |= {
        "rl": Behaviour(steps=24),
        "late": Behaviour(steps=18, member_yields_in_s=None),
    }
    rig.submit("rl", nodes=3, min_nodes=1, gpus=2)
    rig.submit("late", nodes=3, min_nodes=1, gpus=2, grace="2s")
    rig.at(4.0, lambda: world.want("chat", 1, gpus=4))
    rig.at(10.0, lambda: world.want("chat", 0, gpus=4))
    rig.at(14.0, lambda: world.add_node("s4", serving=True))
    rig.at(15.0, lambda: world.want("chat", 1, gpus=4))
    rig.at(16.0, lambda: world.want("chat", 0, gpus=4))
    rig.run(90.0, until=rig.quiet)
    return rig


def verify(rig: Rig) -> None:
    """Check the end of the story, however it was disturbed; that it held all along the rig checks itself."""
    assert rig.phases() == {"rl": Phase.SUCCEEDED, "late": Phase.SUCCEEDED}
    assert standing(rig) == []
    assert (rig.world.notices, rig.world.members, rig.world.adopted) == ({}, {}, {})
    assert {record.workload.attempt for record in rig.reader().records().values()} == {1}, "no attempt was lost"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    return told(tmp_path_factory.mktemp("undisturbed") / "home")


def test_the_story_ends_well_when_nothing_crashes(undisturbed: Rig) -> None:
    verify(undisturbed)
    killed = [bool(note["killed"]) for note in undisturbed.notes(What.SHRUNK)]
    assert {True, False} == set(killed), "some left in time and some did not"
    assert undisturbed.notes(What.GROWN)


@pytest.mark.parametrize("part", range(4))
def test_a_crash_after_any_single_effect_changes_nothing_that_matters(
    part: int, undisturbed: Rig, tmp_path: Path
) -> None:
    for number in range(1 + part, len(undisturbed.effects) + 1, 4):
        try:
            rig = told(tmp_path / str(number), crash=lambda done, _, number=number: done == number)
            assert rig.crashes == 1
            verify(rig)
        except AssertionError as error:
            error.add_note(f"crashed after effect {number}: {undisturbed.effects[number - 1]}")
            raise


@pytest.mark.parametrize("every", [2, 3, 5, 7])
def test_an_arbiter_that_dies_again_and_again_still_gets_there(every: int, tmp_path: Path) -> None:
    rig = told(tmp_path / "home", crash=lambda done, _: done % every == 0)
    assert rig.crashes > 3
    verify(rig)
