"""The agenda: in order of time, then of kind, then as they were put."""

from __future__ import annotations

from fleet_app.twin.clock import Agenda, What


def test_what_frees_something_happens_before_what_asks_for_it():
    agenda = Agenda()
    agenda.put(5.0, What.SUBMITTED, "new")
    agenda.put(5.0, What.LEFT, "drained")
    agenda.put(5.0, What.ENDED, "old")
    agenda.put(4.0, What.DUE, "")
    assert [one.name for one in agenda.at(5.0)] == ["", "old", "drained", "new"]


def test_of_equals_what_was_put_first_happens_first():
    agenda = Agenda()
    for name in ("b", "a", "c"):
        agenda.put(1.0, What.SUBMITTED, name)
    assert [one.name for one in agenda.at(1.0)] == ["b", "a", "c"]


def test_what_is_put_meanwhile_for_the_same_moment_happens_too():
    agenda = Agenda()
    agenda.put(1.0, What.SUBMITTED, "first")
    found = []
    for one in agenda.at(1.0):
        found.append(one.name)
        if one.name == "first":
            agenda.put(1.0, What.SUBMITTED, "second")
    assert found == ["first", "second"]


def test_nothing_is_next_on_an_empty_agenda():
    assert Agenda().next_at is None
