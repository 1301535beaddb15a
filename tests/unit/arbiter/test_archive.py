"""Workloads that ended long ago: they leave the book for the archive, and nothing that refers to them goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fleet_app.arbiter import archive
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.inbox import Cancel, Drain, Forget, Move, Request
from fleet_app.arbiter.journal import Journal
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.records import Job, Record
from fleet_app.engine.lifecycle import Phase
from tests.builders import gang
from tests.unit.arbiter.rig import LONG, POLICY, Rig, small
from tests.world import Behaviour

KEEP_S = 10.0
MOST = 50


def keeping(rig: Rig, keep: str = "10s", most: int = MOST) -> Rig:
    """Give the fleet a node, and a policy that archives what ended so long ago, or is more than so many."""
    (rig.home / "policy.yaml").write_text(f"{POLICY}history: {{keep_ended: {keep}, most_ended: {most}}}\n")
    return small(rig)


def archived(rig: Rig) -> Rig:
    """Let `a` end and be archived, while `b` runs on."""
    keeping(rig).world.behaviours |= {"a": Behaviour(steps=1), "b": LONG}
    rig.submit("a", gpus=1)
    rig.submit("b", gpus=1)
    rig.run(20.0)
    assert (rig.phases(), rig.reader().archived("a") is not None) == ({"b": Phase.RUNNING}, True)
    return rig


def test_what_has_ended_is_at_hand_for_as_long_as_the_policy_says_and_then_archived(rig: Rig) -> None:
    keeping(rig).world.behaviours["a"] = Behaviour(steps=1)
    rig.submit("a", gpus=1)
    rig.run(6.0)
    known = rig.reader().record("a")
    assert known is not None
    assert known.ended_at is not None
    left_s = known.ended_at + KEEP_S - rig.began
    rig.run(left_s - 0.1)
    assert rig.reader().record("a") == known
    rig.run(left_s + 4.0)
    assert (rig.reader().record("a"), rig.reader().archived("a")) == (None, known)


def test_no_more_are_at_hand_than_the_policy_says(rig: Rig) -> None:
    keeping(rig, "1d", most=1).world.behaviours |= {"a": Behaviour(steps=1), "b": Behaviour(steps=3)}
    rig.submit("a", gpus=1)
    rig.submit("b", gpus=1)
    rig.run(15.0)
    assert (rig.phases(), rig.reader().archived("a") is not None) == ({"b": Phase.SUCCEEDED}, True)


def test_its_jobs_are_deleted_in_ray_and_those_of_others_are_not(rig: Rig) -> None:
    assert list(archived(rig).world.jobs) == ["b"]


def test_a_restart_does_not_load_it(rig: Rig) -> None:
    archived(rig).drop()
    book = Journal(rig.home / "journal.db").load()
    assert [record.name for record in book.records] == ["b"]


def submitted_again(rig: Rig) -> None:
    rig.submit("a", gpus=1)


TOLD: dict[str, tuple[Callable[[Rig], None] | Request, str]] = {
    "its name is taken, so nothing runs twice": (submitted_again, "a exists already"),
    "a cancel comes too late": (Cancel(name="a"), "a workload that is succeeded cannot be cancelled"),
    "a drain comes too late": (Drain(name="a"), "a workload that is succeeded cannot be drained"),
    "a move comes too late": (Move(name="a"), "it is told to leave by a signal"),
}


@pytest.mark.parametrize(("asked", "why"), TOLD.values(), ids=TOLD)
def test_who_asks_for_something_is_told_as_if_it_had_just_ended(
    asked: Callable[[Rig], None] | Request, why: str, rig: Rig
) -> None:
    before = archived(rig).reader().archived("a")
    if callable(asked):
        asked(rig)
    else:
        rig.post(asked)
    rig.run(22.0)
    assert [why in str(note["why"]) for note in rig.notes(What.REFUSED, "a")] == [True]
    assert (rig.phases(), rig.reader().archived("a")) == ({"b": Phase.RUNNING}, before)


def test_who_deletes_it_may_use_its_name_again(rig: Rig) -> None:
    archived(rig).post(Forget(name="a"))
    rig.run(22.0)
    assert (rig.reader().record("a"), rig.reader().archived("a")) == (None, None)
    rig.submit("a", gpus=1)
    rig.run(24.0)
    assert rig.phases() == {"a": Phase.RUNNING, "b": Phase.RUNNING}


def test_what_failed_on_a_node_counts_there_though_it_is_archived(rig: Rig) -> None:
    keeping(rig, "1s").world.behaviours["a"] = Behaviour(steps=5, fails_at=1)
    rig.world.add_node("t1")
    rig.submit("a", kind="gang", gpus=1)
    rig.run(40.0)
    assert rig.reader().archived("a") is not None
    snapshot = rig.reader().snapshot()
    assert snapshot is not None
    assert [failed.workload for failed in snapshot.state.failures] == ["a"]


def told(home: Path, crash: Callable[[int, str], bool] = lambda number, name: False) -> Rig:
    """Let three end, and be archived; one of them is deleted just then, and another asked for again."""
    home.mkdir(parents=True)
    rig = keeping(Rig(home=home, crash=crash), "1s")
    rig.world.behaviours |= {name: Behaviour(steps=1) for name in "abc"} | {"d": LONG}
    for name in "abcd":
        rig.submit(name, gpus=1)
    rig.at(8.0, lambda: rig.post(Forget(name="b")))
    rig.at(9.0, lambda: rig.submit("c", gpus=1))
    rig.run(14.0)
    return rig


def test_a_crash_after_any_single_effect_loses_nobody_and_tells_of_nobody_twice(tmp_path: Path) -> None:
    calm = told(tmp_path / "calm")
    for number in range(len(calm.effects) + 1):
        rig = told(tmp_path / str(number), crash=lambda done, _, number=number: done == number)
        names = [name for name, _ in rig.reader().lines("workloads", "archive")]
        assert (names, rig.phases(), rig.crashes) == (["a", "c", "d"], {"d": Phase.RUNNING}, int(number > 0)), number
        rig.drop()


# Many at once, and those that Ray does not let go.


def over(name: str, ended_at: float) -> Record:
    return Record(workload=replace(gang(name), phase=Phase.SUCCEEDED), job=Job(entrypoint="true"), ended_at=ended_at)


def test_the_earliest_go_first_and_only_so_many_at_once() -> None:
    book = Book(
        {name: over(name, at) for name, at in (("late", 9.0), *((f"e{number:02d}", 1.0) for number in range(15)))}
    )
    archive.turn(book, KEEP_S, MOST, 100.0)
    assert [record.name for record in book.going()] == [f"e{number:02d}" for number in range(archive.AT_ONCE)]
    for record in book.going():
        book.archive(record.name)
    archive.turn(book, KEEP_S, MOST, 100.0)
    assert [record.name for record in book.going()] == [*(f"e{number:02d}" for number in range(10, 15)), "late"]


DUE = {
    "one that lives": (replace(over("a", 0.0), workload=gang("a", on=("n1",)), ended_at=None), 99.0, False),
    "one that ended a little less than that ago": (over("a", 90.1), 100.0, False),
    "one that ended just so long ago": (over("a", 90.0), 100.0, True),
}


@pytest.mark.parametrize(("record", "now", "want"), DUE.values(), ids=DUE)
def test_who_goes(record: Record, now: float, want: bool) -> None:
    book = Book()
    book.put(record)
    archive.turn(book, KEEP_S, MOST, now)
    assert [one.name for one in book.going()] == ["a"] * want


LEAVES: dict[str, tuple[bool, int, float, tuple[bool, bool]]] = {
    "for the archive, once Ray has none of its jobs": (False, 0, 0.0, (False, True)),
    "not while Ray has some": (False, 1, archive.PATIENCE_S, (True, False)),
    "but for the archive all the same when that takes too long": (False, 1, archive.PATIENCE_S + 1.0, (False, True)),
    "for good, when it was deleted": (True, 0, 0.0, (False, False)),
    "when it was deleted not while Ray has some, however long that takes": (
        True,
        1,
        2 * archive.PATIENCE_S,
        (True, False),
    ),
}


@pytest.mark.parametrize(("forgotten", "jobs", "later_s", "want"), LEAVES.values(), ids=LEAVES)
def test_who_leaves_and_where_to(forgotten: bool, jobs: int, later_s: float, want: tuple[bool, bool]) -> None:
    record = replace(over("a", 0.0), forgotten=forgotten)
    book = Book({"a": record})
    archive.turn(book, KEEP_S, MOST, 100.0)
    archive.turn(book, KEEP_S, MOST, 100.0 + later_s)
    archive.leave(book, record, 100.0 + later_s, jobs=jobs)
    assert ("a" in book.records, "a" in book.archived) == want


MANY = {
    "as many as there may be stay": (3, []),
    "of one more the earliest goes": (2, ["c"]),
    "of two more the two earliest": (1, ["b", "c"]),
}


@pytest.mark.parametrize(("most", "want"), MANY.values(), ids=MANY)
def test_what_has_just_ended_stays_as_long_as_it_is_not_too_much(most: int, want: list[str]) -> None:
    book = Book({name: over(name, at) for name, at in (("a", 99.0), ("b", 98.0), ("c", 97.0))})
    book.put(Record(workload=gang("lives", on=("n1",)), job=Job(entrypoint="true")))
    archive.turn(book, KEEP_S, most, 100.0)
    assert [record.name for record in book.going()] == want


def test_who_was_deleted_and_whose_jobs_ray_keeps_holds_nobody_up() -> None:
    stuck = [over(f"e{number:02d}", 1.0) for number in range(archive.AT_ONCE)]
    book = Book(
        {one.name: replace(one, forgotten=True) for one in stuck[1:]} | {"e00": stuck[0], "late": over("late", 2.0)}
    )
    book.put(replace(stuck[0], forgotten=True))
    archive.turn(book, KEEP_S, MOST, 100.0)
    assert [record.name for record in book.going()] == [*(one.name for one in stuck), "late"]


def test_a_longer_time_calls_back_who_has_not_gone_yet() -> None:
    book = Book({"a": over("a", 0.0)})
    archive.turn(book, KEEP_S, MOST, 100.0)
    archive.turn(book, 1000.0, MOST, 101.0)
    assert book.going() == []


def test_a_job_that_ray_does_not_delete_keeps_nobody_for_ever(rig: Rig) -> None:
    keeping(rig).world.behaviours["a"] = Behaviour(steps=1)
    rig.world.deletes_jobs = False
    rig.submit("a", gpus=1)
    rig.run(30.0)
    assert rig.reader().record("a") is not None
    rig.world.now += archive.PATIENCE_S
    rig.run(archive.PATIENCE_S + 33.0)
    assert rig.reader().archived("a") is not None
